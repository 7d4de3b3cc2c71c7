/**
 * Payloads that the coordinator stores but cannot read: encrypted or compressed by clients and workers.
 *
 * Stored form: `{"$codec": name, "data": base64}`, the same in every language. Digests of inputs are those of the plain
 * values, under a key of the codec, so that neither replay nor idempotency depends on a nonce. Effects and approvals stay
 * plain, and so do the references in the inputs of plans: the coordinator or a receiver outside reads them.
 */
import { Setup } from "./errors.js";
import { canonical, digest, encode, parse, write } from "./json.js";

/** Turns the bytes of a payload into other bytes, and back. One that callers rely on for repeated keys is deterministic. */
export interface Codec {
  /** Stands beside the bytes, so that a reader knows what wrote them. */
  readonly name: string;
  /** What is stored. */
  encode(plain: Uint8Array): Uint8Array;
  /** What was written. */
  decode(stored: Uint8Array): Uint8Array;
  /** 64 hexadecimal digits that identify the plain bytes: an HMAC under a key of the codec. */
  digest(plain: Uint8Array): string;
}

interface Sealed {
  $codec: string;
  data: string;
}

/** The stored form of a plain value, which has passed through JSON. Throws `Unwritable` where it is too large. */
export function sealed(codec: Codec | undefined, value: unknown): unknown {
  if (codec === undefined || value === null || value === undefined) return value;
  const stored = codec.encode(Buffer.from(write(value)));
  const form: Sealed = { $codec: codec.name, data: Buffer.from(stored).toString("base64") };
  encode(form);
  return form;
}

function isSealed(value: unknown): value is Sealed {
  if (typeof value !== "object" || value === null) return false;
  const { $codec, data } = value as Partial<Sealed>;
  return typeof $codec === "string" && typeof data === "string" && Object.keys(value).length === 2;
}

/** The plain value of a stored one. A value that no codec wrote is plain; parts of it may not be, as in a plan. */
export function opened(codec: Codec | undefined, value: unknown): unknown {
  if (!isSealed(value)) return codec === undefined ? value : mapParts(value, (part) => opened(codec, part));
  const { $codec: name, data } = value;
  if (codec?.name !== name) {
    throw new Setup(`the value was written by the codec \`${name}\``, "give client and worker that codec");
  }
  return parse(Buffer.from(codec.decode(Buffer.from(data, "base64"))).toString());
}

/** The input of a step of a plan. The coordinator must find the references in it, and puts sealed outputs there. */
export function sealedParts(codec: Codec | undefined, value: unknown): unknown {
  if (!hasReference(value)) return sealed(codec, value);
  return isReference(value) ? value : mapParts(value, (part) => sealedParts(codec, part));
}

function isReference(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && "$from" in value;
}

function hasReference(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (!Array.isArray(value) && "$literal" in value) return false;
  return isReference(value) || Object.values(value).some(hasReference);
}

/** Changes the members of an object or the items of a list, and leaves every other value. */
function mapParts(value: unknown, change: (part: unknown) => unknown): unknown {
  if (Array.isArray(value)) return value.map(change);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, change(part)]));
}

/** What identifies a plain value. */
export function digestOf(codec: Codec | undefined, value: unknown): string {
  return codec === undefined ? digest(value) : codec.digest(Buffer.from(canonical(value)));
}
