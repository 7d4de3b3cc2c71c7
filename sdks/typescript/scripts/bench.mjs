// Figures of the SDK beside a real server: drain, submit and wait, five-step durable functions.
//
//   TENURE_BINARY=/path/to/tenure node scripts/bench.mjs [drain|wait|durable] [--count N]
//
// The server is a release binary with a temporary store on this machine. Run each shape five times and take the best.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Client, durable, newRun, task, Worker } from "../dist/index.js";

const CALLERS = 64;

const { positionals, values } = parseArgs({ allowPositionals: true, options: { count: { type: "string" } } });
const shapes = positionals.length > 0 ? positionals : ["drain", "wait", "durable"];

const echo = task("echo", { queue: "bench" }, async (n) => n);
const five = durable("five", { queue: "bench" }, async (flow, n) => {
  let sum = n;
  for (let step = 0; step < 5; step++) sum = await flow.step("add", () => sum + 1);
  return sum;
});

async function startServer() {
  const folder = mkdtempSync(join(tmpdir(), "tenure-bench-"));
  const binary = process.env.TENURE_BINARY ?? "tenure";
  const env = { ...process.env, HOME: folder, XDG_STATE_HOME: folder, XDG_CONFIG_HOME: folder };
  const server = spawn(binary, ["dev", "--port", "0", "--store", `sqlite:${join(folder, "t.db")}`], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const stop = async () => {
    server.kill("SIGTERM");
    await new Promise((resolve) => server.once("exit", resolve));
    rmSync(folder, { recursive: true, force: true });
  };
  let text = "";
  // Read to the end: the server goes on to print, and a closed pipe would end it.
  const started = await new Promise((resolve) => {
    server.stdout.on("data", (chunk) => {
      text += chunk;
      const url = /TENURE_URL=(\S+)/.exec(text)?.[1];
      const apiKey = /TENURE_API_KEY=(\S+)/.exec(text)?.[1];
      if (url && apiKey) resolve({ url, apiKey, stop });
    });
    server.once("exit", () => resolve(undefined));
  });
  if (started !== undefined) return started;
  throw new Error(`the server did not start: ${text}`);
}

async function submitAll(client, kind, count) {
  const runs = Array.from({ length: count }, (_, n) => newRun(kind, n));
  await client.submitMany(runs);
}

/** Runs a worker until so many attempts have ended well; returns the seconds and the CPU seconds of this process. */
async function work(client, count, isEnd, options = {}) {
  const stop = new AbortController();
  let left = count;
  const done = new Promise((resolve) => {
    const onEvent = (event) => {
      if (isEnd(event) && --left === 0) resolve();
    };
    const worker = new Worker({ tasks: [echo, five], client, onEvent, onLog: () => {}, ...options });
    stop.worker = worker.run({ signal: stop.signal });
  });
  const [wall, cpu] = [performance.now(), process.cpuUsage()];
  await done;
  const seconds = (performance.now() - wall) / 1000;
  const used = process.cpuUsage(cpu);
  stop.abort();
  await stop.worker;
  return { seconds, cpuMicros: used.user + used.system };
}

const isSuccess = (event) => event.type === "Committed" && event.outcome === "SUCCEEDED";

async function drain(client, count) {
  await submitAll(client, echo, count);
  const { seconds, cpuMicros } = await work(client, count, isSuccess);
  return { perSecond: Math.round(count / seconds), cpuMicrosPerTask: Math.round(cpuMicros / count) };
}

async function wait(client, count) {
  const stop = new AbortController();
  const worker = new Worker({ tasks: [echo], client, onLog: () => {} }).run({ signal: stop.signal });
  let next = 0;
  const [began, cpu] = [performance.now(), process.cpuUsage()];
  const caller = async () => {
    while (next++ < count) await client.submit(echo, next).result();
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  stop.abort();
  await worker;
  return { perSecond: Math.round(count / seconds), cpuMicrosPerRun: Math.round((user + system) / count) };
}

async function durableRuns(client, count) {
  await submitAll(client, five, count);
  const { seconds, cpuMicros } = await work(client, count, isSuccess, { concurrency: 256 });
  return { perSecond: Math.round(count / seconds), cpuMicrosPerRun: Math.round(cpuMicros / count) };
}

const SHAPES = { drain: [drain, 40_000], wait: [wait, 6_000], durable: [durableRuns, 4_000] };

for (const name of shapes) {
  const [shape, usual] = SHAPES[name];
  const count = Number(values.count ?? usual);
  const server = await startServer();
  const client = new Client(server);
  try {
    console.log(JSON.stringify({ shape: name, count, ...(await shape(client, count)) }));
  } finally {
    client.close();
    await server.stop();
  }
}
process.exit(0);
