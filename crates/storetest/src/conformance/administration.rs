//! API keys and the audit of their changes.

use store::administration::{
    Administration, ApiKey, Audit, AuditFilter, Audited, PreviousSecret, Seal, TenantLimits,
};
use store::browse::Browse;
use store::failure::{CommitFailure, FailureKind};
use store::seam::Writer;
use verdict::{Digest, Name, Scope};

use super::driver::Driver;
use super::fixture::Fixture;

fn key<F: Fixture>(driver: &Driver<F>, id: &str) -> ApiKey {
    ApiKey {
        id: id.into(),
        scope: Scope::new("acme", "main"),
        roles: vec!["client".into(), "worker".into()],
        digest: Digest::of(&[b"secret"]),
        created_at: driver.now(),
        name: None,
        queues: None,
        expires_at: None,
        revoked_at: None,
        previous: None,
        last_used_at: None,
    }
}

fn audit<F: Fixture>(driver: &Driver<F>, scope: Scope, object: &str) -> Audit {
    Audit {
        at: driver.now(),
        scope,
        actor: "k0".into(),
        action: "key.created".into(),
        object: object.into(),
        code: None,
        times: 1,
        before: None,
        after: Some(Digest::of(&[b"after"])),
        request: Some("req_1".into()),
        seal: Some(Seal([7; Seal::BYTES])),
    }
}

async fn administer<F: Fixture>(driver: &mut Driver<F>, keys: &[&ApiKey], audit: &[&Audit]) {
    driver.pause().await;
    driver.writer().administer(&act(keys, audit)).await.expect("the act is written");
}

fn act(keys: &[&ApiKey], audit: &[&Audit]) -> Administration {
    let keys = keys.iter().map(|key| (*key).clone()).collect();
    let audit = audit.iter().map(|audit| (*audit).clone()).collect();
    Administration { keys, audit, ..Administration::default() }
}

async fn keys<F: Fixture>(driver: &mut Driver<F>) -> Vec<ApiKey> {
    driver.pause().await;
    driver.browse().administration().await.expect("browsing works").api_keys
}

async fn log<F: Fixture>(driver: &mut Driver<F>, filter: AuditFilter) -> Vec<Audited> {
    driver.pause().await;
    driver.browse().audit(&filter).await.expect("browsing works")
}

pub async fn keeps_keys_as_they_are_now<F: Fixture>(driver: &mut Driver<F>) {
    let plain = key(driver, "k1");
    let full = ApiKey {
        name: Some("nightly \"import\"".into()),
        queues: Some(vec!["images".into(), "mail".into()]),
        expires_at: Some(driver.now()),
        previous: Some(PreviousSecret { digest: Digest::of(&[b"old"]), until: driver.now() }),
        ..key(driver, "k2")
    };
    administer(driver, &[&full, &plain], &[]).await;
    assert_eq!(keys(driver).await, [plain.clone(), full.clone()]);
    let revoked = ApiKey { revoked_at: Some(driver.now()), previous: None, ..full.clone() };
    assert_ne!(revoked.fingerprint(), full.fingerprint());
    administer(driver, &[&revoked], &[]).await;
    assert_eq!(keys(driver).await, [plain, revoked]);
}

pub async fn writes_only_behind_what_an_act_was_sealed_behind<F: Fixture>(driver: &mut Driver<F>) {
    let (key, audit) = (key(driver, "k1"), audit(driver, Scope::default(), "k1"));
    driver.pause().await;
    let behind = |follows| Administration { follows: Some(follows), ..act(&[&key], &[&audit]) };
    driver.writer().administer(&behind(0)).await.expect("nothing stands before the first");
    for follows in [0, 2] {
        match driver.writer().administer(&behind(follows)).await {
            Err(CommitFailure::RolledBack(failure)) => {
                assert!(matches!(failure.kind, FailureKind::Conflict(_)), "{failure:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    driver.writer().administer(&behind(1)).await.expect("it goes on where the log ends");
    assert_eq!(log(driver, AuditFilter { limit: 9, ..AuditFilter::default() }).await.len(), 2);
}

pub async fn keeps_when_a_key_was_used_apart_from_its_changes<F: Fixture>(driver: &mut Driver<F>) {
    let fresh = key(driver, "k1");
    administer(driver, &[&fresh], &[]).await;
    let used = ApiKey { last_used_at: Some(driver.now()), ..fresh.clone() };
    driver.pause().await;
    let uses = vec![("k1".into(), driver.now()), ("k9".into(), driver.now())];
    let act = Administration { uses, ..Administration::default() };
    driver.writer().administer(&act).await.expect("uses are written, and of unknown keys ignored");
    assert_eq!(keys(driver).await, std::slice::from_ref(&used));
    assert_eq!(used.fingerprint(), fresh.fingerprint(), "a use is no change");
}

pub async fn keeps_the_limits_of_tenants_as_they_are_now<F: Fixture>(driver: &mut Driver<F>) {
    let limits = |tenant: &str, runs| TenantLimits {
        tenant: tenant.into(),
        requests_per_second: Some(5),
        burst: None,
        unfinished_runs: runs,
        changed_at: driver.now(),
    };
    let (first, second, third) = (limits("b", Some(0)), limits("a", None), limits("b", Some(7)));
    assert_ne!(first.fingerprint(), third.fingerprint());
    for row in [&first, &second, &third] {
        driver.pause().await;
        let act = Administration { limits: vec![row.clone()], ..Administration::default() };
        driver.writer().administer(&act).await.expect("the limits are written");
    }
    driver.pause().await;
    let found = driver.browse().administration().await.expect("browsing works").tenant_limits;
    assert_eq!(found, [second, third]);
}

pub async fn keeps_keys_in_their_scope_and_revoked<F: Fixture>(driver: &mut Driver<F>) {
    // X12: a caller with access to the store cannot restore a revoked key or move one to another tenant.
    let revoked = ApiKey { revoked_at: Some(driver.now()), ..key(driver, "k1") };
    let living = key(driver, "k2");
    administer(driver, &[&revoked, &living], &[]).await;
    let revived = ApiKey { revoked_at: None, ..revoked.clone() };
    let moved = ApiKey { scope: Scope::new("evil", "main"), ..living.clone() };
    for wrong in [revived, moved] {
        driver.pause().await;
        let refused = driver.writer().administer(&act(&[&wrong], &[])).await;
        assert!(matches!(refused, Err(CommitFailure::RolledBack(_))), "{refused:?}");
    }
    assert_eq!(keys(driver).await, [revoked, living]);
}

pub async fn writes_a_change_with_its_record_or_neither<F: Fixture>(driver: &mut Driver<F>) {
    let revoked = ApiKey { revoked_at: Some(driver.now()), ..key(driver, "k1") };
    let made = audit(driver, Scope::default(), "k1");
    administer(driver, &[&revoked], &[&made]).await;
    // The second key cannot be written, so neither the first one nor the record of both is.
    let (other, revived) = (key(driver, "k2"), ApiKey { revoked_at: None, ..revoked.clone() });
    driver.pause().await;
    let wrong = act(&[&other, &revived], &[&audit(driver, Scope::default(), "k2")]);
    assert!(driver.writer().administer(&wrong).await.is_err());
    assert_eq!(keys(driver).await, [revoked]);
    let all = AuditFilter { limit: 10, ..AuditFilter::default() };
    assert_eq!(log(driver, all.clone()).await, [Audited { n: 1, audit: made.clone() }]);
    // The writer still works.
    administer(driver, &[&other], &[&made]).await;
    assert_eq!(log(driver, all).await.len(), 2);
    driver.add(&Scope::default(), "images").await;
}

pub async fn shows_the_audit_newest_first_by_tenant<F: Fixture>(driver: &mut Driver<F>) {
    let (mine, theirs) = (Scope::new("acme", "main"), Scope::new("other", "main"));
    for (n, scope) in [(1, &mine), (2, &theirs), (3, &mine), (4, &mine)] {
        let row = audit(driver, scope.clone(), &format!("k{n}"));
        administer(driver, &[], &[&row]).await;
    }
    let numbers = |page: Vec<Audited>| page.iter().map(|row| row.n).collect::<Vec<_>>();
    let all = AuditFilter { limit: 10, ..AuditFilter::default() };
    assert_eq!(numbers(log(driver, all).await), [4, 3, 2, 1]);
    // X13: one tenant's administrators see nothing of another's.
    let tenant = Some(Name::from("acme"));
    let page = AuditFilter { tenant: tenant.clone(), limit: 2, ..AuditFilter::default() };
    assert_eq!(numbers(log(driver, page.clone()).await), [4, 3]);
    let next = AuditFilter { before: Some(3), ..page.clone() };
    assert_eq!(numbers(log(driver, next).await), [1]);
    let elsewhere = AuditFilter { workspace: Some("side".into()), ..page };
    assert!(log(driver, elsewhere).await.is_empty());
}
