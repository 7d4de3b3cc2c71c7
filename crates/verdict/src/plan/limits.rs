//! How much one plan may have.

use crate::run::limits::{CHILDREN_MAX, SLICE_MAX};

/// Maximum stages of one task. They are loaded with the task at every decision, and a hundred of them are still a few pages.
/// A longer sequence is a durable function, or a plan with `dependsOn`.
pub const STAGES_MAX: usize = 100;

/// Maximum steps of a plan with edges: each is a live child of the root.
pub const STEPS_MAX: usize = CHILDREN_MAX as usize;

/// Maximum edges of a plan. A step that depends on everything before it has ten thousand of them; ten such steps fit.
pub const EDGES_MAX: usize = 100_000;

/// How many steps one decision of the root spawns or tells: one batch must not be all about one run.
pub const STEPS_PER_DECISION: usize = SLICE_MAX;

/// Maximum ended steps whose downstreams are not all told. Each has more downstreams than one decision tells, so the edges of a
/// plan allow no more.
pub const BACKLOG_MAX: usize = EDGES_MAX / STEPS_PER_DECISION;

/// Maximum bytes of the condition of a step: it is part of the step's row. A person cannot read more.
pub const WHEN_BYTES_MAX: usize = 4 * 1024;
