//! The shapes of flow keys.

use serde_json::json;

use super::{AT, Shapes};
use crate::{answers, requests};

pub(super) fn check(shapes: &mut Shapes) {
    let rate = json!({"count": 10, "perMs": 1000});
    shapes.check_strict::<requests::FlowRate>("FlowRate", rate.clone());
    let flow = json!({"key": "f", "limit": 1, "rate": rate, "debounceMs": 5, "debounceMaxMs": 9, "hold": "life"});
    shapes.check_strict::<requests::Flow>("Flow", flow);
    let key = json!({"key": "f", "limit": 1, "rate": rate, "opensAt": AT, "held": 1, "parked": 2,
        "live": 3, "holders": ["t"]});
    shapes.check_open::<answers::FlowKeyView>("FlowKeyView", key.clone());
    let keys = json!({"flowKeys": [key], "nextAfter": "f", "serverTime": AT});
    shapes.check_open::<answers::FlowKeys>("FlowKeys", keys);
}
