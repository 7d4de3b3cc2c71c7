/** Numbers drawn from a seed: SHA-256 over text that every language can write, so one more draw never shifts another. */
import { createHash } from "node:crypto";

/** 32 bytes for the `count`-th draw under a label: SHA-256 of `seed\nbranch\nlabel\ncount`, numbers in decimal. */
export function draw(seed: string, branch: string, label: string, count: number): Buffer {
  return createHash("sha256").update(`${seed}\n${branch}\n${label}\n${count}`).digest();
}

/** The first eight bytes of a draw, as a number. */
export function firstNumber(bytes: Buffer): bigint {
  return bytes.readBigUInt64BE(0);
}

/** The seed of a run that was submitted without one: equal in every attempt, and another one in every run. */
export function seedOf(taskId: string): string {
  return firstNumber(createHash("sha256").update(JSON.stringify(taskId)).digest()).toString();
}

/** Enough to reach any cap. */
const DOUBLINGS_MAX = 30;

/** The pause after the `number`-th failed try, in milliseconds. */
export function pauseMs(number: number, baseMs: number, capMs: number, drawn: bigint): number {
  const doublings = Math.min(Math.max(number - 1, 0), DOUBLINGS_MAX);
  const exponential = Math.min(baseMs * 2 ** doublings, capMs);
  return exponential + Number(drawn % BigInt(Math.floor(baseMs / 2) + 1));
}
