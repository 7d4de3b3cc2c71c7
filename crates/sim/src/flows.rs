//! Flow keys in worlds that have them: after every commit, no key has more slots held than its limit; and in the end, no window of a
//! rate has more starts than it allows.
//!
//! That no slot leaks and no parked task is forgotten shows at the end of a world: every run must have ended.

use std::collections::BTreeMap;

use store::row::FlowRef;
use store::{Browse, Entry, FlowFilter, Store, StoredTask};
use storetest::MemoryStore;
use verdict::flow::{Hold, Rate, flow_of};
use verdict::{Event, Name, Scope, Time};

use crate::coverage::CoverageGoal;
use crate::log::Log;

/// More keys than a world has.
const KEYS_MAX: usize = 100;

/// Looks at the committed state, in one snapshot for each scope.
pub(crate) async fn check(log: &Log, store: &MemoryStore) {
    let scopes = store.browse().queues(None).await.expect("memory can be read");
    let mut scopes: Vec<Scope> = scopes.into_iter().map(|depth| depth.scope).collect();
    scopes.dedup();
    for scope in scopes {
        let (key, after): (Option<Name>, Option<Name>) = (None, None);
        let filter = FlowFilter { scope, key, after, limit: KEYS_MAX, holders: 0 };
        for row in store.browse().flow_keys(&filter).await.expect("memory can be read") {
            if row.held > u64::from(row.limit) {
                let (key, held, limit) = (&row.key, row.held, row.limit);
                log.violate("flow", format_args!("`{key}` has {held} slots held of {limit}"));
            }
            if row.parked() > 0 {
                log.reach_goal(CoverageGoal::TaskParked);
            }
            if row.opens_at.is_some() && row.ready > 0 {
                log.reach_goal(CoverageGoal::TaskTooEarly);
            }
        }
    }
}

/// Counts starts in the histories of all runs, by the instants that these have.
pub(crate) fn check_rates(log: &Log, all: &[(&StoredTask, &[Entry])]) {
    let mut starts: BTreeMap<FlowRef, (Rate, Vec<Time>)> = BTreeMap::new();
    for (found, history) in all {
        note_kept(log, history);
        let (Some(flow), Some(scope)) = (flow_of(&found.subject), found.subject.scope()) else {
            continue;
        };
        let Some(rate) = flow.rate else { continue };
        let key = FlowRef { scope: scope.clone(), key: flow.name.clone() };
        let (_, starts) = starts.entry(key).or_insert_with(|| (rate, Vec::new()));
        starts.extend(history.iter().filter(|entry| is_start(entry)).map(|entry| entry.at));
    }
    for (FlowRef { key, .. }, (rate, mut starts)) in starts {
        starts.sort_unstable();
        let count = rate.count as usize;
        let is_too_many = |it: &&[Time]| it[count].since(it[0]) < rate.per;
        if let Some(window) = starts.windows(count + 1).find(is_too_many) {
            log.violate("flow", format_args!("`{key}` started too often: {window:?}"));
        }
    }
}

fn is_start(entry: &Entry) -> bool {
    entry.events.iter().any(|event| matches!(event, Event::Granted { .. }))
}

/// A run that was leased twice kept its slot in between, if it holds it for life.
fn note_kept(log: &Log, history: &[Entry]) {
    let is_life = history.iter().flat_map(|entry| &entry.events).any(|event| {
        let Event::Submitted(submitted) = event else { return false };
        submitted.flow.as_ref().is_some_and(|flow| flow.hold == Hold::Life)
    });
    if is_life && history.iter().filter(|entry| is_start(entry)).count() > 1 {
        log.reach_goal(CoverageGoal::SlotKept);
    }
}
