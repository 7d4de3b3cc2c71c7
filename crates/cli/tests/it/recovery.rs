//! `tenure recovery`, by its guide: every command as it is written there.

use crate::guides::{self, Reader};
use crate::home::{Home, Process, wait_until};
use crate::operate_backup::client;

#[expect(unreachable_pub, reason = "the example stands for a module of a program")]
#[expect(dead_code, reason = "it is a program, and its `main` is not called here")]
#[path = "../../../../sdks/rust/examples/evaluator.rs"]
pub(crate) mod evaluator;

const EXAMPLE: &str = include_str!("../../../../sdks/rust/examples/evaluator.rs");

const GUIDE: &str = include_str!("../../../../docs/guide/recovery.md");

#[test]
fn the_commands_of_the_guide_do_what_it_says() {
    let home = Home::new();
    let (_dev, pasted) = guides::dev(&home);
    let blocks = guides::blocks(GUIDE);
    let [policy, submit, decide, look] = blocks[..] else {
        panic!("the guide has {} blocks: each has its own check here", blocks.len());
    };
    let mut reader = Reader::new(&home);
    reader.follow(&pasted);
    let said = reader.follow(policy);
    assert!(said.contains("retry,notify,escalate"), "{said}");
    // The worker of the second terminal.
    let terminals = guides::terminals(GUIDE);
    let [worker, _] = terminals[..] else { panic!("{terminals:?}") };
    let script = worker.split_once("-c '").unwrap().1.trim_end_matches('\'');
    let arguments = ["work", "--queue", "mail", "--name", "courier", "--exec", "sh", "--", "-c"];
    assert!(worker.starts_with("tenure work --queue mail --name courier --exec sh -- -c"));
    let _worker = Process::start(home.tenure(&[&arguments[..], &[script]].concat()));
    let submitted = reader.follow(submit);
    let run = submitted.split_whitespace().find(|word| word.starts_with("run_")).unwrap();
    assert_eq!(home.ended(run)["state"], "failed");
    // A reader is slower than the server.
    reader.follow("until tenure recovery list | grep -q escalated; do sleep 0.1; done");
    let said = reader.follow(decide);
    assert!(said.contains("suggests escalate with confidence 0.70: repeated"), "{said}");
    assert!(said.contains("the template is there again"), "{said}");
    reader.follow("until tenure recovery list | grep -q succeeded; do sleep 0.1; done");
    let said = reader.follow(look);
    assert!(said.contains("send") && said.contains("succeeded"), "{said}");
    for state in ["pending", "escalated", "executing"] {
        assert!(said.contains(state), "{state}: {said}");
    }
    let new = reader.follow("tenure runs list --label tenure.recovered --json");
    assert!(new.contains(run), "the new run names the one that failed: {new}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_evaluator_of_the_guide_lets_a_run_come_back() {
    // The guide shows the example as it is, and the command that starts it.
    let shown = guides::fenced(GUIDE, "rust,no_run");
    assert!(EXAMPLE.trim_end().ends_with(shown[0]), "the guide shows another program");
    assert!(guides::terminals(GUIDE).contains(&"cargo run -p tenure-sdk --example evaluator"));
    let home = Home::new();
    let _server = home.serve();
    let policy = ["recovery", "set", "mail", "--queue", "mail", "--actions", "retry,escalate"];
    let set = home.run(&[&policy[..], &["--evaluator", "workers"]].concat());
    assert_eq!(set.code, 0, "{set:?}");
    let script = "test -e mended || { echo 'no template' >&2; exit 3; }";
    let work = ["work", "--json", "--queue", "mail", "--exec", "sh", "--", "-c", script];
    let _worker = Process::start(home.tenure(&work));
    let run = home.submit(&["send", "--queue", "mail", "--max-attempts", "1"]);
    assert_eq!(home.ended(&run)["state"], "failed");
    std::fs::write(home.path().join("mended"), "").unwrap();
    let evaluator = tokio::spawn(evaluator::worker(client(&home)).run());
    let mut new = serde_json::Value::Null;
    tokio::task::block_in_place(|| {
        wait_until("the run comes back", || {
            new = home.json(&["runs", "list", "--json", "--label", "tenure.recovered"])[0].clone();
            new["state"] == "succeeded"
        });
    });
    assert_eq!(new["retryOf"], run.as_str(), "{new}");
    evaluator.abort();
}
