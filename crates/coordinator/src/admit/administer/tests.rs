//! Every refusal, on hand-made keys.

use super::*;
use crate::admit::NewKey;
use crate::ids::SeededEntropy;

const NOW: Time = Time::from_millis(1_000);

fn row(seed: u64, scope: Scope, roles: &[Role]) -> ApiKey {
    NewKey::generate(&mut SeededEntropy::new(seed), scope, roles).row(Time::default())
}

fn shared(keys: &[&ApiKey]) -> Vec<Arc<ApiKey>> {
    keys.iter().map(|key| Arc::new((*key).clone())).collect()
}

fn revoke_of(key: &ApiKey) -> KeyChange {
    KeyChange::Revoke { id: key.id.clone() }
}

fn rotate_of(key: &ApiKey, overlap: Span) -> KeyChange {
    let secret = NewSecret::generate(&mut SeededEntropy::new(99), &key.id);
    KeyChange::Rotate { id: key.id.clone(), secret, overlap }
}

#[test]
fn an_administrator_reaches_its_tenant_and_no_further() {
    // X13: the detour from default/x to default/default is refused too.
    let scopes = ["default/default", "default/side", "acme/main", "acme/side"];
    let scope = |text: &str| {
        let (tenant, workspace) = text.split_once('/').unwrap();
        Scope::new(tenant, workspace)
    };
    let table = [
        ("default/default", vec!["default/default", "default/side", "acme/main", "acme/side"]),
        ("default/side", vec!["default/side"]),
        ("acme/main", vec!["acme/main", "acme/side"]),
    ];
    for (admin, reached) in table {
        let reach = Reach::of(&scope(admin));
        for target in scopes {
            let key = row(1, scope(target), &[Role::Client]);
            let expected = reached.contains(&target);
            let created = decide(&[], &reach, KeyChange::Create(Box::new(key.clone())), NOW);
            assert_eq!(created.is_ok(), expected, "{admin} makes a key of {target}");
            for key_change in [revoke_of(&key), rotate_of(&key, Span::ZERO)] {
                let changed = decide(&shared(&[&key]), &reach, key_change, NOW);
                assert_eq!(changed.is_ok(), expected, "{admin} changes a key of {target}");
                assert!(expected || changed == Err(KeyChangeError::NotFound));
            }
        }
    }
}

#[test]
fn the_last_administrator_stays() {
    let root = row(1, Scope::default(), &Role::ALL);
    let client = row(2, Scope::default(), &[Role::Client]);
    let elsewhere = row(3, Scope::new("acme", "main"), &[Role::Admin]);
    let expired = ApiKey { expires_at: Some(NOW), ..row(4, Scope::default(), &[Role::Admin]) };
    let revoked = ApiKey { revoked_at: Some(NOW), ..row(5, Scope::default(), &[Role::Admin]) };
    let keys = shared(&[&root, &client, &elsewhere, &expired, &revoked]);
    let everything = Reach::Everything;
    assert_eq!(decide(&keys, &everything, revoke_of(&root), NOW), Err(KeyChangeError::LastAdmin));
    for other in [&client, &elsewhere, &expired] {
        let (key, action) = decide(&keys, &everything, revoke_of(other), NOW).unwrap();
        assert_eq!((key.revoked_at, action), (Some(NOW), Some(REVOKED)));
    }
    let second = row(6, Scope::default(), &[Role::Admin]);
    assert!(decide(&shared(&[&root, &second]), &everything, revoke_of(&root), NOW).is_ok());
    // A repeated revocation changes nothing and adds no audit entry.
    let (key, action) =
        decide(&keys, &everything, revoke_of(&revoked), NOW.plus(Span::from_secs(9))).unwrap();
    assert_eq!((key, action), (revoked, None));
}

#[test]
fn a_rotation_keeps_everything_but_the_secret() {
    let key = row(1, Scope::default(), &Role::ALL);
    let keys = shared(&[&key]);
    let overlap = Span::from_secs(5);
    let (rotated, _) = decide(&keys, &Reach::Everything, rotate_of(&key, overlap), NOW).unwrap();
    let previous = PreviousSecret { digest: key.digest, until: NOW.plus(overlap) };
    assert_eq!(rotated.previous, Some(previous));
    assert_ne!(rotated.digest, key.digest);
    let same = ApiKey { digest: key.digest, previous: None, ..rotated };
    assert_eq!(same, key);
    let at_once = decide(&keys, &Reach::Everything, rotate_of(&key, Span::ZERO), NOW).unwrap().0;
    assert_eq!(at_once.previous.map(|previous| previous.until), Some(NOW));
    for ended in [
        ApiKey { revoked_at: Some(NOW), ..key.clone() },
        ApiKey { expires_at: Some(NOW), ..key.clone() },
    ] {
        let declined =
            decide(&shared(&[&ended]), &Reach::Everything, rotate_of(&ended, overlap), NOW);
        assert_eq!(declined, Err(KeyChangeError::NotUsable));
    }
}

#[test]
fn a_tenant_has_a_bounded_number_of_keys() {
    let key = row(1, Scope::new("acme", "main"), &[Role::Client]);
    let one = Arc::new(key.clone());
    let many = vec![one; KEYS_PER_TENANT_MAX];
    let one_more = || KeyChange::Create(Box::new(key.clone()));
    let refused = decide(&many, &Reach::Everything, one_more(), NOW);
    assert_eq!(refused, Err(KeyChangeError::TooMany));
    assert!(decide(&many[1..], &Reach::Everything, one_more(), NOW).is_ok());
    let elsewhere = row(2, Scope::new("other", "main"), &[Role::Client]);
    let made = decide(&many, &Reach::Everything, KeyChange::Create(Box::new(elsewhere)), NOW);
    assert!(made.is_ok());
}
