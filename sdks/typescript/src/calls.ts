/**
 * One call to the coordinator: written once, sent as often as the retries allow, read.
 *
 * A call is repeated only if nothing was decided (no answer, half an answer, 429, 503), and every repetition has the
 * same bytes, so that the coordinator recognises it. A client stays with an address for as long as it answers. This
 * module knows no routes; how bytes travel is the business of a {@link Sender}.
 */
import { Protocol, Refused, type TenureError, UnknownOutcome, Unreachable } from "./errors.js";
import { parse } from "./json.js";
import type { Problem } from "./wire.js";

/** Time for an answer, beside the wait that a call asks for: the longest commit and a reserve. */
export const ANSWER_TIMEOUT_MS = 15_000;
/** A server may ask a client to wait, but must not hang it. */
const RETRY_AFTER_MS_MAX = 30_000;
/** Longer than a short stall of the server, shorter than people notice. */
const BACKOFF_MS_MIN = 100;
/** Finds a server soon after it returns from a longer outage. */
const BACKOFF_MS_MAX = 5_000;
/** Enough of a foreign answer to recognise its sender. */
const ECHO_CHARS_MAX = 120;

export interface Call {
  method: "GET" | "POST";
  /** With its query, below the address of the coordinator. */
  path: string;
  body?: string | undefined;
  idempotencyKey?: string | undefined;
  /** Instead of the client's key: the token of a task. */
  token?: string | undefined;
  /** How long the server holds the call open. */
  waitMs?: number | undefined;
  timeoutMs?: number | undefined;
  /** Instead of the client's: 0 where each call makes something. */
  retries?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface Answer {
  status: number;
  retryAfterMs: number | undefined;
  body: Uint8Array;
}

/** How the bytes of one try travel. It throws {@link NoAnswer} when none, or only a part, came back. */
export interface Sender {
  send(url: string, call: Call, authorization: string, timeoutMs: number): Promise<Answer>;
  close(): void;
}

export class NoAnswer extends Error {
  constructor(
    readonly connected: boolean,
    override readonly cause: unknown,
  ) {
    super(cause instanceof Error ? cause.message : String(cause));
  }
}

export class Calls {
  #current: number;

  constructor(
    private readonly sender: Sender,
    private readonly urls: readonly string[],
    private readonly apiKey: string,
    private readonly retries: number,
  ) {
    // Clients start at different addresses, which spreads the load.
    this.#current = Math.floor(Math.random() * urls.length);
  }

  get address(): string {
    return this.urls[this.#current % this.urls.length] as string;
  }

  close(): void {
    this.sender.close();
  }

  /** The answer of the first try that got a decision, as a value. */
  async json<T>(call: Call): Promise<T> {
    const { body, status, url } = await this.decided(call);
    try {
      return parse(new TextDecoder().decode(body)) as T;
    } catch (error) {
      throw new Protocol(
        `${url}${call.path}`,
        status,
        error instanceof Error ? error.message : String(error),
      );
    }
  }

  /** The same as bytes. */
  async decided(call: Call): Promise<Answer & { url: string }> {
    for (let tries = 0; ; tries++) {
      const tried = await this.once(call);
      if (!("error" in tried)) return tried;
      if (!tried.error.retryable || tries >= (call.retries ?? this.retries)) throw tried.error;
      await pause(this.#pauseMs(tries, tried), call.signal);
    }
  }

  /** One try. A refusal is a value here. */
  async once(
    call: Call,
  ): Promise<(Answer & { url: string }) | { error: TenureError; retryAfterMs: number | undefined }> {
    call.signal?.throwIfAborted();
    const at = this.#current;
    const url = this.address;
    const timeoutMs = call.timeoutMs ?? ANSWER_TIMEOUT_MS + (call.waitMs ?? 0);
    try {
      const answer = await this.sender.send(url, call, `Bearer ${call.token ?? this.apiKey}`, timeoutMs);
      if (answer.status >= 200 && answer.status < 300) return { ...answer, url };
      const { error, retryAfterMs } = refusal(url, call, answer);
      if (error.retryable && answer.status !== 429) this.#moveOn(at);
      return { error, retryAfterMs: retryAfterMs ?? answer.retryAfterMs };
    } catch (thrown) {
      if (!(thrown instanceof NoAnswer)) throw thrown;
      this.#moveOn(at);
      return {
        error: new Unreachable(new URL(url).origin, thrown.connected, thrown.cause),
        retryAfterMs: undefined,
      };
    }
  }

  /** The first call that gets no decision moves all later ones; a rate applies at every address, so 429 stays. */
  #moveOn(at: number): void {
    if (this.#current === at) this.#current = (at + 1) % this.urls.length;
  }

  #pauseMs(
    tries: number,
    { error, retryAfterMs }: { error: TenureError; retryAfterMs: number | undefined },
  ): number {
    const backoff = backoffMs(tries);
    // What one coordinator asks for says nothing about the next one, which is tried now. A rate counts at all of them.
    const staysHere = this.urls.length === 1 || (error instanceof Refused && error.status === 429);
    if (!staysHere || retryAfterMs === undefined) return backoff;
    return Math.max(backoff, Math.min(retryAfterMs, RETRY_AFTER_MS_MAX));
  }
}

/** Doubles from 100 ms to 5 s, with up to half as much again at random, so that callers do not come in step. */
export function backoffMs(tries: number): number {
  const base = Math.min(BACKOFF_MS_MIN * 2 ** Math.min(tries, 16), BACKOFF_MS_MAX);
  return base + (Math.random() * base) / 2;
}

export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(done, ms);
    function done() {
      signal?.removeEventListener("abort", stop);
      resolve();
    }
    function stop() {
      clearTimeout(timer);
      reject(signal?.reason);
    }
    signal?.addEventListener("abort", stop, { once: true });
  });
}

function refusal(
  url: string,
  call: Call,
  answer: Answer,
): { error: TenureError; retryAfterMs: number | undefined } {
  const text = new TextDecoder().decode(answer.body);
  const problem = problemOf(text);
  if (problem === undefined) {
    const why = `status ${answer.status} with \`${text.slice(0, ECHO_CHARS_MAX)}\``;
    return { error: new Protocol(`${url}${call.path}`, answer.status, why), retryAfterMs: undefined };
  }
  const told = { ...problem, status: answer.status };
  const error = problem.error === "unknown_outcome" ? new UnknownOutcome(told, url) : new Refused(told, url);
  return { error, retryAfterMs: problem.retryAfterMs ?? undefined };
}

function problemOf(text: string): Problem | undefined {
  try {
    const value = JSON.parse(text) as Partial<Problem>;
    return typeof value?.error === "string" && typeof value.message === "string"
      ? (value as Problem)
      : undefined;
  } catch {
    return undefined;
  }
}
