/**
 * Bytes by `node:http`: a third of the cost of `fetch` per call, and it takes a CA file.
 *
 * Connections are kept and reused. An answer counts only when all of it has come.
 */
import { readFileSync } from "node:fs";
import * as http from "node:http";
import * as https from "node:https";
import { urlToHttpOptions } from "node:url";

import { type Answer, type Call, NoAnswer, type Sender } from "./calls.js";
import { Setup } from "./errors.js";

/** A coordinator on the same network accepts within milliseconds; this detects a black hole. */
const CONNECT_TIMEOUT_MS = 5_000;
/** Below the server's idle timeout, so that a reused connection has rarely just been closed. */
const IDLE_MS = 30_000;
const IDLE_CONNECTIONS_MAX = 16;
const VERSION = "0.1.0";

export interface SenderOptions {
  urls: readonly string[];
  caFile?: string | undefined;
}

export function openSender(options: SenderOptions): Sender {
  const isTls = options.urls[0]?.startsWith("https:") ?? false;
  const kept = {
    keepAlive: true,
    maxFreeSockets: IDLE_CONNECTIONS_MAX,
    timeout: IDLE_MS,
    scheduling: "lifo",
  } as const;
  const agent = isTls
    ? new https.Agent({ ...kept, ...(options.caFile ? { ca: readCa(options.caFile) } : {}) })
    : new http.Agent(kept);
  return new NodeSender(agent, isTls ? https.request : http.request);
}

function readCa(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new Setup(`the file of certificates \`${file}\` cannot be read`, "correct TENURE_CA_FILE", error);
  }
}

class NodeSender implements Sender {
  /** What `http` needs to know of each address: reading a URL costs as much as the rest of a small request. */
  readonly #addresses = new Map<string, http.RequestOptions>();

  constructor(
    private readonly agent: http.Agent,
    private readonly request: typeof http.request,
  ) {}

  close(): void {
    this.agent.destroy();
  }

  #addressOf(url: string): http.RequestOptions {
    const known = this.#addresses.get(url);
    if (known !== undefined) return known;
    const { protocol, hostname, port } = urlToHttpOptions(new URL(url));
    // The path below the address, which every call has before its own.
    const path = new URL(url).pathname.replace(/\/$/, "");
    const address = { protocol, hostname, port: port === "" ? undefined : port, path } as http.RequestOptions;
    this.#addresses.set(url, address);
    return address;
  }

  send(url: string, call: Call, authorization: string, timeoutMs: number): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const headers: http.OutgoingHttpHeaders = { authorization, "user-agent": `tenure-node/${VERSION}` };
      if (call.idempotencyKey !== undefined) headers["idempotency-key"] = call.idempotencyKey;
      if (call.body !== undefined) {
        headers["content-type"] = "application/json";
        headers["content-length"] = Buffer.byteLength(call.body);
      }
      const { method, signal } = call;
      const { protocol, hostname, port, path } = this.#addressOf(url);
      const to = { protocol, hostname, port, path: `${path}${call.path}` };
      const request = this.request({ ...to, method, headers, agent: this.agent });
      let connected = false;
      const fail = (cause: unknown) => {
        finish();
        request.destroy();
        reject(signal?.aborted ? signal.reason : new NoAnswer(connected, cause));
      };
      const answerTimer = setTimeout(() => fail(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
      const connectTimer = setTimeout(
        () => fail(new Error(`no connection within ${CONNECT_TIMEOUT_MS} ms`)),
        CONNECT_TIMEOUT_MS,
      );
      const abort = () => fail(signal?.reason);
      const finish = () => {
        clearTimeout(answerTimer);
        clearTimeout(connectTimer);
        signal?.removeEventListener("abort", abort);
      };
      signal?.addEventListener("abort", abort, { once: true });
      const onConnect = () => {
        connected = true;
        clearTimeout(connectTimer);
      };
      request.once("socket", (socket) => {
        if (socket.connecting) socket.once("connect", onConnect);
        else onConnect();
      });
      // An idle socket that ends must not count as the end of a call that takes long.
      request.setTimeout(0);
      request.once("error", fail);
      request.once("response", (response) => {
        collect(
          response,
          (answer) => {
            finish();
            resolve(answer);
          },
          fail,
        );
      });
      request.end(call.body);
    });
  }
}

function collect(
  response: http.IncomingMessage,
  done: (answer: Answer) => void,
  fail: (why: unknown) => void,
): void {
  const chunks: Buffer[] = [];
  response.on("data", (chunk: Buffer) => chunks.push(chunk));
  response.once("error", fail);
  response.once("close", () => {
    if (!response.complete) fail(new Error("the answer ended early"));
  });
  response.once("end", () => {
    if (!response.complete) return fail(new Error("the answer ended early"));
    const seconds = Number(response.headers["retry-after"]);
    const retryAfterMs = Number.isFinite(seconds) ? seconds * 1000 : undefined;
    const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    done({ status: response.statusCode ?? 0, retryAfterMs, body });
  });
}
