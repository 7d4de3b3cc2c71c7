/**
 * Drives one attempt of a durable function: asks the engine, carries out its commands, brings the answers back.
 *
 * The engine decides what the function does next, and the coordinator what is true. Nothing is remembered here: after
 * a crash, the next attempt starts from what the coordinator has recorded.
 *
 * - A call is repeated until something was decided about it, within a bound. If nothing was, the attempt fails with
 *   `checkpoint_save_failed`, and no later step has started (S2-92).
 * - A lost lease leaves the function at once. What it was doing is not reported.
 * - A cancelled run starts no further step. One that runs may end within half of the grace period, and is recorded.
 */
import type { Codec } from "../codec.js";
import type {
  Checkpoint,
  Command,
  EngineAnswer,
  EngineCall,
  EngineReport,
  Start,
} from "../engine/command.js";
import { seedOf } from "../engine/draw.js";
import { type Body, Run } from "../engine/run.js";
import type { Stop } from "../engine/stop.js";
import { Failure } from "../failure.js";
import type { Called } from "../io/messages.js";
import { parse } from "../json.js";
import type { BudgetLeft, Checkpoints, Envelope, Checkpoint as WireCheckpoint } from "../wire.js";
import { callTexts, checkpoints, diverged, engineAnswer, ridingTexts } from "./translate.js";

/** How an attempt of a durable function ended. */
export type DurableEnd =
  /** The function returned; `riding` has what is yet to be recorded, as members of the report. */
  | { returned: EngineReport; riding: string; bug?: unknown }
  /** The attempt failed before the function returned. */
  | { failed: Failure }
  /** The task goes back to its queue. */
  | { handBack: string }
  | "cancelled"
  /** A call ended the attempt: there is nothing to report. */
  | { closed: "suspended" | "halted" | { diverged: string } }
  | { lost: string };

/** What the driver needs of the worker. */
export interface Wires {
  call(text: string): Promise<Called>;
  page(after: number): Promise<{ page: Uint8Array } | { lost: string } | { failed: string }>;
  left(): BudgetLeft | undefined;
  /** Settles when the lease is lost, or the worker shuts down. */
  readonly interrupted: Promise<{ lost: string } | { handBack: string }>;
  /** Settles when the run was cancelled. */
  readonly cancelled: Promise<void>;
  isCancelled(): boolean;
}

/** A reason to stop that comes from outside the engine. */
class Ended extends Error {
  constructor(readonly end: DurableEnd) {
    super("the attempt has ended");
  }
}

export async function drive(
  envelope: Envelope,
  input: unknown,
  body: Body,
  wires: Wires,
  codec?: Codec,
): Promise<DurableEnd> {
  try {
    const start = await startOf(envelope, input, wires);
    return await new Driver(new Run(start, body, codec), envelope, wires).carryOut();
  } catch (error) {
    if (error instanceof Ended) return error.end;
    throw error;
  }
}

/** What the attempt begins with. Checkpoints that the envelope has no room for are read in pages. */
async function startOf(envelope: Envelope, input: unknown, wires: Wires): Promise<Start> {
  const recorded = [...(envelope.checkpoints ?? [])];
  if (typeof envelope.checkpointsAfter === "number")
    recorded.push(...(await pagesAfter(envelope.checkpointsAfter, wires)));
  return {
    taskId: envelope.taskId,
    origin: envelope.origin ?? undefined,
    fence: envelope.fence,
    seed: typeof envelope.seed === "number" ? String(envelope.seed) : seedOf(envelope.taskId),
    createdAt: Date.parse(envelope.enqueuedAt),
    input,
    checkpoints: checkpoints(recorded),
  };
}

async function pagesAfter(first: number, wires: Wires): Promise<WireCheckpoint[]> {
  const recorded: WireCheckpoint[] = [];
  let after: number | null | undefined = first;
  while (typeof after === "number") {
    const answer = await wires.page(after);
    if ("lost" in answer) throw new Ended({ lost: answer.lost });
    // Another worker may be able to read them.
    if ("failed" in answer) throw new Ended({ handBack: `cannot read what is recorded: ${answer.failed}` });
    const page = parse(new TextDecoder().decode(answer.page)) as Checkpoints;
    recorded.push(...page.checkpoints);
    after = page.nextAfter;
  }
  return recorded;
}

class Driver {
  readonly #timers = new Map<string, NodeJS.Timeout>();
  /** What has happened since the engine was asked last. */
  #events: Array<() => void> = [];
  #wake: (() => void) | undefined;
  #over: DurableEnd | undefined;

  constructor(
    private readonly run: Run,
    private readonly envelope: Envelope,
    private readonly wires: Wires,
  ) {
    run.left = wires.left();
    run.onChange = () => this.#happened(() => {});
    wires.interrupted.then((end) => this.#happened(() => this.#end(end)));
    wires.cancelled.then(() => this.#cancelSoon());
  }

  /** Runs the function until it returns or waits, or until the attempt is over. */
  async carryOut(): Promise<DurableEnd> {
    try {
      for (;;) {
        for (const event of this.#events.splice(0)) event();
        if (this.#over !== undefined) return this.#over;
        const given = this.run.next();
        // Most turns are known at once, and each promise counts.
        const turn = given instanceof Promise ? await given : given;
        if (turn === "idle") {
          if (this.#events.length === 0) await this.#nextEvent();
        } else if ("command" in turn) {
          const end = this.#carry(turn.command);
          if (end !== undefined) return end instanceof Promise ? await end : end;
        } else if ("stop" in turn) {
          return await this.#park(turn.stop);
        } else if ("handBack" in turn) {
          return { handBack: turn.handBack };
        } else {
          return await this.#conclude(turn.report, turn.bug);
        }
      }
    } finally {
      this.run.close();
      for (const timer of this.#timers.values()) clearTimeout(timer);
    }
  }

  #carry(command: Command): DurableEnd | Promise<DurableEnd> | undefined {
    if (command === "suspend") return { closed: "suspended" };
    if (command === "halt") return { closed: "halted" };
    if (command === "cancel") return "cancelled";
    if ("complete" in command) return this.#conclude(command.complete);
    if ("checkpoint" in command) {
      this.#record(command.checkpoint);
      return undefined;
    }
    if (this.wires.isCancelled()) return "cancelled";
    const { key, try: number, timeoutMs } = command.execute;
    if (timeoutMs !== undefined) {
      const over = () => this.#happened(() => this.run.timeOut(key, number));
      this.#timers.set(key, setTimeout(over, timeoutMs));
    }
    return undefined;
  }

  /** Sends a call of the engine, in parts if it is large, and brings the answer back. */
  #record(call: EngineCall): void {
    for (const { key } of call.steps ?? []) {
      clearTimeout(this.#timers.get(key));
      this.#timers.delete(key);
    }
    const texts = callTexts(call);
    const [text = "{}"] = texts;
    const isWhole = texts.length === 1;
    const sent = isWhole ? this.wires.call(text) : this.#send(texts);
    sent.then(
      (told) => this.#happened(() => this.#heard(told)),
      (error: unknown) => this.#happened(() => this.#end(endOf(error))),
    );
  }

  /** The end of a call of the engine: what the wire said about its only part, or the answer to all parts. */
  #heard(told: Called | EngineAnswer): void {
    if ("committed" in told && told.committed.resultsLeftOut) {
      this.#answerOf(told).then(
        (answer) => this.#happened(() => this.#recorded(answer)),
        (error: unknown) => this.#happened(() => this.#end(endOf(error))),
      );
      return;
    }
    try {
      this.#recorded("state" in told ? told : answerIn(told));
    } catch (error) {
      this.#end(endOf(error));
    }
  }

  #recorded(answer: EngineAnswer): void {
    this.run.left = this.wires.left();
    this.run.recorded(answer);
  }

  /** The last answer counts, unless an earlier one ends the run. */
  async #send(texts: string[]): Promise<EngineAnswer> {
    for (const [n, text] of texts.entries()) {
      const answer = await this.#sendOne(text);
      if (n === texts.length - 1 || answer.state !== "running" || answer.shouldCancel) return answer;
    }
    throw new Error("a call has at least one part");
  }

  async #sendOne(text: string): Promise<EngineAnswer> {
    return this.#answerOf(await this.wires.call(text));
  }

  async #answerOf(called: Called): Promise<EngineAnswer> {
    const answer = answerIn(called);
    if ("committed" in called && called.committed.resultsLeftOut) answer.results = await this.#results();
    return answer;
  }

  /** Results that an answer had no room for. The engine keeps what it awaits, and ignores the rest. */
  async #results(): Promise<Checkpoint[]> {
    const known = this.envelope.checkpointsAfter ?? this.envelope.checkpoints?.at(-1)?.number ?? 0;
    const recorded = await pagesAfter(known, this.wires);
    return checkpoints(recorded.filter(({ outcome, kind }) => outcome !== "STARTED" && kind !== "STEP"));
  }

  /** The end of the function. What is too large to ride with the report is recorded before it. */
  async #conclude(report: EngineReport, bug?: unknown): Promise<DurableEnd> {
    const { steps = [], children = [], ...returned } = report;
    const { before, riding } = ridingTexts(steps, children);
    for (const text of before) {
      const answer = await this.#sendOne(text);
      if (answer.state !== "running") return { closed: answer.state === "halted" ? "halted" : "suspended" };
    }
    return { returned, riding, ...(bug === undefined ? {} : { bug }) };
  }

  /** The function cannot go on with this code: the run waits for another build. */
  async #park(stop: Stop): Promise<DurableEnd> {
    await this.#sendOne(JSON.stringify({ diverged: diverged(stop) }));
    return { closed: { diverged: stop.message } };
  }

  /** A cancelled run has half of its grace period for a step that runs; the other half is for the report. */
  #cancelSoon(): void {
    const over = () => this.#happened(() => this.#end("cancelled"));
    this.#timers.set("", setTimeout(over, this.envelope.cancelGracePeriodMs / 2));
  }

  #end(end: DurableEnd): void {
    this.#over ??= end;
  }

  #happened(event: () => void): void {
    this.#events.push(event);
    this.#wake?.();
  }

  async #nextEvent(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = undefined;
  }
}

/** What the coordinator answered. Throws if it recorded nothing. */
function answerIn(called: Called): EngineAnswer {
  if ("committed" in called) return engineAnswer(called.committed, called.serverTime);
  if ("lost" in called) throw new Ended({ lost: called.lost });
  if ("unanswered" in called) throw new Ended({ failed: saveFailed(called.unanswered) });
  const { code, message } = called.refused;
  throw new Ended({
    failed: Failure.permanent(`the coordinator refused a checkpoint (${code}): ${message}`),
  });
}

function endOf(error: unknown): DurableEnd {
  if (error instanceof Ended) return error.end;
  throw error;
}

/** Nothing was recorded, so nothing later may start (S2-92). */
function saveFailed(why: string): Failure {
  return Failure.infra(
    `checkpoint_save_failed: the coordinator did not record the last steps (${why}). No later step was started; another ` +
      "attempt continues from what is recorded",
    { retryable: true },
  );
}
