/** The guide: every block of TypeScript is type-checked, and the programs do what their pages say. */

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client, type Codec, FlowTest, type Task, Worker } from "@tenure/sdk";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { end, firstMatch, output, type Server, startServer } from "./server.ts";

const folder = fileURLToPath(new URL("../../../docs/guide/", import.meta.url));
const pages = readdirSync(folder).filter((name) => /^typescript.*\.md$/.test(name));
const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts"],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ["node"],
  strict: true,
  skipLibCheck: true,
};

interface Block {
  language: string;
  text: string;
}

function blocksOf(page: string): Block[] {
  const text = readFileSync(join(folder, page), "utf8");
  return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language = "", text = ""]) => ({
    language,
    text,
  }));
}

let work: string;
let server: Server;

/** Writes the blocks of a page as files, inside the package, so that its name is found. */
function writePage(page: string): { dir: string; files: string[] } {
  const dir = join(work, page.replace(".md", ""));
  mkdirSync(dir, { recursive: true });
  const files = blocksOf(page)
    .filter(({ language }) => language === "ts")
    .map(({ text }) => {
      const name = /^\/\/ (\S+\.ts)\n/.exec(text)?.[1];
      if (name === undefined) throw new Error(`a block of ${page} does not begin with the name of its file`);
      writeFileSync(join(dir, name), text);
      return join(dir, name);
    });
  return { dir, files };
}

beforeAll(async () => {
  work = mkdtempSync(join(fileURLToPath(new URL("../dist/", import.meta.url)), "guide-"));
  server = await startServer();
  for (const page of pages) writePage(page);
});

afterAll(async () => {
  await server.stop();
  rmSync(work, { recursive: true, force: true });
});

function expected(page: string): string {
  return blocksOf(page).find(({ language }) => language === "text")?.text ?? "";
}

function start(file: string, env: NodeJS.ProcessEnv = {}) {
  // What a worker warns of belongs to the output of a test that fails.
  const options = { ...server.env, TENURE_LOG: "info", ...env };
  return spawn(process.execPath, [file], { env: options, stdio: ["ignore", "pipe", "inherit"] });
}

describe("the guide", () => {
  it("has its pages, and all of their code compiles", () => {
    expect(pages.length).toBe(7);
    const files = pages.flatMap((page) => writePage(page).files);
    const program = ts.createProgram(files, OPTIONS);
    const problems = ts.getPreEmitDiagnostics(program).map(({ file, start = 0, messageText }) => {
      const line = file?.getLineAndCharacterOfPosition(start).line ?? 0;
      return `${file?.fileName}:${line + 1} ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
    });
    expect(problems).toEqual([]);
    program.emit();
  });

  it.each(["typescript.md", "typescript-durable.md"])(
    "%s: the worker and the client print what the page says",
    async (page) => {
      const dir = join(work, page.replace(".md", ""));
      const worker = start(join(dir, "worker.js"));
      const { code, text } = await output(process.execPath, [join(dir, "submit.js")], {
        ...server.env,
        TENURE_LOG: "off",
      });
      expect([code, text]).toEqual([0, expected(page)]);
      expect(await end(worker, "SIGTERM")).toBe(0);
    },
  );

  it("typescript-testing.md: its tests pass", async () => {
    const file = join(work, "typescript-testing", "orders.test.js");
    const { code, text } = await output(process.execPath, ["--test", file], {
      ...process.env,
      NODE_TEST_CONTEXT: undefined,
    });
    expect(code, text).toBe(0);
    expect(text).toContain("pass 4");
  });

  it("typescript-testing.md: the tests for vitest are those of test/guide, which vitest runs", () => {
    const texts = blocksOf("typescript-testing.md").map(({ text }) => text);
    for (const name of ["orders.ts", "fixture.ts", "server.test.ts"])
      expect(texts).toContain(readFileSync(new URL(`guide/${name}`, import.meta.url), "utf8"));
  });

  it("typescript-deploying.md: the program prints what the page says, and a changed byte is refused", async () => {
    const dir = join(work, "typescript-deploying");
    const env = { ...server.env, TENURE_LOG: "off", PAYLOAD_KEY: Buffer.alloc(32, 7).toString("base64") };
    const { code, text } = await output(process.execPath, [join(dir, "secret.js")], env);
    expect([code, text]).toEqual([0, expected("typescript-deploying.md")]);
    const { encrypted } = (await import(join(dir, "codec.js"))) as {
      encrypted(key: Uint8Array): Codec;
    };
    const codec = encrypted(Buffer.alloc(32, 7));
    const stored = codec.encode(Buffer.from("sesame"));
    expect(Buffer.from(codec.decode(stored)).toString()).toBe("sesame");
    expect(stored).toEqual(codec.encode(Buffer.from("sesame")));
    const changed = stored.map((byte, n) => (n === 13 ? byte ^ 1 : byte));
    expect(() => codec.decode(changed)).toThrow();
    expect(() => encrypted(Buffer.alloc(32, 8)).decode(stored)).toThrow();
  });

  it("typescript-from-bullmq.md: the producer gets what the processor returns", async () => {
    const { mail, produce } = (await import(join(work, "typescript-from-bullmq", "mail.js"))) as {
      mail: Task<{ to: string; text: string }, { id: string }>;
      produce(client: Client): Promise<string>;
    };
    await using client = new Client({ url: server.url, apiKey: server.apiKey });
    const stop = new AbortController();
    const ended = new Worker({ tasks: [mail], client, onLog: () => {} }).run({ signal: stop.signal });
    try {
      expect(await produce(client)).toMatch(/^ada@example.com\/\d+$/);
      const nowhere = client.submit(mail, { to: "nowhere", text: "" }).result({ timeout: { seconds: 60 } });
      await expect(nowhere).rejects.toThrow("nowhere is no address");
    } finally {
      stop.abort();
      await ended;
    }
  });

  it("typescript-from-inngest.md: the function reminds, or activates", async () => {
    const { signup, sendMail } = (await import(join(work, "typescript-from-inngest", "signup.js"))) as {
      signup: Task<{ id: string; email: string }, string>;
      sendMail: Task<{ to: string; subject: string }, string>;
    };
    const user = { id: "u-7", email: "ada@example.com" };
    const test = () => new FlowTest(signup, user).child(sendMail, (mail) => mail.to);
    expect((await test().run()).output).toBe("reminded");
    const confirmed = await test()
      .signal("confirmed", { at: "2026-01-02" }, { after: { days: 1 } })
      .run();
    expect([confirmed.output, confirmed.executed["activate#1"]]).toEqual(["free", 1]);
  });

  it("typescript-push.md: tasks and durable functions are pushed to it", async () => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}/`;
    await using client = new Client({ url: server.url, apiKey: server.apiKey });
    const { secret } = await client.endpoints.create("hello", url, { queues: ["hello"], types: [] });
    const env = { PORT: String(port), PUSH_URL: url, TENURE_PUSH_SECRET: secret };
    const program = start(join(work, "typescript-push", "server.js"), env);
    await firstMatch(program, /listening/);
    const limit = { timeout: { seconds: 50 } };
    expect(await client.submit("greet", "Ada", { queue: "hello" }).result(limit)).toBe("Hello, Ada!");
    expect(await client.submit("remind", "Ada", { queue: "hello" }).result(limit)).toBe("Ada, remember");
    await client.endpoints.delete("hello");
    await end(program, "SIGTERM");
  });
});

it("the first task greets, with the command as its worker", async () => {
  const dir = join(work, "first-task");
  mkdirSync(dir);
  const page = readFileSync(new URL("../../../docs/start/first-task.md", import.meta.url), "utf8");
  const files = [...page.matchAll(/^```ts\n\/\/ (\w+\.ts)([\s\S]*?)^```$/gm)].map(
    ([, name = "", text = ""]) => {
      writeFileSync(join(dir, name), `//${text}`);
      return join(dir, name);
    },
  );
  expect(files.length).toBe(2);
  const program = ts.createProgram(files, { ...OPTIONS, rewriteRelativeImportExtensions: true });
  expect(ts.getPreEmitDiagnostics(program).map(({ messageText }) => messageText)).toEqual([]);
  program.emit();
  const cli = fileURLToPath(new URL("../dist/cli.js", import.meta.url));
  const env = { ...server.env, TENURE_LOG: "off" };
  const worker = spawn(process.execPath, [cli, "worker", join(dir, "hello.js")], { env, stdio: "inherit" });
  const greeted = await output(process.execPath, [join(dir, "greet.js")], env);
  expect(greeted).toEqual({ code: 0, text: "Hello, Ada!\n" });
  expect(await end(worker, "SIGTERM")).toBe(0);
});

it("the first durable function waits for its signal and ships", async () => {
  const dir = join(work, "start");
  mkdirSync(dir);
  const page = readFileSync(new URL("../../../docs/start/durable-function.md", import.meta.url), "utf8");
  const [, text = ""] = /^```ts\n(\/\/ order\.ts\n[\s\S]*?)^```$/m.exec(page) ?? [];
  const file = join(dir, "order.ts");
  writeFileSync(file, text);
  const program = ts.createProgram([file], OPTIONS);
  expect(ts.getPreEmitDiagnostics(program).map(({ messageText }) => messageText)).toEqual([]);
  program.emit();
  const worker = start(join(dir, "order.js"), { ...server.env, TENURE_LOG: "off" });
  await using client = new Client({ url: server.url, apiKey: server.apiKey });
  const run = await client.submit("order", 500, { queue: "orders" });
  await run.signal("approve", true);
  expect(await run.result({ timeout: { seconds: 50 } })).toBe("shipped");
  await end(worker, "SIGTERM");
});

/** A port that nothing listens on now. */
async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address() as { port: number };
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
