//! What workers announce, as people see it.

use serde_json::json;
use tenure::Client;
use wire::Json;
use wire::requests::{AnnouncedKind, Announcement, LeaseRequest};

use crate::home::Home;

/// A worker that polls once and says that it serves `greet`, which takes text.
fn announce(home: &Home) {
    let profile: serde_json::Value =
        serde_json::from_slice(&std::fs::read(home.profile()).unwrap()).unwrap();
    let text = |name: &str| profile[name].as_str().unwrap().to_owned();
    let client = Client::new(&text("url"), &text("apiKey")).unwrap();
    let schema = Json::from_value(&json!({"type": "string"})).unwrap();
    let kind = AnnouncedKind {
        kind: "greet".to_owned(),
        version: Some("2".to_owned()),
        input_schema: Some(schema),
        ..AnnouncedKind::default()
    };
    let announcement =
        Announcement { id: "a".to_owned(), build_id: Some("b-7".to_owned()), kinds: vec![kind] };
    let request = LeaseRequest {
        worker_id: "w1".to_owned(),
        queues: vec!["mail".to_owned()],
        max: 0,
        announce: Some(Box::new(announcement)),
        ..LeaseRequest::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(client.lease(&request)).unwrap();
}

#[test]
fn announced_kinds_are_listed_and_inputs_checked_before_they_are_submitted() {
    // V-14
    let home = Home::new();
    let _server = home.serve();
    let submit = |input: &str| {
        let words = ["submit", "greet", "--queue", "mail", "--check", "--input", input];
        home.run(&words)
    };
    submit("\"Ada\"").assert_error(4, "kind_not_announced", "greet", "tenure kinds");
    announce(&home);
    let listed = home.run(&["kinds"]);
    assert!(listed.stdout.contains("greet") && listed.stdout.contains("b-7"), "{listed:?}");
    assert!(home.run(&["kinds", "greet"]).stdout.contains(r#"{"type":"string"}"#));
    submit("7").assert_error(2, "input_does_not_fit", "string", "tenure kinds greet");
    assert_eq!(home.json(&["runs", "list", "--json"]), json!([]), "nothing was submitted");
    assert_eq!(submit("\"Ada\"").code, 0);
    let id = home.submit(&["typo", "--queue", "mail"]);
    let explained = home.run(&["explain", &id]);
    assert!(explained.stdout.contains("`greet`"), "{explained:?}");
}
