//! `GET /v1/runs/{runId}/history`: every decision about a run, as a page or as a stream of events.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, Uri};
use axum::response::sse::{Event as SentEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use store::{Browse, Failure, RowsAfter, TaskKey};
use verdict::Subject;
use wire::answers::{History, HistoryEntry};
use wire::limits::PAGE_ITEMS_DEFAULT;
use wire::requests::HistoryQuery;

use self::entry::entry;
use super::api_error::ApiError;
use super::app_state::AppState;
use super::caller::RunPath;
use super::translate::query;
use crate::Awaited;
use crate::admit::ReaderPrincipal;

mod entry;
mod grants;
mod plan_event;

/// How long one wait for new entries lasts; then the stream checks whether it should end.
const STREAM_POLL_INTERVAL: Duration = Duration::from_secs(15);

const EVENT_STREAM: &str = "text/event-stream";
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) async fn history(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    RunPath(run): RunPath,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ApiError> {
    let HistoryQuery { after, limit, wait_ms } = query(&uri)?;
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let after = position(after.or_else(|| last_event_id(&headers)));
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let found = app.read(app.coordinator.browse().find(&key)).await?;
    found.ok_or_else(ApiError::run_not_found)?;
    if wants_stream(&headers) {
        let keep_alive = KeepAlive::new().interval(STREAM_POLL_INTERVAL);
        return Ok(Sse::new(follow(app, key, after)).keep_alive(keep_alive).into_response());
    }
    let wait = Duration::from_millis(wait_ms.unwrap_or(0));
    let entries = app.within(wait, news(&app, &key, after, limit, wait)).await?;
    let next_after = entries.last().map_or(u64::from(after), |entry| entry.n);
    Ok(Json(History { entries, next_after }).into_response())
}

/// A position beyond every possible entry: nothing comes after it.
fn position(after: Option<u64>) -> u32 {
    u32::try_from(after.unwrap_or(0)).unwrap_or(u32::MAX)
}

fn last_event_id(headers: &HeaderMap) -> Option<u64> {
    headers.get(LAST_EVENT_ID)?.to_str().ok()?.parse().ok()
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with(EVENT_STREAM))
}

/// Entries after a position; waits for the first one while there is none and the run goes on.
async fn news(
    app: &AppState,
    key: &TaskKey,
    after: u32,
    limit: usize,
    wait: Duration,
) -> Result<Vec<HistoryEntry>, Failure> {
    let reading = || async {
        let is_over = is_over(app, key).await?;
        let entries = page(app, key, after, limit).await?;
        Ok((is_over || !entries.is_empty()).then_some(entries))
    };
    let look = |_| app.look(&key.scope.tenant, reading());
    Ok(app.coordinator.watch_until(key.id, Awaited::Change, wait, look).await?.unwrap_or_default())
}

/// Read before the entries, so that an end in between leads to one more read.
async fn is_over(app: &AppState, key: &TaskKey) -> Result<bool, Failure> {
    let found = app.coordinator.browse().find(key).await?;
    Ok(!found.is_some_and(|found| matches!(found.subject, Subject::Live(_))))
}

async fn page(
    app: &AppState,
    key: &TaskKey,
    after: u32,
    limit: usize,
) -> Result<Vec<HistoryEntry>, Failure> {
    let browse = app.coordinator.browse();
    let entries = browse.rows(key, RowsAfter::Entry(after), limit).await?.history;
    let mut attempt = match (after, entries.is_empty()) {
        (0, _) | (_, true) => 0,
        _ => grants::before(browse, key, &entries).await?,
    };
    let numbered = entries.iter().map(|found| {
        attempt += grants::of(found);
        entry(found, attempt)
    });
    Ok(numbered.collect())
}

/// Streams entries as they are written, until the run has ended and all of them were sent.
fn follow(
    app: AppState,
    key: TaskKey,
    after: u32,
) -> impl Stream<Item = Result<SentEvent, Infallible>> {
    let start = Some((app, key, after, Vec::new().into_iter()));
    stream::unfold(start, |state| async move {
        let (app, key, mut after, mut ready) = state?;
        loop {
            if let Some(entry) = ready.next() {
                let sent = sent_event(&entry);
                after = position(Some(entry.n));
                return Some((Ok(sent), Some((app, key, after, ready))));
            }
            let is_over = app.look(&key.scope.tenant, is_over(&app, &key)).await.ok()?;
            let limit = PAGE_ITEMS_DEFAULT as usize;
            let entries = news(&app, &key, after, limit, STREAM_POLL_INTERVAL).await.ok()?;
            // A draining coordinator returns at once with nothing, every time.
            if entries.is_empty() && (is_over || app.coordinator.is_progressing().await.is_err()) {
                return None;
            }
            ready = entries.into_iter();
        }
    })
}

fn sent_event(entry: &HistoryEntry) -> SentEvent {
    let data = serde_json::to_string(entry).expect("an entry is plain JSON");
    SentEvent::default().id(entry.n.to_string()).event(entry.kind.clone()).data(data)
}
