/**
 * The answers of the HTTP interface, from the types that are generated out of `protocol/openapi.json` for the SDK.
 *
 * Payloads differ: {@link parse} leaves `input`, `output`, `result` and `payload` as the text that the server sent, so that
 * what is shown and hashed is what was stored.
 */

import type * as wire from "../../../sdks/typescript/src/wire.js";

/** A payload as the JSON text that the server sent. */
export type Payload = string;

type Shown<T> = Omit<T, "input" | "output" | "result" | "body"> & {
  input?: Payload;
  output?: Payload;
  result?: Payload;
  body?: Payload;
};

export type Run = Shown<wire.Run>;
export type RunList = Omit<wire.RunList, "runs"> & { runs: Run[] };
export type State = wire.State;
export type HistoryEntry = Omit<wire.HistoryEntry, "detail"> & { detail: Record<string, unknown> };
export type History = { entries: HistoryEntry[]; nextAfter: number };
export type Checkpoint = Shown<wire.Checkpoint>;
export type Steps = { steps: Checkpoint[]; nextAfter?: number | null };
export type Effect = Shown<wire.EffectView>;
export type EffectList = { effects: Effect[]; cursor?: string | null };
export type Endpoint = wire.EndpointView;
export type EndpointList = wire.EndpointList;
export type Schedule = wire.ScheduleView;
export type ScheduleList = wire.ScheduleList;
export type SchedulePreview = wire.SchedulePreview;
export type ScheduleHistory = wire.ScheduleHistory;
export type Record_ = wire.Record;
export type Explanation = wire.Explanation;
export type Gate = wire.Gate;
export type Approval = wire.ApprovalView;
export type ApprovalList = wire.ApprovalList;
export type ApprovalDecided = wire.ApprovalDecided;
export type RefusedCall = wire.RefusedCall;
export type Queue = wire.QueueView;
export type Queues = wire.Queues;
export type Worker = wire.WorkerView;
export type Workers = wire.Workers;
export type FlowKeys = wire.FlowKeys;
export type Keys = wire.Keys;
export type SetAside = wire.SetAside;
export type Children = wire.Children;
export type Child = wire.ChildView;
export type RunAccepted = wire.RunAccepted;
export type AwaitedView = wire.AwaitedView;
