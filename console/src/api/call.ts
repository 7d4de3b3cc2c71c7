/** Calls of the HTTP interface, relative to the address of the page, so that any prefix of a proxy works. */

import { heard } from "../model/time.js";
import * as session from "../session.js";
import { parse } from "./scan.js";

/** A refusal or failure, with what a person needs: what happened, why, and what to do next. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly title: string,
    override readonly message: string,
    readonly requestId: string = "",
  ) {
    super(message);
  }

  get isUnreachable(): boolean {
    return this.status === 0 || this.status === 502 || this.status === 503 || this.status === 504;
  }
}

/** Longer than any answer of the server takes that is not a long poll. */
const TIMEOUT_MS = 20_000;

export interface CallOptions {
  signal?: AbortSignal;
  query?: Record<string, string | number | boolean | undefined | null> | URLSearchParams;
  body?: unknown;
  idempotencyKey?: string;
  headers?: Record<string, string>;
  /** A status beyond those of success whose body is the answer as well, if the server itself sent it. */
  alsoAnswer?: number;
}

export function get<T>(path: string, options: CallOptions = {}): Promise<T> {
  return call<T>("GET", path, options);
}

export function post<T>(path: string, body: unknown, options: CallOptions = {}): Promise<T> {
  return call<T>("POST", path, { ...options, body });
}

async function call<T>(method: string, path: string, options: CallOptions): Promise<T> {
  const sent = Date.now();
  const inSession = session.ordinal();
  const response = await reach(method, path, options);
  const text = await response.text().catch(() => "");
  if (!response.ok && !isAlsoAnswer(response, options)) throw refused(response, text, inSession);
  if (response.status === 204) return undefined as T;
  const answer = parse(text) as { serverTime?: unknown };
  if (typeof answer.serverTime === "string") heard(answer.serverTime, sent);
  return answer as T;
}

/** A proxy that answers in the place of the server sends no JSON, and a refusal of the server is a problem. */
function isAlsoAnswer(response: Response, { alsoAnswer }: CallOptions): boolean {
  const type = response.headers.get("content-type") ?? "";
  return response.status === alsoAnswer && /^application\/json\b/.test(type);
}

/** An answer that is no JSON. */
export async function getText(path: string, options: CallOptions = {}): Promise<string> {
  const inSession = session.ordinal();
  const response = await reach("GET", path, { ...options, headers: { accept: "text/plain" } });
  const text = await response.text().catch(() => "");
  if (!response.ok) throw refused(response, text, inSession);
  return text;
}

async function reach(method: string, path: string, options: CallOptions): Promise<Response> {
  const headers: Record<string, string> = {
    accept: "application/json",
    ...session.credentials(),
    ...options.headers,
  };
  if (options.body !== undefined) headers["content-type"] = "application/json";
  if (options.idempotencyKey) headers["idempotency-key"] = options.idempotencyKey;
  const limits = [AbortSignal.timeout(TIMEOUT_MS), ...(options.signal ? [options.signal] : [])];
  try {
    return await fetch(address(path, options.query), {
      method,
      headers,
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: AbortSignal.any(limits),
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Problem(
      0,
      "unreachable",
      "The server does not answer",
      "no answer came from the server; it may be restarting, or the network is down",
    );
  }
}

/** The API for sessions, seen from the base of the page: below the console, whatever a proxy puts before it. */
const API = "api/";

/** The address of a call. */
export function address(path: string, query: CallOptions["query"]): string {
  const url = new URL(API + path, document.baseURI);
  const members = query instanceof URLSearchParams ? query : Object.entries(query ?? {});
  for (const [name, value] of members) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.append(name, String(value));
  }
  return url.href;
}

function refused(response: Response, text: string, inSession: number): Problem {
  let body: { error?: string; title?: string; message?: string; requestId?: string } = {};
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy answered instead of the server: its status says all there is.
  }
  const {
    error = `http_${response.status}`,
    title = `The server answered ${response.status}`,
    message = "",
    requestId = "",
  } = body;
  const problem = new Problem(response.status, error, title, message, requestId);
  // Another tab may have begun a session after this call was sent: that one is not over.
  if (error === "session_required" && session.person.value && session.ordinal() === inSession)
    session.end(`Your session is over: ${message || "log in again"}`);
  return problem;
}

/** A name inside a path: the server takes no escapes there, and writes `~` for `/`. */
export const inPath = (name: string): string => name.replaceAll("/", "~");

/** The API knows a task that a run started under the id of a run with the same number. */
export const runIdOf = (id: string): string => id.replace(/^task_/, "run_");
