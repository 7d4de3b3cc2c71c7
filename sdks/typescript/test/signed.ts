/** Signed messages, as a coordinator sends them. */
import { createHmac } from "node:crypto";

export const secretOf = (byte: number) => `whsec_${Buffer.alloc(32, byte).toString("base64")}`;
export const URL_OF_PUSH = "https://example.com/work";
export const NOW = new Date("2026-11-17T04:00:00Z");

/** The headers of a message with this body. */
export function signed(body: string, { secrets = [1], at = NOW, id = "eff_1", url = URL_OF_PUSH } = {}) {
  const time = String(Math.floor(at.getTime() / 1000));
  const keys = secrets.map((byte) => Buffer.alloc(32, byte));
  const signature = keys
    .map((key) => `v1,${createHmac("sha256", key).update(`${id}.${time}.${body}`).digest("base64")}`)
    .join(" ");
  const base64 = (text: string) => Buffer.from(text).toString("base64url");
  const claims = `{"iss":"tenure","aud":"${url}","jti":"${id}","iat":${time},"exp":${Number(time) + 300}}`;
  const text = `${base64('{"alg":"HS256","typ":"JWT"}')}.${base64(claims)}`;
  const token = keys
    .map((key) => `${text}.${createHmac("sha256", key).update(text).digest("base64url")}`)
    .join(" ");
  return {
    "webhook-id": id,
    "webhook-timestamp": time,
    "webhook-signature": signature,
    "tenure-push-token": token,
  };
}

/** What a coordinator pushes. */
export function envelope(kind: string, input: unknown, members = {}): string {
  return JSON.stringify({
    kind,
    input,
    runId: "run_1",
    taskId: "task_1",
    attempt: 1,
    fence: 1,
    queue: "q",
    leaseId: "lease_1",
    taskToken: "t",
    callbackBaseUrl: "http://127.0.0.1:9",
    heartbeatIntervalMs: 30_000,
    heartbeatTimeoutMs: 90_000,
    cancelGracePeriodMs: 30_000,
    enqueuedAt: "2026-01-01T00:00:00.000Z",
    ...members,
  });
}

/** Headers and body of a push that is sent now. */
export function pushed(kind: string, input: unknown, more = {}) {
  const body = envelope(kind, input);
  const headers = {
    ...signed(body, { at: new Date(), id: crypto.randomUUID(), ...more }),
    "content-type": "application/json",
  };
  return { method: "POST", headers, body };
}
