// A Tenure worker with Node's standard library: `node worker.mjs QUEUE`. One task at a time; `handlers` is yours.
// Heartbeats are timers: a handler must not block the event loop. Put long computations into a worker_thread.
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { uptime } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const { TENURE_URL, TENURE_API_KEY } = process.env;
const queue = process.argv[2];
if (!TENURE_URL || !TENURE_API_KEY || !queue) {
  console.error("usage: TENURE_URL=... TENURE_API_KEY=... node worker.mjs QUEUE (`tenure dev` prints the first two)");
  process.exit(2);
}
const workerId = "node-" + randomUUID().slice(-12);
let stopping = false;
let polling; // The AbortController of a poll that waits.

const handlers = {
  greet: async (input) => ({ text: "Hello, " + input.name.trim() }),
  "await-file": async (input, lease) => {
    while (!existsSync(input.path)) {
      if (lease.mustStop()) throw new Error("stopped before the file came"); // Cancelled, or the lease is lost.
      await sleep(50);
    }
  },
};

const now = uptime; // Seconds on a clock that is never set and that goes on while the machine sleeps.

// One try; status 0 if nothing was decided: no answer, 429, 503.
async function post(path, token, body, signal) {
  const headers = { Authorization: "Bearer " + token, "Content-Type": "application/json" };
  try {
    const response = await fetch(TENURE_URL + path, { method: "POST", headers, body: JSON.stringify(body), signal });
    const answer = await response.json();
    return [[429, 503].includes(response.status) ? 0 : response.status, answer];
  } catch (error) {
    return [0, { error: String(error.cause ?? error) }];
  }
}

// The same call until it is decided; 20 tries with growing pauses take about 90 seconds.
async function deliver(send, gaveUp = () => false) {
  for (let n = 0; ; n += 1) {
    const [status, answer] = await send();
    if (status || n === 19 || gaveUp()) return [status, answer];
    console.log("no decision, trying again:", answer.error);
    await sleep((0.5 + Math.random() / 2) * Math.min(100 * 2 ** n, 8_000));
  }
}

class Lease {
  constructor(envelope) {
    const ttl = envelope.heartbeatTimeoutMs / 1000;
    this.usable = ttl > 2.5 ? ttl * 0.9 - 1 : ttl * 0.75; // The rest is for drift and a last write.
    this.until = now() + this.usable; // From the arrival of the poll's answer; the first heartbeat confirms it.
    Object.assign(this, { envelope, token: envelope.taskToken, cancelled: false });
  }

  call(name, members, timeout = 10_000) {
    const body = { attempt: this.envelope.attempt, workerId, ...members };
    return post(`/v1/tasks/${this.envelope.taskId}/${name}`, this.token, body, AbortSignal.timeout(timeout));
  }

  isLost() {
    return now() >= this.until;
  }

  mustStop() {
    return this.cancelled || this.isLost();
  }

  async heartbeat() {
    const sent = now();
    const timeout = Math.max(500, this.envelope.heartbeatIntervalMs);
    const [status, answer] = await this.call("heartbeat", {}, timeout);
    if (status === 200 && !this.isLost()) { // A late answer does not revive a lease.
      this.until = sent + this.usable;
      this.token = answer.taskToken ?? this.token;
      this.cancelled = answer.shouldCancel;
    } else if (status) {
      this.until = 0; // Refused: the lease is lost, whatever the clock says.
    }
    return [status, answer];
  }

  // Until the report is answered or the lease is lost.
  async keep(reported) {
    for (let pause = this.envelope.heartbeatIntervalMs; !this.isLost(); ) {
      const most = Math.min(pause, Math.max(0, this.until - now()) * 1000);
      await sleep(most, null, { signal: reported }).catch(() => {});
      if (reported.aborted) return;
      if (this.isLost()) return;
      const [status] = await this.heartbeat();
      pause = status === 200 ? this.envelope.heartbeatIntervalMs : 200;
    }
  }
}

async function work(envelope) {
  const [lease, reported] = [new Lease(envelope), new AbortController()];
  for (const send of [() => lease.call("started"), () => lease.heartbeat()]) {
    const [status] = await deliver(send);
    if (status !== 200 || lease.isLost()) return console.log(envelope.runId, "not begun");
  }
  lease.keep(reported.signal);
  // Inside an async function, so that a handler that is not async may throw, too.
  const report = await (async () => handlers[envelope.kind](envelope.input, lease))().then(
    (output) => ({ outcome: "SUCCEEDED", output }),
    (error) => {
      const reason = { category: "USER_CODE", message: String(error), stackTrace: error?.stack };
      return lease.cancelled ? { outcome: "CANCELLED" } : { outcome: "FAILED", error: reason };
    },
  );
  if (lease.isLost()) return console.log(envelope.runId, "lease lost"); // Another worker may have it: discard.
  const [, answer] = await deliver(() => lease.call("completed", report));
  reported.abort();
  console.log(envelope.runId, report.outcome, answer.verdict, answer.error ?? "");
}

// Repeated with its id until it is answered: leases of a lost answer come again.
async function poll() {
  const body = { workerId, queues: [queue], kinds: Object.keys(handlers), max: 1, pollId: randomUUID() };
  const send = () => {
    polling = new AbortController();
    const timeout = setTimeout(() => polling.abort(), 40_000);
    const waitMs = stopping ? 0 : 30_000;
    return post("/v1/leases", TENURE_API_KEY, { ...body, waitMs }, polling.signal).finally(() => clearTimeout(timeout));
  };
  let [status, answer] = await deliver(send, () => stopping);
  if (!status && stopping) [status, answer] = await send(); // For a lease that was granted meanwhile.
  if (status !== 0 && status !== 200) {
    console.error(`the poll was refused: ${answer.message} [${answer.error}]`);
    process.exit(1);
  }
  return status ? answer.leases : [];
}

for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    stopping = true; // Ends a waiting poll; work in hand is finished and reported.
    polling?.abort();
  });
}
console.log(workerId, "works on", queue);
while (!stopping) for (const envelope of await poll()) await work(envelope);
console.log("stopped");
