/**
 * What happened to a run, read from its history: attempts with their leases, checkpoints, waits, approvals, children.
 *
 * One entry of a history can hold several events (a report and the next grant in one commit), named after the last and with the
 * members of all. So entries are read by their members and not by their names alone.
 */

import type { Effect, HistoryEntry, RefusedCall, Run } from "../api/types.js";
import { ms } from "../model/time.js";

export interface StepMark {
  at: number;
  key: string;
  isFailed: boolean;
  n: number;
}

export interface Attempt {
  n: number;
  owner: string;
  fence: number;
  granted: number;
  started?: number;
  ended?: number;
  outcome?: string;
  reason?: string;
  message?: string;
  /** How long each renewal keeps the lease. */
  leaseMs: number;
  /** The last renewal that the history or the lease shows. */
  lastBeat: number;
  /** When the lease ends, or ended. */
  expires: number;
  steps: StepMark[];
  entry: number;
  closedBy?: number;
}

export interface Vote {
  at: number;
  by: string;
  isApproval: boolean;
  comment?: string;
  n: number;
}

export interface Wait {
  key: string;
  kind: "approval" | "signal" | "sleep" | "child" | "other";
  name: string;
  from: number;
  to?: number;
  approval?: number;
  outcome?: string;
  votes: Vote[];
  entry: number;
}

export interface ChildSpan {
  key: string;
  taskId?: string;
  from: number;
  to?: number;
  state?: string;
  entry: number;
}

export interface SignalMark {
  at: number;
  name: string;
  n: number;
}

export interface EffectSpan {
  id: string;
  type: string;
  endpoint: string;
  state: string;
  from: number;
  to?: number;
  tries: Array<{ at: number; status?: number; isLast: boolean }>;
}

export interface Refusal {
  at: number;
  attempt: number;
  worker: string;
  call: string;
  error: string;
  verdict: string;
}

export interface Events {
  from: number;
  /** The end of the run, or now. */
  to: number;
  isOpen: boolean;
  attempts: Attempt[];
  waits: Wait[];
  children: ChildSpan[];
  effects: EffectSpan[];
  signals: SignalMark[];
  refused: Refusal[];
}

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
const number = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

/** Reads a history. `at` is now, for what is still open. */
export function eventsOf(run: Run, entries: HistoryEntry[], effects: Effect[], at: number): Events {
  const completed = ms(run.completedAt);
  const reader = new Reader();
  for (const entry of entries) reader.take(entry);
  const { attempts, waits, children, signals } = reader;
  const last = attempts.at(-1);
  if (last && last.ended === undefined && run.lease) {
    last.lastBeat = Math.max(last.lastBeat, ms(run.lease.heartbeatAt)!);
    last.expires = ms(run.lease.expiresAt)!;
  }
  return {
    from: ms(run.createdAt)!,
    to: completed ?? at,
    isOpen: completed === undefined,
    attempts,
    waits,
    children,
    signals,
    effects: effects.map(effectSpan),
    refused: (run.refused ?? []).map(refusal),
  };
}

function refusal(call: RefusedCall): Refusal {
  const { attempt, workerId, error, verdict } = call;
  return { at: ms(call.at)!, attempt, worker: workerId, call: call.call, error, verdict };
}

function effectSpan(effect: Effect): EffectSpan {
  // A change repeats the last try until there is another one: each instant is one try.
  const told = [...(effect.log ?? []).map((change) => change.lastTry), effect.lastTry];
  const statuses = new Map(
    told.flatMap(
      (one): Array<[number, number | undefined]> => (one ? [[ms(one.at)!, one.status ?? undefined]] : []),
    ),
  );
  const last = ms(effect.lastTry?.at);
  const tries = [...statuses].map(([at, status]) => ({ at, status, isLast: at === last }));
  return {
    id: effect.effectId,
    type: effect.type,
    endpoint: effect.endpoint,
    state: effect.state,
    from: ms(effect.decidedAt)!,
    to: ms(effect.settledAt),
    tries,
  };
}

class Reader {
  attempts: Attempt[] = [];
  waits: Wait[] = [];
  children: ChildSpan[] = [];
  signals: SignalMark[] = [];

  take(entry: HistoryEntry): void {
    const at = ms(entry.at)!;
    const { detail, n, kind } = entry;
    const open = this.attempts.at(-1)?.ended === undefined ? this.attempts.at(-1) : undefined;
    this.step(open, at, entry);
    if (open && text(detail["outcome"]) !== undefined && closes(entry)) close(open, at, entry);
    this.approval(at, entry);
    this.wait(at, entry);
    this.child(at, entry);
    const signal = text(detail["signal"]);
    if (signal !== undefined && !signal.startsWith("#")) this.signals.push({ at, name: signal, n });
    if (kind === "granted") this.grant(open, at, entry);
    else if (open && open.ended === undefined) renew(open, at, entry);
    if (kind === "started" && open) open.started ??= at;
  }

  private grant(open: Attempt | undefined, at: number, entry: HistoryEntry): void {
    if (open && open.ended === undefined) close(open, at, entry);
    const expires = ms(text(entry.detail["leaseExpiresAt"])) ?? at;
    this.attempts.push({
      n: entry.attempt ?? this.attempts.length + 1,
      owner: text(entry.detail["owner"]) ?? "",
      fence: number(entry.detail["fence"]) ?? 0,
      granted: at,
      leaseMs: expires - at,
      lastBeat: at,
      expires,
      steps: [],
      entry: entry.n,
    });
  }

  private step(open: Attempt | undefined, at: number, entry: HistoryEntry): void {
    const key = text(entry.detail["step"]);
    if (key === undefined || !open) return;
    open.started ??= at;
    open.steps.push({ at, key, isFailed: entry.detail["outcome"] === "FAILED", n: entry.n });
  }

  private approval(at: number, entry: HistoryEntry): void {
    const { detail, n } = entry;
    const approval = number(detail["approval"]);
    if (approval === undefined) return;
    const key = text(detail["key"]);
    let wait = this.waits.find((other) => other.approval === approval);
    if (!wait && key !== undefined) {
      wait = { key, kind: "approval", name: key, from: at, approval, votes: [], entry: n };
      this.waits.push(wait);
    }
    if (!wait) return;
    const decision = text(detail["decision"]);
    const by = text(detail["by"]);
    if (decision !== undefined && by !== undefined) {
      wait.votes.push({
        at,
        by,
        isApproval: decision === "APPROVED",
        comment: text(detail["comment"]) || undefined,
        n,
      });
    }
    const outcome = text(detail["outcome"]);
    const isClosed = entry.kind === "approval_closed" || (decision !== undefined && outcome !== undefined);
    if (isClosed && wait.to === undefined) {
      wait.to = at;
      wait.outcome = outcome === "SUCCEEDED" || outcome === "FAILED" ? decision : outcome;
    }
  }

  private wait(at: number, entry: HistoryEntry): void {
    const key = text(entry.detail["wait"]);
    if (key === undefined) return;
    const same = (wait: Wait) =>
      wait.to === undefined && (wait.key === key || (wait.kind === "approval" && key.endsWith(wait.key)));
    const open = this.waits.find(same);
    const begins = entry.detail["outcome"] === "SUSPENDED" || entry.detail["state"] === "waiting";
    if (!begins && open) open.to = at;
    // An answer that was already there ends a wait before it began: there is no span to draw.
    if (begins && !open) this.waits.push({ key, ...waitKind(key), from: at, votes: [], entry: entry.n });
  }

  private child(at: number, entry: HistoryEntry): void {
    const { detail, n } = entry;
    const spawned = text(detail["childKey"]);
    if (
      spawned !== undefined &&
      (entry.kind === "child_spawned" || text(detail["childTaskId"]) !== undefined)
    ) {
      this.children.push({ key: spawned, taskId: text(detail["childTaskId"]), from: at, entry: n });
    }
    const ended = text(detail["child"]);
    const child = this.children.find((child) => child.key === ended);
    if (child) {
      child.to = at;
      child.state = text(detail["childState"]);
    }
  }
}

/** Whether the outcome of an entry is the one of an attempt, and not of a step or an approval. */
function closes(entry: HistoryEntry): boolean {
  return (
    entry.kind === "attempt_closed" ||
    (entry.kind !== "granted" && text(entry.detail["leaseId"]) !== undefined)
  );
}

function close(attempt: Attempt, at: number, entry: HistoryEntry): void {
  const { detail } = entry;
  attempt.ended = at;
  attempt.outcome = text(detail["outcome"]) ?? "RELEASED";
  attempt.reason = text(detail["reason"]);
  attempt.message = text(detail["message"]);
  attempt.closedBy = entry.n;
  const isLost = attempt.outcome === "LOST" || attempt.outcome === "UNDELIVERED";
  // A heartbeat is not an entry of the history. The lease that ended here was renewed for the last time one lease earlier.
  if (isLost) attempt.lastBeat = Math.max(attempt.lastBeat, Math.min(at, at - attempt.leaseMs));
  attempt.expires = at;
}

function renew(attempt: Attempt, at: number, entry: HistoryEntry): void {
  const expires = ms(text(entry.detail["leaseExpiresAt"]));
  if (expires === undefined) return;
  attempt.lastBeat = at;
  attempt.expires = expires;
}

function waitKind(key: string): Pick<Wait, "kind" | "name"> {
  const plain = key.replace(/^wait:/, "").replace(/#\d+$/, "");
  const [kind, ...rest] = plain.split(":");
  const name = rest.join(":");
  if (kind === "sleep") return { kind: "sleep", name: "Sleep" };
  if (kind === "signal") return { kind: "signal", name: name || plain };
  if (kind === "approval") return { kind: "approval", name: name || plain };
  if (kind === "child") return { kind: "child", name: name || plain };
  return { kind: "other", name: plain };
}
