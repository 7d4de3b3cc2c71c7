/**
 * A client of a coordinator: submits runs, finds them, and manages everything that has a name.
 *
 * Settings come from `TENURE_URL`, `TENURE_API_KEY` and `TENURE_CA_FILE` unless they are given. A client keeps
 * connections; close it with `close()` or `await using`.
 */
import { openSender } from "#transport";
import { Calls } from "./calls.js";
import { anything, checkOptions, date, isObject, type Shape, shown, text, whole } from "./checks.js";
import { type Codec, sealed, sealedParts } from "./codec.js";
import { Artifacts, Deployments } from "./deployments.js";
import { Refused, Setup } from "./errors.js";
import { write } from "./json.js";
import type { RunOptions } from "./options.js";
import { orSetup, sendable } from "./payload.js";
import {
  Approvals,
  Audit,
  Budgets,
  Effects,
  Endpoints,
  FlowKeys,
  Keys,
  Kinds,
  Limits,
  Queues,
  Recovery,
  Schedules,
  SetAside,
  Workers,
} from "./resources.js";
import { queryOf } from "./routes.js";
import { type Connection, RunHandle, type WaitOptions } from "./run-handle.js";
import { resolveSettings, type Settings, type SettingsOptions } from "./settings.js";
import { Submissions } from "./submissions.js";
import { type Arguments, type NewRun, type Plan, submissionOf, type Task } from "./task.js";
import { Waits } from "./waits.js";
import type {
  ConsoleCode,
  ErrorCategory,
  Ready,
  Run,
  RunAccepted,
  RunList,
  Session,
  State,
  SubmitResult,
  SubmitRun,
  Version,
} from "./wire.js";

/** Some two seconds of retries: a restart behind a load balancer, and no longer than a caller is willing to wait. */
const RETRIES = 4;

export interface ClientOptions extends SettingsOptions {
  /** How often a call is repeated that got no decision. */
  retries?: number;
  /** Encodes inputs, outputs, results and signals, so that the coordinator cannot read them. */
  codec?: Codec;
}

const CLIENT_OPTIONS: Shape<ClientOptions> = {
  url: text,
  apiKey: text,
  caFile: text,
  retries: whole,
  codec: anything,
};
const CLIENT_HINTS = {
  token: "pass `apiKey`",
  key: "pass `apiKey`",
  baseUrl: "pass `url`",
  urls: "pass `url`, with commas between addresses",
};

const RUN_FILTERS: Shape<RunFilters> = {
  state: text,
  queue: text,
  kind: text,
  label: text,
  since: date,
  until: date,
  worker: text,
  category: text,
  include: text,
};

export interface RunFilters {
  state?: State;
  queue?: string;
  kind?: string;
  /** `name=value`, or a name alone. */
  label?: string;
  since?: Date;
  until?: Date;
  worker?: string;
  category?: ErrorCategory;
  include?: string;
}

/** A run that was sent: a promise of its handle, which also has its result. */
export interface Submission<O> extends Promise<RunHandle<O>> {
  result(options?: WaitOptions): Promise<O>;
}

/** What became of one run of `submitMany`. */
export type Submitted<O> =
  | { handle: RunHandle<O>; error?: undefined }
  | { handle?: undefined; error: Refused };

export class Client {
  readonly schedules: Schedules;
  readonly endpoints: Endpoints;
  readonly effects: Effects;
  readonly approvals: Approvals;
  readonly deployments: Deployments;
  readonly artifacts: Artifacts;
  readonly recovery: Recovery;
  readonly budgets: Budgets;
  readonly keys: Keys;
  readonly queues: Queues;
  readonly workers: Workers;
  readonly kinds: Kinds;
  readonly limits: Limits;
  readonly flowKeys: FlowKeys;
  readonly setAside: SetAside;
  readonly audit: Audit;
  /** For the worker, which opens connections of its own. */
  readonly settings: Settings;
  /** For the worker, which reads and writes the same payloads. */
  readonly codec: Codec | undefined;
  readonly #calls: Calls;
  readonly #connection: Connection;
  readonly #submissions: Submissions;

  constructor(options: ClientOptions = {}) {
    checkOptions("a client", options, CLIENT_OPTIONS, CLIENT_HINTS);
    this.settings = resolveSettings(options);
    const { urls, apiKey } = this.settings;
    const calls = new Calls(openSender(this.settings), urls, apiKey, options.retries ?? RETRIES);
    this.codec = options.codec;
    this.#calls = calls;
    this.#connection = { calls, waits: new Waits(calls), codec: options.codec };
    this.#submissions = new Submissions(calls);
    this.schedules = new Schedules(calls, options.codec);
    this.endpoints = new Endpoints(calls);
    this.effects = new Effects(calls);
    this.approvals = new Approvals(calls);
    this.deployments = new Deployments(calls);
    this.artifacts = new Artifacts(calls);
    this.recovery = new Recovery(calls);
    this.budgets = new Budgets(calls);
    this.keys = new Keys(calls);
    this.queues = new Queues(calls);
    this.workers = new Workers(calls);
    this.kinds = new Kinds(calls);
    this.limits = new Limits(calls);
    this.flowKeys = new FlowKeys(calls);
    this.setAside = new SetAside(calls);
    this.audit = new Audit(calls);
  }

  /** Submits a run at once. Await it for the handle, or ask it for the result. */
  submit<I, O>(task: Task<I, O>, ...args: Arguments<I>): Submission<O>;
  submit(kind: string, input?: unknown, options?: RunOptions): Submission<unknown>;
  submit(task: Task | string, input?: unknown, options?: RunOptions): Submission<unknown> {
    return this.#sent(() => checked(submissionOf(task, input, options), this.codec));
  }

  /** Submits a plan. */
  submitPlan(plan: Plan, options: Omit<RunOptions, "queue"> = {}): Submission<unknown> {
    return this.#sent(() => {
      if (!isObject(plan) || !Array.isArray(plan.plan?.steps))
        throw new Setup(`${shown(plan)} is no plan`, "pass what `plan([planStep(…)])` returned");
      const { kind: _, queue: __, input: ___, ...run } = submissionOf("plan", undefined, options);
      return checked({ ...run, plan: plan.plan }, this.codec);
    });
  }

  #sent(run: () => SubmitRun): Submission<unknown> {
    const accepted = (async () => this.#submissions.submit(run()))();
    const handle = accepted.then(({ runId, replayed }: RunAccepted) =>
      this.#handle(runId, replayed === true),
    );
    // A caller that only asks for the result handles the failure there.
    handle.catch(() => {});
    return Object.assign(handle, { result: async (options?: WaitOptions) => (await handle).result(options) });
  }

  /** Submits many runs in as few calls as possible: one handle or refusal for each, in their order. */
  async submitMany<const R extends readonly NewRun<any>[]>(
    runs: R,
  ): Promise<{ -readonly [K in keyof R]: Submitted<R[K] extends NewRun<infer O> ? O : unknown> }> {
    checkRuns(runs);
    const results = await this.#submissions.submitAll(
      runs.map(({ run }, place) => checked(run, this.codec, ` (run ${place} of submitMany)`)),
    );
    return results.map((result) => this.#submitted(result)) as never;
  }

  #handle(id: string, replayed = false): RunHandle<unknown> {
    return new RunHandle(this.#connection, id, replayed);
  }

  #submitted(result: SubmitResult): Submitted<unknown> {
    if (result.runId) return { handle: this.#handle(result.runId, result.replayed === true) };
    const { error = "internal", message = "", field } = result;
    // The result of one run in a batch has no status: 400 is what such refusals have alone.
    return {
      error: new Refused({
        error: error ?? "internal",
        message: message ?? "",
        field: field ?? null,
        status: 400,
      }),
    };
  }

  /** The handle of a run by its id. Nothing is sent. */
  run<O = unknown>(id: string): RunHandle<O> {
    return this.#handle(id) as RunHandle<O>;
  }

  /** Runs, the newest first. Pages are read as they are needed. */
  async *runs(filters: RunFilters = {}): AsyncGenerator<Run> {
    checkOptions("`runs`", filters, RUN_FILTERS, {
      status: "pass `state`",
      labels: "pass `label`: `name=value`",
    });
    const { since, until, ...rest } = filters;
    let cursor: string | null | undefined;
    do {
      const query = queryOf({ ...rest, since: since?.toISOString(), until: until?.toISOString(), cursor });
      const page: RunList = await this.#calls.json({ method: "GET", path: `/v1/runs${query}` });
      yield* page.runs;
      cursor = page.nextCursor;
    } while (cursor);
  }

  version(): Promise<Version> {
    return this.#calls.json({ method: "GET", path: "/version" });
  }

  /** Whose key this is, and what it may do. */
  session(): Promise<Session> {
    return this.#calls.json({ method: "GET", path: "/v1/session" });
  }

  /** A one-time code, with which a browser logs in to the console as this key. An unused one ends by itself. */
  consoleCode(): Promise<ConsoleCode> {
    return this.#calls.json({ method: "POST", path: "/v1/console-codes", body: "{}" });
  }

  ready(): Promise<Ready> {
    return this.#calls.json({ method: "GET", path: "/readyz" });
  }

  close(): void {
    this.#calls.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }
}

function checkRuns(runs: unknown): void {
  const isRun = (run: unknown) => isObject(run) && "run" in run;
  if (Array.isArray(runs) && runs.every(isRun)) return;
  const what = Array.isArray(runs) ? `an array with ${shown(runs.find((run) => !isRun(run)))}` : shown(runs);
  throw new Setup(`submitMany was given ${what}`, 'pass an array of what `newRun(greet, "Ada")` returns');
}

/** A plan with the inputs of its steps in stored form. */
function sealedPlan(plan: Plan["plan"], codec: Codec | undefined): Plan["plan"] {
  const steps = plan.steps.map((step) => {
    orSetup(`step \`${step.key}\``, () => write({ ...step, input: undefined }));
    if (step.input === undefined) return step;
    const what = `the input of step \`${step.key}\``;
    const input = sendable(what, step.input);
    return { ...step, input: orSetup(what, () => sealedParts(codec, input)) as never };
  });
  return { ...plan, steps };
}

/** The submission as the coordinator will read it. `among` says which of many it is. */
function checked(run: SubmitRun, codec: Codec | undefined, among = ""): SubmitRun {
  if (run.plan) return { ...run, plan: sealedPlan(run.plan, codec) };
  if (!("input" in run)) return run;
  const what = `the input of \`${run.kind}\`${among}`;
  const input = sendable(what, run.input);
  return { ...run, input: orSetup(what, () => sealed(codec, input)) as SubmitRun["input"] };
}
