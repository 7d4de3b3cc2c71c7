//! Checks payloads of a task against the coordinator's limits before they are reported: a report
//! that is refused as a whole would cost the attempt.

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::limits::PAYLOAD_BYTES_MAX;
use wire::requests::Completed;
use wire::{Json, Outcome};

/// Why a value is not of the type that it was read as.
#[derive(Debug, thiserror::Error)]
#[error("at `{path}`: {source}")]
pub struct Unreadable {
    path: String,
    source: serde_json::Error,
}

impl Unreadable {
    /// Where in the value: `items[2].cents`; `.` for the value itself.
    pub fn path(&self) -> &str {
        &self.path
    }
}

pub(crate) fn read<T: DeserializeOwned>(json: &Json) -> Result<T, Unreadable> {
    let mut text = serde_json::Deserializer::from_str(json.text());
    serde_path_to_error::deserialize(&mut text)
        .map_err(|error| Unreadable { path: error.path().to_string(), source: error.into_inner() })
}

/// The value as JSON that a report may carry, or the reason why it may not.
pub(crate) fn encode_payload(value: &impl Serialize) -> Result<Json, String> {
    let json = Json::from_value(value).map_err(|why| format!("has no JSON form: {why}"))?;
    let bytes = json.text().len();
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(format!(
            "has {bytes} bytes, more than the {PAYLOAD_BYTES_MAX} allowed; store it elsewhere and \
             return a reference"
        ));
    }
    let body = serde_json::to_vec(&report_with(json.clone()))
        .map_err(|why| format!("has no JSON form: {why}"))?;
    match wire::parse::<Completed>(&body) {
        Ok(_) => Ok(json),
        Err(fault) => Err(format!("cannot be recorded: {fault}")),
    }
}

fn report_with(output: Json) -> Completed {
    Completed {
        spend: None,
        attempt: 1,
        worker_id: "worker".to_owned(),
        outcome: Outcome::Succeeded,
        completed_at: None,
        output: Some(output),
        error: None,
        metrics: None,
        cancelled_during_phase: None,
        partial_progress: None,
        traceparent: None,
        steps: Vec::new(),
        children: Vec::new(),
        effects: Vec::new(),
        next: false,
        log: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_coordinator_would_refuse_is_refused_here() {
        assert_eq!(encode_payload(&vec![1, 2]).unwrap().text(), "[1,2]");
        assert_eq!(encode_payload(&u64::MAX).unwrap().text(), "18446744073709551615");
        let deep = (0..40).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
        assert!(encode_payload(&deep).unwrap_err().contains("at most 32 levels"));
        assert!(encode_payload(&"x".repeat(PAYLOAD_BYTES_MAX)).unwrap_err().contains("reference"));
    }
}
