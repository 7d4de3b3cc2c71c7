//! `/v1/set-aside`: tasks that this coordinator cannot carry on, for administrators of default/default.

use axum::Json;
use axum::extract::State;
use store::Store;
use wire::Code;
use wire::admin::{SetAside, TaskSetAside};

use super::declined::Declined;
use super::door::Door;
use super::translate::time;
use crate::admit::AdminPrincipal;
use crate::admit::administer::Reach;
use crate::aside::Case;

pub(super) async fn list<S: Store>(
    State(door): State<Door<S>>,
    principal: AdminPrincipal,
) -> Result<Json<SetAside>, Declined> {
    if principal.reach() != Reach::Everything {
        let message = "tasks of all tenants are listed: this needs an admin key of default/default";
        let declined = Declined::new(Code::Forbidden, message);
        return Err(declined.by(principal.key(), principal.scope()));
    }
    let tasks = door.coordinator.set_aside().into_iter().map(view).collect();
    Ok(Json(SetAside { tasks }))
}

fn view(case: Case) -> TaskSetAside {
    let Case { task, why, since, tries, left } = case;
    let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    TaskSetAside {
        task_id: task.to_string(),
        why,
        since: time(since),
        tries,
        retry_after_ms: (left > 0).then_some(left),
    }
}
