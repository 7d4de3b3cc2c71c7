//! Grace for a token that expired while the coordinator could not be reached.
//!
//! Heartbeats bring fresh tokens long before the old one expires. After an outage that is longer than the
//! remaining lifetime of the token, an honest worker has only the old token, and a lease that was extended by
//! the outage. How far the token is extended is a rule ([`verdict::token_grace`]); this module reads the rows it
//! needs.
//!
//! Whether there was such an outage is in the task's history, and calls under a lease have no rate limit. These
//! lookups therefore have one, per tenant, and few of them run at once.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use store::{Browse, RowsAfter, TaskKey};
use tokio::sync::Semaphore;
use verdict::token_grace::{StalledTime, may_be_extended};
use verdict::{Name, Rate, RateUsage, Span, Time};
use wire::Code;

use super::api_error::ApiError;
use super::app_state::AppState;
use crate::admit::TaskPrincipal;
use crate::metrics::LimitKind;

/// History is read in pages of this size; few tasks have a second one.
const PAGE: usize = 512;

/// How many lookups a second a tenant may cause. After an outage of an hour each of its workers asks once and
/// then has a fresh token; a tenant that asks more often has tokens without grace.
const LOOKUPS_PER_SECOND: u32 = 250;

/// How many may arrive at once: a fleet that returns together.
const LOOKUP_BURST: u32 = 2_000;

/// How many lookups run at once, for all tenants: the rest of the read capacity is for others.
const CONCURRENT_LOOKUPS: usize = 2;

/// How many tenants' lookups are remembered. More than can ask within the time in which a rate recovers.
const TENANTS_MAX: usize = 10_000;

/// Rate limits of lookups for expired tokens.
pub(crate) struct GraceLookups {
    spent: Mutex<HashMap<Name, RateUsage>>,
    readers: Semaphore,
}

impl Default for GraceLookups {
    fn default() -> Self {
        Self { spent: Mutex::default(), readers: Semaphore::new(CONCURRENT_LOOKUPS) }
    }
}

impl GraceLookups {
    /// Takes one lookup from the tenant's rate, or returns how long to wait for it.
    fn try_acquire(&self, tenant: &Name, now: Time) -> Result<(), Span> {
        let rate = Rate::new(LOOKUPS_PER_SECOND, Some(LOOKUP_BURST));
        let mut spent = self.spent.lock().expect("no code panics while it counts");
        if spent.len() >= TENANTS_MAX && !spent.contains_key(tenant) {
            // A tenant whose rate has fully recovered need not be remembered.
            spent.retain(|_, spent| rate.left(*spent, now) < LOOKUP_BURST);
        }
        let more = rate.try_acquire(spent.get(tenant).copied().unwrap_or_default(), now)?;
        spent.insert(tenant.clone(), more);
        Ok(())
    }
}

/// What the rows say about an expired token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenStatus {
    /// Extended by the stalls, the token is still valid.
    Extended,
    /// Expired, for the current lease: a stall that was not noticed yet could extend it.
    Expired,
    /// Expired, for a lease that is over.
    LeaseOver,
}

/// Looks up the grace of tokens for one call, with one token or many.
#[derive(Default)]
pub(super) struct TokenGrace {
    /// Whether a stall that ended before this call has been noticed. Once is enough for all tokens of the call.
    has_caught_up: bool,
}

impl TokenGrace {
    /// Whether a token is expired only because of an outage of the coordinator.
    pub(super) async fn covers(
        &mut self,
        app: &AppState,
        principal: &TaskPrincipal,
    ) -> Result<bool, ApiError> {
        let tenant = &principal.token().scope.tenant;
        let asked = app.inner.grace_lookups.try_acquire(tenant, app.coordinator.now());
        asked.map_err(|wait| rate_limited(app, wait))?;
        match token_status(app, principal).await? {
            TokenStatus::Extended => return Ok(true),
            TokenStatus::LeaseOver => return Ok(false),
            TokenStatus::Expired if self.has_caught_up => return Ok(false),
            TokenStatus::Expired => {}
        }
        app.decided(app.coordinator.has_caught_up()).await??;
        self.has_caught_up = true;
        Ok(token_status(app, principal).await? == TokenStatus::Extended)
    }
}

fn rate_limited(app: &AppState, wait: Span) -> ApiError {
    app.coordinator.metrics().count_limited(LimitKind::ExpiredTokens, 1);
    let message = "too many expired task tokens at once; wait for the time in Retry-After, or stop working on these tasks";
    let wait = Some(Duration::from_millis(wait.millis()));
    ApiError { retry_after: wait, ..ApiError::new(Code::TooManyRequests, message) }
}

async fn token_status(app: &AppState, principal: &TaskPrincipal) -> Result<TokenStatus, ApiError> {
    let token = principal.token();
    let key = TaskKey { scope: token.scope.clone(), id: token.task };
    let reading = async {
        let _turn = app.inner.grace_lookups.readers.acquire().await;
        let browse = app.coordinator.browse();
        let stalled = stalled_time(browse, &key, principal.issued_at()).await?;
        if !principal.is_expired(app.coordinator.now(), stalled.total()) {
            return Ok(TokenStatus::Extended);
        }
        let found = browse.find(&key).await?;
        let can_grow = found.is_some_and(|found| may_be_extended(&found.subject, token.lease));
        Ok(if can_grow { TokenStatus::Expired } else { TokenStatus::LeaseOver })
    };
    app.read(reading).await
}

/// The stalls since `issued_at`, from the task's history.
async fn stalled_time(
    browse: &impl Browse,
    key: &TaskKey,
    issued_at: Time,
) -> Result<StalledTime, store::Failure> {
    let (mut stalled, mut after) = (StalledTime::since(issued_at), 0);
    loop {
        let page = browse.rows(key, RowsAfter::Entry(after), PAGE).await?.history;
        page.iter().for_each(|entry| stalled.count(&entry.request));
        match page.last() {
            Some(last) => after = last.n,
            None => return Ok(stalled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_have_a_rate_for_each_tenant_and_few_tenants_are_remembered() {
        let grace_lookups = GraceLookups::default();
        let now = Time::from_millis(5_000);
        let passed = |tenant: &str, now| {
            (0..LOOKUP_BURST * 2)
                .filter(|_| grace_lookups.try_acquire(&tenant.into(), now).is_ok())
                .count()
        };
        assert_eq!(passed("acme", now), LOOKUP_BURST as usize);
        assert_eq!(passed("other", now), LOOKUP_BURST as usize, "each has its own");
        let later = now.plus(Span::from_secs(1));
        assert_eq!(passed("acme", later), LOOKUPS_PER_SECOND as usize);
        for n in 0..TENANTS_MAX * 2 {
            let when = later.plus(Span::from_secs(3_600 + n as u64));
            assert!(grace_lookups.try_acquire(&format!("t{n}").into(), when).is_ok());
        }
        assert!(grace_lookups.spent.lock().unwrap().len() <= TENANTS_MAX);
    }
}
