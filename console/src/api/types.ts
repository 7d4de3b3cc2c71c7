/**
 * The answers of the HTTP interface, from the types that are generated out of `protocol/openapi.json` for the SDK.
 *
 * Payloads differ: {@link parse} leaves `input`, `output`, `result`, `payload`, the `fields` of an artifact and the `declaration`
 * of a topology as the text that the server sent, so that what is shown and hashed is what was stored.
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

export type Session = wire.Session;
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
export type Key = wire.Key;
export type AuditLog = wire.AuditLog;
export type AuditEntry = wire.AuditEntry;
export type AuditVerified = wire.AuditVerified;
export type TenantLimits = wire.TenantLimits;
export type Limits = wire.Limits;
export type ScopeBudget = wire.ScopeBudget;
export type ScopeBudgets = wire.ScopeBudgets;
export type Ready = wire.Ready;
export type Version = wire.Version;
export type Deployment = Omit<wire.DeploymentView, "declaration"> & { declaration?: Payload | null };
export type DeploymentList = Omit<wire.DeploymentList, "deployments"> & { deployments: Deployment[] };
export type Artifact = Omit<wire.ArtifactView, "fields"> & { fields: Payload };
export type ArtifactList = Omit<wire.ArtifactList, "artifacts"> & { artifacts: Artifact[] };
export type WorkOrder = wire.WorkOrderView;
export type WorkOrderList = wire.WorkOrderList;
export type PauseState = wire.PauseStateView;
export type PauseStateList = wire.PauseStateList;
export type Claim = wire.ClaimView;
export type ClaimList = wire.ClaimList;
