/** The waits of a flow, one class for each: sleeps, signals, approvals, deliveries, calls. */
import type { Awaited, Checkpoint, ChildRecord } from "../engine/command.js";
import type { Core } from "../engine/core.js";
import { Place } from "../engine/stop.js";
import { CallFailed, StepFailed } from "../errors.js";
import { Failure, type FailureRecord, namedFailure } from "../failure.js";
import { canonical, digest, plain, throughJson, Unreadable, Unwritable } from "../json.js";
import { SchemaRefused, type StandardSchemaV1, validateNow } from "../schema.js";
import { milliseconds, type Span } from "../span.js";
import type { ApprovalDecision, ApprovalOutcome, SubmitRun } from "../wire.js";
import { Begun, Operation, type Scope } from "./operation.js";
import { type Effect, effectRecord, StepCall } from "./step.js";
import { type Entered, Wait, Within } from "./waits.js";

/** What people are shown of a question: more than a person reads. */
const CONTENT_BYTES_MAX = 64 * 1024;

type Enter = Parameters<Wait<unknown>["enter"]>[2];

export class SleepCall extends Wait<void> {
  readonly label: string;
  protected readonly ownName: string | undefined;
  protected readonly countsTime = true;
  protected override readonly mode = "all";
  readonly #spanMs: number;

  constructor(scope: Scope, at: Place, name: string | undefined, span: Span) {
    super(scope, at);
    this.ownName = name;
    this.label = name === undefined ? "sleep" : `sleep:${name}`;
    this.#spanMs = milliseconds(span);
  }

  enter(_core: Core, _branch: string, enter: Enter): Entered {
    const { key } = enter(this.label, undefined);
    return { key, items: (now) => [{ key, until: now + this.#spanMs }] };
  }

  read(): void {}
}

export class SignalCall<T> extends Wait<T> {
  readonly label: string;
  protected readonly ownName: string;
  protected readonly countsTime = false;

  constructor(
    scope: Scope,
    at: Place,
    name: string,
    private readonly schema: StandardSchemaV1<unknown, T> | undefined,
  ) {
    super(scope, at);
    this.ownName = name;
    this.label = `signal:${name}`;
  }

  /** Waits no longer than this; undefined when no signal has come by then. */
  within(span: Span): Within<T> {
    return new Within(this.scope, new Place(this.within), this, span);
  }

  enter(_core: Core, _branch: string, enter: Enter): Entered {
    const { key } = enter(this.label, undefined);
    return { key, items: () => [{ key, signal: this.ownName }] };
  }

  read(first: Checkpoint, key: string): T {
    // Recorded code may have had a limit. Then no signal is what was recorded.
    if (first.key !== key) throw Failure.timeout("no signal came in time");
    return readValue(this.scope.core.opened(first.result), this.schema, `the payload of signal \`${key}\``);
  }
}

/** The word of one person. */
export interface Vote {
  /** The id of the API key under which it came. */
  key: string;
  decision: ApprovalDecision;
  at: Date;
  comment: string | undefined;
}

export interface Approval {
  approved: boolean;
  outcome: ApprovalOutcome;
  /** In the order in which they came. Empty if time decided. */
  votes: Vote[];
  /** The first comment, of the rejection if there is one. */
  reason: string | undefined;
}

export interface ApprovalOptions {
  /** For people: what it is about. */
  subject?: string;
  /** How many must approve. One rejection rejects. */
  quorum?: number;
  roles?: string[];
  keys?: string[];
  /** How long people may take; then `default` counts, or the outcome is EXPIRED. */
  within?: Span;
  default?: ApprovalDecision;
  /** What exactly is approved: people decide about its digest, and a replay that asks about another value stops. */
  about?: unknown;
  /** The same for what has no JSON form: the SHA-256 of a file, a commit. */
  aboutDigest?: string;
  /** The same as `about`, and shown to those who decide, up to 64 KiB; not under a codec, which hides it from the coordinator. */
  content?: unknown;
}

interface ToldApproval {
  outcome: ApprovalOutcome;
  digest?: string | null;
  votes?: Array<{ key: string; decision: ApprovalDecision; atMs: number; comment?: string | null }>;
}

export class ApprovalCall extends Wait<Approval> {
  readonly label: string;
  protected readonly ownName: string;
  protected readonly countsTime = true;

  constructor(
    scope: Scope,
    at: Place,
    name: string,
    private readonly options: ApprovalOptions,
  ) {
    super(scope, at);
    this.ownName = name;
    this.label = `approval:${name}`;
  }

  enter(_core: Core, _branch: string, enter: Enter): Entered {
    const about = this.#digest();
    const { key } = enter(this.label, about);
    return { key, items: (now) => [{ key, approval: this.#terms(about, now) }] };
  }

  #digest(): string | undefined {
    const { about, aboutDigest, content } = this.options;
    if (aboutDigest !== undefined) return aboutDigest;
    const value = about ?? content;
    return value === undefined
      ? undefined
      : orUnwritable(
          () => this.scope.core.digest(throughJson(value)),
          `what approval \`${this.ownName}\` is about`,
        );
  }

  #terms(about: string | undefined, now: number): NonNullable<Awaited["approval"]> {
    const { subject, quorum, roles, keys, within, default: otherwise } = this.options;
    return {
      ...(roles && roles.length > 0 ? { roles } : {}),
      ...(keys && keys.length > 0 ? { keys } : {}),
      ...(quorum === undefined ? {} : { quorum }),
      ...(within === undefined ? {} : { expiresAt: now + milliseconds(within) }),
      ...(otherwise === undefined ? {} : { default: otherwise }),
      ...(subject === undefined ? {} : { subject }),
      ...(about === undefined ? {} : { digest: about }),
      ...this.#shown(),
    };
  }

  #shown(): Pick<NonNullable<Awaited["approval"]>, "content"> {
    const { about, aboutDigest, content } = this.options;
    const isAsked = content !== undefined && about === undefined && aboutDigest === undefined;
    if (!isAsked || this.scope.core.isSealed) return {};
    const value = throughJson(content);
    const bytes = new TextEncoder().encode(canonical(value)).length;
    return bytes <= CONTENT_BYTES_MAX ? { content: value } : {};
  }

  read(first: Checkpoint): Approval {
    const { outcome, votes = [] } = first.result as ToldApproval;
    const told = votes.map(({ key, decision, atMs, comment }) => ({
      key,
      decision,
      at: new Date(atMs),
      comment: comment ?? undefined,
    }));
    const rejection = told.find((vote) => vote.decision === "REJECTED");
    const reason = [rejection, ...told].find((vote) => vote?.comment !== undefined)?.comment;
    return { approved: outcome === "APPROVED", outcome, votes: told, reason };
  }
}

/** What became of an effect. */
export interface Delivery {
  delivered: boolean;
  outcome: "DELIVERED" | "FAILED" | "UNKNOWN";
  /** What the receiver sees as `webhook-id`. */
  effectId: string;
  at: Date;
  /** Why it was given up: `tries_exhausted`, `gone`, `endpoint_deleted`. */
  reason: string | undefined;
}

/** An effect that is recorded as a step of its name. Awaited as it is, it does not wait for the delivery. */
export class EffectCall extends Operation<void> {
  readonly label: string;
  readonly effect: Effect;

  constructor(
    scope: Scope,
    at: Place,
    readonly name: string,
    effect: Effect,
  ) {
    super(scope, at);
    this.label = name;
    this.effect = effect;
  }

  run(scope: Scope): Promise<void> {
    return this.step(scope).run(scope);
  }

  /** The step that records it. Its input is the effect, so another effect is a divergence. */
  step(scope: Scope): StepCall<void> {
    const { effect } = this;
    const input = orUnwritable(
      () => effectRecord(effect),
      `the body of effect \`${effect.type}\``,
      "EFFECT_UNWRITABLE",
    );
    const step = new StepCall<void>(scope, this.name, (step) => step.effect(effect), { input }, this.at);
    step.taken();
    return step;
  }

  /** Waits without a worker until the effect is delivered or given up, or it cannot be known. */
  delivered(): DeliveryCall {
    return new DeliveryCall(this.scope, new Place(this.delivered), this);
  }
}

export class DeliveryCall extends Wait<Delivery> {
  readonly label: string;
  protected readonly ownName: string;
  protected readonly countsTime = false;
  #step: string | undefined;

  constructor(
    scope: Scope,
    at: Place,
    private readonly call: EffectCall,
  ) {
    super(scope, at);
    call.taken();
    this.ownName = call.name;
    this.label = `delivery:${call.name}`;
  }

  /** Waits no longer than this; undefined if the effect is still on its way then. It is delivered all the same. */
  within(span: Span): Within<Delivery> {
    return new Within(this.scope, new Place(this.within), this, span);
  }

  override async prepare(scope: Scope): Promise<void> {
    const step = this.call.step(scope);
    await step.run(scope);
    this.#step = step.key;
  }

  enter(_core: Core, _branch: string, enter: Enter): Entered {
    const { key } = enter(this.label, undefined);
    const effect = { step: this.#step ?? "", key: this.call.effect.key ?? this.call.effect.type };
    return { key, items: () => [{ key, effect }] };
  }

  read(first: Checkpoint, key: string): Delivery {
    if (first.key !== key) throw Failure.timeout("the effect was not delivered in time");
    const told = first.result as {
      outcome: Delivery["outcome"];
      effectId: string;
      atMs: number;
      reason?: string | null;
    };
    const { outcome, effectId, atMs, reason } = told;
    return {
      delivered: outcome === "DELIVERED",
      outcome,
      effectId,
      at: new Date(atMs),
      reason: reason ?? undefined,
    };
  }
}

/** A child run that starts when it is awaited. */
export class ChildCall<T> extends Wait<T> {
  protected readonly countsTime = false;
  protected override readonly mode = "all";
  #name: string;

  constructor(
    scope: Scope,
    at: Place,
    private readonly submission: () => SubmitRun,
    name: string,
  ) {
    super(scope, at);
    this.#name = name;
  }

  get label(): string {
    return `child:${this.#name}`;
  }

  protected get ownName(): string {
    return this.#name;
  }

  /** Another name in the record than that of the kind. */
  named(name: string): this {
    this.#name = name;
    return this;
  }

  within(span: Span): Within<T> {
    return new Within(this.scope, new Place(this.within), this, span);
  }

  /** Starts a run that outlives this one. It is recorded before the next step of this branch starts. */
  detach(): DetachedCall {
    return new DetachedCall(this.scope, new Place(this.detach), this);
  }

  enter(core: Core, branch: string, enter: Enter): Entered {
    const { key } = this.start(core, branch, enter, false);
    return { key, items: () => [{ key, child: key }] };
  }

  /** Enters the child with the next key of its name, and has it started if it is new. */
  start(core: Core, branch: string, enter: Enter, detached: boolean): { key: string } {
    const { input, ...rest } = this.submission();
    const inputDigest = digest([rest.kind, rest.queue, core.digest(input ?? null)]);
    const sealed = orUnwritable(
      () => core.sealed(input) as SubmitRun["input"],
      "the input of a call, encoded",
    );
    const run: SubmitRun = { ...rest, ...(sealed === undefined ? {} : { input: sealed }) };
    const { key, isRecorded } = enter(this.label, inputDigest);
    const child: ChildRecord = { key, inputDigest, ...(detached ? { detached: true } : {}), run };
    if (!isRecorded) core.startChild(branch, child);
    return { key };
  }

  read(first: Checkpoint, key: string): T {
    if (first.key !== key) throw Failure.timeout("the call did not end in time");
    return readEnd(this.scope.core, first) as T;
  }
}

export class DetachedCall extends Operation<void> {
  readonly label: string;
  constructor(
    scope: Scope,
    at: Place,
    private readonly call: ChildCall<unknown>,
  ) {
    super(scope, at);
    call.taken();
    this.label = call.label;
  }

  async run(scope: Scope): Promise<void> {
    this.call.checkNamed();
    const begun = new Begun(scope, this.label, this.at);
    this.call.start(scope.core, scope.branch, (label, inputDigest) => begun.enter(inputDigest, label), true);
    begun.end();
  }
}

/** What a child returned. Its failure is a value that code may catch. */
export function readEnd(core: Core, end: Checkpoint): unknown {
  if (end.outcome === "SUCCEEDED")
    return readValue(core.opened(end.result), undefined, `the result of \`${end.key}\``);
  throw new CallFailed(end.key, end.error ?? namedFailure("NO_ERROR", "it ended without an error"));
}

function readValue<T>(value: unknown, schema: StandardSchemaV1<unknown, T> | undefined, what: string): T {
  try {
    const read = plain(value ?? null);
    return schema === undefined ? (read as T) : validateNow(schema, read);
  } catch (error) {
    if (error instanceof Unreadable || error instanceof SchemaRefused) {
      throw Failure.data(`${what} cannot be read at ${error.path}: ${error.why}`);
    }
    throw error;
  }
}

/** The value, or a failure that names what has no JSON form. */
export function orUnwritable<T>(make: () => T, what: string, reason = "INPUT_UNWRITABLE"): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof Unwritable)) throw error;
    const failure: FailureRecord = namedFailure(reason, `${what}: ${error.message}`);
    throw new StepFailed(what, failure);
  }
}
