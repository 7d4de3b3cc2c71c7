/**
 * What the key of this session may read, found out by asking: the console has no rule about roles of its own. An action that the key
 * may not do is refused by the server, with the role that it needs.
 */

import { signal } from "@preact/signals";
import { get, Problem } from "./api/call.js";
import type { RunList } from "./api/types.js";

export interface Access {
  /** Whether the server was asked already. */
  isKnown: boolean;
  mayReadRuns: boolean;
  mayReadApprovals: boolean;
  mayReadSchedules: boolean;
  mayReadEffects: boolean;
  tenant?: string;
  workspace?: string;
}

const NOTHING_YET: Access = {
  isKnown: false,
  mayReadRuns: false,
  mayReadApprovals: false,
  mayReadSchedules: false,
  mayReadEffects: false,
};
export const access = signal<Access>(NOTHING_YET);

export async function discoverAccess(): Promise<void> {
  access.value = NOTHING_YET;
  const [runs, approvals, schedules, effects] = await Promise.all([
    allowed<RunList>("v1/runs"),
    allowed("v1/approvals"),
    allowed("v1/schedules"),
    allowed("v1/effects"),
  ]);
  const run = runs.answer?.runs[0];
  access.value = {
    isKnown: true,
    mayReadRuns: runs.isAllowed,
    mayReadApprovals: approvals.isAllowed,
    mayReadSchedules: schedules.isAllowed,
    mayReadEffects: effects.isAllowed,
    tenant: run?.tenantId,
    workspace: run?.workspaceId,
  };
}

async function allowed<T>(path: string): Promise<{ isAllowed: boolean; answer?: T }> {
  try {
    return { isAllowed: true, answer: await get<T>(path, { query: { limit: 1 } }) };
  } catch (error) {
    // A server that does not answer has refused nothing.
    return { isAllowed: !(error instanceof Problem && error.status === 403) };
  }
}
