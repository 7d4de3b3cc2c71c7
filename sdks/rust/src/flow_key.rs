//! Limits that runs share across queues, under a key.

use std::time::Duration;

use wire::requests::{Flow, FlowHold, FlowRate};

use crate::new_run::millis;

/// The key of a flow and the limits of all runs with it. A key has one set of limits while a run with it lives; a limit, a
/// rate or a debounce is required.
///
/// ```
/// use std::time::Duration;
/// use tenure::{FlowKey, Kind, NewRun};
///
/// const SYNC: Kind<u64, ()> = Kind::new("sync").queue("crm");
/// let per_customer = FlowKey::new("customer-7").limit(3).rate(10, Duration::from_secs(1));
/// let run = NewRun::new(SYNC, &7).flow_key(per_customer);
/// # let _ = run;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a flow key limits nothing until a run has it"]
pub struct FlowKey(Flow);

impl FlowKey {
    pub fn new(key: impl Into<String>) -> FlowKey {
        FlowKey(Flow { key: key.into(), ..Flow::default() })
    }

    /// At most so many runs are active at once, in all queues; the others wait and keep no worker. A run that waits, for a
    /// child for example, is not active.
    pub fn limit(mut self, runs: u32) -> FlowKey {
        self.0.limit = Some(runs);
        self
    }

    /// Runs start at most `count` times in any `per`, in all queues. Every lease is a start: a retry too, and a run that goes
    /// on after a wait.
    pub fn rate(mut self, count: u32, per: Duration) -> FlowKey {
        self.0.rate = Some(FlowRate { count, per_ms: millis(per) });
        self
    }

    /// The run waits for `span`. A later submission with this key and a debounce replaces it while it waits: this run ends
    /// `cancelled`, and its reason names the newer one. A run whose wait is over is not touched.
    pub fn debounce(mut self, span: Duration) -> FlowKey {
        self.0.debounce_ms = Some(millis(span));
        self
    }

    /// How long runs that replace each other may wait together; an hour when not given. A steady stream postpones no longer.
    pub fn debounce_max(mut self, max: Duration) -> FlowKey {
        self.0.debounce_max_ms = Some(millis(max));
        self
    }

    /// The run holds its slot from its first lease until it has ended, through waits and retries. Its children share the slot.
    pub fn for_life(mut self) -> FlowKey {
        self.0.hold = Some(FlowHold::Life);
        self
    }

    pub(crate) fn into_wire(self) -> Flow {
        self.0
    }
}

impl From<Flow> for FlowKey {
    fn from(flow: Flow) -> FlowKey {
        FlowKey(flow)
    }
}
