//! Checks a flow key.

use super::{Checked, name, refuse, within};
use crate::limits::{
    FLOW_DEBOUNCE_MAX_MS, FLOW_DEBOUNCE_MS, FLOW_LIMIT, FLOW_RATE_COUNT, FLOW_RATE_PER_MS,
};
use crate::names::{OPERATOR_FLOW_PREFIXES, is_operator_flow};
use crate::requests::{Flow, FlowHold, SubmitRun};

pub(super) fn flow(flow: Option<&Flow>) -> Checked {
    let Some(flow) = flow else { return Ok(()) };
    let Flow { key, limit, rate, debounce_ms, debounce_max_ms: _, hold } = flow;
    name("flow.key", key)?;
    if is_operator_flow(key) {
        let [queue, kind] = OPERATOR_FLOW_PREFIXES;
        let why = format!(
            "must not begin with `{queue}` or `{kind}`: such keys limit what an operator configured"
        );
        return refuse("flow.key", why);
    }
    if limit.is_none() && rate.is_none() && debounce_ms.is_none() {
        let why = "needs a `limit`, a `rate` or a `debounceMs`: a key alone limits nothing";
        return refuse("flow", why);
    }
    within("flow.limit", *limit, FLOW_LIMIT)?;
    within("flow.rate.count", rate.map(|rate| rate.count), FLOW_RATE_COUNT)?;
    within("flow.rate.perMs", rate.map(|rate| rate.per_ms), FLOW_RATE_PER_MS)?;
    let is_life = *hold == Some(FlowHold::Life);
    if is_life && (limit.is_none() || rate.is_some()) {
        return refuse("flow.hold", "`life` is for keys with a `limit` and without a `rate`");
    }
    debounce(flow)
}

fn debounce(flow: &Flow) -> Checked {
    let Flow { debounce_ms: span, debounce_max_ms: max, .. } = flow;
    within("flow.debounceMs", *span, FLOW_DEBOUNCE_MS)?;
    within("flow.debounceMaxMs", *max, FLOW_DEBOUNCE_MAX_MS)?;
    match (span, max) {
        (None, Some(_)) => {
            refuse("flow.debounceMaxMs", "belongs to `debounceMs`, which is missing")
        }
        (Some(span), Some(max)) if max < span => refuse(
            "flow.debounceMaxMs",
            format!("must not be less than `debounceMs`, which is {span}"),
        ),
        _ => Ok(()),
    }
}

/// A run that says when it starts cannot wait for newer ones.
pub(super) fn start(run: &SubmitRun) -> Checked {
    let is_debounced = run.flow.as_ref().is_some_and(|flow| flow.debounce_ms.is_some());
    match is_debounced && (run.run_at.is_some() || run.delay_ms.is_some()) {
        true => {
            refuse("flow.debounceMs", "says when the run starts; leave out `runAt` and `delayMs`")
        }
        false => Ok(()),
    }
}

/// What is asked for by a parent or a schedule waits for nothing newer.
pub(crate) fn no_debounce(run: &SubmitRun) -> Checked {
    match run.flow.as_ref().is_some_and(|flow| flow.debounce_ms.is_some()) {
        true => refuse("flow.debounceMs", "is for submitted runs, not for children and schedules"),
        false => Ok(()),
    }
}
