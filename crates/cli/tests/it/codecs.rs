//! Payloads that a codec encoded, as people see them.

use crate::home::Home;

#[cfg(unix)]
#[test]
fn a_payload_of_a_codec_is_shown_in_plain_to_who_can_decode_it() {
    let home = Home::new();
    let _server = home.serve();
    // The data is `{"card": 1}`.
    let input = r#"{"$codec": "own", "data": "eyJjYXJkIjogMX0="}"#;
    let id = home.submit(&["k", "--queue", "q", "--input", input]);
    assert!(home.run(&["runs", "show", &id]).stdout.contains("eyJjYXJk"));
    let shown = home.run(&["runs", "show", &id, "--decode-with", "cat"]);
    assert!(shown.stdout.contains(r#"{"card": 1}"#), "{shown:?}");
    let failed = home.run(&["runs", "show", &id, "--decode-with", "exit 3"]);
    failed.assert_error(1, "not_decoded", "`own`", "--decode-with");
}
