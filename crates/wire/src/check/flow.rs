//! Checks a flow key.

use super::{Checked, name, within};
use crate::limits::FLOW_LIMIT;
use crate::requests::Flow;

pub(super) fn flow(flow: Option<&Flow>) -> Checked {
    let Some(Flow { key, limit }) = flow else { return Ok(()) };
    name("flow.key", key)?;
    within("flow.limit", Some(*limit), FLOW_LIMIT)
}
