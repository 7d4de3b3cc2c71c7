/** The tarball, installed into an empty folder: every entry is there, and the command runs tasks. */
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "@tenure/sdk";
import { expect, it } from "vitest";
import { end, output, startServer } from "./server.ts";

const QUIET = ["--no-audit", "--no-fund", "--loglevel=error"];

it("works where it is installed", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tenure-package-"));
  const root = fileURLToPath(new URL("..", import.meta.url));
  // What `cargo xtask dist` runs, but for the build, which other tests are using.
  execFileSync(join(root, "scripts", "dist"), ["--built", folder], { stdio: "pipe" });
  const tarball = readdirSync(folder).find((name) => name.endsWith(".tgz")) ?? "";
  writeFileSync(join(folder, "package.json"), '{"type":"module","private":true}');
  execFileSync("npm", ["install", "--offline", join(folder, tarball), ...QUIET], {
    cwd: folder,
    stdio: "pipe",
  });
  expect(readdirSync(join(folder, "node_modules")).filter((name) => !name.startsWith("."))).toEqual([
    "@tenure",
  ]);

  writeFileSync(
    join(folder, "entries.js"),
    `const names = await Promise.all(["", "/testing", "/push", "/webhooks"].map(async (at) => Object.keys(await import("@tenure/sdk" + at))));
     console.log(["Client", "FlowTest", "push", "Verifier"].map((name, n) => names[n].includes(name)).join());`,
  );
  expect(await output(process.execPath, [join(folder, "entries.js")], process.env)).toEqual({
    code: 0,
    text: "true,true,true,true\n",
  });
  writeFileSync(
    join(folder, "tasks.js"),
    `import { task } from "@tenure/sdk"; export const greet = task("greet", { queue: "mail" }, async (name) => "Hello, " + name + "!");`,
  );
  const server = await startServer();
  const env = { ...server.env, TENURE_LOG: "off" };
  const bin = join(folder, "node_modules", ".bin", "tenure-worker");
  const worker = spawn(process.execPath, [bin, "worker", join(folder, "tasks.js")], {
    env,
    stdio: "inherit",
  });
  await using client = new Client({ url: server.url, apiKey: server.apiKey });
  const greeted = client.submit("greet", "Ada", { queue: "mail" }).result({ timeout: { seconds: 50 } });
  expect(await greeted).toBe("Hello, Ada!");
  expect(await end(worker, "SIGTERM")).toBe(0);
  const usage = await output("npx", ["--offline", "@tenure/sdk", "worker", "--help"], env, folder);
  expect([usage.code, usage.text]).toEqual([0, expect.stringContaining("usage: tenure-worker MODULE")]);
  writeFileSync(join(folder, "none.js"), "export const x = 1;");
  const none = await output(process.execPath, [bin, join(folder, "none.js")], env);
  expect([none.code, none.text]).toEqual([1, expect.stringContaining("exports no task")]);
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}, 180_000);
