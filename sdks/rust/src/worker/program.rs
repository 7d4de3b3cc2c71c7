//! Tasks whose code is a program of its own, which records steps, waits and asks people through the worker.
//!
//! The end of the program is the end of the task, as with any task. Beside it, the engine of durable functions does what the
//! program asks for. A wait ends the attempt: the program is stopped, and the next attempt runs it again from its beginning.
//!
//! This is what `tenure work --exec` is made of. Code in Rust uses [`Worker::durable`](super::Worker::durable) instead.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use wire::Json;
use wire::answers::Envelope;
use workflow::{Failure, Function};

use super::attempt::SharedState;
use super::ctx::Ctx;
use super::durable::{Driver, Ended};
use super::lease_table::HeldLease;

pub(crate) type Program =
    Arc<dyn Fn(Ctx, Recorder) -> BoxFuture<'static, ProgramEnd> + Send + Sync>;

/// How the attempt of a program ended.
#[derive(Debug)]
pub enum ProgramEnd {
    /// The program has ended, and this is reported.
    Finished(Result<Json, Failure>),
    /// A call of the [`Recorder`] has ended the attempt: there is nothing to report.
    Closed,
}

/// How the function beside a program ended.
#[derive(Debug)]
pub enum RecorderEnd {
    /// It returned. Everything that it did is recorded.
    Returned,
    /// A wait, a divergence or a crossed limit has ended the attempt.
    Closed,
    /// The attempt fails with this.
    Failed(Failure),
    /// The attempt must stop; [`Ctx::stop_reason`] says why.
    Stopped,
}

/// Records what a program asks for, under the lease of its attempt.
pub struct Recorder {
    pub(super) shared: Arc<SharedState>,
    pub(super) envelope: Arc<Envelope>,
    pub(super) held: Arc<HeldLease>,
}

impl Recorder {
    /// Runs a durable function beside the program. It must record everything before it returns: await
    /// [`Flow::now`](workflow::Flow::now) at its end.
    pub async fn run(&self, function: Function<'static>) -> RecorderEnd {
        let driver = Driver { shared: &self.shared, envelope: &self.envelope, held: &self.held };
        match driver.drive(function).await {
            Ended::Returned(returned) => match returned.report.error {
                Some(failure) => RecorderEnd::Failed(failure),
                None => {
                    debug_assert!(returned.riding.steps.is_empty(), "a step is not recorded");
                    RecorderEnd::Returned
                }
            },
            Ended::Closed => RecorderEnd::Closed,
            Ended::Failed(failure) => RecorderEnd::Failed(failure),
            Ended::Cancelled | Ended::Lost => RecorderEnd::Stopped,
        }
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("task", &self.envelope.task_id).finish_non_exhaustive()
    }
}
