/**
 * What can go wrong between a program and a coordinator. Every error has a stable `code`, says what to do next in
 * `nextStep`, and links its page in `docs`.
 *
 * A refusal is an answer; every other error means that there was none, or that it says something else than success.
 */
import type { FailureRecord } from "./failure.js";
import type { ErrorCategory, Problem, Run, State, Verdict } from "./wire.js";

interface Told {
  code: string;
  nextStep: string;
  docs?: string | undefined;
  field?: string | undefined;
  retryable?: boolean;
  cause?: unknown;
}

/** The class of every error that this SDK throws. */
export class TenureError extends Error {
  override readonly name: string = "TenureError";
  /** A stable word. Programs read this, never the message. */
  readonly code: string;
  /** What happened, in a sentence. */
  readonly detail: string;
  readonly nextStep: string;
  /** The page that explains the code. */
  readonly docs: string | undefined;
  /** The member of the request that is wrong. */
  readonly field: string | undefined;
  /** Whether nothing was decided, so that the same call may be repeated. */
  readonly retryable: boolean;

  constructor(detail: string, told: Told) {
    super(
      `${detail} (${told.nextStep}) [${told.code}]`,
      told.cause === undefined ? undefined : { cause: told.cause },
    );
    this.code = told.code;
    this.detail = detail;
    this.nextStep = told.nextStep;
    this.docs = told.docs;
    this.field = told.field;
    this.retryable = told.retryable ?? false;
  }
}

/** Nothing was decided about these: the same call may be sent again. */
const UNDECIDED = new Set([429, 503]);

const NEXT_STEPS: Record<string, string> = {
  unauthenticated: "set TENURE_API_KEY to a key of this server",
  forbidden: "use a key that has the role for this call",
  too_many_requests: "try again later",
  overloaded: "try again later",
  approval_forbidden: "decide with the key of another person, who may decide it and did not ask",
  idempotency_key_reused: "use another idempotency key for another submission",
};

/** The coordinator refused the call. */
export class Refused extends TenureError {
  override readonly name: string = "Refused";
  readonly status: number;
  readonly verdict: Verdict | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(
    problem: Partial<Problem> & { error: string; message: string; status: number },
    docsBase?: string,
  ) {
    const field = problem.field ?? undefined;
    const place = field === undefined ? "" : ` (member \`${field}\`)`;
    super(`${problem.message}${place}`, {
      code: problem.error,
      nextStep: NEXT_STEPS[problem.error] ?? "read the page of this code",
      docs: docsBase === undefined ? undefined : `${docsBase}/errors/${problem.error.replaceAll("_", "-")}`,
      field,
      retryable: UNDECIDED.has(problem.status),
    });
    this.status = problem.status;
    this.verdict = problem.verdict ?? undefined;
    this.retryAfterMs = problem.retryAfterMs ?? undefined;
  }
}

/** The coordinator does not know whether the call took effect. */
export class UnknownOutcome extends Refused {
  override readonly name = "UnknownOutcome";
  override readonly retryable = true;
}

/** The run whose result was asked for did not succeed. */
export class RunFailed extends TenureError {
  override readonly name = "RunFailed";
  readonly runId: string;
  readonly state: State;
  readonly reason: string | undefined;
  readonly category: ErrorCategory | undefined;
  readonly attempt: number;
  readonly run: Run;

  constructor(run: Run) {
    const why = run.error ? `: ${run.error.message}` : run.cancelReason ? `: ${run.cancelReason}` : "";
    super(`run ${run.runId} ended ${run.state}${why}`, {
      code: "run_failed",
      nextStep: `look at it with \`tenure runs show ${run.runId}\`, and ${again(run)}`,
    });
    this.runId = run.runId;
    this.state = run.state;
    this.reason = run.error?.reason;
    this.category = run.error?.category ?? undefined;
    this.attempt = run.attempt;
    this.run = run;
  }
}

/** What goes on from the recorded steps, where there may be some, or begins anew. */
function again({ state }: Run): string {
  return state === "halted"
    ? "continue its recorded steps with more: `fork({ budget })`"
    : "submit it again with `retry()`";
}

/** The run succeeded, but its output cannot be read. `path` says where. */
export class OutputUnreadable extends TenureError {
  override readonly name = "OutputUnreadable";
  constructor(
    runId: string,
    readonly path: string,
    why: string,
    cause?: unknown,
  ) {
    super(`the output of ${runId} cannot be read at ${path}: ${why}`, {
      code: "output_unreadable",
      nextStep: "read it with `status()`, or let the task return another type",
      cause,
    });
  }
}

/** The time that the caller gave is over. What was waited for goes on. */
export class TimedOut extends TenureError {
  override readonly name = "TimedOut";
  constructor(what: string, ms: number) {
    super(`${what} within ${ms} ms`, {
      code: "timed_out",
      nextStep: "it goes on: wait again, cancel it, or ask `explain()` what it waits for",
      retryable: true,
    });
  }
}

/** No server answered within the retries. */
export class Unreachable extends TenureError {
  override readonly name = "Unreachable";
  constructor(
    readonly url: string,
    /** Whether a connection was made, so that the call may have taken effect. */
    readonly connected: boolean,
    cause: unknown,
  ) {
    const why =
      cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code : String(cause);
    super(
      connected ? `the server at ${url} gave no answer (${why})` : `no server answers at ${url} (${why})`,
      {
        code: "unreachable",
        nextStep: connected
          ? "the call may have taken effect; repeat it with the same idempotency key"
          : "start one with `tenure dev`, or set TENURE_URL to its address",
        retryable: true,
        cause,
      },
    );
  }
}

/** An answer came, but not one that a coordinator sends. */
export class Protocol extends TenureError {
  override readonly name = "Protocol";
  constructor(
    readonly url: string,
    readonly status: number,
    why: string,
  ) {
    super(`${url} did not answer like a Tenure server (${why})`, {
      code: "not_a_coordinator",
      nextStep: "check that the address is a coordinator",
      retryable: UNDECIDED.has(status),
    });
  }
}

/** The call could not be made: an address, a key or a value that cannot be sent. */
export class Setup extends TenureError {
  override readonly name = "Setup";
  constructor(detail: string, nextStep: string, cause?: unknown) {
    super(detail, { code: "setup", nextStep, cause });
  }
}

/** A recorded failure that a durable function sees: the same in the first attempt and in every replay. */
class RecordedFailure extends TenureError {
  readonly category: ErrorCategory;
  readonly reason: string | undefined;

  constructor(
    readonly key: string,
    /** As it was recorded. */
    readonly failure: FailureRecord,
    code: string,
  ) {
    super(failure.message, {
      code,
      nextStep: "catch it, or let it end the run",
      retryable: failure.retryable ?? false,
    });
    // What was recorded is the message, so that a replay reads what the first attempt read.
    this.message = failure.message;
    this.category = failure.category;
    this.reason = failure.reason;
  }
}

/** A step failed, after all its tries. */
export class StepFailed extends RecordedFailure {
  override readonly name = "StepFailed";
  constructor(key: string, failure: FailureRecord) {
    super(key, failure, "step_failed");
  }
}

/** A child run failed. */
export class CallFailed extends RecordedFailure {
  override readonly name = "CallFailed";
  constructor(key: string, failure: FailureRecord) {
    super(key, failure, "call_failed");
  }
}
