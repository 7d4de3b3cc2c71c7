/**
 * A coordinator for tests: the program `tenure` on a free port, with a store in a temporary folder.
 *
 * It is the program itself, so what a test sees is what production does.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Client, type ClientOptions } from "../client.js";
import { Setup } from "../errors.js";

export interface TestServerOptions {
  /** The program; `TENURE_BINARY`, or `tenure` on the path when absent. */
  binary?: string;
}

/** A coordinator that lives until it is stopped. */
export class TestServer {
  readonly #clients: Client[] = [];

  constructor(
    readonly url: string,
    /** A key with all roles. */
    readonly apiKey: string,
    /** The environment of a program that talks to this coordinator. */
    readonly env: NodeJS.ProcessEnv,
    private readonly program: ChildProcess,
    private readonly folder: string,
  ) {}

  /** A client of this coordinator, which is closed with it. */
  client(options: Omit<ClientOptions, "url" | "apiKey"> = {}): Client {
    const client = new Client({ ...options, url: this.url, apiKey: this.apiKey });
    this.#clients.push(client);
    return client;
  }

  async stop(): Promise<void> {
    for (const client of this.#clients.splice(0)) client.close();
    const hasEnded = this.program.exitCode !== null || this.program.signalCode !== null;
    if (!hasEnded) {
      const ended = new Promise((resolve) => this.program.once("exit", resolve));
      this.program.kill("SIGTERM");
      await ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** Starts a coordinator. It is ready when this returns. */
export async function startServer(options: TestServerOptions = {}): Promise<TestServer> {
  const binary = options.binary ?? process.env["TENURE_BINARY"] ?? "tenure";
  const folder = mkdtempSync(join(tmpdir(), "tenure-test-"));
  const env = { ...process.env, HOME: folder, XDG_STATE_HOME: folder, XDG_CONFIG_HOME: folder };
  const args = ["dev", "--port", "0", "--store", `sqlite:${join(folder, "tenure.db")}`];
  const program = spawn(binary, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  // A test that fails before it stops its coordinator must not leave it behind.
  const kill = () => program.kill("SIGKILL");
  process.once("exit", kill);
  program.once("exit", () => process.off("exit", kill));
  try {
    const { url, apiKey } = await settingsOf(program, binary);
    return new TestServer(url, apiKey, { ...env, TENURE_URL: url, TENURE_API_KEY: apiKey }, program, folder);
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

/** What the program prints when it is ready. Its output is read to the end: a full pipe would stop it. */
function settingsOf(program: ChildProcess, binary: string): Promise<{ url: string; apiKey: string }> {
  return new Promise((resolve, reject) => {
    let said = "";
    const hear = (chunk: Buffer) => {
      said = `${said}${chunk.toString()}`.slice(-SAID_CHARS_MAX);
      const url = /TENURE_URL=(\S+)/.exec(said)?.[1];
      const apiKey = /TENURE_API_KEY=(\S+)\s/.exec(said)?.[1];
      if (url !== undefined && apiKey !== undefined) resolve({ url, apiKey });
    };
    program.stdout?.on("data", hear);
    program.stderr?.on("data", hear);
    program.once("error", (error) =>
      reject(new Setup(`the program \`${binary}\` does not start`, "set TENURE_BINARY to it", error)),
    );
    program.once("exit", (code) =>
      reject(
        new Setup(`\`${binary} dev\` ended with ${code}: ${said}`, "mend what it says, and start it again"),
      ),
    );
  });
}

/** Enough for what it says at its start, and for its last words. */
const SAID_CHARS_MAX = 16 * 1024;
