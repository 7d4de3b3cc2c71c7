/**
 * The digests of payloads, computed here from what is shown.
 *
 * A record covers the bytes of a payload as they were sent, preceded by their length in eight bytes. The content of an approval is
 * hashed without a length, so that every tool can check it, and in its canonical form (RFC 8785; integers keep all their digits).
 */

import { stringEnd } from "../api/scan.js";
import type { Payload } from "../api/types.js";
import { sha256 } from "./sha256.js";

const encoder = new TextEncoder();

/** What `inputDigest` and `outputDigest` of a record must be. */
export function payloadDigest(payload: Payload): string {
  const text = encoder.encode(payload);
  const field = new Uint8Array(8 + text.length);
  new DataView(field.buffer).setUint32(4, text.length);
  field.set(text, 8);
  return sha256(field);
}

/** What the `digest` of an approval must be. */
export function contentDigest(content: string): string {
  return sha256(encoder.encode(content));
}

/** The canonical form of a JSON text that a server has accepted. */
export function canonical(text: string): string {
  const reader = new Reader(text);
  return reader.value();
}

class Reader {
  private at = 0;
  constructor(private readonly text: string) {}

  value(): string {
    this.space();
    const c = this.text[this.at];
    if (c === "{") return this.object();
    if (c === "[") return this.array();
    if (c === '"') return this.string();
    return scalar(this.word());
  }

  private object(): string {
    const members: Array<[string, string]> = [];
    this.at++;
    for (this.space(); this.text[this.at] !== "}"; this.comma()) {
      const name = this.string();
      this.space();
      this.at++;
      members.push([name, this.value()]);
      if (this.at >= this.text.length) throw new SyntaxError("an object does not end");
    }
    this.at++;
    members.sort(([a], [b]) => byUnits(JSON.parse(a), JSON.parse(b)));
    return `{${members.map(([name, value]) => `${name}:${value}`).join(",")}}`;
  }

  private array(): string {
    const items: string[] = [];
    this.at++;
    for (this.space(); this.text[this.at] !== "]"; this.comma()) {
      items.push(this.value());
      if (this.at >= this.text.length) throw new SyntaxError("an array does not end");
    }
    this.at++;
    return `[${items.join(",")}]`;
  }

  private string(): string {
    const end = stringEnd(this.text, this.at);
    const written = this.text.slice(this.at, end);
    this.at = end;
    return JSON.stringify(JSON.parse(written));
  }

  private word(): string {
    const from = this.at;
    while (this.at < this.text.length && !" \t\r\n,}]".includes(this.text[this.at]!)) this.at++;
    return this.text.slice(from, this.at);
  }

  private comma(): void {
    this.space();
    if (this.text[this.at] === ",") this.at++;
    this.space();
  }

  private space(): void {
    while (this.at < this.text.length && " \t\r\n".includes(this.text[this.at]!)) this.at++;
  }
}

/** RFC 8785 sorts members by UTF-16 code units, which is how JavaScript compares strings. */
function byUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function scalar(word: string): string {
  if (/^-?\d+$/.test(word)) return word === "-0" ? "0" : word;
  if (/^-?\d/.test(word)) return String(Number(word));
  return word;
}
