//! The guides to durable functions, approvals and budgets, run as written: the worker is the example that the guide starts.

use tokio_util::sync::CancellationToken;

use crate::guides::{self, Reader};
use crate::home::Home;
use crate::operate_backup::client;

#[expect(unreachable_pub, reason = "the example stands for a module of a program")]
#[expect(dead_code, reason = "it is a program, and its `main` is not called here")]
#[path = "../../../../sdks/rust/examples/order.rs"]
pub(crate) mod order;

#[expect(unreachable_pub, reason = "the example stands for a module of a program")]
#[expect(dead_code, reason = "it is a program, and its `main` is not called here")]
#[path = "../../../../sdks/rust/examples/payout.rs"]
pub(crate) mod payout;

#[expect(unreachable_pub, reason = "the example stands for a module of a program")]
#[expect(dead_code, reason = "it is a program, and its `main` is not called here")]
#[path = "../../../../sdks/rust/examples/agent.rs"]
pub(crate) mod agent;

#[expect(unreachable_pub, reason = "the example stands for a module of a program")]
#[expect(dead_code, reason = "it is a program, and its `main` is not called here")]
#[path = "../../../../sdks/rust/examples/invoice.rs"]
pub(crate) mod invoice;

const BUDGETS: &str = include_str!("../../../../docs/guide/budgets.md");
const DURABLE: &str = include_str!("../../../../docs/guide/durable.md");
const APPROVALS: &str = include_str!("../../../../docs/guide/approvals.md");

/// The examples beside the test, as the commands of the guides run them.
async fn with_examples(home: &Home, follow: impl FnOnce()) {
    let stop = CancellationToken::new();
    let examples = [order::worker, payout::worker, agent::worker];
    let workers = examples
        .map(|worker| worker(client(home)))
        .map(|worker| tokio::spawn(worker.run_until(stop.clone().cancelled_owned())));
    tokio::task::block_in_place(follow);
    stop.cancel();
    for worker in workers {
        worker.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_to_durable_functions_is_true() {
    // The worker is the file that the second command runs, built into this test.
    let terminals = guides::terminals(DURABLE);
    assert_eq!(terminals, ["tenure dev", "cargo run -p tenure-sdk --example order"]);
    let home = Home::new();
    let _dev = guides::dev(&home);
    let blocks = guides::blocks(DURABLE);
    let [submit, signal, look] = blocks[..] else {
        panic!("the guide has {} blocks: each has its own check here", blocks.len());
    };
    let follow = || {
        let mut reader = Reader::new(&home);
        let submitted = reader.follow(submit);
        assert!(submitted.contains("order on orders"), "{submitted}");
        let signalled = reader.follow(signal);
        assert!(signalled.contains("has the signal approve"), "{signalled}");
        let ended = reader.follow(look);
        assert!(ended.contains("order 7: parcel with lamp, parcel with cable"), "{ended}");
        for key in ["charge#1", "sleep#1", "signal:approve#1", "child:pack#1", "mail#1"] {
            assert!(ended.contains(key), "{key} in {ended}");
        }
    };
    with_examples(&home, follow).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_to_approvals_is_true() {
    let terminals = guides::terminals(APPROVALS);
    assert_eq!(terminals, ["tenure dev", "cargo run -p tenure-sdk --example payout"]);
    let home = Home::new();
    let _dev = guides::dev(&home);
    let blocks = guides::blocks(APPROVALS);
    let [submit, explain, decide, look] = blocks[..] else {
        panic!("the guide has {} blocks: each has its own check here", blocks.len());
    };
    let follow = || {
        let mut reader = Reader::new(&home);
        reader.follow(submit);
        // A reader is slower than the worker.
        let run = reader.variable("run");
        home.until(&run, "the run waits", |run| run["state"] == "waiting");
        let explained = reader.follow(explain);
        assert!(explained.contains("by role approver (0 of 2"), "{explained}");
        assert!(explained.contains("Pay 50000 cents to Ada"), "{explained}");
        let decided = reader.follow(decide);
        assert!(decided.contains("has your vote and needs more of them"), "{decided}");
        assert!(decided.contains("is APPROVED"), "{decided}");
        let ended = reader.follow(look);
        assert!(ended.contains("paid 50000 cents to the account of Ada"), "{ended}");
        for part in ["look-up#1", "approval:pay#1", "transfer#1", "checked the invoice"] {
            assert!(ended.contains(part), "{part} in {ended}");
        }
    };
    with_examples(&home, follow).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_to_budgets_is_true() {
    let terminals = guides::terminals(BUDGETS);
    assert_eq!(terminals, ["tenure dev", "cargo run -p tenure-sdk --example agent"]);
    let home = Home::new();
    let _dev = guides::dev(&home);
    let blocks = guides::blocks(BUDGETS);
    let [submit, go_on, workspace] = blocks[..] else {
        panic!("the guide has {} blocks: each has its own check here", blocks.len());
    };
    let follow = || {
        let mut reader = Reader::new(&home);
        let halted = reader.follow(submit);
        for part in ["watch ended with exit code", "halted", "1200", "think#3"] {
            assert!(halted.contains(part), "{part} in {halted}");
        }
        let ended = reader.follow(go_on);
        for part in ["after 5 thoughts", "think#5", "succeeded"] {
            assert!(ended.contains(part), "{part} in {ended}");
        }
        // What the two runs used before the budget was set is counted: five thoughts.
        let listed = reader.follow(workspace);
        for part in ["month", "open", "2000", "800000", "998000"] {
            assert!(listed.contains(part), "{part} in {listed}");
        }
    };
    with_examples(&home, follow).await;
}
