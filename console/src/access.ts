/**
 * What the key of this session may read, found out by asking: the console has no rule about roles of its own. An action that the key
 * may not do is refused by the server, with the role that it needs.
 *
 * Every refused question is an entry of the audit, so each is asked once for a session, and its refusal is kept to be shown.
 */

import { signal } from "@preact/signals";
import { type CallOptions, get, Problem } from "./api/call.js";
import type { RunList } from "./api/types.js";

const ONE = { limit: 1 };

/** The smallest call that tells whether a key may read something. */
const QUESTIONS = {
  runs: ["v1/runs", ONE],
  approvals: ["v1/approvals", ONE],
  schedules: ["v1/schedules", ONE],
  effects: ["v1/effects", ONE],
  deployments: ["v1/deployments", ONE],
  // Also for limits, budgets and tasks that are set aside, which the same keys may read.
  audit: ["v1/audit", ONE],
  keys: ["v1/keys", ONE],
} satisfies Record<string, [path: string, query: CallOptions["query"]]>;

export type Readable = keyof typeof QUESTIONS;

export interface Access {
  /** Whether the server was asked already. */
  isKnown: boolean;
  /** What the server said about what the key may not read. */
  refused: Partial<Record<Readable, Problem>>;
  tenant?: string;
  workspace?: string;
}

const NOTHING_YET: Access = { isKnown: false, refused: {} };
export const access = signal<Access>(NOTHING_YET);

/** Whether the key may read this, as far as the server has said. */
export const mayRead = (what: Readable): boolean =>
  access.value.isKnown && access.value.refused[what] === undefined;

export async function discoverAccess(): Promise<void> {
  access.value = NOTHING_YET;
  const refused: Access["refused"] = {};
  const ask = async <T>(what: Readable): Promise<T | undefined> => {
    const [path, query] = QUESTIONS[what];
    try {
      return await get<T>(path, { query });
    } catch (error) {
      // A server that does not answer has refused nothing.
      if (error instanceof Problem && error.status === 403) refused[what] = error;
      return undefined;
    }
  };
  const others = (Object.keys(QUESTIONS) as Readable[]).filter((what) => what !== "runs");
  const [runs] = await Promise.all([ask<RunList>("runs"), ...others.map((what) => ask(what))]);
  const run = (runs as RunList | undefined)?.runs[0];
  access.value = { isKnown: true, refused, tenant: run?.tenantId, workspace: run?.workspaceId };
}
