//! `GET /v1/queues`: waiting and running tasks, and pauses.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use store::row::PAGE_BYTES_MAX;
use store::{Browse, QueueDepth, QueuePause};
use wire::answers::{PageStop, QueueView, Queues};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::pauses;
use super::translate::time;
use crate::admit::ReaderPrincipal;
use crate::admit::principals::Principal;

/// What a queue takes in an answer without its name.
const QUEUE_BYTES: usize = 256;

pub(super) async fn queues(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
) -> Result<Json<Queues>, ApiError> {
    let (browse, scope) = (app.coordinator.browse(), principal.scope());
    let depths = app.read(app.inner.queue_depths.of(browse, scope)).await?;
    let paused = app.read(browse.paused_queues()).await?;
    let mut queues: BTreeMap<String, QueueView> =
        depths.into_iter().map(|depth| (depth.queue.to_string(), view(depth))).collect();
    for pause in paused.iter().filter(|pause| pause.scope == *scope) {
        let name = pause.queue.to_string();
        queues.entry(name).or_insert_with(|| empty(pause)).pause = Some(pauses::view(pause));
    }
    queues.retain(|name, _| principal.may_use(name));
    Ok(Json(fitting(queues.into_values().collect())))
}

/// As many as an answer has room for: names are chosen by tenants, and there may be as many queues as tasks.
fn fitting(mut queues: Vec<QueueView>) -> Queues {
    let mut bytes = 0;
    let fits = queues.iter().take_while(|it| {
        bytes += QUEUE_BYTES + it.queue.len();
        bytes <= PAGE_BYTES_MAX
    });
    let (all, fitting) = (queues.len(), fits.count());
    queues.truncate(fitting);
    Queues { queues, stopped: (fitting < all).then_some(PageStop::Bytes) }
}

fn view(depth: QueueDepth) -> QueueView {
    let QueueDepth {
        scope: _,
        queue,
        ready,
        parked,
        delayed,
        running,
        unfinished: _,
        runs: _,
        oldest_ready_at,
    } = depth;
    let oldest_ready_at = oldest_ready_at.map(time);
    let queue = queue.to_string();
    QueueView { queue, ready, parked, delayed, running, oldest_ready_at, pause: None }
}

/// A paused queue is shown even if it holds no task.
fn empty(pause: &QueuePause) -> QueueView {
    let queue = pause.queue.to_string();
    QueueView {
        queue,
        ready: 0,
        parked: 0,
        delayed: 0,
        running: 0,
        oldest_ready_at: None,
        pause: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(count: usize) -> Vec<QueueView> {
        let view = |n: usize| QueueView {
            queue: format!("{n:0128}"),
            ready: 1,
            parked: 0,
            delayed: 0,
            running: 0,
            oldest_ready_at: None,
            pause: None,
        };
        (0..count).map(view).collect()
    }

    #[test]
    fn queues_beyond_the_room_of_an_answer_are_left_out_and_that_is_said() {
        let all = fitting(named(1_000));
        assert_eq!((all.queues.len(), all.stopped), (1_000, None));
        let some = fitting(named(20_000));
        assert_eq!(some.stopped, Some(PageStop::Bytes));
        let bytes = serde_json::to_string(&some).unwrap().len();
        assert!((1..=PAGE_BYTES_MAX).contains(&bytes), "{bytes}");
        assert_eq!(some.queues[0].queue, format!("{:0128}", 0), "by name, from the first");
    }
}
