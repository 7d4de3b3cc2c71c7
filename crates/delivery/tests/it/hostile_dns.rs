//! Names whose answers are hostile (X36): the address that is dialled is the address that was checked.

use delivery::{Egress, Refused, SendOutcome};

use crate::support::{ScriptedResolver, attempt};

const URL: &str = "https://hook.example.com/in";
const NAME: &str = "hook.example.com";
const PUBLIC: &str = "93.184.216.34";

async fn try_answers(answers: &[&[&str]]) -> crate::support::Attempted {
    attempt(URL, Egress::default(), ScriptedResolver::answering(NAME, answers)).await
}

#[tokio::test]
async fn one_answer_that_is_not_public_refuses_all() {
    let hostile = [
        "127.0.0.1",
        "10.1.2.3",
        "172.31.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fd00:ec2::254",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::1",
        "2001:0:1::1",
        "2001:db8::1",
        "2606:4700::5efe:7f00:1",
        "fec0::1",
        "100::1",
        "5f00::1",
    ];
    for address in hostile {
        for answers in [vec![address], vec![PUBLIC, address], vec![address, PUBLIC]] {
            let tried = try_answers(&[&answers]).await;
            assert_eq!(tried.outcome, SendOutcome::Refused(Refused::Address), "{answers:?}");
            assert!(tried.dialled.is_empty(), "{answers:?} dialled {:?}", tried.dialled);
        }
    }
}

#[tokio::test]
async fn a_name_is_resolved_once_so_a_second_answer_is_never_asked_for() {
    let tried = try_answers(&[&[PUBLIC], &["127.0.0.1"]]).await;
    assert_eq!(tried.outcome, SendOutcome::NotSent("no connection"));
    assert_eq!(tried.dialled, [format!("{PUBLIC}:443").parse().unwrap()]);
    assert_eq!(tried.asked, 1, "a rebinding name is asked once");
}

#[tokio::test]
async fn no_answer_and_too_many_are_refused() {
    let many: Vec<String> =
        (0..500).map(|it| format!("93.184.{}.{}", it / 250, it % 250)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for answers in [Vec::new(), many] {
        let tried = try_answers(&[&answers]).await;
        assert_eq!(tried.outcome, SendOutcome::Refused(Refused::Resolution));
        assert!(tried.dialled.is_empty());
    }
    let unknown = attempt(URL, Egress::default(), ScriptedResolver::default()).await;
    assert_eq!(unknown.outcome, SendOutcome::Refused(Refused::Resolution));
}

#[tokio::test]
async fn public_answers_of_both_families_are_dialled_with_a_limit() {
    let six = "2606:2800:220:1:248:1893:25c8:1946";
    let tried = try_answers(&[&[six, PUBLIC, "93.184.216.35"]]).await;
    let expected = [format!("[{six}]:443"), format!("{PUBLIC}:443")];
    assert_eq!(tried.dialled, expected.map(|it| it.parse().unwrap()), "two are tried");
}

#[tokio::test]
async fn an_allowed_range_opens_nothing_else() {
    let egress = Egress { allowed: vec!["10.1.0.0/16".parse().unwrap()], own: Vec::new() };
    for (answer, dials) in
        [("10.1.2.3", true), ("10.2.2.3", false), ("127.0.0.1", false), (PUBLIC, true)]
    {
        let resolver = ScriptedResolver::answering("inner", &[&[answer]]);
        let tried = attempt("https://inner/", egress.clone(), resolver).await;
        assert_eq!(!tried.dialled.is_empty(), dials, "{answer}: {:?}", tried.outcome);
    }
    let resolver = ScriptedResolver::answering(NAME, &[&[PUBLIC]]);
    let tried = attempt("http://hook.example.com/", egress, resolver).await;
    assert_eq!(tried.outcome, SendOutcome::Refused(Refused::Scheme), "plain text stays inside");
}

#[tokio::test]
async fn our_own_listener_is_refused_though_its_range_is_allowed() {
    let allowed = vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
    for (own, url) in [
        ("127.0.0.1:7400", "http://127.0.0.1:7400/v1/runs"),
        ("0.0.0.0:7400", "http://127.0.0.9:7400/v1/runs"),
        ("[::]:7400", "http://[::1]:7400/v1/runs"),
        ("127.0.0.1:7400", "http://[::ffff:7f00:1]:7400/"),
    ] {
        let egress = Egress { allowed: allowed.clone(), own: vec![own.parse().unwrap()] };
        let tried = attempt(url, egress, ScriptedResolver::default()).await;
        assert_eq!(tried.outcome, SendOutcome::Refused(Refused::Address), "{url}");
        assert!(tried.dialled.is_empty());
    }
}
