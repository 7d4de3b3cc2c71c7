//! Performs cases with subjects whose behaviour is known.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use conform::{Case, Outcome, Setup, all_cases, perform};

/// A client in a few lines of shell: it is ready, and answers every call with the same words.
const CLIENT: &str = r#"echo '{"ready": true}'; while read -r line; do echo '{"id": 1, "ok": {"runId": "run_1"}}'; done"#;

fn case(name: &str) -> Arc<Case> {
    let cases = all_cases(None).unwrap();
    Arc::clone(cases.iter().find(|case| case.case == name).expect("the case exists"))
}

async fn performed(name: &str, command: &[&str]) -> Outcome {
    let setup = Setup {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        start_timeout: Duration::from_secs(20),
        fault: None,
    };
    perform(&case(name), &setup).await.expect("a shell can be started")
}

#[tokio::test]
async fn a_client_that_never_calls_is_noticed() {
    let outcome = performed("client/submit-answer-lost", &["sh", "-c", CLIENT]).await;
    assert!(!outcome.passed());
    let told = outcome.findings.join("\n");
    assert!(told.contains("0 × submit"), "{told}");
    assert!(told.contains("runId"), "the made-up answer is noticed: {told}");
}

#[tokio::test]
async fn a_subject_that_ends_at_once_is_told() {
    let outcome = performed("worker/echo", &["sh", "-c", "exit 3"]).await;
    let told = outcome.findings.join("\n");
    assert!(told.contains("ended before it was ready") && told.contains('3'), "{told}");
}

#[test]
fn there_are_the_agreed_cases_in_five_groups() {
    let cases = all_cases(None).unwrap();
    let count = |group: &str| cases.iter().filter(|it| it.case.starts_with(group)).count();
    let groups = ["client/", "worker/", "durable/", "webhooks/", "push/"].map(count);
    assert_eq!(groups, [18, 60, 41, 7, 7]);
}

#[test]
fn embedded_cases_are_those_of_the_repository() {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocol/conformance");
    let names = |cases: Vec<Arc<Case>>| -> Vec<String> {
        let mut names: Vec<String> = cases.iter().map(|case| case.case.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(names(all_cases(Some(folder.as_path())).unwrap()), names(all_cases(None).unwrap()));
}

#[test]
fn what_a_case_proves_is_in_the_contract() {
    let contract = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/contract.md");
    let contract = std::fs::read_to_string(contract).unwrap();
    for case in all_cases(None).unwrap() {
        for id in &case.proves {
            assert!(contract.contains(&format!("| {id} |")), "{id} of {}", case.case);
        }
    }
}
