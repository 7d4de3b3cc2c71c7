/** A server with a certificate of an own authority: `TENURE_CA_FILE` makes clients and workers trust it. */
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, task, Unreachable, Worker } from "@tenure/sdk";
import { afterAll, beforeAll, expect, it } from "vitest";
import { binary, end, firstMatch } from "./server.ts";

let folder: string;
let server: ReturnType<typeof spawn>;
let settings: { url: string; apiKey: string };

function openssl(...words: string[]): void {
  execFileSync("openssl", words, { cwd: folder, stdio: "pipe" });
}

/** An authority, and a certificate for this machine that it signed. */
function makeCertificates(): void {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  openssl("req", "-x509", ...key, "-subj", "/CN=Test authority", "-keyout", "ca.key", "-out", "ca.pem");
  openssl("req", ...key.slice(0, 5), "-subj", "/CN=127.0.0.1", "-keyout", "server.key", "-out", "server.csr");
  writeFileSync(join(folder, "names"), "subjectAltName=IP:127.0.0.1\n");
  const signer = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"];
  openssl("x509", "-req", "-in", "server.csr", ...signer, "-out", "server.pem");
  chmodSync(join(folder, "server.key"), 0o600);
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tenure-tls-"));
  makeCertificates();
  const at = (name: string) => join(folder, name);
  const certificate = ["--tls-cert", at("server.pem"), "--tls-key", at("server.key")];
  const words = [
    "serve",
    "--json",
    "--listen",
    "127.0.0.1:0",
    "--store",
    `sqlite:${at("t.db")}`,
    ...certificate,
  ];
  server = spawn(binary(), words, {
    env: { ...process.env, HOME: folder, XDG_STATE_HOME: folder, XDG_CONFIG_HOME: folder },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const text = await firstMatch(server, /"url":"[^"]+"[\s\S]*\n/);
  settings = { url: /"url":"([^"]+)"/.exec(text)?.[1] ?? "", apiKey: /"(tnr_[^"]+)"/.exec(text)?.[1] ?? "" };
});

afterAll(async () => {
  await end(server, "SIGTERM");
  rmSync(folder, { recursive: true, force: true });
});

it("work is done over TLS with the authority's file, by the client and the thread of the worker", async () => {
  expect(settings.url).toMatch(/^https:\/\/127\.0\.0\.1:/);
  process.env["TENURE_CA_FILE"] = join(folder, "ca.pem");
  await using client = new Client(settings);
  delete process.env["TENURE_CA_FILE"];
  const double = task("double", { queue: "tls" }, async (n: number) => 2 * n);
  const stop = new AbortController();
  const ended = new Worker({ tasks: [double], client, onLog: () => {} }).run({ signal: stop.signal });
  try {
    expect(await client.submit(double, 21).result({ timeout: { seconds: 60 } })).toBe(42);
  } finally {
    stop.abort();
    await ended;
  }
});

it("a client that does not trust the authority is told what is wrong", async () => {
  await using client = new Client({ ...settings, retries: 0 });
  const refused = await client.version().catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(Unreachable);
  expect(String(refused)).toMatch(/certificate/i);
});
