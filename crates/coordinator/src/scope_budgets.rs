//! Which budgets of tenants and workspaces there are, in memory, and which of them were used since somebody looked.
//!
//! A store without such budgets pays one load of an atomic per batch. A carrier notes the budgets that it saves before their callers
//! are answered; changes through other coordinators are read again every second ([`crate::server`]). What is used is never kept
//! here: a batch that accepts runs reads it from the store, where all coordinators add it up.
//!
//! Invariant: the lock of the budgets and the lock of the used scopes are never held together.
//!
//! The rules are in [`verdict::scope_budget`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use store::spend::budget_of;
use store::{DynBrowse, Failure, SpendRow};
use tokio::sync::Notify;
use verdict::scope_budget::{ScopeBudget, budget_scopes};
use verdict::{Object, ObjectType, Scope};

use crate::directory::{Directory, Listed};

/// The budgets by scope, as they were at one time.
pub(crate) type Budgets = BTreeMap<Scope, ScopeBudget>;

impl Listed for ScopeBudget {
    const TYPE: ObjectType = ObjectType::Budget;
    type Listing = Budgets;

    /// One that was removed is not pending.
    fn put(listing: &mut Budgets, object: &Object) {
        listing.remove(&object.key.scope);
        if let Some(budget) = budget_of(object) {
            listing.insert(object.key.scope.clone(), budget);
        }
    }
}

/// Shared by carriers, the API and whoever tells people; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct BudgetDirectory(Arc<Inner>);

#[derive(Default)]
struct Inner {
    known: Directory<ScopeBudget>,
    /// Scopes with a budget of which something was used.
    used: Mutex<BTreeSet<Scope>>,
    changed: Notify,
}

impl BudgetDirectory {
    /// Reads all budgets again.
    pub(crate) async fn reload(&self, browse: &DynBrowse) -> Result<(), Failure> {
        self.0.known.reload(browse, |_| ()).await.map(drop)
    }

    /// Notes budgets that were saved. Call it once they are durable.
    pub(crate) fn note<'a>(&self, saved: impl Iterator<Item = &'a Object> + Clone) {
        if self.0.known.note(saved.clone()) {
            let budgets = saved.filter(|object| object.key.object_type == ObjectType::Budget);
            budgets.for_each(|object| self.mark(object.key.scope.clone()));
        }
    }

    pub(crate) fn snapshot(&self) -> Arc<Budgets> {
        self.0.known.snapshot()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.known.is_empty()
    }

    /// The budgets that hold for runs of this scope.
    pub(crate) fn of(&self, scope: &Scope) -> Vec<(Scope, ScopeBudget)> {
        if self.is_empty() {
            return Vec::new();
        }
        let known = self.snapshot();
        let found = |scope: Scope| known.get(&scope).cloned().map(|budget| (scope, budget));
        budget_scopes(scope).into_iter().filter_map(found).collect()
    }

    /// Notes what a commit used.
    pub(crate) fn used(&self, rows: &[SpendRow]) {
        if rows.is_empty() || self.is_empty() {
            return;
        }
        let known = self.snapshot();
        let with_budget = rows.iter().filter(|row| known.contains_key(&row.scope));
        with_budget.for_each(|row| self.mark(row.scope.clone()));
    }

    /// At most one entry for each budget.
    fn mark(&self, scope: Scope) {
        self.lock_used().insert(scope);
        self.0.changed.notify_one();
    }

    fn lock_used(&self) -> MutexGuard<'_, BTreeSet<Scope>> {
        self.0.used.lock().expect("no code panics while it holds the scopes")
    }
}

/// For whoever tells people.
#[cfg(feature = "http")]
impl BudgetDirectory {
    /// Marks every budget: what was used before this process began may not have been told.
    pub(crate) fn mark_all(&self) {
        self.snapshot().keys().for_each(|scope| self.mark(scope.clone()));
    }

    pub(crate) fn mark_again(&self, scopes: impl IntoIterator<Item = Scope>) {
        scopes.into_iter().for_each(|scope| self.mark(scope));
    }

    /// Waits until something was used.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// The budgets of which something was used since the last call.
    pub(crate) fn take_used(&self) -> Vec<(Scope, ScopeBudget)> {
        let used = std::mem::take(&mut *self.lock_used());
        let known = self.snapshot();
        let found = |scope: Scope| known.get(&scope).cloned().map(|budget| (scope, budget));
        used.into_iter().filter_map(found).collect()
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// How long a caller may wait for a lock that nothing should hold.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn the_used_scopes_are_free_while_their_taker_waits_for_the_budgets() {
        let budgets = BudgetDirectory::default();
        budgets.mark(Scope::new("acme", "main"));
        let (taker, carrier) = (budgets.clone(), budgets.clone());
        let (tell, told) = mpsc::channel();
        let mut taken = None;
        // A carrier that notes a budget holds the budgets: the taker waits for them.
        budgets.0.known.changing(|_| {
            taken = Some(thread::spawn(move || taker.take_used()));
            thread::spawn(move || {
                while !carrier.0.used.try_lock().is_ok_and(|used| used.is_empty()) {
                    thread::yield_now();
                }
                tell.send(()).unwrap();
            });
            told.recv_timeout(PATIENCE).expect("the taker holds what the carrier needs next");
        });
        assert_eq!(taken.unwrap().join().unwrap().len(), 0, "the scope has no budget");
    }
}
