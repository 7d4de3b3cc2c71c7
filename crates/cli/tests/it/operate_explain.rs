//! `tenure explain`, as people read it.

use crate::home::Home;

#[test]
fn it_names_what_holds_a_run_and_what_would_change_it() {
    let home = Home::new();
    let _server = home.serve();
    let id = home.submit(&["resize", "--queue", "images", "--deadline", "2h"]);
    let ran = home.run(&["explain", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for words in ["queued", "no_worker", "no worker polls for `resize` on `images`", "changes with"]
    {
        assert!(ran.stdout.contains(words), "{words} in {}", ran.stdout);
    }
    assert!(
        ran.stdout.contains("deadline") && ran.stdout.contains("at the latest in 1"),
        "{ran:?}"
    );
    let answer = home.json(&["explain", "--json", &id]);
    assert_eq!(answer["gates"][0]["gate"], "no_worker");
    let by_task = home.json(&["explain", "--json", answer["taskId"].as_str().unwrap()]);
    assert_eq!(by_task["runId"], id.as_str(), "a worker's log names tasks");
    let missing = home.run(&["explain", "run_00000000000000000000000000"]);
    missing.assert_error(3, "run_not_found", "run", "runs list");
}
