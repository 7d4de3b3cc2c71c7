//! The conformance kit against this SDK's subject, without the cases that judge milliseconds or wait for leases to end:
//! `cargo xtask conform` performs all of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use conform::{Case, KnownFailing, Outcome, Setup, all_cases, is_like, perform_all};

/// Each takes a second or two, and none has a limit of time that a busy machine could miss.
const CASES: [&str; 25] = [
    "client/submit-answer-lost",
    "client/submit-half-body",
    "client/submit-400",
    "client/submit-422",
    "client/unknown-*",
    "client/many",
    "client/result-*",
    "client/runs-pages",
    "client/not-a-coordinator",
    "worker/echo",
    "worker/poll-answer-lost",
    "worker/duplicate-grant",
    "worker/start-refused",
    "worker/report-*",
    "worker/categories",
    "worker/lease-lost-410",
    "worker/new-token",
    "durable/sequence",
    "durable/call-*-lost",
    "durable/child*",
    "durable/signal-*",
    "durable/diverged-*",
    "durable/patched-*",
    "durable/savepoint",
    "webhooks/*",
];

fn chosen() -> Vec<Arc<Case>> {
    let cases = all_cases(None).unwrap();
    let is_chosen = |case: &Arc<Case>| CASES.iter().any(|pattern| is_like(pattern, &case.case));
    cases.into_iter().filter(is_chosen).collect()
}

/// Cargo builds examples with the tests, next to them.
fn subject() -> String {
    let own: PathBuf = std::env::current_exe().unwrap();
    let target = own.ancestors().nth(2).unwrap();
    target.join("examples/subject").to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_subject_passes_what_it_is_not_known_to_fail() {
    // S3-53, S3-62, S4-25, S2-90: a repeated call is the same call, a report is made once, a lost lease ends the work, and
    // what is recorded is not executed again. Break one, and its case fails.
    let known = concat!(env!("CARGO_MANIFEST_DIR"), "/conform-known-failing.txt");
    let known = KnownFailing::read(known.as_ref()).unwrap();
    let start_timeout = Duration::from_secs(60);
    let setup = Setup { command: vec![subject()], start_timeout, fault: None };
    let outcomes = perform_all(&chosen(), &setup, 4, |_| {}).await.unwrap();
    assert!(outcomes.len() >= 40, "only {} cases were performed", outcomes.len());
    let is_wrong = |it: &&Outcome| it.passed() == known.has(&it.case);
    let wrong: Vec<String> = outcomes
        .iter()
        .filter(is_wrong)
        .map(|it| format!("{}: {:?}\n{}", it.case, it.findings, it.log.join("\n")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
