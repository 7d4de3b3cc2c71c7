//! How much one plan may have.

/// Maximum stages of one task. They are loaded with the task at every decision, and a hundred of them are still a few pages.
/// A longer sequence is a durable function, or a plan with `dependsOn`.
pub const STAGES_MAX: usize = 100;

/// Maximum steps of a plan with edges. The decision that accepts a plan is one entry of a history and is decided again from its
/// rows, so all of them are written in one commit, for which everybody waits. A row was measured to take 12 µs and the first
/// slice 18 ms: two thousand steps are some 45 ms, and ten thousand were 150. A larger plan is a durable function, or a step that starts further
/// runs.
pub const STEPS_MAX: usize = 2_000;

/// Maximum edges of a plan, written in the same commit, each at a tenth of the time of a step. A step that depends on everything
/// before it has two thousand of them; five such steps fit.
pub const EDGES_MAX: usize = 10_000;

/// How many steps one decision of the root spawns or tells: one batch must not be all about one run. A spawned step is a task with its
/// rows, 70 µs, and a batch may have two such slices.
pub const STEPS_PER_DECISION: usize = 250;

/// Maximum ended steps whose downstreams are not all told. Each has more downstreams than one decision tells, so the edges of a
/// plan allow no more.
pub const BACKLOG_MAX: usize = EDGES_MAX / STEPS_PER_DECISION;

/// Maximum bytes of the condition of a step: it is part of the step's row. A person cannot read more.
pub const WHEN_BYTES_MAX: usize = 4 * 1024;
