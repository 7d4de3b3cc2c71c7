/**
 * Work that is pushed: a function of a cloud, or a route of a service, is a worker for as long as a request lasts.
 *
 * `push({ tasks, secret, url })` takes a `Request` and gives a `Response`; `toNode` makes it a listener for Node's
 * `http` and Express, `toFastify` a plugin for Fastify. The report is the answer. Code that takes longer sends heartbeats with the token of its
 * task; a lost lease or a cancel aborts its signal. A durable function records its steps by calls, and an answer without
 * a report says that it waits.
 */
import { openSender } from "#transport";
import { Calls } from "./calls.js";
import {
  anything,
  callable,
  checkOptions,
  isObject,
  mustBe,
  type Shape,
  shown,
  text,
  texts,
  whole,
} from "./checks.js";
import { Client } from "./client.js";
import type { Ctx, StopReason } from "./context.js";
import { runAsCurrent } from "./current.js";
import { Refused, Setup } from "./errors.js";
import { Failure } from "./failure.js";
import { Flow } from "./flow.js";
import type { Called } from "./io/messages.js";
import { parse } from "./json.js";
import { usableMs } from "./lease.js";
import { type LogSink, logTo, standardSink } from "./log.js";
import { BUFFER_BYTES_MAX, LogBuffer, LogSwitch, textOf } from "./log-buffer.js";
import { type Amounts, added, checkedPct } from "./options.js";
import { checkTask, openedInput, readInput, type Task } from "./task.js";
import { PushVerifier, RecentIds, VerifyError } from "./webhooks.js";
import type { BudgetLeft, CheckpointAck, Envelope, HeartbeatAck } from "./wire.js";
import { Stopped } from "./worker/attempt.js";
import { drive, type Wires } from "./worker/driver.js";
import { durableReport, type ReportText, returned, threw } from "./worker/report.js";

export interface PushOptions {
  tasks: readonly Task<any, any>[];
  /** That of the endpoint: `whsec_…`; two while a new one is rolled out. `TENURE_PUSH_SECRET` when absent. */
  secret?: string | readonly string[];
  /** The URL of the endpoint, exactly as it was registered. */
  url: string;
  /**
   * The name of the endpoint. Calls about a pushed task name the worker that holds its lease, which is `push:NAME`, so
   * durable functions and code that needs heartbeats need it.
   */
  name?: string;
  /** How many tasks run at once in this process; more are answered with 503. */
  concurrency?: number;
  client?: Client;
  onLog?: LogSink;
}

export { toFastify, toNode } from "./push/adapters.js";

export type PushHandler = (request: Request) => Promise<Response>;

/** A process of a cloud serves few requests at once; more wait at the coordinator. */
const CONCURRENCY = 64;
/** How long the coordinator leaves a busy endpoint alone. */
const RETRY_AFTER_SECONDS = 1;
const CALL_TRIES = 4;

export function push(options: PushOptions): PushHandler {
  checkPush(options);
  const receiver = new Receiver(options);
  return (request) => receiver.receive(request);
}

const PUSH_OPTIONS: Shape<PushOptions> = {
  tasks: anything,
  secret: mustBe(
    "a text or an array of texts",
    (value) => typeof value === "string" || texts(value, "") === undefined,
  ),
  url: text,
  name: text,
  concurrency: whole,
  client: anything,
  onLog: callable,
};

function checkPush(options: unknown): void {
  const example = "write `push({ tasks: [greet], url })`";
  if (!isObject(options) || Array.isArray(options))
    throw new Setup(`push was given ${shown(options)}`, example);
  checkOptions("push", options, PUSH_OPTIONS);
  const { tasks, url } = options as Partial<PushOptions>;
  if (!Array.isArray(tasks) || tasks.length === 0)
    throw new Setup(`the tasks of push are ${shown(tasks)}`, example);
  for (const task of tasks) checkTask(task);
  if (url === undefined || url === "")
    throw new Setup("push has no url", "pass the URL of the endpoint, exactly as it was registered");
}

class Receiver {
  readonly #tasks: ReadonlyMap<string, Task>;
  #verifier: PushVerifier | undefined;
  readonly #recent = new RecentIds();
  readonly #running = new Map<string, Promise<Response>>();
  #client: Client | undefined;
  #takesLogs: LogSwitch | undefined;

  constructor(private readonly options: PushOptions) {
    this.#tasks = new Map(options.tasks.map((task) => [task.kind, task]));
    if (options.secret !== undefined) this.#verifier = new PushVerifier(options.secret, options.url);
    this.#client = options.client;
  }

  async receive(request: Request): Promise<Response> {
    const body = new Uint8Array(await request.arrayBuffer());
    // Frameworks load routes while they build, where no secret is set.
    this.#verifier ??= new PushVerifier(secretOfEnvironment(), this.options.url);
    let id: string;
    try {
      id = this.#verifier.checkPush(request.headers, body, new Date());
    } catch (error) {
      if (!(error instanceof VerifyError)) throw error;
      return json(401, { error: error.code, message: error.detail });
    }
    return this.#once(id, body);
  }

  /** A second copy of a push waits for the first, or is acknowledged if that has ended. */
  #once(id: string, body: Uint8Array): Promise<Response> {
    const running = this.#running.get(id);
    if (running !== undefined) return running.then((response) => response.clone());
    if (this.#running.size >= (this.options.concurrency ?? CONCURRENCY)) {
      return Promise.resolve(json(503, { error: "busy" }, { "retry-after": String(RETRY_AFTER_SECONDS) }));
    }
    if (!this.#recent.note(id)) return Promise.resolve(new Response(null, { status: 202 }));
    const response = this.#work(parse(new TextDecoder().decode(body)) as Envelope).finally(() =>
      this.#running.delete(id),
    );
    this.#running.set(id, response);
    return response.then((answer) => answer.clone());
  }

  async #work(envelope: Envelope): Promise<Response> {
    this.#client ??= new Client();
    // Lines are plain text, and with a codec the coordinator shall read none.
    this.#takesLogs ??= new LogSwitch(this.#client.codec === undefined);
    const ctx = new PushedAttempt(
      envelope,
      this.#client,
      this.options.onLog ?? standardSink(),
      this.options.name,
      this.#takesLogs,
    );
    if (this.options.name !== undefined) ctx.keepLease();
    try {
      const report = await this.#run(ctx);
      if (ctx.stopReason === "LeaseLost" || report === undefined) return new Response(null, { status: 202 });
      return new Response(ctx.withRest(report.text), {
        status: 200,
        headers: { "content-type": "application/json" },
      });
    } finally {
      ctx.over();
    }
  }

  async #run(ctx: PushedAttempt): Promise<ReportText | undefined> {
    try {
      const code = this.#tasks.get(ctx.kind)?.code;
      if (code === undefined) throw Failure.config(`this endpoint has no code for \`${ctx.kind}\``);
      if (code.type === "task" && code.isolate) {
        throw Failure.config(
          `\`${ctx.kind}\` is isolated, and a push has no child to run it in: let a worker poll for its queue`,
        );
      }
      const input = await readInput(code, openedInput(ctx.client.codec, ctx.envelope.input));
      if (code.type === "task")
        return returned(await runAsCurrent(ctx, () => code.run(input, ctx)), ctx.client.codec);
      if (this.options.name === undefined) {
        throw Failure.config(
          "a pushed durable function needs the name of its endpoint: pass `name` to `push()`",
        );
      }
      const flow = (core: ConstructorParameters<typeof Flow>[0]["core"], given: unknown) =>
        code.run(new Flow({ core, branch: "" }, ctx.log), given);
      return durableReport(await drive(ctx.envelope, input, flow, ctx.wires(), ctx.client.codec));
    } catch (thrown) {
      return threw(thrown, ctx.stopReason);
    }
  }
}

function secretOfEnvironment(): string {
  const secret = process.env["TENURE_PUSH_SECRET"];
  if (secret) return secret;
  throw new Setup("push has no secret", "pass `secret`, or set TENURE_PUSH_SECRET to that of the endpoint");
}

/** One pushed attempt: its context, and its calls back with the token of its task. */
class PushedAttempt implements Ctx {
  readonly log;
  readonly state = undefined;
  readonly #abort = new AbortController();
  readonly #calls: Calls;
  readonly #lines: LogBuffer;
  #token: string;
  #timer: NodeJS.Timeout | undefined;
  #validUntil: number;
  #stop: StopReason | undefined;
  #progress: { progressPct?: number; message?: string } = {};
  #spent: Required<Amounts> | undefined;
  #left: BudgetLeft | undefined;
  #interrupt: (end: { lost: string }) => void = () => {};
  #cancel: () => void = () => {};

  constructor(
    readonly envelope: Envelope,
    readonly client: Client,
    sink: LogSink,
    private readonly endpoint: string | undefined,
    private readonly takesLogs: LogSwitch,
  ) {
    const { runId, taskId, attempt, kind, callbackBaseUrl } = envelope;
    const lines = new LogBuffer(takesLogs);
    this.#lines = lines;
    const both: LogSink = (line) => {
      sink(line);
      if (line.level !== "debug") lines.add(line.level, textOf(line));
    };
    this.log = logTo(both, { runId, taskId, attempt, kind });
    const url = callbackBaseUrl.replace(/\/$/, "");
    const { caFile } = client.settings;
    this.#calls = new Calls(
      openSender({ urls: [url], caFile: url.startsWith("https:") ? caFile : undefined }),
      [url],
      "",
      CALL_TRIES,
    );
    this.#token = envelope.taskToken;
    this.#left = envelope.budgetLeft ?? undefined;
    // Counted from now, which is later than the grant by the time of the request: heartbeats prove it from then on.
    this.#validUntil = performance.now() + usableMs(envelope.heartbeatTimeoutMs);
  }

  get runId() {
    return this.envelope.runId;
  }
  get taskId() {
    return this.envelope.taskId;
  }
  get attempt() {
    return this.envelope.attempt;
  }
  get fence() {
    return this.envelope.fence;
  }
  get kind() {
    return this.envelope.kind;
  }
  get queue() {
    return this.envelope.queue;
  }
  get stage() {
    return this.envelope.stage ?? undefined;
  }
  get deadline() {
    return this.envelope.deadline ? new Date(this.envelope.deadline) : undefined;
  }
  get labels() {
    return this.envelope.labels ?? {};
  }
  get traceparent() {
    return this.envelope.traceparent ?? undefined;
  }
  get cancelled() {
    return this.stopReason !== undefined;
  }
  get signal() {
    return this.#abort.signal;
  }

  get stopReason(): StopReason | undefined {
    if (this.#stop === undefined && performance.now() >= this.#validUntil)
      this.#told("LeaseLost", "its time is over");
    return this.#stop;
  }

  progress(pct: number, message?: string): void {
    this.#progress = { progressPct: checkedPct(pct), ...(message === undefined ? {} : { message }) };
  }

  spend(amounts: Amounts): void {
    this.#spent = added(this.#spent, amounts);
  }

  left(): BudgetLeft | undefined {
    return this.#left;
  }

  /** The report with what the attempt used, and with the lines that no call has brought. */
  withRest(report: string): string {
    const spend = this.#spent === undefined ? "" : `,"spend":${JSON.stringify(this.#spent)}`;
    const lines = this.#lines.take(BUFFER_BYTES_MAX)?.lines;
    return `${report.slice(0, -1)}${spend}${lines === undefined ? "" : `,"log":${JSON.stringify(lines)}`}}`;
  }

  #told(reason: StopReason, why: string): void {
    if (this.#stop === "LeaseLost" || this.#stop === reason) return;
    this.#stop = reason;
    this.#abort.abort(new Stopped(reason, why));
    if (reason === "LeaseLost") this.#interrupt({ lost: why });
    else this.#cancel();
  }

  get #body() {
    return { attempt: this.envelope.attempt, workerId: `push:${this.endpoint}` };
  }

  /** Sends heartbeats for as long as the code runs. */
  keepLease(): void {
    this.#timer = setTimeout(() => void this.#heartbeat(), this.envelope.heartbeatIntervalMs);
  }

  async #heartbeat(): Promise<void> {
    const sentAt = performance.now();
    const spend = this.#spent === undefined ? {} : { spend: this.#spent };
    const members = JSON.stringify({ ...this.#body, ...this.#progress, ...spend });
    try {
      this.#renewed(await this.#post<HeartbeatAck>("heartbeat", members), sentAt);
    } catch (error) {
      if (error instanceof Refused && !error.retryable) this.#told("LeaseLost", error.code);
    }
    if (this.stopReason !== "LeaseLost" && this.#timer !== undefined) this.keepLease();
  }

  #renewed(
    answer: Pick<HeartbeatAck, "taskToken" | "shouldCancel" | "cancelReason" | "left">,
    sentAt: number,
  ): void {
    this.#validUntil = sentAt + usableMs(this.envelope.heartbeatTimeoutMs);
    if (answer.taskToken) this.#token = answer.taskToken;
    if (answer.left) this.#left = answer.left;
    if (answer.shouldCancel) this.#told("CancelRequested", answer.cancelReason ?? "the run was cancelled");
  }

  over(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#calls.close();
  }

  /** Makes a call that may carry lines: without them, if the coordinator does not know of them. */
  async #post<T>(call: string, members: string): Promise<T> {
    const path = `/v1/tasks/${this.taskId}/${call}`;
    const send = (body: string) => this.#calls.json<T>({ method: "POST", path, body, token: this.#token });
    const taken = this.#lines.take();
    if (taken === undefined) return send(members);
    try {
      const answer = await send(`${members.slice(0, -1)},"log":${JSON.stringify(taken.lines)}}`);
      this.#lines.arrived(taken.last);
      return answer;
    } catch (error) {
      if (
        !(
          error instanceof Refused &&
          this.takesLogs.isRefusedBy({ error: error.code, field: error.field ?? null })
        )
      )
        throw error;
      return send(members);
    }
  }

  wires(): Wires {
    return {
      call: (text) => this.#call(text),
      page: async (after) => {
        const path = `/v1/tasks/${this.taskId}/checkpoints?after=${after}`;
        return { page: (await this.#calls.decided({ method: "GET", path, token: this.#token })).body };
      },
      left: () => this.#left,
      interrupted: new Promise((resolve) => {
        this.#interrupt = resolve;
      }),
      cancelled: new Promise((resolve) => {
        this.#cancel = resolve;
      }),
      isCancelled: () => this.stopReason === "CancelRequested",
    };
  }

  async #call(text: string): Promise<Called> {
    const sentAt = performance.now();
    const rest = text === "{}" ? "}" : `,${text.slice(1)}`;
    const body = `${JSON.stringify(this.#body).slice(0, -1)}${rest}`;
    try {
      const answer = await this.#post<CheckpointAck>("checkpoints", body);
      if (answer.leaseExpiresAt) this.#renewed(answer, sentAt);
      return { committed: { ...answer, taskId: this.taskId, status: 200 }, serverTime: answer.serverTime };
    } catch (error) {
      if (!(error instanceof Refused)) return { unanswered: (error as Error).message };
      if (error.verdict === "CANCELLED") {
        this.#told("LeaseLost", error.code);
        return { lost: error.code };
      }
      return error.retryable
        ? { unanswered: error.message }
        : { refused: { code: error.code, message: error.detail } };
    }
  }
}

function json(status: number, body: object, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", ...headers },
  });
}
