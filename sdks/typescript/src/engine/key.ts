/**
 * The identity of an operation: `branch/name#count`.
 *
 * The branch is a path of branch names, empty for the function's own. The count numbers the operations of one name in
 * one branch. Kinds other than steps are part of the name (`signal:go#1`, `child:pack#2`, `sleep#1`), so two
 * operations with equal keys are of the same kind. A key may have a part after the count: `charge#1.2` is the second
 * failed try of `charge#1`, and `signal:go#1.timeout` the timer beside a signal.
 *
 * Invariant: names contain none of `/`, `#` and `:`, so a key that this module wrote is split in exactly one way.
 */

/** The coordinator's limit of a key, in bytes. */
const KEY_BYTES_MAX = 128;
/** The longest part of a key, and the longest word before one. */
const PART_BYTES = "wait:".length + ".100.wait".length;

const NAME = /^[A-Za-z0-9._-]+$/;
/** Names that a step cannot have: they are keys of another kind. */
const RESERVED = new Set(["sleep", "savepoint"]);
const PATCHED = "patched:";
const WAIT = "wait:";

export const ROOT = "";

export function inner(branch: string, name: string): string {
  return branch === ROOT ? name : `${branch}/${name}`;
}

export function keyOf(branch: string, label: string, count: number): string {
  return `${inner(branch, label)}#${count}`;
}

export interface ParsedKey {
  branch: string;
  /** The key without its part. */
  operation: string;
  count: number;
}

/** Splits a recorded key. A key that no engine wrote is an operation of the function's own branch. */
export function parseKey(key: string): ParsedKey {
  const hash = key.lastIndexOf("#");
  const digits = /^\d+/.exec(key.slice(hash + 1))?.[0];
  const rest = digits === undefined ? "x" : key.slice(hash + 1 + digits.length);
  if (hash < 0 || digits === undefined || (rest !== "" && !rest.startsWith("."))) {
    return { branch: ROOT, operation: key, count: 0 };
  }
  const slash = key.lastIndexOf("/", hash);
  const branch = slash < 0 ? ROOT : key.slice(0, slash);
  return { branch, operation: key.slice(0, hash + 1 + digits.length), count: Number(digits) };
}

/** The last segment of an operation's key: its label and count, without the branch. */
export function localName(key: string): string {
  const { branch, operation } = parseKey(key);
  return branch === ROOT ? operation : operation.slice(branch.length + 1);
}

export function isWait(key: string): boolean {
  return key.startsWith(WAIT);
}

export function waitKey(items: string): string {
  return `${WAIT}${items}`;
}

/** A version marker, which replay may skip. */
export function isPatch(operation: string): boolean {
  return operation.slice(operation.lastIndexOf("/") + 1).startsWith(PATCHED);
}

/** Whether steps, signals, approvals, children, branches and labels can have this name. */
export function isName(name: string): boolean {
  return NAME.test(name) && !RESERVED.has(name);
}

/** Whether the coordinator can hold the key, with its longest part, also as the key of a wait. */
export function fits(key: string): boolean {
  return key.length + PART_BYTES <= KEY_BYTES_MAX;
}
