/**
 * Bytes by `fetch`, where there is no Node. It costs about a millisecond a call and cannot take a CA file.
 */
import { type Answer, type Call, NoAnswer, type Sender } from "./calls.js";
import { Setup } from "./errors.js";
import type { SenderOptions } from "./transport-node.js";

export function openSender(options: SenderOptions): Sender {
  if (options.caFile !== undefined) {
    throw new Setup(
      "`fetch` cannot take a file of certificates",
      "use Node, or a certificate that the platform trusts",
    );
  }
  return { send, close: () => {} };
}

async function send(url: string, call: Call, authorization: string, timeoutMs: number): Promise<Answer> {
  const headers: Record<string, string> = { authorization };
  if (call.idempotencyKey !== undefined) headers["idempotency-key"] = call.idempotencyKey;
  if (call.body !== undefined) headers["content-type"] = "application/json";
  const limit = AbortSignal.timeout(timeoutMs);
  const signal = call.signal ? AbortSignal.any([limit, call.signal]) : limit;
  try {
    const init: RequestInit = { method: call.method, headers, signal, redirect: "manual" };
    if (call.body !== undefined) init.body = call.body;
    const response = await fetch(`${url}${call.path}`, init);
    const body = new Uint8Array(await response.arrayBuffer());
    const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
    return {
      status: response.status,
      retryAfterMs: Number.isFinite(seconds) ? seconds * 1000 : undefined,
      body,
    };
  } catch (error) {
    call.signal?.throwIfAborted();
    // `fetch` does not say whether a connection was made: the careful answer is that it was.
    throw new NoAnswer(true, error);
  }
}
