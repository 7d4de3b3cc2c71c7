// Programs with isolated tasks, and what may go wrong when such a program is started again.
import { execFileSync } from "node:child_process";
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { task, Worker } from "@tenure/sdk";

const { MODE, NOTES, QUEUE: queue } = process.env;
const note = (text) => appendFileSync(NOTES, `${text}\n`);
const isolated = (kind, code) => task(kind, { queue, isolate: true, maxAttempts: 1 }, code);

const asks = `import("${new URL("../dist/isolated.js", import.meta.url)}").then((it) => console.log(it.isIsolated()))`;

const programs = {
  // What hooks open in the child, and whether a program that a task starts takes itself for a child.
  hooks: () => [
    new Worker({
      tasks: [
        isolated("pid", (_, ctx) => ({ own: process.pid, opened: ctx.state.pid })),
        isolated("grandchild", () => execFileSync(process.execPath, ["-e", asks]).toString().trim()),
      ],
      onStart: () => ({ pid: process.pid }),
      onStop: ({ pid }) => note(`closed ${pid}`),
    }),
  ],
  // Two workers: the child of one must not serve as the other.
  two: () => [
    new Worker({ tasks: [isolated("first", () => "first")] }),
    new Worker({ tasks: [isolated("second", () => "second")] }),
  ],
  // Only one process can have a port.
  port: async () => {
    const server = createServer();
    await new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen(Number(process.env.PORT ?? 0), "127.0.0.1", resolve);
    });
    process.env.PORT = String(server.address().port);
    // What the program does beside its worker must not keep it when that has ended.
    server.unref();
    return [new Worker({ tasks: [isolated("alone", () => "alone")] })];
  },
  // The child has other tasks than its parent.
  told: () => {
    process.env.TOLD ??= "mine";
    const workers = [new Worker({ tasks: [isolated(process.env.TOLD, () => 1)] })];
    process.env.TOLD = "of the next process".replaceAll(" ", "-");
    return workers;
  },
  never: () => {
    setInterval(() => {}, 1_000);
    return [];
  },
};

await Promise.all((await programs[MODE]()).map((worker) => worker.run()));
