//! Flow keys from the command line, as the guide shows them.

use crate::home::{Home, Process, wait_until};

const GUIDE: &str = include_str!("../../../../docs/guide/flow-control.md");

#[test]
fn a_key_lets_one_run_go_on_and_shows_who_waits() {
    // The commands of the guide are the ones that are run here.
    for command in ["--flow customer-7=1", "tenure flow list", "tenure explain RUN"] {
        assert!(GUIDE.contains(command), "{command}");
    }
    let home = Home::new();
    let _server = home.serve();
    let none = home.run(&["flow", "list"]);
    assert!(none.code == 0 && none.stderr.contains("--flow KEY=N"), "{none:?}");
    let submit = || home.submit(&["import", "--queue", "imports", "--flow", "customer-7=1"]);
    let (first, second) = (submit(), submit());
    let work = ["work", "--json", "--queue", "imports", "--exec", "sleep", "--", "600"];
    let _worker = Process::start(home.tenure(&work));
    let _other = Process::start(home.tenure(&work));
    home.until(&first, "the start", |run| run["state"] == "running");
    let task = first.replace("run_", "task_");
    wait_until("the key is listed with its holder", || {
        let keys = home.json(&["flow", "list", "--json"]);
        keys[0]["key"] == "customer-7" && keys[0]["parked"] == 1 && keys[0]["holders"][0] == *task
    });
    let table = home.run(&["flow", "list"]).stdout;
    assert!(table.contains("customer-7") && table.contains(&task), "{table}");
    let explained = home.run(&["explain", &second]);
    assert!(explained.stdout.contains("flow_key"), "{explained:?}");
    assert!(explained.stdout.contains(&task), "{explained:?}");
    assert_eq!(home.run_view(&second)["state"], "queued");
    // Another limit is refused with its page, and the first run gives its slot back.
    let other = home.run(&["submit", "import", "--queue", "imports", "--flow", "customer-7=2"]);
    assert!(other.code != 0 && other.stderr.contains("flow_limit_conflict"), "{other:?}");
    assert_eq!(home.run(&["runs", "cancel", &first, "--force"]).code, 0);
    home.until(&second, "the slot", |run| run["state"] == "running");
}
