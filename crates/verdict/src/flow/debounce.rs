//! The debounce of a flow key: of submissions that follow each other closely, the last one runs.
//!
//! A run that is submitted with a debounce waits for `span`. A later submission with the same key and a debounce replaces it while
//! it waits, and waits for its own `span`: the older run is cancelled and says which one replaced it. A run whose wait is over
//! is ready and is replaced by nobody, whether or not a worker has taken it. So that a steady stream cannot postpone work for
//! ever, nobody waits longer than `max` after the first of those that were replaced ([`Debounced::since`]).
//!
//! Nothing here reads a clock or a store. Who waits, the store knows: at most one task of a key, because whoever submits the
//! next one ends it in the same commit.
//!
//! Invariants:
//! - a run that was ever leased, or whose wait is over, is not touched;
//! - a caller that may use some queues only replaces runs of those queues only: it could not cancel the others either;
//! - no wait ends later than `span` after its submission, nor later than `max` after the first of its line.

use std::sync::Arc;

use crate::id::{Name, TaskId};
use crate::request::{Cancel, CancelMode};
use crate::task::{Phase, Task};
use crate::time::{Span, Time};
use crate::verdict::Refusal;

/// The longest debounce: what follows after more than a week is another piece of work.
pub const DEBOUNCE_SPAN_MAX: Span = Span::from_secs(7 * 24 * 60 * 60);

/// How long a steady stream may postpone work where nobody said it, unless the debounce itself is longer.
pub const DEBOUNCE_MAX_DEFAULT: Span = Span::from_secs(60 * 60);

/// What a submission asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Debounce {
    /// How long the run waits for a newer one. From 1 ms to [`DEBOUNCE_SPAN_MAX`].
    pub span: Span,
    /// How long it and those that it replaces may wait together. At least `span`.
    pub max: Span,
}

impl Debounce {
    /// A debounce, with the default where no maximum is given.
    pub fn new(span: Span, max: Option<Span>) -> Self {
        Self { span, max: max.unwrap_or_else(|| DEBOUNCE_MAX_DEFAULT.max(span)) }
    }

    /// What a submission does at this moment. `waiting` is the task of the key that was submitted last with a debounce, as far
    /// as it is known to wait.
    pub fn submitted(self, waiting: Option<&Task>, now: Time) -> Replacement {
        let Self { span, max } = self;
        let waiting = waiting.filter(|task| task.debounced_until().is_some_and(|it| it > now));
        let since = waiting.and_then(|task| task.flow()?.debounce).map_or(now, |it| it.since);
        // Another coordinator's clock may have been ahead of this one.
        let since = since.min(now);
        let debounced = Debounced { span, max, since };
        let replaces = waiting.map(|task| task.id);
        Replacement { debounced, due: debounced.until(now), replaces }
    }
}

/// A submission that waits for newer ones, and whose runs it may replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebounceCall {
    pub debounce: Debounce,
    /// The queues that the caller may use; `None` for every queue.
    pub queues: Option<Arc<[Name]>>,
}

impl DebounceCall {
    /// Of a caller that may use every queue.
    pub const fn new(debounce: Debounce) -> Self {
        Self { debounce, queues: None }
    }

    /// What a submission with this key does, as [`Debounce::submitted`] says, unless it would end a run that is not the
    /// caller's to end.
    pub fn submitted(
        &self,
        key: &Name,
        waiting: Option<&Task>,
        now: Time,
    ) -> Result<Replacement, Refusal> {
        let replacement = self.debounce.submitted(waiting, now);
        let replaced = waiting.filter(|task| replacement.replaces == Some(task.id));
        let may_use = |queue: &Name| self.queues.as_ref().is_none_or(|it| it.contains(queue));
        match replaced {
            Some(task) if !may_use(&task.queue) => {
                Err(Refusal::DebounceForbidden { key: key.clone() })
            }
            Some(_) | None => Ok(replacement),
        }
    }
}

/// The debounce of a run, as it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Debounced {
    pub span: Span,
    pub max: Span,
    /// When the first of those was submitted that this run replaces, one after the other; its own submission if there is none.
    pub since: Time,
}

impl Debounced {
    /// When the wait of a run ends that was submitted at this moment.
    pub fn until(self, submitted_at: Time) -> Time {
        submitted_at.plus(self.span).min(self.since.plus(self.max)).max(submitted_at)
    }
}

/// What a submission with a debounce does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacement {
    pub debounced: Debounced,
    /// When the new run may start.
    pub due: Time,
    /// The run that it replaces.
    pub replaces: Option<TaskId>,
}

/// Ends the run that is replaced. It waits without a worker, so the cancel ends it at once.
pub fn replaced(by: TaskId, key: &Name) -> Cancel {
    let reason = format!("replaced by {}, submitted later with flow key {key}", by.run_name());
    Cancel { mode: CancelMode::Graceful, reason: Some(reason.into()) }
}

impl Task {
    /// Until when a newer submission may replace the task; `None` for a task without a debounce, and once it was leased.
    pub fn debounced_until(&self) -> Option<Time> {
        self.flow()?.debounce?;
        match self.phase {
            Phase::Queued { due } if self.attempt == 0 => Some(due),
            _ => None,
        }
    }
}
