/** A real server of the release binary, with a temporary store, and programs beside it. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { startServer as startTestServer, type TestServer } from "@tenure/sdk/testing";

export type Server = TestServer;

/** `TENURE_BINARY`, else the one that was built. */
export function binary(): string {
  const built = ["release", "debug"].map((profile) =>
    fileURLToPath(new URL(`../../../target/${profile}/tenure`, import.meta.url)),
  );
  const found = [process.env["TENURE_BINARY"], ...built].find(
    (path) => path !== undefined && existsSync(path),
  );
  if (found === undefined)
    throw new Error("set TENURE_BINARY to a tenure binary, or build one with `cargo build --release`");
  return found;
}

export const startServer = (): Promise<Server> => startTestServer({ binary: binary() });

/** What a program has written when the pattern first fits. Its output is drained from then on. */
export function firstMatch(program: ChildProcess, pattern: RegExp): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    program.stdout?.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      if (pattern.test(text)) resolve(text);
    });
    program.once("exit", (code) => reject(new Error(`the program ended with ${code} after: ${text}`)));
  });
}

export async function end(program: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (program.exitCode !== null || program.signalCode !== null) return program.exitCode;
  const ended = new Promise<number | null>((resolve) => program.once("exit", resolve));
  program.kill(signal);
  return ended;
}

/** Runs a program to its end. */
export async function output(
  command: string,
  args: string[],
  env: NodeJS.ProcessEnv,
  cwd?: string,
): Promise<{ code: number | null; text: string }> {
  const program = spawn(command, args, { env, cwd, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  program.stdout.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  program.stderr.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  const code = await new Promise<number | null>((resolve) => program.once("close", resolve));
  return { code, text };
}

/** Starts one of the test's programs with Node. */
export function startProgram(file: string, env: NodeJS.ProcessEnv, args: string[] = []): ChildProcess {
  const path = fileURLToPath(new URL(file, import.meta.url));
  return spawn(process.execPath, [path, ...args], { env, stdio: ["pipe", "pipe", "inherit"] });
}

/** Waits until something is so, by asking again. */
export async function eventually<T>(
  what: string,
  ask: () => Promise<T | undefined> | T | undefined,
  ms = 45_000,
): Promise<T> {
  const until = performance.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (performance.now() > until) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
