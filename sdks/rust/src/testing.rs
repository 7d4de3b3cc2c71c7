//! Runs a task or a durable function without a coordinator, in a unit test.
//!
//! Returns what a worker would have reported: input and output pass through JSON, and a panic is a
//! failure. There is no lease, so only [`cancel`] stops a task.
//!
//! [`FlowTest`] runs a durable function in memory: a day passes at once, signals and children are values, and workers die
//! where the test says so.
//!
//! ```
//! use std::time::Duration;
//! use tenure::{Failure, Flow, testing::FlowTest};
//!
//! async fn order(flow: Flow, cents: u64) -> Result<String, Failure> {
//!     flow.step("charge", async |_| Ok(cents)).await?;
//!     flow.sleep(Duration::from_secs(86_400)).await;
//!     let by: String = flow.signal("approve").await?;
//!     Ok(format!("approved by {by}"))
//! }
//!
//! let mut run = FlowTest::new(order, &500).signal_after(Duration::from_secs(3600), "approve", &"Ada");
//! let ended = run.run().expect("nothing keeps it from ending");
//! assert_eq!(ended.output::<String>(), "approved by Ada");
//! assert_eq!(ended.keys(), ["charge#1", "sleep#1", "signal:approve#1"]);
//! ```
//!
//! [`FlowTest::run`] is for steps that wait for nothing outside; await [`FlowTest::run_async`] for others.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use wire::answers::Envelope;
use wire::{Json, Time};
use workflow::Failure;
pub use workflow::testing::{Crash, Ended, FlowTest, ReplayError, TestError};

use crate::codec::Sealer;
use crate::worker::clock::Clock;
use crate::worker::lease_state::LeaseState;
use crate::worker::task::{read, typed, write};
use crate::worker::{Ctx, StopReason, catch_panic};
use crate::{Client, Codec, Retries};

/// No server can listen on port 0: every call fails at once.
const NO_COORDINATOR: &str = "http://127.0.0.1:0";

/// Runs a task's function as a worker would, with attempt 1 and fence 1.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use tenure::{Ctx, Failure, testing::run_inline};
///
/// async fn double(_: Ctx, n: u32) -> Result<u32, Failure> {
///     Ok(n * 2)
/// }
/// assert_eq!(run_inline(double, &21).await.expect("it doubles"), 42);
/// # }
/// ```
pub async fn run_inline<F, In, I, O, Fut>(work: F, input: &In) -> Result<O, Failure>
where
    F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
    In: Serialize + ?Sized,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + DeserializeOwned,
    Fut: Future<Output = Result<O, Failure>> + Send + 'static,
{
    let output = catch_panic(typed(work)(context(input)?)).await?;
    read(&output)
}

/// A context with this input, for functions that take one.
pub fn context<In: Serialize + ?Sized>(input: &In) -> Result<Ctx, Failure> {
    let envelope = Arc::new(envelope(write(&input)?));
    let lease_state = LeaseState::new(String::new(), Clock::system());
    let client = Client::new(NO_COORDINATOR, "inline")?.with_retries(Retries::NONE);
    Ok(Ctx::new(envelope, Arc::new(lease_state), "inline".into(), client))
}

/// The same context with a client for [`Ctx::client`]. Without one, calls of that client fail,
/// because there is no coordinator.
pub fn with_client(ctx: Ctx, client: Client) -> Ctx {
    ctx.with_client(client)
}

/// Replays a golden file whose payloads a codec wrote. [`FlowTest::replay`] is for plain ones.
///
/// ```no_run
/// # use tenure::{Codec, Failure, Flow};
/// use tenure::testing::{FlowTest, replay};
///
/// # async fn order(_: Flow, cents: u64) -> Result<u64, Failure> { Ok(cents) }
/// # fn example(codec: impl Codec + 'static) {
/// replay(&FlowTest::new(order, &0), "tests/golden/order.jsonl", codec).expect("the code still fits");
/// # }
/// ```
pub fn replay(
    function: &FlowTest<'_>,
    path: impl AsRef<Path>,
    codec: impl Codec + 'static,
) -> Result<(), ReplayError> {
    let sealer = Sealer::new(codec);
    function.replay_opened(path.as_ref(), &|stored| sealer.open(stored), sealer.digest())
}

/// Asks the task of a context to stop, as a cancelled run would.
pub fn cancel(ctx: &Ctx, reason: &str) {
    ctx.stop(StopReason::CancelRequested { reason: Some(reason.to_owned()) });
}

pub(crate) fn envelope(input: Json) -> Envelope {
    let members = json!({
        "taskId": "task_inline",
        "runId": "run_inline",
        "tenantId": "default",
        "workspaceId": "default",
        "taskKey": "inline",
        "kind": "inline",
        "queue": "inline",
        "attempt": 1,
        "leaseId": "lease_inline",
        "fence": 1,
        "enqueuedAt": Time::MIN,
        "leaseExpiresAt": Time::MAX,
        "callbackBaseUrl": "",
        "taskToken": "",
        "tokenExpiresAt": Time::MAX,
        "heartbeatIntervalMs": 30_000,
        "heartbeatTimeoutMs": 90_000,
        "cancelGracePeriodMs": 30_000,
    });
    let mut envelope: Envelope =
        serde_json::from_value(members).expect("an envelope needs no other members");
    envelope.input = input;
    envelope
}

#[cfg(test)]
mod tests {
    use wire::ErrorCategory;

    use super::*;

    #[tokio::test]
    async fn a_task_runs_without_a_coordinator() {
        // S4-74: tasks can be tested with the client library alone.
        let greet = |ctx: Ctx, name: String| async move {
            Ok(format!("{name}, attempt {}, fence {}", ctx.attempt(), ctx.fence()))
        };
        let greeting = run_inline(greet, "Ada").await;
        assert_eq!(greeting.unwrap(), "Ada, attempt 1, fence 1");
    }

    #[tokio::test]
    async fn an_input_of_another_shape_is_a_matter_of_data() {
        // S4-58: the worker categorises errors that it finds before the task's code runs.
        let double = |_: Ctx, n: u32| async move { Ok(n * 2) };
        let error = run_inline(double, "text").await.unwrap_err();
        assert_eq!(error.category, ErrorCategory::DataQuality);
    }

    #[tokio::test]
    async fn an_output_beyond_the_bound_fails_for_good() {
        let fill = |_: Ctx, n: usize| async move { Ok("x".repeat(n)) };
        let error = run_inline(fill, &(wire::limits::PAYLOAD_BYTES_MAX + 1)).await.unwrap_err();
        assert_eq!(error.retryable, Some(false));
    }

    #[tokio::test]
    async fn a_panic_is_a_failure_that_names_its_place() {
        // S3-56, S4-58: a panic is reported like any other failure.
        let fall = |_: Ctx, n: u32| async move {
            assert!(n > 1, "fell at {n}");
            Ok(n)
        };
        let error = run_inline(fall, &1).await.unwrap_err();
        assert_eq!(error.category, ErrorCategory::UserCode);
        assert!(error.message.contains("fell at 1"), "{error}");
        assert!(error.stack_trace().unwrap().contains("testing.rs"));
    }

    #[tokio::test]
    async fn a_cancelled_context_ends_what_waits_for_it() {
        let ctx = context("x").unwrap();
        cancel(&ctx, "user_requested");
        let waited = ctx.or_cancelled(std::future::pending::<()>()).await;
        assert_eq!(waited.unwrap_err().category, ErrorCategory::Cancelled);
        let reason = Some("user_requested".to_owned());
        assert_eq!(ctx.stop_reason(), Some(StopReason::CancelRequested { reason }));
    }
}
