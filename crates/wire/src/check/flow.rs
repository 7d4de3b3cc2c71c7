//! Checks a flow key.

use super::{Checked, name, refuse, within};
use crate::limits::{FLOW_LIMIT, FLOW_RATE_COUNT, FLOW_RATE_PER_MS};
use crate::names::{OPERATOR_FLOW_PREFIXES, is_operator_flow};
use crate::requests::Flow;

pub(super) fn flow(flow: Option<&Flow>) -> Checked {
    let Some(Flow { key, limit, rate }) = flow else { return Ok(()) };
    name("flow.key", key)?;
    if is_operator_flow(key) {
        let [queue, kind] = OPERATOR_FLOW_PREFIXES;
        let why = format!(
            "must not begin with `{queue}` or `{kind}`: such keys limit what an operator configured"
        );
        return refuse("flow.key", why);
    }
    if limit.is_none() && rate.is_none() {
        return refuse("flow", "needs a `limit` or a `rate`: a key alone limits nothing");
    }
    within("flow.limit", *limit, FLOW_LIMIT)?;
    within("flow.rate.count", rate.map(|rate| rate.count), FLOW_RATE_COUNT)?;
    within("flow.rate.perMs", rate.map(|rate| rate.per_ms), FLOW_RATE_PER_MS)
}
