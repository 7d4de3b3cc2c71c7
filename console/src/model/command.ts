/** The command line for everything that is shown or done: what a person sees here they can repeat in a script. */

/** Quotes for a POSIX shell, where the word needs it. */
export function quote(word: string): string {
  return /^[A-Za-z0-9_./:=@%+,#-]+$/.test(word) && !word.startsWith("#")
    ? word
    : `'${word.replaceAll("'", "'\\''")}'`;
}

export function command(...words: Array<string | undefined | false>): string {
  return ["tenure", ...words.filter((word): word is string => typeof word === "string")].map(quote).join(" ");
}

/** `runs list` with the filters of the address. */
export function listCommand(filters: URLSearchParams): string {
  const words: string[] = [];
  for (const name of ["state", "queue", "kind", "label", "worker", "category", "since"]) {
    for (const value of filters.getAll(name)) words.push(`--${name}`, value);
  }
  return command("runs", "list", ...words, filters.get("children") === "true" && "--children");
}
