/**
 * The end of an attempt as it is reported: finished JSON without task and token, which the I/O thread adds.
 *
 * The worker only says what happened; the coordinator decides whether there is another attempt.
 */
import { type Codec, sealed } from "../codec.js";
import type { StopReason } from "../context.js";
import { Failure, namedFailure, recordOf, stackOf } from "../failure.js";
import { encode, throughJson, Unwritable } from "../json.js";
import type { Outcome, ReportedError } from "../wire.js";
import type { DurableEnd } from "./driver.js";

export interface ReportText {
  outcome: Outcome;
  text: string;
  /** For people: why it failed. */
  error?: string;
  riders?: boolean;
}

export const RELEASED: ReportText = { outcome: "RELEASED", text: `{"outcome":"RELEASED"}` };

function failed(error: ReportedError, rest = ""): ReportText {
  return {
    outcome: "FAILED",
    text: `{"outcome":"FAILED","error":${JSON.stringify(error)}${rest}}`,
    error: error.message,
  };
}

/** A task returned. A value that cannot be sent is a failure that another attempt cannot mend. */
export function returned(value: unknown, codec?: Codec): ReportText {
  try {
    const output = codec === undefined ? encode(value) : encode(sealed(codec, throughJson(value)));
    return { outcome: "SUCCEEDED", text: `{"outcome":"SUCCEEDED","output":${output}}` };
  } catch (error) {
    if (!(error instanceof Unwritable)) throw error;
    const { category, message, retryable } = namedFailure("", `the result cannot be sent: ${error.message}`);
    return failed({ category, message, ...(retryable === undefined ? {} : { retryable }) });
  }
}

/** A task threw, and may have been told to stop before. */
export function threw(thrown: unknown, stopped: StopReason | undefined): ReportText {
  // Whatever the code says of it, it ended because the worker stops.
  if (stopped === "ShuttingDown" || (thrown instanceof Failure && thrown.isHandBack)) return RELEASED;
  if (stopped === "CancelRequested") return cancelled(thrown);
  const { category, message, retryable, reason } = recordOf(thrown);
  if (stopped === "TimedOut") return timedOut(`its time limit passed: ${message}`);
  const stackTrace = stackOf(thrown);
  return failed({
    category,
    message: reason === undefined ? message : `${reason}: ${message}`,
    ...(retryable === undefined ? {} : { retryable }),
    ...(stackTrace === undefined ? {} : { stackTrace }),
  });
}

export function timedOut(message: string): ReportText {
  return failed({ category: "TIMEOUT", message });
}

function cancelled(thrown: unknown): ReportText {
  const { phase, partialProgress } = thrown instanceof Failure ? thrown : {};
  const members = [
    phase === undefined ? "" : `,"cancelledDuringPhase":${JSON.stringify(phase)}`,
    partialProgress === undefined ? "" : progressText(partialProgress),
  ];
  return { outcome: "CANCELLED", text: `{"outcome":"CANCELLED"${members.join("")}}` };
}

/** It was checked where it was made, and may have changed since: a run that was cancelled ends as cancelled all the same. */
function progressText(partialProgress: unknown): string {
  try {
    return `,"partialProgress":${encode(partialProgress)}`;
  } catch (error) {
    if (!(error instanceof Unwritable)) throw error;
    return "";
  }
}

/** How a durable function ended; nothing if a call has ended the attempt. */
export function durableReport(end: DurableEnd): ReportText | undefined {
  if (end === "cancelled") return { outcome: "CANCELLED", text: `{"outcome":"CANCELLED"}` };
  if ("closed" in end || "lost" in end) return undefined;
  if ("handBack" in end) return RELEASED;
  if ("failed" in end) return threw(end.failed, undefined);
  const { returned: report, riding, bug } = end;
  const rest = riding === "" ? "" : `,${riding}`;
  const riders = riding !== "";
  if (report.outcome === "SUCCEEDED") {
    const text = `{"outcome":"SUCCEEDED","output":${encode(report.output)}${rest}}`;
    return { outcome: "SUCCEEDED", text, riders };
  }
  const { category, reason, message, retryable } =
    report.error ?? namedFailure("NO_ERROR", "it failed without an error");
  const stackTrace = bug === undefined ? undefined : stackOf(bug);
  const error: ReportedError = {
    category: category === "CANCELLED" ? "USER_CODE" : category,
    message: reason === undefined ? message : `${reason}: ${message}`,
    // It fails in the same way in every replay, so another attempt is of no use unless the function says otherwise.
    retryable: retryable ?? false,
    ...(stackTrace === undefined ? {} : { stackTrace }),
  };
  return { ...failed(error, rest), riders };
}
