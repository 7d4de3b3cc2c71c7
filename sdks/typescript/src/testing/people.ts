/**
 * The people of a run in memory: what they say of approvals, and when.
 *
 * They decide as the coordinator's rules have it: one vote for each, one rejection rejects, the quorum approves, and
 * the expiry decides what they did not. Who may decide is not looked at: that is a matter of the coordinator's keys.
 */
import type { Awaited } from "../engine/command.js";
import { localName } from "../engine/key.js";
import type { ApprovalDecision, ApprovalOutcome } from "../wire.js";

type Terms = NonNullable<Awaited["approval"]>;

/** A person does not decide in the instant in which they are asked. */
const READING_MS = 1;

export interface Word {
  name: string;
  key: string;
  decision: ApprovalDecision;
  at: number;
  comment: string | undefined;
}

interface Vote {
  key: string;
  decision: ApprovalDecision;
  atMs: number;
  comment?: string;
}

/** What came of an approval, as the coordinator tells it. */
export interface Told {
  outcome: ApprovalOutcome;
  digest?: string;
  votes: Vote[];
}

export class People {
  #words: Word[] = [];
  #asked = new Map<string, number>();

  say(word: Word): void {
    this.#words.push(word);
    this.#words.sort((a, b) => a.at - b.at);
  }

  asked(key: string, now: number): void {
    if (!this.#asked.has(key)) this.#asked.set(key, now);
  }

  /** What came of an approval by now. */
  outcome(key: string, terms: Terms, now: number): Told | undefined {
    const votes = this.#votes(key, terms).filter((vote) => vote.atMs <= now);
    const outcome = decided(votes, terms) ?? expired(terms, now);
    return outcome && { outcome, ...(terms.digest ? { digest: terms.digest } : {}), votes };
  }

  /** When something happens next. */
  next(key: string, terms: Terms, now: number): number | undefined {
    const times = [...this.#votes(key, terms).map((vote) => vote.atMs), terms.expiresAt ?? 0].filter(
      (at) => at > now,
    );
    return times.length === 0 ? undefined : Math.min(...times);
  }

  /** An approval is over: what was said of it is not said again. */
  over(key: string, told: Told): void {
    const name = nameOf(key);
    for (const vote of told.votes) {
      const place = this.#words.findIndex((word) => word.name === name && word.key === vote.key);
      if (place >= 0) this.#words.splice(place, 1);
    }
  }

  /** The votes on an approval, up to the one that decides it. */
  #votes(key: string, terms: Terms): Vote[] {
    const asked = this.#asked.get(key);
    const votes: Vote[] = [];
    if (asked === undefined) return votes;
    for (const word of this.#words.filter((word) => word.name === nameOf(key))) {
      const atMs = Math.max(word.at, asked + READING_MS);
      const isLate = terms.expiresAt !== undefined && terms.expiresAt <= atMs;
      const isSecond = votes.some((vote) => vote.key === word.key);
      if (decided(votes, terms) !== undefined || isLate || isSecond) continue;
      const comment = word.comment === undefined ? {} : { comment: word.comment };
      votes.push({ key: word.key, decision: word.decision, atMs, ...comment });
    }
    return votes;
  }
}

function nameOf(key: string): string {
  return localName(key)
    .replace(/^approval:/, "")
    .replace(/#\d+$/, "");
}

function decided(votes: readonly Vote[], terms: Terms): ApprovalOutcome | undefined {
  if (votes.some((vote) => vote.decision === "REJECTED")) return "REJECTED";
  return votes.length >= (terms.quorum ?? 1) ? "APPROVED" : undefined;
}

function expired(terms: Terms, now: number): ApprovalOutcome | undefined {
  if (terms.expiresAt === undefined || terms.expiresAt > now) return undefined;
  return terms.default ?? "EXPIRED";
}
