/**
 * One branch's cursor: its counts, its time, and what it is doing.
 *
 * A branch does one thing at a time. While branches inside it are open, it waits for them; that is what makes its time
 * and its counts a function of the record.
 */
import { misuse, type Place } from "./stop.js";

export class BranchState {
  /** The latest time of a branch inside it that has ended. It counts from the next operation on. */
  joined: number;
  readonly counts = new Map<string, number>();
  readonly patches = new Map<string, boolean>();
  /** How many operations were entered since the last savepoint. */
  index = 0;
  /** Results that have yet to be recorded. */
  unrecorded = 0;
  isOpen = true;
  innerOpen = 0;
  /** The operation that is under way. */
  busy: string | undefined;

  /** `now` is the coordinator's time of the last result that this branch has seen. */
  constructor(public now: number) {
    this.joined = now;
  }

  /** A name that is used again continues its counts. */
  reopen(now: number): void {
    this.isOpen = true;
    this.now = Math.max(this.now, now);
    this.joined = this.now;
  }

  /** Whether the branch can begin something. */
  checkFree(branch: string, wanted: string, at: Place): void {
    if (!this.isOpen) throw misuse.branchOver(branch, at);
    if (this.busy !== undefined) throw misuse.twoAtOnce(this.busy, wanted, at);
  }

  begin(branch: string, label: string, at: Place): void {
    this.checkFree(branch, label, at);
    if (this.innerOpen > 0) throw misuse.twoAtOnce(`${branch}/…`, label, at);
    this.now = Math.max(this.now, this.joined);
    this.busy = label;
  }
}
