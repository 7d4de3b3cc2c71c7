//! Flow keys in worlds that have them: after every commit, no key has more leases than its limit.
//!
//! That no slot leaks and no parked task is forgotten shows at the end of a world: every run must have ended.

use store::{Browse, FlowFilter, Store};
use storetest::MemoryStore;
use verdict::{Name, Scope};

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
                log.violate("flow", format_args!("`{key}` has {held} leases of {limit}"));
            }
            if row.parked() > 0 {
                log.reach_goal(CoverageGoal::TaskParked);
            }
        }
    }
}
