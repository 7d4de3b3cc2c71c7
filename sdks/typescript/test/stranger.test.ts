/** A stranger's first hour: the tarball in an empty folder, compiled strictly, run, tested and pushed to. */
import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { end, output, type Server, startServer } from "./server.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
/** What the stranger has beside the SDK. Nothing is fetched: these are the ones of this folder. */
const BESIDE = ["typescript", "@types/node", "@types/express", "express", "fastify", "hono"];

let server: Server;
let folder: string;
let env: NodeJS.ProcessEnv;

beforeAll(async () => {
  server = await startServer();
  env = { ...server.env, TENURE_LOG: "off" };
  folder = mkdtempSync(join(tmpdir(), "tenure-stranger-"));
  execFileSync(join(root, "scripts", "dist"), ["--built", folder], { stdio: "pipe" });
  const tarball = readdirSync(folder).find((name) => name.endsWith(".tgz")) ?? "";
  writeFileSync(join(folder, "package.json"), '{"type":"module","private":true}');
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
  execFileSync("npm", ["install", "--offline", join(folder, tarball), ...quiet], {
    cwd: folder,
    stdio: "pipe",
  });
  execFileSync("mkdir", ["-p", join(folder, "node_modules", "@types")]);
  for (const name of BESIDE)
    symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name));
  cpSync(join(root, "test", "stranger"), folder, { recursive: true });
  const options = ["--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck"];
  const lib = ["--lib", "es2023,esnext.disposable", "--types", "node", "--outDir", "out"];
  const sources = readdirSync(join(root, "test", "stranger"));
  const compiled = await output(
    process.execPath,
    [join(root, "node_modules", "typescript", "bin", "tsc"), ...options, ...lib, ...sources],
    env,
    folder,
  );
  expect(compiled).toEqual({ code: 0, text: "" });
});

afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

describe("a stranger", () => {
  it("runs a task and a durable function", async () => {
    const worker = spawn(process.execPath, [join(folder, "out", "worker.js")], { env, stdio: "inherit" });
    const submitted = await output(process.execPath, [join(folder, "out", "submit.js")], env);
    expect(submitted).toEqual({ code: 0, text: "Hello, Ada! parcel with lamp, parcel with cable\n" });
    expect(await end(worker, "SIGTERM")).toBe(0);
  });

  it("tests them without a server", async () => {
    const { code, text } = await output(process.execPath, ["--test", join(folder, "out", "checks.js")], {
      ...env,
      TENURE_URL: "http://127.0.0.1:9",
    });
    expect(code, text).toBe(0);
    expect(text).toMatch(/pass 2/);
  });

  it("is pushed to in http, Express, Fastify, Hono and a route of Next.js", async () => {
    const { code, text } = await output(process.execPath, [join(folder, "out", "push.js")], env);
    const queues = ["http", "express", "fastify", "hono", "next"];
    const lines = queues.map((queue) => `Hello from ${queue}, Ada! awake in ${queue}\n`);
    expect({ code, text }).toEqual({ code: 0, text: lines.join("") });
  });
});
