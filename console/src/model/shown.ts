/** Text from outside, made safe to look at: characters that hide, reorder or break text are written by their number. */

/** Ranges of characters that are not seen: controls but tab and line feed, soft hyphens, joiners, directions, variants, tags. */
const HIDDEN_RANGES: Array<[number, number]> = [
  [0x00, 0x08],
  [0x0b, 0x1f],
  [0x7f, 0x9f],
  [0xad, 0xad],
  [0x61c, 0x61c],
  [0x115f, 0x1160],
  [0x180b, 0x180f],
  [0x200b, 0x200f],
  [0x2028, 0x202e],
  [0x2060, 0x206f],
  [0x3164, 0x3164],
  [0xfe00, 0xfe0f],
  [0xfeff, 0xfeff],
  [0xfff9, 0xfffb],
  [0xe0000, 0xe0fff],
];

const spelled = (code: number) => `\\u{${code.toString(16)}}`;
const HIDDEN = new RegExp(HIDDEN_RANGES.map(([a, b]) => `[${spelled(a)}-${spelled(b)}]`).join("|"), "gu");

export function visible(text: string): string {
  return text.replace(HIDDEN, (c) => `‹U+${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}›`);
}

export type TokenKind = "name" | "string" | "number" | "word" | "mark";

export interface Token {
  kind: TokenKind;
  text: string;
}

export interface Line {
  indent: number;
  tokens: Token[];
}

/**
 * JSON text in lines, without parsing it: digits, order and doubled members stay as they were sent. Works on any text; what is no JSON
 * comes out as words.
 */
export function jsonLines(text: string): Line[] {
  const lines: Line[] = [];
  let line: Line = { indent: 0, tokens: [] };
  let depth = 0;
  const push = (kind: TokenKind, token: string) => line.tokens.push({ kind, text: token });
  const feed = () => {
    if (line.tokens.length > 0) lines.push(line);
    line = { indent: depth, tokens: [] };
  };
  const tokens = text.match(/"(?:[^"\\]|\\[\s\S])*"?|[{}[\]:,]|[^\s"{}[\]:,]+/g) ?? [];
  tokens.forEach((token, i) => {
    const next = tokens[i + 1];
    if (token === "{" || token === "[") {
      push("mark", token);
      if (next === "}" || next === "]") return;
      depth++;
      feed();
    } else if (token === "}" || token === "]") {
      const isEmpty = tokens[i - 1] === "{" || tokens[i - 1] === "[";
      if (!isEmpty) {
        depth = Math.max(0, depth - 1);
        feed();
      }
      push("mark", token);
    } else if (token === ",") {
      push("mark", token);
      feed();
    } else if (token === ":") push("mark", ": ");
    else if (token.startsWith('"')) push(next === ":" ? "name" : "string", token);
    else push(/^-?\d/.test(token) ? "number" : "word", token);
  });
  feed();
  return lines;
}

/** The members of an object as rows, if the text is an object of scalars that a table shows better than JSON does. */
export function tableRows(text: string): Array<[string, string]> | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) return undefined;
  const rows: Array<[string, string]> = [];
  const lines = jsonLines(text).slice(1, -1);
  for (const line of lines) {
    const [name, colon, scalar] = line.tokens;
    if (
      line.indent !== 1 ||
      name?.kind !== "name" ||
      colon?.text !== ": " ||
      !scalar ||
      scalar.kind === "mark"
    )
      return undefined;
    rows.push([unquoted(name.text), scalar.kind === "string" ? unquoted(scalar.text) : scalar.text]);
  }
  return rows.length > 0 ? rows : undefined;
}

function unquoted(text: string): string {
  try {
    return JSON.parse(text) as string;
  } catch {
    return text;
  }
}
