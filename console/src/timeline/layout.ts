/**
 * Lays out what happened to a run: one lane per attempt, then waits, children and effects. Pure: events and a width in, shapes out.
 *
 * Invariants, tested by properties: every shape lies inside the drawing, bars of one lane do not overlap, their order is the order
 * of time, labels of one lane do not overlap. Marks are never dropped; labels that would collide are.
 */

import type { Look, Tone } from "../model/state.js";
import { effectLook, fence, outcomeLook, stateLook } from "../model/state.js";
import { span } from "../model/time.js";
import type { Attempt, Events, Wait } from "./events.js";
import { type Fold, type Scale, scale, type Tick } from "./scale.js";

export type BarStyle = "work" | "silence" | "lease" | "granted" | "wait" | "backoff" | "late";

export interface Bar {
  x0: number;
  x1: number;
  style: BarStyle;
  tone: Tone;
  isOpen?: boolean;
  text?: string;
}

export interface Mark {
  x: number;
  glyph: Look["glyph"] | "stop" | "expiry" | "beat" | "grant";
  tone: Tone;
  /** What is selected when the mark is clicked. */
  id?: string;
  title: string;
}

export interface Label {
  x: number;
  text: string;
  anchor: "start" | "middle" | "end";
  row: "above" | "level" | "below";
  tone?: Tone;
  isStrong?: boolean;
  /** Lower is dropped first. */
  rank: number;
}

export interface Lane {
  id: string;
  title: string;
  note: string;
  look: Look;
  href?: string;
  bars: Bar[];
  marks: Mark[];
  labels: Label[];
}

/** A line from one lane to another. */
export interface Link {
  style: "takeover" | "resume" | "cause";
  fromLane: number;
  fromX: number;
  toLane: number;
  toX: number;
}

export interface Drawing {
  width: number;
  left: number;
  lanes: Lane[];
  links: Link[];
  folds: Fold[];
  ticks: Tick[];
  /** Lanes that exist and are not drawn. */
  hidden: number;
}

/** Words that are not in the events. */
interface Words {
  /** The name of the person with a key, if it is known. */
  nameOf?: (keyId: string) => string;
  /** What an approval asks, by its number. */
  approvalTitle?: (number: number) => string | undefined;
}

export interface LayoutOptions extends Words {
  width: number;
  isTrue?: boolean;
}

const shortKey = (keyId: string): string => keyId.slice(0, 8);
/** Letters of a name that is drawn above a vote. */
const NAME_MAX = 14;

/** Space for the name of a lane. */
export const GUTTER = 176;
/** Space behind the last instant, for marks and labels. */
const TAIL = 150;
/** More lanes of one kind than this are told as a number. */
const LANES_MAX = 20;
/** A mean width of a letter at 11.5 px, for deciding which labels collide. */
const LETTER = 6.1;
/** More marks than this in one lane are drawn without names. */
const NAMES_MAX = 40;

export function layout(events: Events, { width, isTrue, ...words }: LayoutOptions): Drawing {
  const attempts = events.attempts.slice(-LANES_MAX);
  const waits = events.waits.slice(0, LANES_MAX);
  const children = events.children.slice(0, LANES_MAX);
  const effects = events.effects.slice(0, LANES_MAX);
  const hidden =
    events.attempts.length +
    events.waits.length +
    events.children.length +
    events.effects.length -
    (attempts.length + waits.length + children.length + effects.length);
  const axis = scaleOf(events, Math.max(width, GUTTER + TAIL + 120), isTrue ?? false);
  const drawer = new Drawer(events, axis);
  for (const attempt of attempts) drawer.attempt(attempt);
  drawer.takeovers(attempts);
  drawer.refusals(attempts);
  for (const wait of waits) drawer.wait(wait, attempts, words);
  for (const child of children) drawer.child(child, attempts);
  for (const effect of effects) drawer.effect(effect, attempts);
  for (const lane of drawer.lanes)
    lane.labels = withoutCollisions(lane, Math.max(width, GUTTER + TAIL + 120));
  return {
    width,
    left: GUTTER,
    lanes: drawer.lanes,
    links: drawer.links,
    folds: axis.folds,
    ticks: axis.ticks,
    hidden,
  };
}

function scaleOf(events: Events, width: number, isTrue: boolean): Scale {
  const busy: Array<[number, number]> = [
    ...events.attempts.map((a): [number, number] => [a.granted, a.ended ?? events.to]),
    ...events.children.map((c): [number, number] => [c.from, c.to ?? events.to]),
    ...events.effects
      .filter((e) => e.tries.length > 0)
      .map((e): [number, number] => [e.tries[0]!.at, e.tries.at(-1)!.at]),
  ];
  const points = [
    ...events.refused.map((r) => r.at),
    ...events.signals.map((s) => s.at),
    ...events.waits.flatMap((w) => [
      w.from,
      ...(w.to === undefined ? [] : [w.to]),
      ...w.votes.map((v) => v.at),
    ]),
    ...events.effects.flatMap((e) => e.tries.map((t) => t.at)),
  ];
  const last = Math.max(events.to, ...busy.map(([, t]) => t), ...points);
  return scale(events.from, last, busy, points, { left: GUTTER + 10, right: width - TAIL, isTrue });
}

const seconds = (from: number, to: number) => span(Math.max(0, to - from));
const shortStep = (key: string) => key.replace(/#1$/, "");

class Drawer {
  lanes: Lane[] = [];
  links: Link[] = [];
  constructor(
    private readonly events: Events,
    private readonly axis: Scale,
  ) {}

  attempt(attempt: Attempt): void {
    const { x } = this.axis;
    const { events } = this;
    const look = outcomeLook(attempt.outcome);
    const end = attempt.ended ?? events.to;
    const isLost = attempt.outcome === "LOST" || attempt.outcome === "UNDELIVERED";
    const isSilent = attempt.ended === undefined && attempt.expires < events.to;
    const alive = isLost ? Math.min(attempt.lastBeat, end) : isSilent ? Math.min(attempt.lastBeat, end) : end;
    const start = Math.min(attempt.started ?? attempt.granted, alive);
    const lane = this.lane(`attempt-${attempt.n}`, `${attempt.n}  ${attempt.owner}`, look.word, look);
    const note = reasonNote(attempt);
    if (note) lane.note = note;
    lane.marks.push({
      x: x(attempt.granted),
      glyph: "grant",
      tone: "run",
      title: `lease granted to ${attempt.owner}`,
    });
    if (start > attempt.granted) lane.bars.push(bar(x(attempt.granted), x(start), "granted", "run"));
    lane.bars.push({
      ...bar(x(start), Math.max(x(alive), x(start) + 3), "work", "run"),
      isOpen: attempt.ended === undefined && !isSilent,
    });
    if (isLost || isSilent) {
      const from = Math.max(x(alive), x(start) + 3);
      lane.bars.push(bar(from, Math.max(x(end), from + 2), "silence", "retry"));
      lane.labels.push({
        x: (from + x(end)) / 2,
        text: `${seconds(alive, end)} silent`,
        anchor: "middle",
        row: "above",
        tone: "retry",
        isStrong: true,
        rank: 6,
      });
    }
    const leaseEnd = attempt.ended === undefined ? Math.min(attempt.expires, events.to) : end;
    lane.bars.push(bar(x(attempt.granted), Math.max(x(leaseEnd), x(attempt.granted) + 3), "lease", "queue"));
    if (attempt.lastBeat > attempt.granted) {
      lane.marks.push({
        x: x(attempt.lastBeat),
        glyph: "beat",
        tone: "queue",
        title: "last renewal of the lease",
      });
    }
    for (const step of attempt.steps) {
      lane.marks.push({
        x: x(step.at),
        glyph: "step",
        tone: step.isFailed ? "bad" : "run",
        id: `entry-${step.n}`,
        title: `${step.key} recorded`,
      });
      if (attempt.steps.length <= NAMES_MAX) {
        lane.labels.push({
          x: x(step.at),
          text: shortStep(step.key),
          anchor: "middle",
          row: "above",
          rank: 1,
        });
      }
    }
    lane.marks.push(this.closing(attempt, look, end));
  }

  private closing(attempt: Attempt, look: Look, end: number): Mark {
    const x = this.axis.x(end);
    const id = `attempt-${attempt.n}`;
    const title = `attempt ${attempt.n} of ${attempt.owner}: ${look.word}`;
    if (attempt.ended === undefined) return { x, glyph: "run", tone: "run", id, title };
    if (attempt.outcome === "LOST" || attempt.outcome === "UNDELIVERED")
      return { x, glyph: "expiry", tone: "retry", id, title };
    if (attempt.outcome === "SUSPENDED") return { x, glyph: "stop", tone: "wait", id, title };
    return { x, glyph: look.glyph, tone: look.tone, id, title };
  }

  takeovers(attempts: Attempt[]): void {
    for (let i = 1; i < attempts.length; i++) {
      const [before, after] = [attempts[i - 1]!, attempts[i]!];
      const isTakeover = before.outcome === "LOST" || before.outcome === "UNDELIVERED";
      if (!isTakeover || before.ended === undefined) continue;
      const toX = this.axis.x(after.granted);
      this.links.push({
        style: "takeover",
        fromLane: i - 1,
        fromX: this.axis.x(before.ended),
        toLane: i,
        toX,
      });
      const isOther = after.owner !== before.owner;
      const lane = this.lanes[i]!;
      const words = isOther ? `${after.owner} takes over` : `${after.owner} again`;
      lane.labels.push({
        x: toX - 22,
        text: words,
        anchor: "end",
        row: "level",
        tone: "retry",
        isStrong: true,
        rank: 8,
      });
      lane.labels.push({
        x: toX - 22,
        text: `fence ${fence(before.fence)} → ${fence(after.fence)}`,
        anchor: "end",
        row: "below",
        rank: 5,
      });
    }
  }

  refusals(attempts: Attempt[]): void {
    this.events.refused.forEach((refused, i) => {
      const at = attempts.findIndex((attempt) => attempt.n === refused.attempt);
      const attempt = attempts[at];
      if (!attempt) return;
      const lane = this.lanes[at]!;
      const start = this.axis.x(attempt.ended ?? refused.at) + 3;
      // A report that came right after the expiry still gets a line that leads to it.
      const x = Math.max(this.axis.x(refused.at), start + 36 + 34 * earlier(this.events, i));
      lane.bars.push(bar(start, x - 15, "late", "refused"));
      lane.marks.push({
        x,
        glyph: "refused",
        tone: "refused",
        id: `refused-${i}`,
        title: `late ${refused.call} refused: ${refused.error}`,
      });
      lane.labels.push({
        x: x + 21,
        text: `late ${refused.call} refused`,
        anchor: "start",
        row: "level",
        tone: "refused",
        isStrong: true,
        rank: 9,
      });
      lane.labels.push({ x: x + 21, text: refused.error, anchor: "start", row: "below", rank: 4 });
    });
  }

  wait(wait: Wait, attempts: Attempt[], { approvalTitle, nameOf = shortKey }: Words): void {
    const { x } = this.axis;
    const end = wait.to ?? this.events.to;
    const title = {
      approval: "Approval",
      signal: "Signal",
      sleep: "Sleep",
      child: "Children",
      other: "Wait",
    }[wait.kind];
    const look = waitLook(wait);
    const isNamed = wait.kind !== "sleep";
    const lane = this.lane(
      `wait-${wait.entry}`,
      title,
      isNamed ? wait.name.replace(/#1$/, "") : look.word,
      look,
    );
    const subject = wait.approval === undefined ? undefined : approvalTitle?.(wait.approval);
    const words =
      subject ??
      (wait.kind === "sleep"
        ? seconds(wait.from, end)
        : wait.to === undefined
          ? `open since ${seconds(wait.from, end)}`
          : undefined);
    const free = x(wait.votes[0]?.at ?? end) - x(wait.from) - 26;
    const fits = words !== undefined && words.length * LETTER * 1.06 <= free;
    lane.bars.push({
      ...bar(x(wait.from), Math.max(x(end), x(wait.from) + 6), "wait", "wait"),
      isOpen: wait.to === undefined,
      text: fits ? words : undefined,
    });
    if (words !== undefined && !fits && wait.kind === "approval") lane.note = words;
    for (const vote of wait.votes) {
      const [glyph, tone] = vote.isApproval ? (["ok", "ok"] as const) : (["bad", "bad"] as const);
      lane.marks.push({
        x: x(vote.at),
        glyph,
        tone,
        id: `entry-${vote.n}`,
        title: `${vote.isApproval ? "approved" : "rejected"} by ${nameOf(vote.by)}`,
      });
      lane.labels.push({
        x: x(vote.at),
        text: nameOf(vote.by).slice(0, NAME_MAX),
        anchor: "middle",
        row: "above",
        rank: 2,
      });
    }
    for (const signal of this.events.signals.filter(
      (s) => wait.kind === "signal" && s.at >= wait.from && s.at <= end,
    )) {
      lane.marks.push({
        x: x(signal.at),
        glyph: "step",
        tone: "wait",
        id: `entry-${signal.n}`,
        title: `signal ${signal.name}`,
      });
    }
    const next = attempts.findIndex((attempt) => wait.to !== undefined && attempt.granted >= wait.to);
    if (next >= 0)
      this.links.push({
        style: "resume",
        fromLane: this.lanes.length - 1,
        fromX: x(end),
        toLane: next,
        toX: x(attempts[next]!.granted),
      });
    if (wait.votes.length === 0 && wait.to !== undefined)
      lane.marks.push({
        x: x(end),
        glyph: look.glyph,
        tone: look.tone,
        id: `entry-${wait.entry}`,
        title: look.word,
      });
  }

  child(child: Events["children"][number], attempts: Attempt[]): void {
    const { x } = this.axis;
    const end = child.to ?? this.events.to;
    const look = stateLook(child.state ?? "running");
    const lane = this.lane(`child-${child.entry}`, child.key.replace(/#1$/, ""), `child, ${look.word}`, look);
    if (child.taskId) lane.href = `runs/${child.taskId.replace(/^task_/, "run_")}`;
    lane.bars.push({
      ...bar(x(child.from), Math.max(x(end), x(child.from) + 3), "work", "run"),
      isOpen: child.to === undefined,
    });
    lane.marks.push({
      x: x(end),
      glyph: look.glyph,
      tone: look.tone,
      id: `entry-${child.entry}`,
      title: `child ${child.key}: ${look.word}`,
    });
    this.cause(child.from, attempts, x(child.from));
  }

  effect(effect: Events["effects"][number], attempts: Attempt[]): void {
    const { x } = this.axis;
    const look = effectLook(effect.state);
    const lane = this.lane(`effect-${effect.id}`, effect.type, `effect to ${effect.endpoint}`, look);
    const first = effect.tries[0]?.at ?? effect.from;
    const last = effect.tries.at(-1)?.at ?? this.events.to;
    if (effect.tries.length > 1) lane.bars.push(bar(x(first), x(last), "backoff", "queue"));
    for (const attempt of effect.tries) {
      const isDone = attempt.isLast && effect.state === "delivered";
      lane.marks.push({
        x: x(attempt.at),
        glyph: isDone ? "ok" : "bad",
        tone: isDone ? "ok" : "bad",
        id: `effect-${effect.id}`,
        title: `try of ${effect.type}: ${attempt.status ?? "no answer"}`,
      });
      lane.labels.push({
        x: x(attempt.at),
        text: String(attempt.status ?? "–"),
        anchor: "middle",
        row: "above",
        tone: isDone ? "ok" : "bad",
        rank: 3,
      });
    }
    if (effect.tries.length === 0)
      lane.marks.push({
        x: x(effect.from),
        glyph: look.glyph,
        tone: look.tone,
        id: `effect-${effect.id}`,
        title: `${effect.type}: ${look.word}`,
      });
    this.cause(effect.from, attempts, x(first));
  }

  /** A grey line from the attempt that worked at an instant to the lane that was added last. */
  private cause(at: number, attempts: Attempt[], toX: number): void {
    const index = attempts.findIndex(
      (attempt) => attempt.granted <= at && (attempt.ended ?? Number.POSITIVE_INFINITY) >= at,
    );
    if (index >= 0)
      this.links.push({
        style: "cause",
        fromLane: index,
        fromX: this.axis.x(at),
        toLane: this.lanes.length - 1,
        toX,
      });
  }

  private lane(id: string, title: string, note: string, look: Look): Lane {
    const lane: Lane = { id, title, note, look, bars: [], marks: [], labels: [] };
    this.lanes.push(lane);
    return lane;
  }
}

const bar = (x0: number, x1: number, style: BarStyle, tone: Tone): Bar => ({
  x0,
  x1: Math.max(x0, x1),
  style,
  tone,
});

function earlier(events: Events, i: number): number {
  return events.refused.slice(0, i).filter((other) => other.attempt === events.refused[i]!.attempt).length;
}

function reasonNote(attempt: Attempt): string | undefined {
  if (attempt.outcome === "FAILED" && attempt.message) return attempt.message;
  if (attempt.outcome === "REVOKED" && attempt.reason)
    return attempt.reason.toLowerCase().replaceAll("_", " ");
  return undefined;
}

function waitLook(wait: Wait): Look {
  if (wait.to === undefined) return { tone: "wait", glyph: "wait", word: "open" };
  if (wait.outcome === "REJECTED") return { tone: "bad", glyph: "bad", word: "rejected" };
  if (wait.outcome === "EXPIRED") return { tone: "halt", glyph: "halt", word: "expired" };
  if (wait.outcome === "WITHDRAWN") return { tone: "queue", glyph: "cancel", word: "withdrawn" };
  return { tone: "ok", glyph: "ok", word: wait.kind === "approval" ? "approved" : "over" };
}

/** The extent of a label. */
export function extent(label: Label): [number, number] {
  const width = label.text.length * (label.isStrong ? LETTER * 1.06 : LETTER);
  if (label.anchor === "start") return [label.x, label.x + width];
  if (label.anchor === "end") return [label.x - width, label.x];
  return [label.x - width / 2, label.x + width / 2];
}

/** Keeps the labels of highest rank; drops those that leave the drawing, cover a mark on the bar's level or another label. */
function withoutCollisions(lane: Lane, width: number): Label[] {
  const kept: Label[] = [];
  const byRank = [...lane.labels].sort((a, b) => b.rank - a.rank || a.x - b.x);
  for (const label of byRank) {
    const [a, b] = extent(label);
    const isInside = a >= GUTTER - 4 && b <= width;
    const isFree = kept.every((other) => {
      const [c, d] = extent(other);
      return other.row !== label.row || b + 4 <= c || a >= d + 4;
    });
    const bars = lane.bars.filter((bar) => bar.style !== "lease" && bar.style !== "late");
    const covers = label.row === "level" && bars.some((bar) => a < bar.x1 + 2 && b > bar.x0 - 2);
    if (isInside && isFree && !covers) kept.push(label);
  }
  return kept;
}
