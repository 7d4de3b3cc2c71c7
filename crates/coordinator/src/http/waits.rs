//! `POST /v1/waits`: waits for many runs in one call.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use verdict::TaskId;
use wire::answers::{Run, WaitAnswer};
use wire::limits::WAIT_ANSWER_BYTES_MAX;
use wire::parse;
use wire::requests::WaitForRuns;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{API_BYTES_MAX, JsonBody};
use super::caller::run_id;
use super::ends::{RunsWait, Seen};
use super::sight::Sight;
use crate::admit::ReaderPrincipal;

pub(super) async fn wait(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<WaitAnswer>, ApiError> {
    let WaitForRuns { run_ids, wait_ms } = parse(&body)?;
    let wait = Duration::from_millis(wait_ms.unwrap_or(0));
    let asked = Asked::of(run_ids);
    // What cannot be the id of a run is told at once, as a missing run is.
    let wait = if asked.malformed.is_empty() { wait } else { Duration::ZERO };
    let (scope, sight) = (principal.scope(), Sight::of(&principal));
    let waiting = RunsWait::new(&app, scope, sight, &asked.ids, WAIT_ANSWER_BYTES_MAX);
    let seen = waiting.run(wait).await?;
    Ok(Json(answer(asked, seen, app.server_time())))
}

/// The ids of a call, each once, and what is none.
#[derive(Default)]
struct Asked {
    ids: Vec<TaskId>,
    malformed: Vec<String>,
}

impl Asked {
    fn of(run_ids: Vec<String>) -> Self {
        let (mut asked, mut met) = (Self::default(), std::collections::HashSet::new());
        for text in run_ids {
            if !met.insert(text.clone()) {
                continue;
            }
            match run_id(&text) {
                Some(id) => asked.ids.push(id),
                None => asked.malformed.push(text),
            }
        }
        asked
    }
}

fn answer(asked: Asked, seen: Vec<Seen>, server_time: wire::Time) -> WaitAnswer {
    let (mut ended, mut pending, mut not_found) = (Vec::new(), Vec::new(), asked.malformed);
    for (id, seen) in asked.ids.into_iter().zip(seen) {
        match seen {
            Seen::Ended(run) => ended.push(Run { input: None, ..*run }),
            Seen::Pending(_) => pending.push(id.run_name()),
            Seen::Missing => not_found.push(id.run_name()),
        }
    }
    WaitAnswer { ended, pending, not_found, server_time }
}
