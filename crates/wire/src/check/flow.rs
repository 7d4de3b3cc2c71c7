//! Checks a flow key.

use super::{Checked, name, refuse, within};
use crate::limits::FLOW_LIMIT;
use crate::names::{OPERATOR_FLOW_PREFIXES, is_operator_flow};
use crate::requests::Flow;

pub(super) fn flow(flow: Option<&Flow>) -> Checked {
    let Some(Flow { key, limit }) = flow else { return Ok(()) };
    name("flow.key", key)?;
    if is_operator_flow(key) {
        let [queue, kind] = OPERATOR_FLOW_PREFIXES;
        let why = format!(
            "must not begin with `{queue}` or `{kind}`: such keys limit what an operator configured"
        );
        return refuse("flow.key", why);
    }
    within("flow.limit", Some(*limit), FLOW_LIMIT)
}
