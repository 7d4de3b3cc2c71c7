/** Payloads that the coordinator cannot read: what this SDK writes, what Python writes, and what is stored. */

import { type ChildProcess, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { deflateSync, inflateSync } from "node:zlib";
import { Client, type Codec, durable, RunFailed, task, Worker } from "@tenure/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { digestOf, opened, sealed, sealedParts } from "../dist/codec.js";
import { digest } from "../dist/json.js";
import { end, eventually, output, type Server, startServer } from "./server.ts";
import { startStub } from "./stub.ts";

const KEY = Buffer.from(Array.from({ length: 32 }, (_, n) => n));
const veil = (bytes: Uint8Array) => bytes.map((byte, n) => byte ^ (KEY[n % 32] ?? 0));
const veiled: Codec = {
  name: "veiled",
  encode: (plain) => veil(deflateSync(plain)),
  decode: (stored) => inflateSync(veil(stored)),
  digest: (plain) => createHmac("sha256", KEY).update(plain).digest("hex"),
};

describe("the stored form", () => {
  it("names its codec, and is read by it alone", () => {
    const stored = sealed(veiled, { secret: "sesame" });
    expect(stored).toEqual({ $codec: "veiled", data: expect.stringMatching(/^[A-Za-z0-9+/]+=*$/) });
    expect(opened(veiled, stored)).toEqual({ secret: "sesame" });
    expect(() => opened(undefined, stored)).toThrow("the value was written by the codec `veiled`");
    expect(() => opened({ ...veiled, name: "other" }, stored)).toThrow("codec `veiled`");
  });

  it("of nothing is nothing, and a value that no codec wrote is plain", () => {
    expect(sealed(veiled, null)).toBeNull();
    expect(opened(veiled, { $codec: "veiled", data: "x", more: 1 })).toEqual({
      $codec: "veiled",
      data: "x",
      more: 1,
    });
  });

  it("has the limit of every payload", () => {
    const noise = { ...veiled, encode: (plain: Uint8Array) => plain };
    expect(() => sealed(noise, "x".repeat(200_000))).toThrow("the limit is 262144");
  });

  it("of a plan leaves references where the coordinator finds them", () => {
    const input = { from: { $from: "b" }, list: [1, { $from: "c" }], data: { $literal: {} }, free: { a: 1 } };
    const stored = sealedParts(veiled, input) as Record<string, any>;
    expect(stored["from"]).toEqual({ $from: "b" });
    expect(stored["list"][1]).toEqual({ $from: "c" });
    for (const part of [stored["list"][0], stored["data"], stored["free"]])
      expect(Object.keys(part)).toEqual(["$codec", "data"]);
    expect(sealedParts(veiled, { secret: 1 })).toEqual(sealed(veiled, { secret: 1 }));
    // The coordinator puts what the steps returned in place of the references.
    const given = { ...stored, from: sealed(veiled, "out") };
    expect(opened(veiled, given)).toEqual({ ...input, from: "out" });
  });

  it("is that of every input of a plan that is submitted", async () => {
    const body = { runId: "run_1", taskId: "task_1", state: "queued", createdAt: "2026-01-01T00:00:00.000Z" };
    const stub = await startStub(() => ({ status: 201, body }));
    const client = new Client({ url: stub.url, apiKey: "k", codec: veiled });
    await client.submitPlan({
      plan: {
        steps: [
          { key: "a", kind: "pack", input: "sesame" },
          { key: "b", kind: "pack", dependsOn: ["a"], input: { $from: "a" } },
          { key: "c", kind: "pack", dependsOn: ["b"] },
        ],
      },
    });
    client.close();
    await stub.close();
    const [a, b, c] = stub.asked[0]?.body.plan.steps ?? [];
    expect(opened(veiled, a.input)).toBe("sesame");
    expect([a.input.$codec, b.input, "input" in c]).toEqual(["veiled", { $from: "a" }, false]);
  });

  it("has a digest of the plain canonical text, under the codec's key", () => {
    const mac = createHmac("sha256", KEY).update('{"a":1,"b":2}').digest("hex");
    expect(digestOf(veiled, { b: 2, a: 1 })).toBe(mac);
  });
});

/** `protocol/scenarios/durable/codec.json`, which every SDK reads. */
interface Vectors {
  name: string;
  key: string;
  values: { plain: unknown; stored: unknown; digest: string }[];
  calls: { kind: string; queue: string; input: unknown; inputDigest: string }[];
}

describe("the vectors of every language", () => {
  const file = fileURLToPath(new URL("../../../protocol/scenarios/durable/codec.json", import.meta.url));
  const { name, key, values, calls } = JSON.parse(readFileSync(file, "utf8")) as Vectors;
  const turned: Codec = {
    name,
    encode: (plain) => Uint8Array.from(plain).reverse(),
    decode: (stored) => Uint8Array.from(stored).reverse(),
    digest: (plain) => createHmac("sha256", key).update(plain).digest("hex"),
  };

  it("are read and identified", () => {
    for (const { plain, stored, digest: expected } of values) {
      expect(opened(turned, stored)).toEqual(plain);
      expect(opened(turned, sealed(turned, plain))).toEqual(plain);
      expect(digestOf(turned, plain)).toBe(expected);
    }
  });

  it("name a call by the digest of its plain input", () => {
    for (const { kind, queue, input, inputDigest } of calls) {
      expect(digest([kind, queue, digestOf(turned, input)])).toBe(inputDigest);
    }
  });
});

interface Order {
  cents: number;
  item: string;
}

describe("with a server", () => {
  let server: Server;
  let client: Client;
  let folder: string;
  let notes: string;

  const pack = task("pack", { queue: "veiled" }, async (item: string) => `${item} packed by node`);
  const pay = durable("pay", { queue: "veiled" }, async (flow, order: Order) => {
    const charge = () => {
      writeFileSync(notes, `charged by node: ${order.cents}\n`, { flag: "a" });
      return `sesame-${order.cents}`;
    };
    const receipt = await flow.step("charge", charge, { input: order.cents });
    const word = await flow.signal<string>("go");
    const packed = await flow.call(pack, order.item);
    return { receipt, word, packed };
  });

  beforeAll(async () => {
    server = await startServer();
    client = new Client({ url: server.url, apiKey: server.apiKey, codec: veiled });
    folder = mkdtempSync(join(tmpdir(), "tenure-codec-"));
    notes = join(folder, "notes");
  });

  afterAll(async () => {
    client.close();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const program = fileURLToPath(new URL("./codec_peer.py", import.meta.url));
  const source = fileURLToPath(new URL("../../python/src", import.meta.url));
  const python = process.env["PYTHON"] ?? "python3";
  const pythonEnv = () => ({ ...server.env, PYTHONPATH: source, NOTES: notes });

  async function peer(...words: string[]): Promise<string> {
    const { code, text } = await output(python, [program, ...words], pythonEnv());
    expect(code, text).toBe(0);
    return text.trim();
  }

  async function inPython(use: () => Promise<void>): Promise<void> {
    const worker: ChildProcess = spawn(python, [program, "work"], {
      env: pythonEnv(),
      stdio: ["ignore", "ignore", "inherit"],
    });
    await use();
    expect(await end(worker, "SIGTERM")).toBe(0);
  }

  async function inNode(use: () => Promise<void>, codec: Client = client): Promise<void> {
    const stop = new AbortController();
    const ended = new Worker({ tasks: [pack, pay], client: codec, onLog: () => {} }).run({
      signal: stop.signal,
    });
    try {
      await use();
    } finally {
      stop.abort();
      await ended;
    }
  }

  const waits = (id: string) =>
    eventually("the run waits", async () =>
      (await client.run(id).status()).state === "waiting" ? true : undefined,
    );

  /** What the coordinator knows of a run, as it would tell an operator. */
  async function stored(id: string): Promise<string> {
    const run = client.run(id);
    const parts = await Promise.all([run.status(), run.steps(), run.children(), run.record()]);
    return JSON.stringify(parts);
  }

  it("a run that Python began is continued here, and the coordinator reads nothing of it", async () => {
    writeFileSync(notes, "");
    const id = await peer("submit", "lamp");
    await inPython(async () => void (await waits(id)));
    await inNode(async () => {
      await client.run(id).signal("go", "sesame, open");
      expect(await client.run(id).result({ timeout: { seconds: 60 } })).toEqual({
        receipt: "sesame-500",
        word: "sesame, open",
        packed: "lamp packed by node",
      });
    });
    expect(readFileSync(notes, "utf8")).toBe("charged by python: 500\n");
    expect(await peer("result", id)).toBe("lamp packed by node");
    const text = await stored(id);
    expect(text).toContain('"$codec":"veiled"');
    expect(text).not.toMatch(/sesame|lamp|packed by/);
  }, 180_000);

  it("a run that began here is continued by Python", async () => {
    writeFileSync(notes, "");
    const run = await client.submit(pay, { cents: 700, item: "book" });
    await inNode(async () => void (await waits(run.id)));
    const [charged] = (await run.steps()).filter(({ key }) => key === "charge#1");
    expect(charged?.inputDigest).toBe(veiled.digest(Buffer.from("700")));
    await inPython(async () => {
      await peer("signal", run.id);
      expect(await run.result({ timeout: { seconds: 60 } })).toEqual({
        receipt: "sesame-700",
        word: "sesame, open",
        packed: "book packed by python",
      });
    });
    expect(readFileSync(notes, "utf8")).toBe("charged by node: 700\n");
    expect(await stored(run.id)).not.toMatch(/sesame|book|packed by/);
  }, 180_000);

  it("a worker without the codec fails the attempt and says which one it needs", async () => {
    await using bare = new Client({ url: server.url, apiKey: server.apiKey });
    await inNode(async () => {
      const run = await client.submit(pack, "lamp", { maxAttempts: 1 });
      const failed = await run.result({ timeout: { seconds: 60 } }).then(
        () => undefined,
        (error: unknown) => error,
      );
      expect(failed).toBeInstanceOf(RunFailed);
      expect(failed).toMatchObject({ category: "CONFIGURATION" });
      expect(String(failed)).toContain("written by the codec `veiled`");
    }, bare);
  });
});
