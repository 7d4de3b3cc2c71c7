//! Which refused calls are written to the audit. All of them are counted; their rows are limited, so
//! that an attacker cannot fill the disk.
//!
//! Each principal may cause a few rows an hour, and all callers without a key count as one principal. All principals of a
//! tenant together have a bound, so that a tenant that makes keys to be refused silences no other, and so have all
//! tenants. Unwritten refusals are not lost while the process lives: the next row of the same principal says how many
//! it stands for.

use std::collections::HashMap;
use std::sync::Mutex;

use store::Audit;
use verdict::{Name, Scope, Span, Text, Time};

/// Enough to see that something is wrong, and what.
const ROWS_PER_PRINCIPAL: u32 = 10;

/// A thousand misbehaving keys of a tenant still write less than a megabyte a day.
const ROWS_PER_TENANT: u32 = 100;

/// Fifty tenants at their bound still write less than fifty megabytes a day.
const ROWS_OF_ALL: u32 = 5_000;

const WINDOW: Span = Span::from_secs(3600);

/// The principal of all callers without a known key.
const ANONYMOUS: &str = "anonymous";

const REFUSED: &str = "refused";

/// A refused call.
pub(crate) struct DeniedCall<'a> {
    /// The recognised key, with its scope.
    pub(crate) by: Option<&'a (Name, Scope)>,
    /// Method and route pattern, never the path that was sent.
    pub(crate) route: String,
    pub(crate) code: &'a str,
    /// How often, if it was an item of a batch.
    pub(crate) times: u32,
    pub(crate) request: &'a str,
}

#[derive(Default)]
pub(crate) struct DenialLog {
    counts: Mutex<DenialCounts>,
}

#[derive(Default)]
struct DenialCounts {
    /// Bounded by the number of keys: only known keys have an entry.
    by_principal: HashMap<Name, Count>,
    /// Bounded by the number of tenants that have keys.
    by_tenant: HashMap<Name, Count>,
    all: Count,
}

#[derive(Clone, Copy, Default)]
struct Count {
    since: Time,
    rows: u32,
    /// Refusals since the last row.
    silent: u32,
}

impl Count {
    fn roll(&mut self, now: Time) {
        if now.since(self.since) >= WINDOW {
            (self.since, self.rows) = (now, 0);
        }
    }
}

impl DenialLog {
    /// The row to write about a refusal, if any.
    pub(crate) fn note(&self, refusal: &DeniedCall<'_>, now: Time) -> Option<Audit> {
        let (actor, scope) = refusal.by.cloned().unwrap_or((ANONYMOUS.into(), Scope::default()));
        let mut counts = self.counts.lock().expect("no code panics while it counts");
        let DenialCounts { by_principal, by_tenant, all } = &mut *counts;
        let count = by_principal.entry(actor.clone()).or_default();
        let tenant = by_tenant.entry(scope.tenant.clone()).or_default();
        for it in [&mut *count, &mut *tenant, &mut *all] {
            it.roll(now);
        }
        count.silent = count.silent.saturating_add(refusal.times);
        let is_full = count.rows >= ROWS_PER_PRINCIPAL
            || tenant.rows >= ROWS_PER_TENANT
            || all.rows >= ROWS_OF_ALL;
        if is_full {
            return None;
        }
        for it in [&mut *count, tenant, all] {
            it.rows += 1;
        }
        Some(Audit {
            at: now,
            scope,
            actor,
            action: REFUSED.into(),
            object: Text::from(refusal.route.as_str()),
            code: Some(refusal.code.into()),
            times: std::mem::take(&mut count.silent),
            before: None,
            after: None,
            request: Some(refusal.request.into()),
            seal: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal<'a>(by: Option<&'a (Name, Scope)>) -> DeniedCall<'a> {
        DeniedCall {
            by,
            route: "POST /v1/runs".to_owned(),
            code: "forbidden",
            times: 1,
            request: "req_1",
        }
    }

    fn principal(n: u32) -> (Name, Scope) {
        (Name::from(format!("k{n}")), Scope::new("acme", "main"))
    }

    const HOUR: i64 = 3_600_000;

    #[test]
    fn a_stubborn_caller_writes_a_few_rows_an_hour() {
        let refusals = DenialLog::default();
        let at = |millis| Time::from_millis(HOUR + millis);
        let rows = (0..1000).filter_map(|n| refusals.note(&refusal(None), at(n))).count();
        assert_eq!(rows, ROWS_PER_PRINCIPAL as usize);
        // The first principal does not silence another.
        let other = principal(1);
        let row = refusals.note(&refusal(Some(&other)), at(1)).unwrap();
        assert_eq!((row.actor, row.scope, row.times), (other.0.clone(), other.1.clone(), 1));
        // The next row stands for all unwritten ones.
        assert!(refusals.note(&refusal(None), at(HOUR - 1)).is_none());
        let row = refusals.note(&refusal(None), at(HOUR)).unwrap();
        assert_eq!(row.times, 1000 - ROWS_PER_PRINCIPAL + 2);
        assert_eq!(refusals.note(&refusal(None), at(HOUR)).unwrap().times, 1);
    }

    #[test]
    fn a_tenant_that_makes_keys_to_be_refused_silences_no_other() {
        let refusals = DenialLog::default();
        let now = Time::from_millis(HOUR);
        let noisy: Vec<_> = (0..1000).map(principal).collect();
        let rows = noisy.iter().filter_map(|it| refusals.note(&refusal(Some(it)), now)).count();
        assert_eq!(rows, ROWS_PER_TENANT as usize);
        let other = (Name::from("k"), Scope::new("globex", "main"));
        assert!(refusals.note(&refusal(Some(&other)), now).is_some());
    }

    #[test]
    fn all_tenants_together_have_a_bound_too() {
        let refusals = DenialLog::default();
        let now = Time::from_millis(HOUR);
        let one = |n| (Name::from(format!("k{n}")), Scope::new(format!("t{n}"), "main"));
        let rows =
            (0..2 * ROWS_OF_ALL).filter(|n| refusals.note(&refusal(Some(&one(*n))), now).is_some());
        assert_eq!(rows.count(), ROWS_OF_ALL as usize);
    }

    #[test]
    fn items_of_a_batch_count_each() {
        let (refusals, by) = (DenialLog::default(), principal(1));
        let batch = DeniedCall { times: 71, ..refusal(Some(&by)) };
        assert_eq!(refusals.note(&batch, Time::from_millis(HOUR)).unwrap().times, 71);
    }
}
