// A real server of its own for each test: a temporary store, a free port, a key; killed, restarted and removed by the test.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The binary under test: the console has to work with what was built. */
export function binary(): string {
  const path = process.env["TENURE_BIN"];
  if (!path) throw new Error("TENURE_BIN must name a tenure binary");
  return path;
}

/**
 * Ports that systems do not hand out by themselves. A server that was killed finds its own free again: no connection of another
 * program can have taken it meanwhile.
 */
const PORT_MIN = 20_000;
const PORTS = 10_000;

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  const isBound = await new Promise<boolean>((resolve) => {
    server.once("listening", () => resolve(true));
    server.once("error", () => resolve(false));
  });
  if (isBound) await new Promise((resolve) => server.close(resolve));
  return isBound;
}

async function freePort(): Promise<number> {
  for (;;) {
    const port = PORT_MIN + Math.floor(Math.random() * PORTS);
    if (await isFree(port)) return port;
  }
}

export class Server {
  private child: ChildProcess | undefined;
  key = "";
  private constructor(
    readonly folder: string,
    readonly port: number,
  ) {}

  static async start(): Promise<Server> {
    const server = new Server(mkdtempSync(join(tmpdir(), "tenure-console-")), await freePort());
    await server.up();
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get environment(): NodeJS.ProcessEnv {
    return {
      ...process.env,
      HOME: this.folder,
      XDG_CONFIG_HOME: join(this.folder, "config"),
      XDG_STATE_HOME: join(this.folder, "state"),
    };
  }

  async up(): Promise<void> {
    const child = spawn(
      binary(),
      ["dev", "--port", String(this.port), "--store", `sqlite:${join(this.folder, "tenure.db")}`],
      {
        env: this.environment,
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    this.child = child;
    // The pipe stays open: a server that cannot print any more ends.
    this.key = await new Promise<string>((resolve, reject) => {
      let said = "";
      child.stdout!.on("data", (chunk) => {
        said += chunk;
        const key = said.match(/TENURE_API_KEY=(\S+)\n/)?.[1];
        if (key) resolve(key);
      });
      child.on("exit", () => reject(new Error(`the server ended: ${said}`)));
    });
  }

  /** As if the machine had lost power. */
  async kill(): Promise<void> {
    const child = this.child;
    this.child = undefined;
    if (!child || child.exitCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** A process of the command line. The caller stops it. */
  run(...words: string[]): ChildProcess {
    return spawn(binary(), words, {
      env: { ...this.environment, TENURE_URL: this.url, TENURE_API_KEY: this.key },
      stdio: "ignore",
    });
  }

  /** Puts a topology of the repository in force. */
  async apply(topology: string): Promise<void> {
    const file = new URL(`../../../topologies/${topology}.yaml`, import.meta.url).pathname;
    const [code] = await once(this.run("topology", "apply", file), "exit");
    if (code !== 0) throw new Error(`${topology} was not put in force`);
  }

  async call<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    key = this.key,
  ): Promise<T> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text) as T;
  }

  async submit(kind: string, queue: string, more: Record<string, unknown> = {}): Promise<string> {
    const made = await this.call<{ runId: string }>("POST", "/v1/runs", { kind, queue, input: {}, ...more });
    return made.runId;
  }

  async keyOf(roles: string, name: string): Promise<string> {
    const made = await this.call<{ secret?: string; key?: string }>("POST", "/v1/keys", {
      roles: roles.split(","),
      name,
    });
    const secret = JSON.stringify(made).match(/tnr_[0-9a-z_]+/i)?.[0];
    if (!secret) throw new Error("no secret came with the key");
    return secret;
  }
}

export interface Task {
  taskId: string;
  runId: string;
  attempt: number;
  taskToken: string;
  kind: string;
}

/** A worker that does what a test says, over HTTP. */
export class Worker {
  constructor(
    private readonly server: Server,
    readonly name: string,
  ) {}

  async lease(queue: string): Promise<Task> {
    const until = Date.now() + 60_000;
    while (Date.now() < until) {
      const answer = await this.server.call<{ leases?: Task[]; tasks?: Task[] }>("POST", "/v1/leases", {
        workerId: this.name,
        queues: [queue],
        max: 1,
        waitMs: 5000,
      });
      const task = Object.values(answer).find(
        (value): value is Task[] => Array.isArray(value) && value.length > 0,
      )?.[0];
      if (task) return task;
    }
    throw new Error(`no task came from ${queue}`);
  }

  async tell(task: Task, what: string, body: Record<string, unknown> = {}): Promise<Response> {
    return fetch(`${this.server.url}/v1/tasks/${task.taskId}/${what}`, {
      method: "POST",
      headers: { authorization: `Bearer ${task.taskToken}`, "content-type": "application/json" },
      body: JSON.stringify({ attempt: task.attempt, workerId: this.name, ...body }),
    });
  }

  async must(task: Task, what: string, body: Record<string, unknown> = {}): Promise<void> {
    const response = await this.tell(task, what, body);
    if (!response.ok) throw new Error(`${what}: ${response.status} ${await response.text()}`);
  }
}
