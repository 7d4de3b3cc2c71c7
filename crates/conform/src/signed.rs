//! Signs the messages that a client is told to verify: a case says by whom and when, since a signature has a time.

use serde_json::{Value, json};
use webhook::{HEADER_ID, HEADER_SIGNATURE, HEADER_TIMESTAMP, Secret, signatures};

/// Replaces `sign` in a line for a client by the headers of its body.
pub(crate) fn sign(line: &mut Value) {
    let Some(how) = line.as_object_mut().and_then(|members| members.remove("sign")) else { return };
    let id = how["id"].as_str().unwrap_or_default();
    let secrets = how["secrets"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let secrets: Vec<Secret> = secrets.filter_map(|secret| Secret::parse(secret).ok()).collect();
    let age = how["ageSeconds"].as_i64().unwrap_or(0);
    let at = jiff::Timestamp::now().as_second() - age;
    let body = line["body"].as_str().unwrap_or_default().to_owned();
    line["headers"] = json!({
        HEADER_ID: id,
        HEADER_TIMESTAMP: at.to_string(),
        HEADER_SIGNATURE: signatures(&secrets, id, at, body.as_bytes()),
    });
    if how["flip"] == true {
        line["body"] = json!(body.replacen('7', "8", 1));
    }
}
