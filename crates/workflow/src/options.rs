//! The options of a run, once for every builder that has them: submissions, calls and lists of calls.
//!
//! A macro, because a trait would have to be imported by everyone who sets a priority. A builder that uses it has
//! `fn change(self, change: impl FnOnce(&mut SubmitRun)) -> Self`. Values are not checked: the coordinator knows their
//! limits and refuses values outside of them, so that each limit is defined in one place.
//! Every such builder is `must_use` itself.

use std::time::{Duration, SystemTime};

use wire::Time;

/// The methods that set options of a run. For the SDK; not a part of the public interface.
#[doc(hidden)]
#[macro_export]
macro_rules! run_options {
    () => {
        /// What the run is for, in words.
        pub fn goal(self, goal: impl Into<String>) -> Self {
            self.change(|run| run.goal = Some(goal.into()))
        }

        /// Adds a label to find the run by.
        pub fn label(self, name: impl Into<String>, value: impl Into<String>) -> Self {
            self.labels([(name, value)])
        }

        /// Adds many labels.
        pub fn labels<N: Into<String>, V: Into<String>>(
            self,
            labels: impl IntoIterator<Item = (N, V)>,
        ) -> Self {
            let labels = labels.into_iter().map(|(name, value)| (name.into(), value.into()));
            self.change(|run| run.labels.extend(labels))
        }

        /// What the run and its descendants may use. The call that crosses a limit halts the run, with every step kept.
        pub fn budget(self, budget: impl Into<$crate::wire::requests::Budget>) -> Self {
            self.change(|run| run.budget = Some(budget.into()))
        }

        /// Limits across runs with the same key. A run has one key; a second one replaces the first.
        pub fn flow_key(self, flow_key: impl Into<$crate::wire::requests::Flow>) -> Self {
            self.change(|run| run.flow = Some(flow_key.into()))
        }

        /// Higher goes first, from -1000 to 1000; 0 by default.
        pub fn priority(self, priority: i32) -> Self {
            self.change(|run| run.priority = Some(priority))
        }

        /// The earliest start, as a delay that begins when the coordinator accepts the run. It replaces an instant that
        /// was given before.
        pub fn delay(self, delay: ::std::time::Duration) -> Self {
            let delay = Some($crate::options::millis(delay));
            self.change(|run| (run.run_at, run.delay_ms) = (None, delay))
        }

        /// The earliest start. It replaces a delay that was given before.
        pub fn run_at(self, at: impl Into<::std::time::SystemTime>) -> Self {
            let at = Some($crate::options::instant(at.into()));
            self.change(|run| (run.run_at, run.delay_ms) = (at, None))
        }

        /// Fails the run with category TIMEOUT if it has not ended by then.
        pub fn deadline(self, at: impl Into<::std::time::SystemTime>) -> Self {
            let at = Some($crate::options::instant(at.into()));
            self.change(|run| (run.deadline, run.deadline_ms) = (at, None))
        }

        /// Fails the run with category TIMEOUT if it has not ended this long after the coordinator accepted it.
        pub fn deadline_in(self, span: ::std::time::Duration) -> Self {
            let span = Some($crate::options::millis(span));
            self.change(|run| (run.deadline, run.deadline_ms) = (None, span))
        }

        /// Fails the run with the reason TTL_EXPIRED if no worker has taken it this long after it may start. A run that
        /// has been taken is not touched.
        pub fn ttl(self, span: ::std::time::Duration) -> Self {
            self.change(|run| run.ttl_ms = Some($crate::options::millis(span)))
        }

        /// How many attempts may report a failure before the run fails; 3 by default.
        pub fn max_attempts(self, attempts: u32) -> Self {
            self.change(|run| run.max_attempts = Some(attempts))
        }

        /// How many attempts may be lost with their worker before the run fails; 3 by default.
        pub fn max_lost_attempts(self, attempts: u32) -> Self {
            self.change(|run| run.lost_max = Some(attempts))
        }

        /// The pause before the first retry; it doubles with every further one, up to `max`. 5 s and 5 min by default.
        pub fn retry_backoff(
            self,
            initial: ::std::time::Duration,
            max: ::std::time::Duration,
        ) -> Self {
            let (base_ms, cap_ms) =
                ($crate::options::millis(initial), $crate::options::millis(max));
            let (base_ms, cap_ms) = (Some(base_ms), Some(cap_ms));
            self.change(|run| run.retry = Some($crate::wire::requests::Retry { base_ms, cap_ms }))
        }

        /// Makes the jitter of the pauses between retries reproducible.
        pub fn seed(self, seed: u64) -> Self {
            self.change(|run| run.seed = Some(seed))
        }

        /// How long a worker may go without a heartbeat before it loses the run; 90 s by default.
        pub fn lease(self, lease: ::std::time::Duration) -> Self {
            self.change(|run| run.lease_ms = Some($crate::options::millis(lease)))
        }

        /// The interval between a worker's heartbeats; a third of the lease by default.
        pub fn heartbeat_interval(self, interval: ::std::time::Duration) -> Self {
            self.change(|run| run.heartbeat_interval_ms = Some($crate::options::millis(interval)))
        }

        /// How long a worker may take to stop after a graceful cancel; 30 s by default.
        pub fn cancel_grace(self, grace: ::std::time::Duration) -> Self {
            self.change(|run| run.cancel_grace_ms = Some($crate::options::millis(grace)))
        }

        /// What follows when an attempt makes no progress for this long, although its worker lives. Progress is what
        /// the task reports, and whatever a durable function records.
        pub fn stall(
            self,
            after: ::std::time::Duration,
            action: $crate::wire::requests::StallAction,
        ) -> Self {
            let after_ms = $crate::options::millis(after);
            self.change(|run| run.stall = Some($crate::wire::requests::Stall { after_ms, action }))
        }

        /// The time limit of one attempt. The worker then stops its task, and the attempt fails with category TIMEOUT.
        pub fn attempt_timeout(self, timeout: ::std::time::Duration) -> Self {
            let timeout = Some($crate::options::millis(timeout));
            self.change(|run| run.resources.get_or_insert_default().timeout_ms = timeout)
        }

        /// How much memory an attempt needs: passed to the worker, not enforced.
        pub fn memory_bytes(self, bytes: u64) -> Self {
            self.change(|run| run.resources.get_or_insert_default().memory_bytes = Some(bytes))
        }

        /// How much of a processor an attempt needs: passed to the worker, not enforced.
        pub fn cpu_millicores(self, millicores: u64) -> Self {
            let millicores = Some(millicores);
            self.change(|run| run.resources.get_or_insert_default().cpu_millicores = millicores)
        }

        /// The name of the task in its plan or asset; the kind by default.
        pub fn task_key(self, task_key: impl Into<String>) -> Self {
            self.change(|run| run.task_key = Some(task_key.into()))
        }

        /// The asset that the run makes or changes.
        pub fn asset(self, asset_id: impl Into<String>) -> Self {
            self.change(|run| run.asset_id = Some(asset_id.into()))
        }

        /// The W3C trace context that the run continues: the text of a `traceparent` header.
        pub fn traceparent(self, parent: impl ::std::fmt::Display) -> Self {
            self.change(|run| run.traceparent = Some(parent.to_string()))
        }
    };
}

#[doc(hidden)]
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The instant, or the nearest one that the wire can represent.
#[doc(hidden)]
pub fn instant(at: SystemTime) -> Time {
    let Ok(since) = at.duration_since(SystemTime::UNIX_EPOCH) else { return Time::MIN };
    i64::try_from(since.as_millis()).map_or(Time::MAX, Time::from_ms)
}
