//! Answers as a client reads them: the first byte selects the type, the rest is the body. A coordinator may be newer
//! than the client, and any proxy may stand between them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::answers::{
    CompletedAck, Envelope, HeartbeatAck, HeartbeatAnswers, Leases, Problem, Record, ReportAnswers,
    Run, StartedAck, SubmitResults,
};

pub fn answers(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else { return };
    match which % 11 {
        0 => one::<Leases>(bytes),
        1 => one::<Envelope>(bytes),
        2 => one::<StartedAck>(bytes),
        3 => one::<HeartbeatAck>(bytes),
        4 => one::<HeartbeatAnswers>(bytes),
        5 => one::<ReportAnswers>(bytes),
        6 => one::<CompletedAck>(bytes),
        7 => one::<Problem>(bytes),
        8 => one::<Run>(bytes),
        9 => one::<Record>(bytes),
        _ => one::<SubmitResults>(bytes),
    }
}

/// A parsed answer, written and parsed again, is the same answer.
fn one<T: DeserializeOwned + Serialize + PartialEq>(bytes: &[u8]) {
    let Ok(answer) = serde_json::from_slice::<T>(bytes) else { return };
    let text = serde_json::to_vec(&answer).expect("an answer that was read can be written");
    match serde_json::from_slice::<T>(&text) {
        Ok(again) => assert!(again == answer, "reads back as another answer"),
        Err(error) => panic!("understood, and refused when read back: {error}"),
    }
}
