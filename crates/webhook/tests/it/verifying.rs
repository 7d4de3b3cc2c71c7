//! What is believed and what is not (D9, X41).

#![expect(clippy::unwrap_used, reason = "in what tests share, too, a panic is the report")]

use webhook::{
    RECENT_MAX, RecentIds, SECRET_MAX, SECRET_MIN, Secret, SecretError, Seen, TOLERANCE_SECONDS,
    Verifier, VerifyError, is_message_id, signature, signatures,
};

const NOW: i64 = 1_614_265_330;
const BODY: &[u8] = br#"{"test": 2432232314}"#;

/// The vector of the Standard Webhooks specification and its libraries.
fn specified() -> Secret {
    Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()
}

fn other() -> Secret {
    Secret::from_bytes(vec![7; 32]).unwrap()
}

#[test]
fn the_published_vector_is_reproduced() {
    let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    assert_eq!(signature(&specified(), id, NOW, BODY), expected);
    let verifier = Verifier::new(specified());
    assert_eq!(verifier.verify(id, &NOW.to_string(), expected, BODY, NOW), Ok(()));
}

#[test]
fn every_single_byte_change_is_refused() {
    let verifier = Verifier::new(specified());
    let signed = signatures(&[specified()], "msg_1", NOW, BODY);
    let time = NOW.to_string();
    for at in 0..BODY.len() {
        let mut body = BODY.to_vec();
        body[at] ^= 1;
        let answer = verifier.verify("msg_1", &time, &signed, &body, NOW);
        assert_eq!(answer, Err(VerifyError::Signature), "byte {at} of the body");
    }
    for at in 3..signed.len() {
        let mut mutated = signed.clone().into_bytes();
        mutated[at] = if mutated[at] == b'A' { b'B' } else { b'A' };
        let mutated = String::from_utf8(mutated).unwrap();
        assert!(verifier.verify("msg_1", &time, &mutated, BODY, NOW).is_err(), "byte {at}");
    }
    let moved = (NOW + 1).to_string();
    assert_eq!(
        verifier.verify("msg_1", &moved, &signed, BODY, NOW),
        Err(VerifyError::Signature),
        "another time was signed"
    );
    assert_eq!(
        verifier.verify("msg_2", &time, &signed, BODY, NOW),
        Err(VerifyError::Signature),
        "another id was signed"
    );
}

#[test]
fn a_message_is_believed_within_the_tolerance_and_not_beyond() {
    let verifier = Verifier::new(specified());
    let signed = signatures(&[specified()], "msg_1", NOW, BODY);
    let at = |now| verifier.verify("msg_1", &NOW.to_string(), &signed, BODY, now);
    assert_eq!(at(NOW + TOLERANCE_SECONDS), Ok(()));
    assert_eq!(at(NOW + TOLERANCE_SECONDS + 1), Err(VerifyError::TooOld));
    assert_eq!(at(NOW - TOLERANCE_SECONDS), Ok(()));
    assert_eq!(at(NOW - TOLERANCE_SECONDS - 1), Err(VerifyError::TooNew));
    assert_eq!(at(i64::MAX), Err(VerifyError::TooOld));
    assert_eq!(at(i64::MIN), Err(VerifyError::TooNew));
}

#[test]
fn during_a_rotation_each_side_may_change_first() {
    let both = signatures(&[other(), specified()], "msg_1", NOW, BODY);
    let time = NOW.to_string();
    for receiver in [Verifier::new(other()), Verifier::new(specified())] {
        assert_eq!(receiver.verify("msg_1", &time, &both, BODY, NOW), Ok(()));
    }
    let only_new = signatures(&[other()], "msg_1", NOW, BODY);
    let old = Verifier::new(specified());
    assert_eq!(old.verify("msg_1", &time, &only_new, BODY, NOW), Err(VerifyError::Signature));
    assert_eq!(old.or(other()).verify("msg_1", &time, &only_new, BODY, NOW), Ok(()));
}

#[test]
fn malformed_headers_are_refused() {
    let verifier = Verifier::new(specified());
    let signed = signatures(&[specified()], "msg_1", NOW, BODY);
    let long = "x".repeat(129);
    for id in ["", "a.b", "a b", "é", long.as_str()] {
        assert!(!is_message_id(id), "{id}");
        let answer = verifier.verify(id, &NOW.to_string(), &signed, BODY, NOW);
        assert_eq!(answer, Err(VerifyError::Id), "{id}");
    }
    for time in ["", "+1614265330", " 1614265330", "1614265330.5", "-1", "99999999999999999999"] {
        let answer = verifier.verify("msg_1", time, &signed, BODY, NOW);
        assert_eq!(answer, Err(VerifyError::Timestamp), "{time}");
    }
    let (_, mac) = signed.split_once(',').unwrap();
    let many = format!("{}{signed}", "v1,AAAA ".repeat(8));
    for forged in ["", "v1", "v1,", mac, &format!("v1a,{mac}"), &format!("v2,{mac}"), &many] {
        let answer = verifier.verify("msg_1", &NOW.to_string(), forged, BODY, NOW);
        assert_eq!(answer, Err(VerifyError::Signature), "{forged}");
    }
}

#[test]
fn a_repeat_is_recognised_until_it_could_not_be_believed_anyway() {
    let mut recent = RecentIds::default();
    assert_eq!(recent.note("msg_1", NOW), Seen::First);
    assert_eq!(recent.note("msg_1", NOW + 2 * TOLERANCE_SECONDS), Seen::Repeated);
    assert_eq!(recent.note("msg_1", NOW + 2 * TOLERANCE_SECONDS + 1), Seen::First);
    recent.forget_id("msg_1");
    assert_eq!(recent.note("msg_1", NOW + 2 * TOLERANCE_SECONDS + 1), Seen::First);
}

#[test]
fn the_memory_of_ids_is_bounded() {
    let mut recent = RecentIds::default();
    for number in 0..=RECENT_MAX {
        recent.note(&format!("msg_{number}"), NOW);
    }
    assert_eq!(recent.note("msg_0", NOW), Seen::First, "the oldest was forgotten");
    assert_eq!(recent.note(&format!("msg_{RECENT_MAX}"), NOW), Seen::Repeated);
}

#[test]
fn secrets_have_a_length_and_stay_hidden() {
    for (length, expected) in [
        (SECRET_MIN - 1, Err(SecretError::Length)),
        (SECRET_MIN, Ok(())),
        (SECRET_MAX, Ok(())),
        (SECRET_MAX + 1, Err(SecretError::Length)),
    ] {
        assert_eq!(Secret::from_bytes(vec![1; length]).map(drop), expected, "{length} bytes");
    }
    assert_eq!(Secret::parse("whsec_!!!"), Err(SecretError::NotBase64));
    let secret = other();
    assert_eq!(Secret::parse(&secret.reveal()), Ok(secret.clone()));
    assert!(!format!("{secret:?} {:?}", Verifier::new(secret.clone())).contains("BwcH"));
}
