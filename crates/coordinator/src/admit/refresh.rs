//! Keys and limits, read from the store again: another coordinator or the command line may have changed them.
//!
//! Invariant: what was changed here is never replaced by rows from before the change. A key that was just made would be
//! unknown for a moment, and one that was just revoked valid.

use store::{AdministrationRows, Failure, SealedRing};

use super::ApiKeys;
use crate::allowances::Allowances;

/// Replaces the keys and limits by those that `read` finds, and returns the signing keys found with them. Nothing is
/// changed here from before the read until its rows are in force.
pub(crate) async fn refresh(
    keys: &ApiKeys,
    allowances: &Allowances,
    read: impl Future<Output = Result<AdministrationRows, Failure>>,
) -> Result<Option<SealedRing>, Failure> {
    let _turn = keys.changing.of_server().await;
    let rows = read.await?;
    allowances.share_among(rows.coordinators);
    allowances.replace(rows.tenant_limits);
    keys.replace(rows.api_keys);
    Ok(rows.ring)
}

#[cfg(test)]
mod tests {
    use store::{ApiKey, TenantLimits};
    use verdict::{Name, Scope, Time};

    use super::*;
    use crate::admit::{NewKey, Role};
    use crate::ids::SeededEntropy;

    fn rows(api_keys: Vec<ApiKey>, tenant_limits: Vec<TenantLimits>) -> AdministrationRows {
        AdministrationRows { api_keys, tenant_limits, ring: None, coordinators: 2 }
    }

    fn key(seed: u64) -> ApiKey {
        NewKey::generate(&mut SeededEntropy::new(seed), Scope::default(), &Role::ALL)
            .row(Time::from_millis(0))
    }

    #[tokio::test]
    async fn a_key_that_is_made_during_the_read_stays_known() {
        let (keys, allowances, made) = (ApiKeys::default(), Allowances::default(), key(1));
        let making = async {
            let _turn = keys.changing.of_tenant(&"t".into()).await;
            keys.put(made.clone());
        };
        let read_before = async {
            tokio::task::yield_now().await;
            Ok(rows(vec![], vec![]))
        };
        let (refreshed, ()) = tokio::join!(refresh(&keys, &allowances, read_before), making);
        refreshed.expect("the read succeeds");
        assert!(keys.get(made.id.as_str()).is_some(), "rows from before it took it back");
    }

    #[tokio::test]
    async fn keys_and_limits_are_those_of_the_store() {
        let (old, new) = (key(1), key(2));
        let (keys, allowances) = (ApiKeys::of([old.clone()]), Allowances::default());
        let limits = TenantLimits {
            tenant: Name::from("acme"),
            requests_per_second: Some(5),
            burst: None,
            unfinished_runs: None,
            changed_at: Time::from_millis(0),
        };
        let found = std::future::ready(Ok(rows(vec![new.clone()], vec![limits])));
        refresh(&keys, &allowances, found).await.expect("the read succeeds");
        assert!(keys.get(old.id.as_str()).is_none() && keys.get(new.id.as_str()).is_some());
        assert!(allowances.get(&Name::from("acme")).is_some());
        assert_eq!(allowances.coordinators(), 2);
    }
}
