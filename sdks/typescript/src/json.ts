/**
 * JSON as every SDK writes it: checked before it is sent, canonical for digests, and never rounded.
 *
 * `JSON.stringify` writes NaN and a hole of an array as null, a Map and a promise as `{}`, an instance of a class as if it
 * were a plain object, and half a surrogate pair as an escape; here they are refused, with the path of the value. -0 is
 * written as 0, which it equals. Integers beyond 2^53 are written from `bigint`, and are read as `bigint`, so that
 * {@link plain} can refuse them instead of rounding them.
 */
import { createHash } from "node:crypto";

/** The coordinator's limit of one input, output or result, in bytes of JSON. */
export const PAYLOAD_BYTES_MAX = 256 * 1024;
/** The coordinator's limit of nested objects and arrays. */
export const PAYLOAD_DEPTH_MAX = 32;

/** A value without a JSON form, or one that is too large. `path` says where in the value. */
export class Unwritable extends Error {
  override readonly name = "Unwritable";
  constructor(
    readonly path: string,
    readonly why: string,
    /** Too many bytes, rather than a value without a JSON form. */
    readonly tooLarge = false,
  ) {
    super(`${path}: ${why}`);
  }
}

/** An integer that JavaScript would round. */
export class Unreadable extends Error {
  override readonly name = "Unreadable";
  constructor(
    readonly path: string,
    readonly why: string,
  ) {
    super(`${path}: ${why}`);
  }
}

type Path = { readonly up: Path | undefined; readonly step: string | number };

function told(path: Path | undefined): string {
  const steps: string[] = [];
  for (let at = path; at; at = at.up) {
    steps.unshift(typeof at.step === "number" ? `[${at.step}]` : `.${at.step}`);
  }
  return `$${steps.join("")}`;
}

/** Writes a payload: checked, and no larger than the coordinator takes. `undefined` is null. */
export function encode(value: unknown): string {
  const text = write(value);
  // A UTF-16 unit has at most three bytes in UTF-8, so most texts need not be measured.
  if (text.length * 3 > PAYLOAD_BYTES_MAX && Buffer.byteLength(text) > PAYLOAD_BYTES_MAX) {
    const why = `${Buffer.byteLength(text)} bytes of JSON, the limit is ${PAYLOAD_BYTES_MAX}: store it elsewhere and pass a reference`;
    throw new Unwritable("$", why, true);
  }
  return text;
}

/** Writes any value, checked, whatever its size. */
export function write(value: unknown): string {
  if (value === undefined) return "null";
  return isNative(value, undefined, 0) ? (JSON.stringify(value) ?? "null") : spell(value, false);
}

/** Writes what is made of checked values only: no second look at each of them. */
export function writeChecked(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    // `JSON.stringify` knows no bigint.
    if (error instanceof TypeError) return spell(value, false);
    throw error;
  }
}

/** The value as its receiver will see it: through JSON, with `undefined` members left out. */
export function throughJson(value: unknown): unknown {
  return parse(encode(value));
}

/**
 * Checks a value. Returns whether `JSON.stringify` writes it as it should be written.
 */
function isNative(value: unknown, path: Path | undefined, depth: number): boolean {
  switch (typeof value) {
    case "string":
      checkText(value, path);
      return true;
    case "number":
      checkNumber(value, path);
      return true;
    case "boolean":
      return true;
    case "undefined":
      // A member that is undefined is left out; an item cannot be.
      if (typeof path?.step !== "number") return true;
      throw new Unwritable(
        told(path),
        "undefined in an array would arrive as null: pass null, or leave it out",
      );
    case "bigint":
      return false;
    case "object":
      return value === null || isNativeObject(value, path, depth + 1);
    default:
      throw new Unwritable(told(path), `a ${typeof value} has no JSON form`);
  }
}

function isNativeObject(value: object, path: Path | undefined, depth: number): boolean {
  if (value instanceof Uint8Array) return false;
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") {
    const made: unknown = toJSON.call(value, "");
    if (value instanceof Date && made === null) throw new Unwritable(told(path), "an invalid Date");
    return isNative(made, path, depth - 1);
  }
  if (depth > PAYLOAD_DEPTH_MAX) {
    const why = `more than ${PAYLOAD_DEPTH_MAX} levels of objects and arrays, or a value that contains itself`;
    throw new Unwritable(told(path), why);
  }
  let native = true;
  if (Array.isArray(value)) {
    for (let n = 0; n < value.length; n++) {
      native = isNative(value[n], { up: path, step: n }, depth) && native;
    }
    return native;
  }
  if (!isPlain(value)) throw new Unwritable(told(path), whatIsLost(value));
  for (const name of Object.keys(value)) {
    checkText(name, path);
    native = isNative((value as Record<string, unknown>)[name], { up: path, step: name }, depth) && native;
  }
  return native;
}

/** Whether its own members are all there is to it. A plain object of another realm has another `Object.prototype`. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return true;
  return Object.getPrototypeOf(prototype) === null;
}

function whatIsLost(value: object): string {
  if (value instanceof Map || value instanceof Set)
    return "a Map or Set has no JSON form: pass an object or an array";
  if (value instanceof Promise) return "a promise has no JSON form: await it";
  if (value instanceof Error) return "an error has no JSON form: pass its message, or throw it";
  const name = String(value.constructor?.name || "a class");
  return `an instance of \`${name}\` would arrive as a plain object: pass \`{ ...value }\`, or give the class a \`toJSON()\``;
}

function checkText(text: string, path: Path | undefined): void {
  if (!text.isWellFormed()) throw new Unwritable(told(path), "text with half of a surrogate pair");
}

/** From here on a double prints with an exponent, and is no integer on the wire. */
const PRINTS_EXPONENT = 1e21;

function checkNumber(number: number, path: Path | undefined): void {
  if (!Number.isFinite(number)) throw new Unwritable(told(path), `${number} has no JSON form`);
  if (Number.isInteger(number) && !Number.isSafeInteger(number) && Math.abs(number) < PRINTS_EXPONENT) {
    throw new Unwritable(told(path), `${number} is beyond 2^53 and may be rounded: send text or a bigint`);
  }
}

/** Writes what `JSON.stringify` cannot, and the canonical form of RFC 8785 with every integer in full. */
function spell(value: unknown, canonical: boolean): string {
  if (value === null || value === undefined) return "null";
  switch (typeof value) {
    case "bigint":
      return value.toString();
    case "number":
      return Object.is(value, -0) ? "0" : String(value);
    case "object":
      return spellObject(value, canonical);
    default:
      return JSON.stringify(value);
  }
}

function spellObject(value: object, canonical: boolean): string {
  if (value instanceof Uint8Array) return JSON.stringify(Buffer.from(value).toString("base64"));
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") return spell(toJSON.call(value, ""), canonical);
  if (Array.isArray(value)) return `[${value.map((item) => spell(item, canonical)).join(",")}]`;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  // The order of UTF-16 units is that of `<` on JavaScript's strings.
  if (canonical) members.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${spell(member, canonical)}`).join(",")}}`;
}

/** The canonical form: equal values have equal texts, in every language. */
export function canonical(value: unknown): string {
  isNative(value, undefined, 0);
  return spell(value, true);
}

/** SHA-256 of the canonical form, as 64 hexadecimal digits. */
export function digest(value: unknown): string {
  return createHash("sha256").update(canonical(value)).digest("hex");
}

/** Digits that may be an integer beyond 2^53, which has 17 of them or begins with 9. Most texts have none. */
const LONG_DIGITS = /(?:^|[:,[\s-])(?:\d{17}|9\d{15})/;

/** Reads JSON. Integers beyond 2^53 are `bigint`. */
export function parse(text: string): unknown {
  if (!LONG_DIGITS.test(text)) return JSON.parse(text);
  return JSON.parse(quoteBigIntegers(text), revive);
}

/** Cannot begin a text that people write: U+E000 is a private character. */
const MARK = "\uE000big:";

/** Strings, which stay as they are, and numbers, of which large integers become marked strings. */
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

function quoteBigIntegers(text: string): string {
  return text.replace(TOKENS, (token) => {
    const isLargeInteger = /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token));
    return isLargeInteger ? `"${MARK}${token}"` : token;
  });
}

function revive(_: string, value: unknown): unknown {
  return typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value;
}

/** Refuses what user code would get as something else than it was: an integer beyond 2^53. */
export function plain(value: unknown): unknown {
  const path = bigintIn(value, undefined);
  if (path === null) return value;
  throw new Unreadable(told(path), "an integer beyond 2^53, which JavaScript would round: send text");
}

/** The path of the first bigint; null if there is none. */
function bigintIn(value: unknown, path: Path | undefined): Path | undefined | null {
  if (typeof value === "bigint") return path;
  if (typeof value !== "object" || value === null) return null;
  const entries = Array.isArray(value) ? value.entries() : Object.entries(value);
  for (const [step, member] of entries) {
    const found = bigintIn(member, { up: path, step });
    if (found !== null) return found;
  }
  return null;
}
