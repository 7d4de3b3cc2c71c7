//! What the load needs from its target: a server over HTTP, or the engine alone.

use std::sync::LazyLock;
use tokio::time::Instant;

use crate::error::BenchError;

pub(crate) const WORKER: &str = "bench";
pub(crate) const KIND: &str = "bench";

/// How long a poll waits: longer than any idle period in a measurement.
pub(crate) const WAIT_MS: u64 = 10_000;

/// One caller. The steps are those of the contract: submit, lease, complete.
pub(crate) trait LoadClient: Send + 'static {
    type Leased: SubmitTime + Send + Sync;

    fn submit(&mut self, count: usize) -> impl Future<Output = Result<(), BenchError>> + Send;

    /// At most `max`, and at least one unless there is none for a long time.
    fn lease(
        &mut self,
        max: usize,
    ) -> impl Future<Output = Result<Vec<Self::Leased>, BenchError>> + Send;

    fn complete(
        &mut self,
        leased: &[Self::Leased],
    ) -> impl Future<Output = Result<(), BenchError>> + Send;

    /// The same; returns what came with the answers, to be completed next.
    fn complete_and_go_on(
        &mut self,
        leased: &[Self::Leased],
    ) -> impl Future<Output = Result<Vec<Self::Leased>, BenchError>> + Send {
        async { self.complete(leased).await.map(|()| Vec::new()) }
    }
}

/// Creates clients of the same target.
pub(crate) trait LoadTarget {
    type Client: LoadClient;

    fn open(&self) -> impl Future<Output = Result<Self::Client, BenchError>> + Send;
}

/// A task that knows when it was submitted.
pub(crate) trait SubmitTime {
    fn submitted_micros(&self) -> u64;

    /// Whether its run ends with it. Only the last stage of a plan does.
    fn ends_run(&self) -> bool {
        true
    }
}

/// Microseconds since this process began to measure.
pub(crate) fn micros_now() -> u64 {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGAN.elapsed().as_micros() as u64
}

/// The input of every task: the time of its submission.
pub(crate) fn input() -> String {
    format!(r#"{{"at":{}}}"#, micros_now())
}

/// Parses [`input`].
pub(crate) fn submitted_micros(input: &str) -> u64 {
    let digits = input.bytes().filter(u8::is_ascii_digit);
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}
