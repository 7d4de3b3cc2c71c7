//! `tenure recovery`, by its guide: every command as it is written there.

use crate::guides::{self, Reader};
use crate::home::{Home, Process};

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
    let [worker] = terminals[..] else { panic!("{terminals:?}") };
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
