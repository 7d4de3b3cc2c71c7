/** What happened to a run, in a few sentences: the answer to "why" before any table. Pure, from the events and `explain`. */

import type { Gate, Run } from "../api/types.js";
import type { Attempt, Events, Refusal, Wait } from "../timeline/events.js";
import { isEnded, type Tone } from "./state.js";
import { clockTime, span } from "./time.js";

export interface Part {
  text: string;
  style?: "strong" | "code";
  tone?: Tone;
}

const plain = (text: string): Part => ({ text });
const strong = (text: string, tone?: Tone): Part => ({ text, style: "strong", tone });
const code = (text: string): Part => ({ text, style: "code" });

/** Takeovers beyond this number are told as a number. */
const TOLD_MAX = 2;

export function story(run: Run, events: Events, gates: Gate[], utc: boolean): Part[] {
  const parts = [
    ...opening(run, events),
    ...takeovers(events, utc),
    ...refusals(events),
    ...approvals(events),
  ];
  if (!isEnded(run.state)) parts.push(...open(gates));
  else parts.push(...ending(run));
  return parts;
}

function opening(run: Run, events: Events): Part[] {
  const count = events.attempts.length;
  const attempts = count === 1 ? "with its first attempt" : `after ${count} attempts`;
  switch (run.state) {
    case "succeeded":
      return [plain(count === 0 ? "Succeeded, recorded once. " : `Succeeded ${attempts}, recorded once. `)];
    case "failed":
      return [plain(`Failed ${attempts}: `), ...error(run)];
    case "halted":
      return [plain("Halted, and what it recorded is kept: "), ...error(run)];
    case "cancelled":
      return [plain("Cancelled"), plain(run.cancelReason ? `: “${run.cancelReason}”. ` : ". ")];
    case "running": {
      const owner = events.attempts.at(-1)?.owner;
      return owner ? [plain("Running: "), strong(owner), plain(" holds the lease. ")] : [plain("Running. ")];
    }
    case "waiting":
      return [plain("Suspended: no worker and no process is held while it waits. ")];
    case "retry":
      return [plain("Between two attempts. ")];
    default:
      return [plain(count === 0 ? "No worker has had it yet. " : "")];
  }
}

function error(run: Run): Part[] {
  if (!run.error) return [];
  return [strong(run.error.reason), plain(`, ${run.error.message}. `)];
}

function takeovers(events: Events, utc: boolean): Part[] {
  const lost = events.attempts.filter((attempt) => attempt.outcome === "LOST");
  const parts = lost.slice(0, TOLD_MAX).flatMap((attempt) => takeover(attempt, events, utc));
  if (lost.length > TOLD_MAX) parts.push(plain(`${lost.length - TOLD_MAX} more attempts were lost. `));
  return parts;
}

function takeover(attempt: Attempt, events: Events, utc: boolean): Part[] {
  const next = events.attempts.find((other) => other.n === attempt.n + 1);
  const silent = attempt.ended! - attempt.lastBeat;
  const when = clockTime(attempt.lastBeat, attempt.lastBeat, utc, true).slice(0, -2);
  const parts = [
    plain("Worker "),
    strong(attempt.owner),
    plain(` went silent at ${when}; its lease ended ${span(silent)} later`),
  ];
  if (!next) return [...parts, plain(". ")];
  const step = attempt.steps.at(-1);
  parts.push(plain(", and "), strong(next.owner));
  if (!step) return [...parts, plain(" took over. ")];
  return [
    ...parts,
    plain(" went on after the recorded step "),
    code(step.key.replace(/#1$/, "")),
    plain(". "),
  ];
}

function refusals(events: Events): Part[] {
  const [first, ...more] = events.refused;
  if (!first) return [];
  const attempt = events.attempts.find((other) => other.n === first.attempt);
  const parts: Part[] = [
    plain(`The ${first.call} of `),
    strong(first.worker),
    plain(` ${late(first, attempt)}and was `),
    strong("refused", "refused"),
  ];
  parts.push(plain(": nothing of it was recorded. "));
  if (more.length > 0)
    parts.push(plain(`${more.length} more ${more.length === 1 ? "call was" : "calls were"} refused. `));
  return parts;
}

function late(refused: Refusal, attempt: Attempt | undefined): string {
  if (!attempt?.ended || refused.at <= attempt.ended) return "came ";
  return `came ${span(refused.at - attempt.ended)} too late `;
}

function approvals(events: Events): Part[] {
  return events.waits.filter((wait) => wait.kind === "approval" && wait.to !== undefined).flatMap(approval);
}

function approval(wait: Wait): Part[] {
  const name = wait.name.replace(/#1$/, "");
  const people = wait.votes.length === 1 ? "One person" : `${wait.votes.length} people`;
  if (wait.outcome === "APPROVED") return [plain(`${people} approved `), code(name), plain(". ")];
  if (wait.outcome === "REJECTED")
    return [strong("Rejected", "bad"), plain(" by a person: "), code(name), plain(". ")];
  return [plain("The approval "), code(name), plain(` ended as ${wait.outcome ?? "closed"}. `)];
}

/** `explain` knows why a run that has not ended is where it is. */
function open(gates: Gate[]): Part[] {
  return gates.flatMap((gate) => {
    const parts = [plain(`${upper(gate.now)}. `)];
    if (gate.change) parts.push(plain("Next: "), ...marked(gate.change), plain(". "));
    return parts;
  });
}

function ending(run: Run): Part[] {
  if (run.state !== "halted" && run.state !== "failed") return [];
  const steps = run.durable?.steps ?? 0;
  if (steps > 0)
    return [
      plain(`${steps} recorded ${steps === 1 ? "step is" : "steps are"} kept: `),
      strong("Continue"),
      plain(" goes on after them. "),
    ];
  return [strong("Retry"), plain(" submits it once more, as a new run.")];
}

/** Text with commands between backquotes. */
export function marked(text: string): Part[] {
  return text.split("`").map((piece, i) => (i % 2 === 1 ? code(piece) : plain(piece)));
}

const upper = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
