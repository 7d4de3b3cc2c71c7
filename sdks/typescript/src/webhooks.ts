/**
 * Verifying what Tenure sends: webhooks and pushed work, by Standard Webhooks.
 *
 * A message is believed if one of its signatures fits one of the receiver's secrets and its time is near the
 * receiver's. The time is part of what is signed, so a recorded message cannot be sent again later; within the
 * tolerance {@link RecentIds} recognises it, as it recognises retries. Signatures are compared in constant time.
 */
import { createHmac, timingSafeEqual } from "node:crypto";

import { TenureError } from "./errors.js";
import { parse, plain } from "./json.js";

/** How far the clocks of sender and receiver may be apart, in either direction. */
const TOLERANCE_SECONDS = 5 * 60;
/** Signatures of one message that are looked at: each costs a MAC over the whole body. */
const SIGNATURES_MAX = 8;
/** Bounds that Standard Webhooks sets. */
const SECRET_BYTES_MIN = 24;
const SECRET_BYTES_MAX = 64;
/** At ten messages a second more than an hour. */
const RECENT_MAX = 50_000;
const ID = /^[A-Za-z0-9_-]{1,128}$/;

/** A message that must not be believed. */
export class VerifyError extends TenureError {
  override readonly name = "VerifyError";
  constructor(
    code: "id" | "timestamp" | "too_old" | "too_new" | "signature" | "audience" | "body",
    detail: string,
  ) {
    super(detail, {
      code: `webhook_${code}`,
      nextStep: "answer 401, and check the secret and the clock of this machine",
    });
  }
}

/** Headers as `fetch` and Node have them. */
export type HeaderSource = Headers | Record<string, string | string[] | undefined>;

export function header(headers: HeaderSource, name: string): string {
  const value = headers instanceof Headers ? headers.get(name) : headers[name];
  return (Array.isArray(value) ? value[0] : value) ?? "";
}

/** What happened, as a webhook tells it. */
export interface Event {
  type: string;
  data: unknown;
  timestamp: Date | undefined;
  /** Equal on every try: remember it to apply each effect once. */
  id: string;
  aggregate: string | undefined;
  /** The place of the effect in its aggregate at this endpoint: 1, 2, 3, without gaps. */
  sequence: number | undefined;
  /** How many effects right before this one were given up. */
  gap: number;
}

export function readSecret(secret: string): Buffer {
  const encoded = secret.startsWith("whsec_") ? secret.slice("whsec_".length) : secret;
  const bytes = Buffer.from(encoded, "base64");
  const isBase64 = bytes.toString("base64").replace(/=+$/, "") === encoded.replace(/=+$/, "");
  if (!isBase64 || bytes.length < SECRET_BYTES_MIN || bytes.length > SECRET_BYTES_MAX) {
    throw new TypeError(
      `a secret is base64 of ${SECRET_BYTES_MIN} to ${SECRET_BYTES_MAX} bytes, with or without \`whsec_\``,
    );
  }
  return bytes;
}

function mac(secret: Buffer, id: string, timestamp: string, body: Uint8Array): Buffer {
  return createHmac("sha256", secret).update(`${id}.${timestamp}.`).update(body).digest();
}

function isEqual(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}

export function bytesOf(body: string | Uint8Array): Uint8Array {
  return typeof body === "string" ? new TextEncoder().encode(body) : body;
}

/** Verifies the messages of one endpoint. */
export class Verifier {
  protected readonly secrets: Buffer[];

  /** One secret, or two while a new one is rolled out. */
  constructor(secret: string | readonly string[]) {
    this.secrets = (typeof secret === "string" ? [secret] : secret).map(readSecret);
  }

  /** Checks the headers and the body as it was received, byte for byte. Throws {@link VerifyError}. */
  verify(headers: HeaderSource, body: string | Uint8Array, now = new Date()): Event {
    const { id } = this.check(headers, bytesOf(body), now);
    return eventOf(id, headers, body);
  }

  /** The same without reading the body. */
  check(headers: HeaderSource, body: Uint8Array, now: Date): { id: string; timestamp: string } {
    const id = header(headers, "webhook-id");
    if (!ID.test(id))
      throw new VerifyError("id", "the id is missing, too long or has characters that no id has");
    const timestamp = header(headers, "webhook-timestamp");
    if (!/^\d{1,15}$/.test(timestamp))
      throw new VerifyError("timestamp", "the timestamp is not a whole number of seconds");
    const age = Math.floor(now.getTime() / 1000) - Number(timestamp);
    if (age > TOLERANCE_SECONDS) throw new VerifyError("too_old", "the message is older than five minutes");
    if (age < -TOLERANCE_SECONDS) throw new VerifyError("too_new", "the message is from the future");
    const signatures = header(headers, "webhook-signature").split(" ").slice(0, SIGNATURES_MAX);
    const fits = (signature: string) => {
      if (!signature.startsWith("v1,")) return false;
      const claimed = Buffer.from(signature.slice(3), "base64");
      return this.secrets.some((secret) => isEqual(mac(secret, id, timestamp, body), claimed));
    };
    if (!signatures.some(fits)) throw new VerifyError("signature", "no signature fits");
    return { id, timestamp };
  }
}

function eventOf(id: string, headers: HeaderSource, body: string | Uint8Array): Event {
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  let read: unknown;
  try {
    read = plain(parse(text));
  } catch (error) {
    throw new VerifyError("body", `the body cannot be read: ${(error as Error).message}`);
  }
  const sequence = header(headers, "tenure-sequence");
  const { type, data, timestamp } = (read ?? {}) as { type?: string; data?: unknown; timestamp?: string };
  return {
    type: typeof type === "string" ? type : "",
    // What a step sends is its own body, without this frame.
    data: data === undefined ? read : data,
    timestamp: typeof timestamp === "string" ? new Date(timestamp) : undefined,
    id,
    aggregate: header(headers, "tenure-aggregate") || undefined,
    sequence: sequence === "" ? undefined : Number(sequence),
    gap: Number(header(headers, "tenure-gap") || 0),
  };
}

/** Verifies what is pushed to one URL: the signature, the time, and that it was meant for this URL. */
export class PushVerifier extends Verifier {
  /** `url` is that of the endpoint, exactly as it was registered. */
  constructor(
    secret: string | readonly string[],
    private readonly url: string,
  ) {
    super(secret);
  }

  checkPush(headers: HeaderSource, body: Uint8Array, now: Date): string {
    const { id, timestamp } = this.check(headers, body, now);
    const tokens = header(headers, "tenure-push-token").split(" ").slice(0, SIGNATURES_MAX);
    const fits = (token: string) =>
      this.secrets.some((secret) => this.#fits(secret, token, id, Number(timestamp)));
    if (!tokens.some(fits)) throw new VerifyError("audience", "no token binds the message to this URL");
    return id;
  }

  /** The text of a token follows from what it says, so the expected one is made and compared. */
  #fits(secret: Buffer, token: string, id: string, sentAt: number): boolean {
    const expected = pushToken(secret, this.url, id, sentAt);
    const dot = token.lastIndexOf(".");
    const isSame = dot > 0 && token.slice(0, dot) === expected.signed;
    return isSame && isEqual(Buffer.from(token.slice(dot + 1), "base64url"), expected.mac);
  }
}

function pushToken(secret: Buffer, url: string, id: string, sentAt: number): { signed: string; mac: Buffer } {
  const escaped = (text: string) => text.replaceAll("\\", "\\\\").replaceAll('"', '\\"');
  const expires = sentAt + TOLERANCE_SECONDS;
  const claims = `{"iss":"tenure","aud":"${escaped(url)}","jti":"${escaped(id)}","iat":${sentAt},"exp":${expires}}`;
  const base64 = (text: string) => Buffer.from(text).toString("base64url");
  const signed = `${base64('{"alg":"HS256","typ":"JWT"}')}.${base64(claims)}`;
  return { signed, mac: createHmac("sha256", secret).update(signed).digest() };
}

/**
 * The ids of messages that a receiver has handled. The memory is bounded and lost with the process: a receiver whose
 * effect must not happen twice keeps the id in the same transaction as the effect.
 */
export class RecentIds {
  readonly #notedAt = new Map<string, number>();

  /** Remembers an id, and says whether it is new. */
  note(id: string, now = new Date()): boolean {
    const seconds = now.getTime() / 1000;
    for (const [known, at] of this.#notedAt) {
      if (at >= seconds - 2 * TOLERANCE_SECONDS && this.#notedAt.size < RECENT_MAX) break;
      this.#notedAt.delete(known);
    }
    if (this.#notedAt.has(id)) return false;
    this.#notedAt.set(id, seconds);
    return true;
  }

  /** The handling failed: the next delivery of the message is the first again. */
  forget(id: string): void {
    this.#notedAt.delete(id);
  }
}
