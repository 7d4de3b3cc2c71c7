/**
 * Splits an answer before it is parsed: the payloads in it stay the text that the server sent.
 *
 * `JSON.parse` rounds numbers beyond 2^53, keeps one of two members of the same name and forgets how a string was spelled.
 * A console that hides any of this cannot be used to find out what was stored. So the value of each payload member is replaced
 * by a JSON string that holds its text, and only then the answer is parsed.
 */

/** Members of answers whose values belong to users. */
const PAYLOADS = new Set([
  "input",
  "output",
  "result",
  "payload",
  "partialProgress",
  "body",
  "fields",
  "declaration",
]);

/** Members whose own members have names that users chose: nothing inside them is a payload. */
const OPAQUE = new Set(["labels", "detail", "inputSchema", "outputSchema"]);

/** Parses an answer of the server; payloads come out as text. */
export function parse(text: string): unknown {
  const out: string[] = [];
  let copied = 0;
  for (const [start, end] of payloads(text)) {
    out.push(text.slice(copied, start), JSON.stringify(text.slice(start, end)));
    copied = end;
  }
  out.push(text.slice(copied));
  return JSON.parse(out.join(""));
}

/** Where the payloads of an answer begin and end, in order. */
function payloads(text: string): Array<[number, number]> {
  const found: Array<[number, number]> = [];
  let at = 0;
  while (at < text.length) {
    if (text[at] !== '"') {
      at++;
      continue;
    }
    const end = stringEnd(text, at);
    const colon = skipSpace(text, end);
    if (text[colon] !== ":") {
      at = end;
      continue;
    }
    const name = text.slice(at + 1, end - 1);
    const value = skipSpace(text, colon + 1);
    if (PAYLOADS.has(name)) {
      at = valueEnd(text, value);
      found.push([value, at]);
    } else {
      at = OPAQUE.has(name) ? valueEnd(text, value) : value;
    }
  }
  return found;
}

/** The index behind the string that begins at `at`. */
export function stringEnd(text: string, at: number): number {
  let i = at + 1;
  while (i < text.length && text[i] !== '"') i += text[i] === "\\" ? 2 : 1;
  return i + 1;
}

function skipSpace(text: string, at: number): number {
  let i = at;
  while (i < text.length && " \t\r\n".includes(text[i]!)) i++;
  return i;
}

/** The index behind the value that begins at `at`. */
function valueEnd(text: string, at: number): number {
  let i = at;
  let depth = 0;
  do {
    const c = text[i];
    if (c === '"') {
      i = stringEnd(text, i);
      continue;
    }
    if (c === "{" || c === "[") depth++;
    if (c === "}" || c === "]") depth--;
    i++;
    if (depth === 0 && c !== "}" && c !== "]")
      while (i < text.length && !" \t\r\n,}]".includes(text[i]!)) i++;
  } while (depth > 0 && i < text.length);
  return i;
}
