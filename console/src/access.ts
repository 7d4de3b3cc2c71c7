/**
 * What the key of this session may do, as the server says: the console has no rule about roles of its own. What is not in the list is
 * not offered; the server decides about each call all the same.
 */

import { get, type Problem } from "./api/call.js";
import { asProblem } from "./data/query.js";
import { person } from "./session.js";

/** What pages read: the right to it, and the smallest call that it is about. */
const READS = {
  runs: "runs",
  approvals: "approvals",
  schedules: "schedules",
  effects: "effects",
  deployments: "deployments",
  // Also for limits and budgets, which the same keys may read.
  audit: "audit",
  keys: "keys",
} as const;

export type Readable = keyof typeof READS;

/** Whether the key may do this, such as `runs.cancel`. */
export const may = (right: string): boolean => person.value?.may.includes(right) === true;

/** Whether the key may read this. */
export const mayRead = (what: Readable): boolean => may(`${READS[what]}.read`);

/** What the server says to who asks for it nevertheless. */
export async function refusalOf(what: Readable): Promise<Problem | undefined> {
  try {
    await get(`v1/${READS[what]}`, { query: { limit: 1 } });
    return undefined;
  } catch (error) {
    return asProblem(error);
  }
}
