//! Request bodies: the first byte selects the type, the rest is the body.

use serde::Serialize;
use wire::admin::{CreateKey, RotateKey, RotateSigning};
use wire::requests::{
    CancelRun, Completed, Heartbeat, HeartbeatItem, LeaseRequest, Report, Started, SubmitRun,
};
use wire::{BatchItem, Body, FieldError, Submit, parse, parse_batch, parse_submit};

pub fn body(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else { return };
    match which % 12 {
        0 => one::<SubmitRun>(bytes),
        1 => one::<LeaseRequest>(bytes),
        2 => one::<Started>(bytes),
        3 => one::<CancelRun>(bytes),
        4 => one::<Heartbeat>(bytes),
        5 => one::<Completed>(bytes),
        6 => one::<CreateKey>(bytes),
        7 => one::<RotateKey>(bytes),
        8 => one::<RotateSigning>(bytes),
        9 => many::<Report>(bytes),
        10 => many::<HeartbeatItem>(bytes),
        _ => submission(bytes),
    }
}

fn one<T: Body + Serialize + PartialEq>(bytes: &[u8]) {
    match parse::<T>(bytes) {
        Ok(request) => read_back(&request),
        Err(fault) => explains(&fault),
    }
}

fn many<T: BatchItem + Serialize + PartialEq>(bytes: &[u8]) {
    match parse_batch::<T>(bytes) {
        Ok(items) => items.iter().for_each(item),
        Err(fault) => explains(&fault),
    }
}

fn submission(bytes: &[u8]) {
    match parse_submit(bytes) {
        Ok(Submit::One(run)) => read_back(&*run),
        Ok(Submit::Many(items)) => items.iter().for_each(item),
        Err(fault) => explains(&fault),
    }
}

fn item<T: Body + Serialize + PartialEq>(item: &Result<T, FieldError>) {
    match item {
        Ok(request) => read_back(request),
        Err(fault) => explains(fault),
    }
}

/// An accepted request, written and parsed again, is the same request: normalization happens once.
fn read_back<T: Body + Serialize + PartialEq>(request: &T) {
    let text = serde_json::to_vec(request).expect("a request that was read can be written");
    match parse::<T>(&text) {
        Ok(again) => assert!(again == *request, "reads back as another request"),
        Err(fault) => panic!("accepted, and refused when read back: {}", fault.message),
    }
}

fn explains(fault: &FieldError) {
    assert!(!fault.message.is_empty(), "a refusal says why");
}
