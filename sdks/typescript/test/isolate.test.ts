/** Isolated tasks: what their child opens, which worker of a program it is, and why it may serve none. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Client } from "@tenure/sdk";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { IsolatePool } from "../dist/isolate.js";
import { end, type Server, startProgram, startServer } from "./server.ts";

let server: Server;
let client: Client;
let folder: string;
let notes: string;
let stop: () => Promise<number | null> = async () => 0;

beforeAll(async () => {
  server = await startServer();
  client = server.client();
  folder = mkdtempSync(join(tmpdir(), "tenure-isolate-"));
  notes = join(folder, "notes");
});

afterEach(async () => void (await stop()));

afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Starts a program of `programs-isolated.mjs`, and submits to it. */
function started(mode: string): (kind: string) => Promise<any> {
  writeFileSync(notes, "");
  const env = { ...server.env, MODE: mode, NOTES: notes, QUEUE: mode, TENURE_LOG: "off" };
  const program = startProgram("./programs-isolated.mjs", env);
  stop = () => end(program, "SIGTERM");
  const options = { queue: mode, maxAttempts: 1 };
  return (kind) => client.submit(kind, null, options).result({ timeout: { seconds: 80 } });
}

describe("the child of an isolated task", () => {
  it("has what the hooks open there, and closes it at its end", async () => {
    const result = started("hooks");
    const { own, opened } = await result("pid");
    expect(opened).toBe(own);
    expect(await result("grandchild")).toBe("false");
    expect(await stop()).toBe(0);
    const closed = () => readFileSync(notes, "utf8").split("\n").includes(`closed ${own}`);
    await expect.poll(closed, { timeout: 40_000 }).toBe(true);
  });

  it("is the worker that is meant, where a program has two", async () => {
    const result = started("two");
    expect(await Promise.all([result("second"), result("first")])).toEqual(["second", "first"]);
  });

  it("that ends before it comes to its worker says what it is", async () => {
    await expect(started("port")("alone")).rejects.toThrow(
      /ended with code 1 and served no task\. It is .*programs-isolated\.mjs started again.*such as a port/,
    );
  });

  it("that has other tasks than its parent says which", async () => {
    await expect(started("told")("mine")).rejects.toThrow(
      /served no task\. It has workers with the kinds `of-the-next-process`, and none with `mine`: define tasks where/,
    );
  });

  it("that never comes to its worker is given up", async () => {
    const [, program] = process.argv;
    const { MODE } = process.env;
    process.argv[1] = fileURLToPath(new URL("./programs-isolated.mjs", import.meta.url));
    process.env["MODE"] = "never";
    try {
      const attempt = { envelope: {}, stopReason: undefined, onTold: () => {} } as never;
      const pids: unknown[] = [];
      const run = new IsolatePool(1_000, "alone", 300).run(attempt, (pid) => pids.push(pid));
      await expect(run).rejects.toThrow(/did not come to its worker within 300 ms and served no task/);
      const isGone = () => {
        try {
          process.kill(pids[0] as number, 0);
          return false;
        } catch {
          return true;
        }
      };
      await expect.poll(isGone, { timeout: 20_000 }).toBe(true);
    } finally {
      process.argv[1] = program as string;
      if (MODE === undefined) delete process.env["MODE"];
      else process.env["MODE"] = MODE;
    }
  });
});
