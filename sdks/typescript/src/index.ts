/** The SDK for Node: client, worker, tasks and durable functions. */
export { Client, type ClientOptions, type RunFilters, type Submission, type Submitted } from "./client.js";
export type { Codec } from "./codec.js";
export type { Ctx, StopReason } from "./context.js";
export { current } from "./current.js";
export * from "./errors.js";
export { Failure, type FailureOptions } from "./failure.js";
export type { Settled } from "./flow/groups.js";
export type { Approval, ApprovalOptions, Delivery, Vote } from "./flow/kinds.js";
export type { Operation } from "./flow/operation.js";
export type { Effect, Retry, Step, StepOptions } from "./flow/step.js";
export type { Wait } from "./flow/waits.js";
export { Flow } from "./flow.js";
export type { Log, LogLevel, LogLine, LogSink } from "./log.js";
export type { Amounts, Budget, FlowKey, RunOptions, TaskOptions } from "./options.js";
export type { EndpointOptions, When } from "./resources.js";
export { RunHandle, type WaitOptions } from "./run-handle.js";
export type { StandardSchemaV1 } from "./schema.js";
export type { Span } from "./span.js";
export {
  type Arguments,
  durable,
  kind,
  type NewRun,
  newRun,
  type Plan,
  type PlanStepOptions,
  plan,
  planApproval,
  planStep,
  type Task,
  task,
} from "./task.js";
export { FlowTest, runInline } from "./testing.js";
export { Verifier } from "./webhooks.js";
export type * as wire from "./wire.js";
export type { WorkerEvent } from "./worker/events.js";
export { Worker, type WorkerOptions } from "./worker.js";
