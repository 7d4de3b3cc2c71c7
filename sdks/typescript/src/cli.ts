#!/usr/bin/env node
/**
 * `tenure-worker ./tasks.ts [--watch] [--concurrency N] [--name NAME]`, also `npx @tenure/sdk worker ./tasks.ts`: runs
 * every task that a module exports. With `--watch` it starts again when a file of the module's folder changes.
 *
 * `.ts` files need a Node that strips types by itself (22.18 or newer); an older one is told so.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { watch } from "node:fs";
import { dirname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

import { isTask, type Task } from "./task.js";
import { Worker } from "./worker.js";

const USAGE = "usage: tenure-worker MODULE [--watch] [--concurrency N] [--name NAME]";
/** Editors write a file in several steps. */
const WATCH_MS = 200;

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      watch: { type: "boolean" },
      concurrency: { type: "string" },
      name: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  const [module] = positionals[0] === "worker" ? positionals.slice(1) : positionals;
  if (values.help || module === undefined) {
    console.log(USAGE);
    return values.help ? 0 : 2;
  }
  const file = resolve(module);
  if (values.watch) return watchAndRun(file);
  const tasks = await tasksOf(file);
  const { concurrency, name } = values;
  await new Worker({
    tasks,
    ...(concurrency === undefined ? {} : { concurrency: Number(concurrency) }),
    ...(name === undefined ? {} : { name }),
  }).run();
  return 0;
}

async function tasksOf(file: string): Promise<Task[]> {
  let found: Record<string, unknown>;
  try {
    found = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  } catch (error) {
    const isUnknown = (error as NodeJS.ErrnoException).code === "ERR_UNKNOWN_FILE_EXTENSION";
    if (!isUnknown) throw error;
    throw new Error(
      `Node ${process.version} cannot load ${file}: use Node 22.18 or newer for \`.ts\` files, or compile it to \`.js\``,
    );
  }
  const tasks = Object.values(found)
    .flat()
    .filter(isTask)
    .filter((task) => task.code !== undefined);
  if (tasks.length === 0)
    throw new Error(`${file} exports no task: export what \`task()\` and \`durable()\` return`);
  return [...new Set(tasks)];
}

/** Runs this program again without `--watch`, and once more after each change. */
async function watchAndRun(file: string): Promise<number> {
  const args = process.argv.slice(1).filter((argument) => argument !== "--watch");
  let timer: NodeJS.Timeout | undefined;
  let child: ChildProcess | undefined;
  let isStopping = false;
  const start = () => {
    child = spawn(process.execPath, [...process.execArgv, ...args], { stdio: "inherit" });
    const started = child;
    started.once("exit", (code) => {
      if (child === started && !isStopping)
        console.error(`the worker ended with code ${code}; waiting for a change`);
    });
  };
  const restart = () => {
    console.error("a file changed; the worker starts again");
    const old = child;
    child = undefined;
    if (old === undefined || old.exitCode !== null) return start();
    old.once("exit", start);
    old.kill("SIGTERM");
  };
  start();
  const watcher = watch(dirname(file), { recursive: true }, (_, name) => {
    if (name === null || /node_modules|\.git/.test(name)) return;
    clearTimeout(timer);
    timer = setTimeout(restart, WATCH_MS);
  });
  return new Promise((resolve) => {
    const stop = (signal: NodeJS.Signals) => {
      isStopping = true;
      watcher.close();
      clearTimeout(timer);
      if (child === undefined || child.exitCode !== null) return resolve(0);
      child.once("exit", (code) => resolve(code ?? 1));
      child.kill(signal);
    };
    process.on("SIGTERM", stop);
    process.on("SIGINT", stop);
  });
}

main().then(
  // Code that was told to stop and goes on must not keep the process.
  (code) => process.exit(code),
  (error: unknown) => {
    console.error(error instanceof Error ? `error: ${error.message}` : error);
    process.exitCode = 1;
  },
);
