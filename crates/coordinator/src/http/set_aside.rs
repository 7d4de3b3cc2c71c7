//! `/v1/set-aside`: tasks that this coordinator cannot process, for administrators of default/default.

use axum::Json;
use axum::extract::State;
use wire::Code;
use wire::admin::{SetAside, TaskSetAside};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::translate::time;
use crate::admit::AuditorPrincipal;
use crate::admit::administer::Reach;
use crate::set_aside::SetAsideTask;

pub(super) async fn list(
    State(app): State<AppState>,
    principal: AuditorPrincipal,
) -> Result<Json<SetAside>, ApiError> {
    if principal.reach() != Reach::Everything {
        let message =
            "the list covers all tenants: this needs an admin or reader key of default/default";
        let error = ApiError::new(Code::Forbidden, message);
        return Err(error.by(principal.key(), principal.scope()));
    }
    let tasks = app.coordinator.set_aside().into_iter().map(view).collect();
    Ok(Json(SetAside { tasks }))
}

fn view(case: SetAsideTask) -> TaskSetAside {
    let SetAsideTask { task, why, since, tries, left } = case;
    let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    TaskSetAside {
        task_id: task.to_string(),
        why,
        since: time(since),
        tries,
        retry_after_ms: (left > 0).then_some(left),
    }
}
