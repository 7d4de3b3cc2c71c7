/**
 * What was recorded: the operations that the code must ask for, in order, and the results that it will be given.
 *
 * Each branch has its own order, so replay does not depend on the order in which branches finished. Results are found
 * by key. Where two results race, the one that was committed first wins, in a replay as in the first execution. An
 * operation leaves when the code has asked for it, and a result when the code has read it.
 */
import type { Checkpoint } from "./command.js";
import { isPatch, isWait, keyOf, parseKey } from "./key.js";
import { type Divergence, type Place, type Seen, Stop } from "./stop.js";

interface Expected extends Seen {
  position: number;
}

export class History {
  #expected = new Map<string, Expected[]>();
  #results = new Map<string, { position: number; checkpoint: Checkpoint }>();
  /** The tries and timers of an operation, by its key. */
  #parts = new Map<string, string[]>();
  #length = 0;

  constructor(checkpoints: readonly Checkpoint[]) {
    const known = new Set<string>();
    for (const checkpoint of checkpoints) {
      // What satisfied a wait stands in checkpoints of its items.
      if (isWait(checkpoint.key)) continue;
      const { branch, operation } = parseKey(checkpoint.key);
      if (!known.has(operation)) {
        known.add(operation);
        const queue = this.#expected.get(branch) ?? [];
        queue.push({ key: operation, inputDigest: checkpoint.inputDigest, position: this.#length });
        this.#expected.set(branch, queue);
      }
      this.arrive(checkpoint);
    }
  }

  get isEmpty(): boolean {
    return this.#expected.size === 0;
  }

  /** Keeps a result until the code reads it. */
  arrive(checkpoint: Checkpoint): void {
    const position = this.#length++;
    const { key, outcome } = checkpoint;
    if (outcome === "STARTED" || this.#results.has(key)) return;
    this.#results.set(key, { position, checkpoint });
    const { operation } = parseKey(key);
    if (operation === key) return;
    const parts = this.#parts.get(operation);
    if (parts === undefined) this.#parts.set(operation, [key]);
    else parts.push(key);
  }

  /**
   * Whether the code asks for what the record has next in this branch: true if it was recorded, false if it is new.
   * A version marker that the code no longer asks for is skipped: code that ignores it and differs after it is found
   * at the next operation.
   */
  enter(branch: string, index: number, actual: Seen, at: Place): boolean {
    const queue = this.#expected.get(branch);
    if (queue === undefined) return false;
    while (queue[0] !== undefined && isPatch(queue[0].key) && queue[0].key !== actual.key) queue.shift();
    const next = queue.shift();
    if (queue.length === 0) this.#expected.delete(branch);
    if (next === undefined) return false;
    const difference: Divergence["difference"] | undefined =
      next.key !== actual.key ? "operation" : next.inputDigest !== actual.inputDigest ? "input" : undefined;
    if (difference === undefined) return true;
    const recorded = { key: next.key, inputDigest: next.inputDigest };
    throw Stop.diverged({ difference, branch, index, recorded, actual, at });
  }

  /** Whether the record of this branch has come to its end, and what follows is new. */
  isOver(branch: string): boolean {
    return (this.#expected.get(branch) ?? []).every((next) => isPatch(next.key));
  }

  /** Whether this operation comes next, apart from version markers before it. */
  isNext(branch: string, label: string, count: number): boolean {
    const operation = keyOf(branch, label, count);
    const next = this.#expected.get(branch)?.find((it) => it.key === operation || !isPatch(it.key));
    return next?.key === operation;
  }

  has(key: string): boolean {
    return this.#results.has(key);
  }

  /** Takes the result that was committed first; it is read once. */
  takeFirst(keys: readonly string[]): Checkpoint | undefined {
    let first: { position: number; checkpoint: Checkpoint } | undefined;
    for (const key of keys) {
      const found = this.#results.get(key);
      if (found !== undefined && (first === undefined || found.position < first.position)) first = found;
    }
    if (first !== undefined) this.#results.delete(first.checkpoint.key);
    return first?.checkpoint;
  }

  /** Forgets the tries and timers of an operation that is over. */
  forgetParts(operation: string): void {
    for (const part of this.#parts.get(operation) ?? []) this.#results.delete(part);
    this.#parts.delete(operation);
  }

  /**
   * The earliest recorded operation that the code has not asked for. What made an operation possible was recorded
   * before it, so when a replay has read all it can, it has come to every recorded operation, or the code is another.
   */
  unreached(): { branch: string; seen: Seen } | undefined {
    let first: { branch: string; seen: Expected } | undefined;
    for (const [branch, queue] of this.#expected) {
      const seen = queue.find((next) => !isPatch(next.key));
      if (seen !== undefined && (first === undefined || seen.position < first.seen.position))
        first = { branch, seen };
    }
    return first;
  }
}
