/**
 * Why a task, a step or a child failed: a value with a category, which is recorded and read again.
 *
 * The coordinator decides whether there is another attempt; a failure only says what happened. Code throws one of
 * these to name a category; every other error is USER_CODE, which is retried.
 */
import { CallFailed, Setup, StepFailed } from "./errors.js";
import { encode } from "./json.js";
import { describe, stacksOf } from "./thrown.js";
import type { ErrorCategory } from "./wire.js";

/** The coordinator's limit of a message, in bytes. */
const MESSAGE_BYTES_MAX = 4 * 1024;
/** The coordinator's limit of a stack trace, in bytes. */
const STACK_BYTES_MAX = 32 * 1024;

const CATEGORIES: ReadonlySet<ErrorCategory> = new Set([
  "USER_CODE",
  "DATA_QUALITY",
  "INFRASTRUCTURE",
  "TIMEOUT",
  "CONFIGURATION",
  "CANCELLED",
]);

/** A failure as it stands in a checkpoint or report. */
export interface FailureRecord {
  category: ErrorCategory;
  /** A stable word, for a failure that the coordinator or the engine names. */
  reason?: string;
  message: string;
  /** The opinion of the code that failed; the category's default when absent. */
  retryable?: boolean;
}

export interface FailureOptions {
  /** Another opinion than the category's default. */
  retryable?: boolean;
  reason?: string;
  /** What a cancelled task was doing when it stopped. */
  phase?: string;
  /** How far a cancelled task had come. */
  partialProgress?: unknown;
  cause?: unknown;
}

/** A failure that code throws to name its category. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly category: ErrorCategory;
  readonly reason: string | undefined;
  readonly retryable: boolean | undefined;
  readonly phase: string | undefined;
  readonly partialProgress: unknown;
  /** The task goes back to its queue: another worker may be able to do it. */
  readonly isHandBack: boolean = false;

  constructor(category: ErrorCategory, message: string, options: FailureOptions = {}) {
    super(
      message || "it failed, and no message says why",
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    if (!CATEGORIES.has(category))
      throw new Setup(
        `\`${String(category)}\` is no category of failures`,
        `use one of ${[...CATEGORIES].join(", ")}`,
      );
    this.category = category;
    this.reason = options.reason;
    this.retryable = options.retryable;
    this.phase = options.phase;
    // What cannot be reported is told where it is made.
    if (options.partialProgress !== undefined) encode(options.partialProgress);
    this.partialProgress = options.partialProgress;
  }

  /** The code failed and would fail again. Not retried. */
  static permanent(message: string, options: FailureOptions = {}): Failure {
    return new Failure("USER_CODE", message, { ...options, retryable: false });
  }

  /** The input is wrong. Not retried by default. */
  static data(message: string, options: FailureOptions = {}): Failure {
    return new Failure("DATA_QUALITY", message, options);
  }

  /** A setting is missing or wrong. Not retried by default. */
  static config(message: string, options: FailureOptions = {}): Failure {
    return new Failure("CONFIGURATION", message, options);
  }

  /** A service, the memory or the disk failed. Retried by default. */
  static infra(message: string, options: FailureOptions = {}): Failure {
    return new Failure("INFRASTRUCTURE", message, options);
  }

  /** A limit of time passed. Retried by default. */
  static timeout(message: string, options: FailureOptions = {}): Failure {
    return new Failure("TIMEOUT", message, options);
  }

  /** The task stopped because it was told to. */
  static cancelled(message = "stopped as requested", options: FailureOptions = {}): Failure {
    return new Failure("CANCELLED", message, options);
  }

  /** Hands the task back: this worker cannot do it, and another one may. No attempt is counted. */
  static handBack(message: string): Failure {
    return new HandBack("INFRASTRUCTURE", message, { retryable: true });
  }
}

class HandBack extends Failure {
  override readonly isHandBack = true;
}

/** A failure under a stable word, which another try cannot mend. */
export function namedFailure(reason: string, message: string): FailureRecord {
  return { category: "USER_CODE", reason, message: cut(message, MESSAGE_BYTES_MAX), retryable: false };
}

/** Whether this is a failure that was recorded before: it stays as it is. */
export function isRecorded(thrown: unknown): thrown is StepFailed | CallFailed {
  return thrown instanceof StepFailed || thrown instanceof CallFailed;
}

/** What is recorded of something that was thrown. */
export function recordOf(thrown: unknown): FailureRecord {
  if (isRecorded(thrown)) return thrown.failure;
  if (thrown instanceof Failure) {
    const { category, reason, retryable } = thrown;
    return {
      category,
      ...(reason === undefined ? {} : { reason }),
      message: cut(thrown.message, MESSAGE_BYTES_MAX),
      ...(retryable === undefined ? {} : { retryable }),
    };
  }
  return { category: "USER_CODE", message: cut(describe(thrown), MESSAGE_BYTES_MAX) };
}

/** The stack of a defect and of what caused it, within the coordinator's limit. */
export function stackOf(thrown: unknown): string | undefined {
  // Of a failure with a category the message says enough, unless it stands for another error.
  const from = thrown instanceof Failure ? thrown.cause : thrown;
  const stack = stacksOf(from);
  return stack === undefined ? undefined : cut(stack, STACK_BYTES_MAX);
}

/** Whether another try can help. */
export function isRetryable(failure: FailureRecord): boolean {
  if (failure.retryable !== undefined) return failure.retryable;
  return ["USER_CODE", "INFRASTRUCTURE", "TIMEOUT"].includes(failure.category);
}

/** Well-formed text of at most this many bytes. */
export function cut(text: string, bytes: number): string {
  const sound = text.toWellFormed().replaceAll("\0", "\uFFFD");
  if (Buffer.byteLength(sound) <= bytes) return sound;
  const end = new TextDecoder().decode(Buffer.from(sound).subarray(0, bytes - 3));
  return `${end.replace(/\uFFFD$/, "")}…`;
}
