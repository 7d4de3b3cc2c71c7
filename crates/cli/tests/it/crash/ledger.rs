//! What the test was told, kept where no crash of the server reaches it.
//!
//! Only acknowledgements are written down. Whatever stands here must be true for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;
use wire::answers::Envelope;

/// Only a test that fails waits for this long.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct Ledger {
    told: Mutex<Told>,
    totals: watch::Sender<Totals>,
}

#[derive(Default)]
struct Told {
    /// Run by idempotency key.
    runs: BTreeMap<String, String>,
    /// Output by run, as its worker reported it.
    outputs: BTreeMap<String, String>,
    /// Leases whose worker fell silent after it had begun.
    abandoned: Vec<Envelope>,
    abandoned_runs: BTreeSet<String>,
    /// Leases whose worker came back after their time.
    overslept: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) submitted: usize,
    pub(crate) committed: usize,
    /// Calls that nobody answered, or that were answered 503.
    pub(crate) unknown: usize,
    /// Answers that were the recorded ones.
    pub(crate) replayed: usize,
}

impl Totals {
    fn acknowledged(&self) -> usize {
        self.submitted + self.committed
    }
}

impl Ledger {
    pub(crate) fn submitted(&self, key: String, run: String) {
        let before = self.told.lock().unwrap().runs.insert(key, run);
        assert_eq!(before, None, "every key is submitted by one client until it is acknowledged");
        self.totals.send_modify(|totals| totals.submitted += 1);
    }

    pub(crate) fn committed(&self, run: String, output: String) {
        let before = self.told.lock().unwrap().outputs.insert(run.clone(), output);
        assert_eq!(before, None, "{run} was committed twice");
        self.totals.send_modify(|totals| totals.committed += 1);
    }

    pub(crate) fn unknown(&self) {
        self.totals.send_modify(|totals| totals.unknown += 1);
    }

    pub(crate) fn replayed(&self) {
        self.totals.send_modify(|totals| totals.replayed += 1);
    }

    /// True for the first who asks about a run.
    pub(crate) fn abandon(&self, envelope: &Envelope) -> bool {
        let mut told = self.told.lock().unwrap();
        let is_first = told.abandoned_runs.insert(envelope.run_id.clone());
        if is_first {
            told.abandoned.push(envelope.clone());
        }
        is_first
    }

    pub(crate) fn overslept(&self, envelope: &Envelope) {
        self.told.lock().unwrap().overslept.insert(envelope.lease_id.clone());
    }

    /// Leases that may have been lost: their worker was silent or late.
    pub(crate) fn losable(&self) -> BTreeSet<String> {
        let told = self.told.lock().unwrap();
        let abandoned = told.abandoned.iter().map(|lease| lease.lease_id.clone());
        abandoned.chain(told.overslept.iter().cloned()).collect()
    }

    pub(crate) fn totals(&self) -> Totals {
        *self.totals.borrow()
    }

    pub(crate) fn runs(&self) -> BTreeMap<String, String> {
        self.told.lock().unwrap().runs.clone()
    }

    pub(crate) fn output(&self, run: &str) -> Option<String> {
        self.told.lock().unwrap().outputs.get(run).cloned()
    }

    pub(crate) fn abandoned(&self) -> Vec<Envelope> {
        self.told.lock().unwrap().abandoned.clone()
    }

    /// Waits for this many acknowledgements more than there are.
    pub(crate) async fn further(&self, acknowledgements: usize) {
        let enough = self.totals().acknowledged() + acknowledgements;
        self.until("acknowledgements", |totals| totals.acknowledged() >= enough).await;
    }

    /// Waits until every accepted run has its committed report.
    pub(crate) async fn all_committed(&self) {
        self.until("the end of every run", |totals| totals.committed == totals.submitted).await;
    }

    async fn until(&self, what: &str, holds: impl FnMut(&Totals) -> bool) {
        let mut totals = self.totals.subscribe();
        let waited = tokio::time::timeout(PATIENCE, totals.wait_for(holds)).await;
        let totals = self.totals();
        waited.unwrap_or_else(|_| panic!("{what} did not come: {totals:?}")).unwrap();
    }
}
