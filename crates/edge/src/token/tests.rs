//! Forged tokens, one kind after the other.

use super::*;

const NOW: Time = Time::from_millis(1_700_000_000_500);

fn ring() -> Arc<SigningKey> {
    Arc::new(SigningKey::new([3; 32], None))
}

fn scope() -> TokenScope {
    TokenScope {
        scope: Scope::new("acme", "prod"),
        task: TaskId::from_u128(0x018b_cfe5_6800_0000_0000_0000_0000_0001),
        attempt: 2,
        lease: LeaseId::from_u128(0x018b_cfe5_6800_0000_0000_0000_0000_0002),
        epoch: 1,
        key: None,
        until: None,
    }
}

fn refused(text: &str) -> TokenRefused {
    verify(&ring(), text, NOW).expect_err(text)
}

/// A token signed with our real key, with claims that the test chooses.
fn signed(change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>)) -> String {
    let issued = issue(&ring(), &scope(), LIFETIME_DEFAULT, NOW).token;
    let payload = BASE64.decode(issued.split('.').nth(1).unwrap()).unwrap();
    let mut claims = serde_json::from_slice(&payload).unwrap();
    change(&mut claims);
    signed_for(&scope().scope, &serde_json::to_vec(&claims).unwrap())
}

/// A token signed with the key of a scope, whatever its payload says.
fn signed_for(scope: &Scope, payload: &[u8]) -> String {
    sign(ring().token_keys().header(), &scope_key(&ring(), scope), payload)
}

#[test]
fn a_token_carries_its_scope_until_its_end() {
    // S4-7, S4-8, S4-10, S4-13: the scope is preserved; 3600 s by default; signed by HMAC-SHA256.
    let issued = issue(&ring(), &scope(), LIFETIME_DEFAULT, NOW);
    assert_eq!(issued.expires_at, Time::from_millis(1_700_003_600_000));
    assert!(issued.token.len() <= TOKEN_BYTES_MAX);
    assert_eq!(verify(&ring(), &issued.token, NOW).unwrap().token(), &scope());
    let last = Time::from_millis(issued.expires_at.millis() - 1);
    assert!(verify(&ring(), &issued.token, last).is_ok());
    // No leeway at the end: expired at the exact instant.
    let expired = verify(&ring(), &issued.token, issued.expires_at);
    assert_eq!(expired.unwrap_err(), TokenRefused::Expired);
}

#[test]
fn the_longest_names_still_fit() {
    let name = "n".repeat(128);
    let wide = TokenScope {
        scope: Scope::new(name.as_str(), name.as_str()),
        attempt: u32::MAX,
        key: Some(Name::from("f".repeat(32))),
        until: Some(u32::MAX),
        ..scope()
    };
    let issued = issue(&ring(), &wide, LIFETIME_MAX, NOW);
    assert!(issued.token.len() <= TOKEN_BYTES_MAX, "{}", issued.token.len());
    assert_eq!(verify(&ring(), &issued.token, NOW).unwrap().token(), &wide);
}

#[test]
fn life_covers_the_deadline_within_the_limits() {
    // S4-8, S4-9, S4-12, R-29
    let grace = Span::from_secs(30);
    let after = |seconds| Some(NOW.plus(Span::from_secs(seconds)));
    assert_eq!(lifetime(None, grace, NOW), LIFETIME_DEFAULT);
    assert_eq!(lifetime(after(10), grace, NOW), LIFETIME_DEFAULT);
    assert_eq!(lifetime(after(5000), grace, NOW), Span::from_secs(5030));
    assert_eq!(lifetime(after(100_000), grace, NOW), LIFETIME_MAX);
    let issued = issue(&ring(), &scope(), Span::from_secs(1_000_000), NOW);
    assert_eq!(issued.expires_at.since(instant(seconds(NOW))), LIFETIME_MAX);
}

#[test]
fn a_fresh_token_comes_when_less_than_half_is_left() {
    // R-29: the same scope, a later expiry.
    let issued = issue(&ring(), &scope(), LIFETIME_DEFAULT, NOW);
    let principal = verify(&ring(), &issued.token, NOW).unwrap();
    let half = Time::from_millis(issued.expires_at.millis() - 1_800_000);
    assert_eq!(principal.refresh(&ring(), half), None);
    let later = half.plus(Span::from_millis(1));
    let fresh = principal.refresh(&ring(), later).unwrap();
    assert!(fresh.expires_at > issued.expires_at);
    assert_eq!(verify(&ring(), &fresh.token, later).unwrap().token(), &scope());
}

#[test]
fn every_flipped_bit_is_refused() {
    // X06, S4-10: only the token itself is accepted.
    let token = issue(&ring(), &scope(), LIFETIME_DEFAULT, NOW).token;
    for at in 0..token.len() {
        for bit in 0..8 {
            let mut bytes = token.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            // Bytes that are not text never reach the verifier.
            if let Ok(text) = String::from_utf8(bytes) {
                assert_eq!(refused(&text), TokenRefused::Invalid, "byte {at} bit {bit}");
            }
        }
        assert_eq!(refused(&token[..at]), TokenRefused::Invalid, "cut at {at}");
    }
}

#[test]
fn odd_forms_are_refused() {
    // X01, X06: padding, stray bits, extra parts, spaces, excessive length.
    let token = issue(&ring(), &scope(), LIFETIME_DEFAULT, NOW).token;
    let parts: Vec<&str> = token.split('.').collect();
    let spellings = [
        String::new(),
        ".".into(),
        "..".into(),
        format!("{token}="),
        format!("{token}."),
        format!("{token}.{}", parts[2]),
        format!(" {token}"),
        format!("{}.{}", parts[0], parts[1]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}", token, "x".repeat(2000)),
        "x".repeat(1_000_000),
    ];
    for spelling in &spellings {
        assert_eq!(refused(spelling), TokenRefused::Invalid);
    }
}

#[test]
fn the_header_is_compared_and_never_obeyed() {
    // X02, X03: no algorithm but ours, no key from elsewhere.
    let token = issue(&ring(), &scope(), LIFETIME_DEFAULT, NOW).token;
    let parts: Vec<&str> = token.split('.').collect();
    let kid = ring().kid().to_owned();
    let headers = [
        r#"{"alg":"none"}"#.to_owned(),
        format!(r#"{{"alg":"None","kid":"{kid}","typ":"task+jwt"}}"#),
        format!(r#"{{"alg":"nOnE","kid":"{kid}","typ":"task+jwt"}}"#),
        format!(r#"{{"alg":"RS256","kid":"{kid}","typ":"task+jwt"}}"#),
        format!(r#"{{"alg":"HS256","kid":"{kid}","typ":"JWT"}}"#),
        format!(r#"{{"typ":"task+jwt","kid":"{kid}","alg":"HS256"}}"#),
        format!(r#"{{"alg":"HS256","kid":"{kid}","typ":"task+jwt","jku":"http://x/"}}"#),
        r#"{"alg":"HS256","kid":"../../etc/passwd","typ":"task+jwt"}"#.to_owned(),
        r#"{"alg":"HS256","kid":"' OR 1=1","typ":"task+jwt"}"#.to_owned(),
    ];
    for header in headers {
        let head = BASE64.encode(&header);
        let unsigned = format!("{head}.{}.", parts[1]);
        assert_eq!(refused(&unsigned), TokenRefused::Invalid, "{header}");
        let key = ScopeKey::derive(&ring().current(), scope().scope);
        let text = format!("{head}.{}", parts[1]);
        let resigned = format!("{text}.{}", BASE64.encode(key.sign(&text)));
        assert_eq!(refused(&resigned), TokenRefused::Invalid, "{header}");
    }
}

#[test]
fn claims_are_typed_complete_and_ours() {
    // X04: signed with the real key, and still refused.
    use serde_json::{Value, json};
    let names = [
        "iss", "aud", "iat", "nbf", "exp", "jti", "ten", "ws", "run", "task", "att", "lease", "ep",
    ];
    for name in names {
        let missing = signed(|claims| drop(claims.remove(name)));
        assert_eq!(refused(&missing), TokenRefused::Invalid, "without {name}");
    }
    let far = seconds(NOW) + 3600;
    let odd: [(&str, Value); 14] = [
        ("exp", json!(far.to_string())),
        ("exp", json!(far as f64 + 0.5)),
        ("exp", json!(-1)),
        ("exp", json!(u64::MAX)),
        ("exp", json!(9_223_372_036_854_775_808_u64)),
        ("exp", json!(seconds(NOW) + 7201)),
        ("iat", json!(seconds(NOW) + 31)),
        ("nbf", json!(seconds(NOW) + 31)),
        ("att", json!(-1)),
        ("att", json!("2")),
        ("iss", json!("somebody")),
        ("aud", json!("elsewhere")),
        ("run", json!("run_00000000000000000000000000")),
        ("admin", json!(true)),
    ];
    for (name, value) in odd {
        let token = signed(|claims| drop(claims.insert(name.into(), value.clone())));
        assert_eq!(refused(&token), TokenRefused::Invalid, "{name}: {value}");
    }
    let lenient = signed(|claims| drop(claims.insert("nbf".into(), json!(seconds(NOW) + 29))));
    assert!(verify(&ring(), &lenient, NOW).is_ok());
}

#[test]
fn claims_in_an_array_or_twice_are_refused() {
    // X06: duplicate claims, other shapes.
    let payload = br#"["tenure","tenure-tasks",1,1,2,"x","acme","prod","r","t",1,"l",1]"#;
    assert_eq!(refused(&signed_for(&scope().scope, payload)), TokenRefused::Invalid);
    let issued = issue(&ring(), &scope(), LIFETIME_DEFAULT, NOW).token;
    let text =
        String::from_utf8(BASE64.decode(issued.split('.').nth(1).unwrap()).unwrap()).unwrap();
    let twice = text.replacen("\"att\":2", "\"att\":2,\"att\":3", 1);
    assert_ne!(text, twice);
    assert_eq!(refused(&signed_for(&scope().scope, twice.as_bytes())), TokenRefused::Invalid);
}

#[test]
fn another_tenants_key_or_another_installation_signs_nothing_here() {
    // S4-11, X05, X08: the key belongs to tenant, workspace and installation.
    let issued = issue(&ring(), &scope(), LIFETIME_DEFAULT, NOW).token;
    assert!(verify(&Arc::new(SigningKey::new([4; 32], None)), &issued, NOW).is_err());
    let payload = BASE64.decode(issued.split('.').nth(1).unwrap()).unwrap();
    for foreign in [Scope::new("other", "prod"), Scope::new("acme", "test")] {
        assert_eq!(refused(&signed_for(&foreign, &payload)), TokenRefused::Invalid);
    }
}

#[test]
fn a_ring_that_has_signed_before_refuses_what_a_fresh_one_refuses() {
    // X01, X05, X08: cached keys accept nothing more than derived keys.
    let warm = ring();
    let other = TokenScope { scope: Scope::new("other", "prod"), ..scope() };
    let issued = issue(&warm, &scope(), LIFETIME_DEFAULT, NOW).token;
    let foreign = issue(&warm, &other, LIFETIME_DEFAULT, NOW).token;
    for round in 0..2 {
        assert_eq!(verify(&warm, &issued, NOW).unwrap().token(), &scope(), "{round}");
        assert_eq!(verify(&warm, &foreign, NOW).unwrap().token(), &other, "{round}");
        assert_eq!(issue(&warm, &scope(), LIFETIME_DEFAULT, NOW).token, issued);
        assert_eq!(issue(&ring(), &scope(), LIFETIME_DEFAULT, NOW).token, issued);
    }
    let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
    let (mine, theirs) = (parts(&issued), parts(&foreign));
    for (header, payload, signature) in [
        (&mine[0], &mine[1], &theirs[2]),
        (&mine[0], &theirs[1], &mine[2]),
        (&theirs[0], &mine[1], &theirs[2]),
    ] {
        let mixed = format!("{header}.{payload}.{signature}");
        assert_eq!(verify(&warm, &mixed, NOW).unwrap_err(), TokenRefused::Invalid);
    }
    // A scope that appears only in forgeries is not cached.
    let forged = signed(|claims| drop(claims.insert("ten".into(), "nobody".into())));
    assert_eq!(verify(&warm, &forged, NOW).unwrap_err(), TokenRefused::Invalid);
    assert!(warm.current().token_keys().find("nobody", "prod").is_none());
    assert!(warm.current().token_keys().find("acme", "prod").is_some());
}

#[test]
fn a_task_is_named_in_one_way() {
    let issued = issue(&ring(), &scope(), LIFETIME_DEFAULT, NOW).token;
    assert!(verify(&ring(), &issued, NOW).is_ok());
    let (run, task) = (scope().task.run_name(), scope().task.to_string());
    let names = [("task", run), ("task", task.to_lowercase()), ("run", task)];
    for (claim, name) in names {
        let token = signed(|claims| drop(claims.insert(claim.into(), name.clone().into())));
        assert_eq!(refused(&token), TokenRefused::Invalid, "{claim} {name}");
    }
}

#[test]
fn tokens_begin_with_what_their_scope_shares() {
    // Otherwise each would be signed from its first byte.
    for names in [("acme", "prod"), ("a", "b"), ("quoted\"", "é"), ("", "w")] {
        let token = TokenScope { scope: Scope::new(names.0, names.1), ..scope() };
        let issued = issue(&ring(), &token, LIFETIME_DEFAULT, NOW).token;
        let claims = first_claims(&token.scope);
        assert!(issued.starts_with(&first_text(ring().token_keys().header(), &claims)));
        assert_eq!(verify(&ring(), &issued, NOW).unwrap().token(), &token);
    }
}

#[test]
fn a_token_of_an_earlier_version_is_accepted() {
    // Signed before the claims had their present order, for the scope and the key of these tests.
    let token = include_str!("earlier.token").trim();
    assert_eq!(verify(&ring(), token, NOW).unwrap().token(), &scope());
}

#[test]
fn tokens_of_one_lease_have_different_ids() {
    let id = |lease, millis| token_id(LeaseId::from_u128(lease), Time::from_millis(millis));
    let leases = scope().lease.as_u128()..;
    let ids = leases
        .take(64)
        .flat_map(|lease| (0..64).map(move |now| id(lease, 1_700_000_000_000 + now)));
    assert_eq!(ids.collect::<std::collections::BTreeSet<_>>().len(), 64 * 64);
}
