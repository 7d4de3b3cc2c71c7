// A worker of the examples for `tenure replay`, and of tasks that the integration tests kill.
import { appendFileSync } from "node:fs";
import { current, durable, Failure, task, Worker } from "@tenure/sdk";

const note = (text) => appendFileSync(process.env.NOTES, `${text}\n`);

const echo = task("echo", { queue: "it" }, async (value) => value);

const slow = task("slow", { queue: "it", lease: { seconds: 3 } }, async (ms, ctx) => {
  note(`began ${ctx.attempt}`);
  await new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    ctx.signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
  if (ctx.cancelled) throw Failure.cancelled("told to stop", { phase: "waiting" });
  return ctx.attempt;
});

const block = task("block", { queue: "it", lease: { seconds: 6 } }, async (ms, ctx) => {
  const until = Date.now() + ms;
  while (Date.now() < until && !ctx.cancelled);
  return ctx.cancelled ? "told" : "kept";
});

const alone = task("alone", { queue: "it", isolate: true, maxAttempts: 1 }, async (what) => {
  if (what === "crash") process.abort();
  return `${what} ${process.pid !== Number(process.env.PARENT) ? "elsewhere" : "here"}`;
});

const steps = durable("steps", { queue: "it", lease: { seconds: 2 } }, async (flow, count) => {
  for (let n = 1; n <= count; n++) {
    await flow.step("work", async () => {
      note(`step ${n}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
      return n;
    });
  }
  await flow.sleep({ milliseconds: 100 });
  const go = await flow.signal("go");
  return { count, go };
});

const spender = durable("spender", { queue: "it", budget: { tokens: 1000 } }, async (flow) => {
  for (;;) await flow.step("think", () => void current().spend({ tokens: 400 }));
});

const { order, pack, payout, invoice } = process.env.EXAMPLES ? await import(process.env.EXAMPLES) : {};
const tasks = order ? [order, pack, payout, invoice] : [echo, slow, block, alone, steps, spender];
if (!process.env.TENURE_ISOLATED) process.env.PARENT = String(process.pid);
const worker = new Worker({
  tasks,
  onStart: () => {
    if (!process.env.TENURE_ISOLATED) console.log("ready");
  },
  ...(process.env.CONCURRENCY ? { concurrency: Number(process.env.CONCURRENCY) } : {}),
});
await worker.run();
