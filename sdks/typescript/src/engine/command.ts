/**
 * What passes between an engine and its driver: plain values, as `protocol/scenarios/durable` writes them. Times are
 * milliseconds since 1970; the wire has them as text. Nothing here decides anything.
 */
import type { FailureRecord } from "../failure.js";
import type { Amounts } from "../options.js";
import type { ApprovalTerms, SubmitRun } from "../wire.js";

export type Outcome = "STARTED" | "SUCCEEDED" | "FAILED" | "CANCELLED";

/** One recorded, immutable result. */
export interface Checkpoint {
  key: string;
  outcome: Outcome;
  result?: unknown;
  error?: FailureRecord | undefined;
  inputDigest?: string | undefined;
  recordedAt: number;
  savepoint?: boolean | undefined;
}

/** What an attempt begins with. */
export interface Start {
  /** Begins the idempotency keys of steps: those of a parent and of its children differ. */
  taskId: string;
  /** Begins them instead where the run continues another one, whose steps may have been executed already. */
  origin?: string | undefined;
  fence: number;
  /** A number of 64 bits, in decimal. */
  seed: string;
  createdAt: number;
  input: unknown;
  /** In commit order. What precedes the last savepoint may be left out. */
  checkpoints: Checkpoint[];
}

/** Something to send to a registered endpoint. */
export interface EffectRecord {
  key: string;
  endpoint: string;
  type: string;
  aggregate?: string | undefined;
  body: unknown;
}

/** A finished step that has yet to be recorded. */
export interface StepRecord {
  key: string;
  outcome: "SUCCEEDED" | "FAILED";
  result?: unknown;
  error?: FailureRecord;
  inputDigest?: string;
  spend?: Required<Amounts>;
  savepoint?: true;
  effects?: EffectRecord[];
}

export interface ChildRecord {
  key: string;
  inputDigest: string;
  detached?: true;
  run: SubmitRun;
}

/** What a wait is for. Its arrival is a checkpoint with this key. */
export interface Awaited {
  key: string;
  until?: number;
  signal?: string;
  child?: string;
  approval?: Omit<ApprovalTerms, "expiresAt"> & { expiresAt?: number };
  effect?: { step: string; key: string };
}

export interface Wait {
  key: string;
  mode: "all" | "any";
  for: Awaited[];
  maxMs?: number;
}

/** One call to the coordinator, recorded as a whole or not at all. */
export interface EngineCall {
  steps?: StepRecord[];
  children?: ChildRecord[];
  wait?: Wait;
}

/** What the function returned, with what has yet to be recorded. */
export interface EngineReport {
  outcome: "SUCCEEDED" | "FAILED";
  output?: unknown;
  error?: FailureRecord;
  steps?: StepRecord[];
  children?: ChildRecord[];
}

export interface Execute {
  key: string;
  try: number;
  timeoutMs?: number;
}

/** What the driver does next. */
export type Command =
  | { execute: Execute }
  | { checkpoint: EngineCall }
  | { complete: EngineReport }
  | "suspend"
  | "halt"
  | "cancel";

/** The coordinator's answer to a call that it committed. */
export interface EngineAnswer {
  state: "running" | "waiting" | "halted";
  recordedAt: number;
  results?: Checkpoint[];
  shouldCancel?: boolean;
}
