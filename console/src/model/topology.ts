/** What a topology declares, as far as the console draws and tells it, and what became of one artifact. Pure. */

import type { Artifact, PauseState, Payload, WorkOrder } from "../api/types.js";
import type { Look } from "./state.js";
import { ms } from "./time.js";

export interface Transition {
  from: string;
  to: string;
  /** `person`, `approval` or `role:NAME`. */
  by: string;
}

export interface ArtifactType {
  about?: string | null;
  /** In the order in which an artifact usually passes them. */
  statuses: string[];
  initial: string;
  final?: string[];
  transitions?: Transition[];
}

export interface Declaration {
  about?: string | null;
  artifacts: Record<string, ArtifactType>;
  roles?: Record<string, { uses: string }>;
  limits?: { executors?: number; cycles?: number };
}

/** The server checked the declaration before it was put in force. */
export const declarationOf = (text: Payload): Declaration => JSON.parse(text) as Declaration;

export type Mover = "role" | "gate" | "person";

/** Who moves an artifact: a gate judges, other roles work, a person decides. */
export function moverOf({ by }: Transition, roles: Declaration["roles"]): { kind: Mover; name: string } {
  const role = by.match(/^role:(.+)$/)?.[1];
  if (role === undefined) return { kind: "person", name: by === "approval" ? "an approver" : "a person" };
  return { kind: roles?.[role]?.uses === "gate" ? "gate" : "role", name: role };
}

/** What a person may do about an artifact now. */
export function movesOf(type: ArtifactType | undefined, status: string): Transition[] {
  return (type?.transitions ?? []).filter(({ from, by }) => from === status && !by.startsWith("role:"));
}

export interface Count {
  count: number;
  /** When the one that rests longest came. */
  oldestAt: number | undefined;
}

export function countByStatus(artifacts: Artifact[]): Map<string, Count> {
  const found = new Map<string, Count>();
  for (const { status, enteredAt } of artifacts) {
    const at = ms(enteredAt);
    const known = found.get(status) ?? { count: 0, oldestAt: at };
    const oldestAt = at === undefined ? known.oldestAt : Math.min(known.oldestAt ?? at, at);
    found.set(status, { count: known.count + 1, oldestAt });
  }
  return found;
}

export interface Happening {
  at: number;
  look: Look;
  /** What happened, and further words below it. */
  what: string;
  more: string[];
  runId?: string;
}

const ORDERED: Look = { tone: "run", glyph: "run", word: "ordered" };
const PASSED: Look = { tone: "ok", glyph: "ok", word: "passed" };
const FAILED: Look = { tone: "bad", glyph: "bad", word: "failed" };
const ASKED: Look = { tone: "wait", glyph: "wait", word: "asked" };
const MADE: Look = { tone: "queue", glyph: "queue", word: "created" };
const HERE: Look = { tone: "queue", glyph: "step", word: "now" };

export const nameOfArtifact = ({ type, id }: Artifact): string => `${type}/${id}`;

/** What is known of an artifact, in order: its work orders, their run records, what waited for people, and where it is now. */
export function storyOf(artifact: Artifact, orders: WorkOrder[], pauses: PauseState[]): Happening[] {
  const name = nameOfArtifact(artifact);
  const story: Happening[] = [{ at: ms(artifact.createdAt)!, look: MADE, what: "created", more: [] }];
  for (const order of orders) if (order.artifacts.includes(name)) story.push(...storyOfOrder(order));
  for (const { subject, createdAt, reason, actions, state } of pauses)
    if (subject === name)
      story.push({
        at: ms(createdAt)!,
        look: ASKED,
        what: `${reason}${state === "closed" ? ", seen to" : ", waits for a person"}`,
        more: state === "closed" ? [] : actions,
      });
  // Entries of one instant keep their order: an order comes before its record, and both before where the artifact is now.
  story.sort((a, b) => a.at - b.at);
  if (artifact.transitionNo > 1)
    story.push({ at: ms(artifact.enteredAt)!, look: HERE, what: `now ${artifact.status}`, more: [] });
  return story;
}

function storyOfOrder({ template, kind, queue, runId, createdAt, record }: WorkOrder): Happening[] {
  const ordered = {
    at: ms(createdAt)!,
    look: ORDERED,
    what: `${template} ordered`,
    more: [`${kind} in ${queue}`],
    runId,
  };
  if (!record) return [ordered];
  const { executionStatus, gateResult, gateReasons } = record;
  const reasons = gateReasons.map(({ check, message }) => `${check}: ${message}`);
  const judged = {
    at: ms(record.createdAt)!,
    look: gateResult === "PASS" ? PASSED : FAILED,
    what: `${template} judged: ${gateResult}`,
    more: [...(executionStatus === "COMPLETED" ? [] : [executionStatus]), ...reasons],
    runId,
  };
  return [ordered, judged];
}
