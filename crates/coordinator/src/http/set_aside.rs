//! `/v1/set-aside`: tasks that this coordinator cannot process, and messages that none can decide, for administrators of
//! default/default.

use axum::Json;
use axum::extract::State;
use store::{Browse, Failure, SavedMessage};
use wire::Code;
use wire::admin::{ParkedMessage, SetAside, TaskSetAside};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::translate::time;
use crate::admit::AuditorPrincipal;
use crate::admit::administer::Reach;
use crate::set_aside::SetAsideTask;

/// How many parked messages are shown: more of them would show nothing new.
const SHOWN_MAX: usize = 100;

/// How many saved messages are looked through. A fan-out may save many thousands for a moment, and they are not parked.
const PAGE: usize = 1_000;
const PAGES_MAX: usize = 20;

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
    let reading = parked(app.coordinator.browse());
    let messages = app.read(reading).await?;
    Ok(Json(SetAside { tasks, messages }))
}

/// The first parked messages among the saved ones. Most stores have neither.
async fn parked<B: Browse>(browse: &B) -> Result<Vec<ParkedMessage>, Failure> {
    let mut found = Vec::new();
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let page = browse.saved_messages(after.as_ref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key());
        found.extend(page.iter().filter_map(parked_view));
        if found.len() >= SHOWN_MAX {
            break;
        }
    }
    found.truncate(SHOWN_MAX);
    Ok(found)
}

fn parked_view(saved: &SavedMessage) -> Option<ParkedMessage> {
    let why = saved.parked.as_ref()?.to_string();
    let (from, to) = (saved.message.from, saved.message.to);
    Some(ParkedMessage { from_task_id: from.to_string(), to_task_id: to.to_string(), why })
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
