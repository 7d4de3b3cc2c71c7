//! The limits of each tenant and their use: limits from the store, and counters in memory.
//!
//! The store is the source of truth for limits; a change is in force before its caller is answered. The number of a
//! tenant's unfinished runs and children is read once at the start and updated by every commit, which is exact while one coordinator
//! writes; with several, the store counts inside the batch instead. The spent part of a rate may be lost: it recovers
//! within seconds anyway. Several coordinators share each rate. The rules themselves are in [`verdict::allowance`].
//! Budgets of tenants and workspaces are beside them ([`crate::scope_budgets`]).

use std::collections::HashMap;
#[cfg(feature = "http")]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use store::{Browse, Change, DynBrowse, Failure, TenantLimits, Unfinished};
use verdict::{Name, Subject};
#[cfg(feature = "http")]
use verdict::{Rate, RateUsage, Span, Time};

use crate::scope_budgets::BudgetDirectory;

/// Shared by the HTTP API and the carrier; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Allowances {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Whether any tenant has limits, so that unused limits cost nothing.
    any: AtomicBool,
    limits: RwLock<HashMap<Name, Arc<TenantLimits>>>,
    #[cfg(feature = "http")]
    rates: Rates,
    /// At most one entry per tenant with unfinished runs.
    unfinished: Mutex<HashMap<Name, Unfinished>>,
    budgets: BudgetDirectory,
}

/// How much of each rate is spent.
#[cfg(feature = "http")]
#[derive(Default)]
struct Rates {
    /// How many coordinators share each rate; 0 counts as 1.
    sharers: AtomicU32,
    /// At most one entry per tenant with a rate.
    spent: Mutex<HashMap<Name, RateUsage>>,
    /// When a tenant was last refused because of its rate. At most one entry per tenant with a rate.
    refused: Mutex<HashMap<Name, Time>>,
}

/// A tenant's rate, and what is left of it.
#[cfg(feature = "http")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateStanding {
    pub(crate) per_second: u32,
    pub(crate) burst: u32,
    pub(crate) left: u32,
    /// The time until the next request is allowed, if none is now.
    pub(crate) wait: Option<Span>,
    pub(crate) refused_at: Option<Time>,
}

/// How a batch changes the unfinished work, by tenant.
pub(crate) type Moved = HashMap<Name, Moves>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moves {
    runs: i64,
    children: i64,
}

impl Allowances {
    pub(crate) async fn load(browse: &DynBrowse) -> Result<Self, Failure> {
        let allowances = Self::default();
        allowances.replace(browse.administration().await?.tenant_limits);
        allowances.budgets().reload(browse).await?;
        let mut unfinished: HashMap<Name, Unfinished> = HashMap::new();
        for depth in browse.queues(None).await? {
            let of_tenant = unfinished.entry(depth.scope.tenant).or_default();
            of_tenant.runs += depth.runs;
            of_tenant.children += depth.unfinished.saturating_sub(depth.runs);
        }
        *allowances.unfinished_runs() = unfinished;
        Ok(allowances)
    }

    pub(crate) fn replace(&self, rows: Vec<TenantLimits>) {
        let rows = rows.into_iter().map(|row| (row.tenant.clone(), Arc::new(row)));
        let limits: HashMap<_, _> = rows.collect();
        self.inner.any.store(!limits.is_empty(), Ordering::Release);
        *self.inner.limits.write().expect("no code panics while it holds the limits") = limits;
    }

    pub(crate) fn get(&self, tenant: &Name) -> Option<Arc<TenantLimits>> {
        if !self.inner.any.load(Ordering::Acquire) {
            return None;
        }
        let limits = self.inner.limits.read().expect("no code panics while it holds the limits");
        limits.get(tenant).cloned()
    }

    /// What the runs of workspaces and tenants may use.
    pub(crate) fn budgets(&self) -> &BudgetDirectory {
        &self.inner.budgets
    }

    /// How many unfinished runs the tenant may have.
    pub(crate) fn quota(&self, tenant: &Name) -> Option<u64> {
        self.get(tenant)?.unfinished_runs
    }

    pub(crate) fn unfinished(&self, tenant: &Name) -> Unfinished {
        self.unfinished_runs().get(tenant).copied().unwrap_or_default()
    }

    /// Applies a commit's change to the unfinished work.
    pub(crate) fn settle(&self, moved: Moved) {
        if moved.is_empty() {
            return;
        }
        let mut unfinished = self.unfinished_runs();
        for (tenant, by) in moved {
            let before = unfinished.get(&tenant).copied().unwrap_or_default();
            let left = Unfinished {
                runs: before.runs.saturating_add_signed(by.runs),
                children: before.children.saturating_add_signed(by.children),
            };
            if left == Unfinished::default() {
                unfinished.remove(&tenant);
            } else {
                unfinished.insert(tenant, left);
            }
        }
    }

    fn unfinished_runs(&self) -> MutexGuard<'_, HashMap<Name, Unfinished>> {
        self.inner.unfinished.lock().expect("no code panics while it counts")
    }
}

/// A program without the API has no rates.
#[cfg(not(feature = "http"))]
impl Allowances {
    pub(crate) fn allows_firing(&self, _: &Name, _: u64, _: verdict::Time) -> bool {
        true
    }
}

/// What only the API asks for: changes of limits, and rates.
#[cfg(feature = "http")]
impl Allowances {
    pub(crate) fn put(&self, row: TenantLimits) {
        let mut limits =
            self.inner.limits.write().expect("no code panics while it holds the limits");
        // Use under the old rate says nothing about the new one.
        self.spent().remove(&row.tenant);
        self.refused().remove(&row.tenant);
        limits.insert(row.tenant.clone(), Arc::new(row));
        self.inner.any.store(true, Ordering::Release);
    }

    /// The limits of all tenants, sorted by name.
    pub(crate) fn all(&self) -> Vec<Arc<TenantLimits>> {
        let limits = self.inner.limits.read().expect("no code panics while it holds the limits");
        let mut all: Vec<_> = limits.values().cloned().collect();
        all.sort_by(|one, other| one.tenant.cmp(&other.tenant));
        all
    }

    /// Takes so many requests from the tenant's rate for a run that time starts, if there is one.
    pub(crate) fn allows_firing(&self, tenant: &Name, requests: u64, now: Time) -> bool {
        let is_allowed = self.try_acquire(tenant, now).is_ok();
        if is_allowed {
            self.charge(tenant, requests - 1, now);
        }
        is_allowed
    }

    /// Takes what a call stands for beyond the one request that it was let in for: later calls wait for it.
    pub(crate) fn charge(&self, tenant: &Name, requests: u64, now: Time) {
        let limits = self.get(tenant).filter(|_| requests > 0);
        let Some((per_second, burst)) =
            limits.and_then(|it| Some((it.requests_per_second?, it.burst)))
        else {
            return;
        };
        let mut spent = self.spent();
        let spent = spent.entry(tenant.clone()).or_default();
        *spent = self.share_of(per_second, burst).charged(*spent, now, requests);
    }

    /// Takes one request from the tenant's rate, or returns how long to wait for it.
    pub(crate) fn try_acquire(&self, tenant: &Name, now: Time) -> Result<(), Span> {
        let Some(limits) = self.get(tenant) else { return Ok(()) };
        let Some(per_second) = limits.requests_per_second else { return Ok(()) };
        let mut spent = self.spent();
        let spent = spent.entry(tenant.clone()).or_default();
        match self.share_of(per_second, limits.burst).try_acquire(*spent, now) {
            Ok(more) => {
                *spent = more;
                Ok(())
            }
            Err(wait) => {
                self.refused().insert(tenant.clone(), now);
                Err(wait)
            }
        }
    }

    /// The tenant's rate and what is left of it, if it has one.
    pub(crate) fn rate(&self, tenant: &Name, now: Time) -> Option<RateStanding> {
        let limits = self.get(tenant)?;
        let per_second = limits.requests_per_second?;
        let rate = self.share_of(per_second, limits.burst);
        let spent = self.spent().get(tenant).copied().unwrap_or_default();
        Some(RateStanding {
            per_second,
            burst: rate.burst(),
            left: rate.left(spent, now),
            wait: rate.try_acquire(spent, now).err(),
            refused_at: self.refused().get(tenant).copied(),
        })
    }

    /// This coordinator's share of a rate. Rounded up, so that no tenant is shut out.
    fn share_of(&self, per_second: u32, burst: Option<u32>) -> Rate {
        let sharers = self.coordinators();
        Rate::new(per_second.div_ceil(sharers), burst.map(|burst| burst.div_ceil(sharers)))
    }

    /// Sets how many coordinators accept requests: each allows its share of every rate.
    pub(crate) fn share_among(&self, coordinators: u32) {
        self.inner.rates.sharers.store(coordinators, Ordering::Relaxed);
    }

    /// How many coordinators share the store, as counted last.
    pub(crate) fn coordinators(&self) -> u32 {
        self.inner.rates.sharers.load(Ordering::Relaxed).max(1)
    }

    fn spent(&self) -> MutexGuard<'_, HashMap<Name, RateUsage>> {
        self.inner.rates.spent.lock().expect("no code panics while it counts")
    }

    fn refused(&self) -> MutexGuard<'_, HashMap<Name, Time>> {
        self.inner.rates.refused.lock().expect("no code panics while it counts")
    }
}

/// Notes a change that is about to be saved: a new run or child, or one that ended.
pub(crate) fn note(moved: &mut Moved, change: &Change) {
    let by = match (&change.after, change.before) {
        (Subject::Live(_), None) => 1,
        (Subject::Done(_), Some(_)) => -1,
        _ => return,
    };
    let Some(scope) = change.after.scope() else { return };
    let of_tenant = moved.entry(scope.tenant.clone()).or_default();
    if change.after.is_child() {
        of_tenant.children += by;
    } else {
        of_tenant.runs += by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(per_second: Option<u32>, runs: Option<u64>) -> TenantLimits {
        TenantLimits {
            tenant: "acme".into(),
            requests_per_second: per_second,
            burst: None,
            unfinished_runs: runs,
            changed_at: Time::default(),
        }
    }

    #[test]
    fn only_who_has_limits_is_limited_and_a_new_rate_begins_afresh() {
        let allowances = Allowances::default();
        let (acme, other) = (Name::from("acme"), Name::from("other"));
        let now = Time::from_millis(5_000);
        assert!((0..100).all(|_| allowances.try_acquire(&acme, now).is_ok()));
        allowances.put(limits(Some(2), None));
        let passed = (0..9).filter(|_| allowances.try_acquire(&acme, now).is_ok()).count();
        assert_eq!(passed, 2);
        assert!((0..100).all(|_| allowances.try_acquire(&other, now).is_ok()));
        allowances.put(limits(Some(3), Some(7)));
        let passed = (0..9).filter(|_| allowances.try_acquire(&acme, now).is_ok()).count();
        assert_eq!((passed, allowances.quota(&acme), allowances.quota(&other)), (3, Some(7), None));
        allowances.put(limits(None, None));
        assert!((0..100).all(|_| allowances.try_acquire(&acme, now).is_ok()));
    }

    #[test]
    fn coordinators_share_a_rate() {
        let (allowances, acme) = (Allowances::default(), Name::from("acme"));
        allowances.put(limits(Some(10), None));
        allowances.share_among(3);
        let now = Time::from_millis(5_000);
        // Rounded up, so that no tenant is shut out: at most one request a second too many for each.
        assert_eq!((0..99).filter(|_| allowances.try_acquire(&acme, now).is_ok()).count(), 4);
    }

    #[test]
    fn unfinished_runs_follow_the_commits() {
        let (allowances, acme) = (Allowances::default(), Name::from("acme"));
        let moves = |runs, children| Moves { runs, children };
        allowances.settle(Moved::from([(acme.clone(), moves(3, 0))]));
        allowances
            .settle(Moved::from([(acme.clone(), moves(-2, 5)), ("other".into(), moves(1, 0))]));
        assert_eq!(allowances.unfinished(&acme), Unfinished { runs: 1, children: 5 });
        allowances.settle(Moved::from([(acme.clone(), moves(-1, -5))]));
        assert_eq!(allowances.unfinished(&acme), Unfinished::default());
        assert_eq!(allowances.unfinished_runs().len(), 1, "nobody is kept for nothing");
    }
}
