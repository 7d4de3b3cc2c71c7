//! `GET /v1/runs/{runId}/logs`: the lines that workers sent about a run.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use store::{Browse, LogRow, LogsOf, TaskKey};
use verdict::log::{Level, Line, PIECE_BYTES_MAX};
use wire::LogLevel;
use wire::answers::{LoggedLine, Logs};
use wire::limits::{LOG_PAGE_BYTES_MAX, PAGE_ITEMS_DEFAULT};
use wire::requests::LogsQuery;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::caller::RunPath;
use super::translate::{query, time};
use crate::admit::ReaderPrincipal;

/// The pieces that one answer is made of: its bound in bytes.
const PIECES_PER_PAGE: usize = LOG_PAGE_BYTES_MAX / PIECE_BYTES_MAX;

pub(super) async fn logs(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    RunPath(run): RunPath,
    uri: Uri,
) -> Result<Json<Logs>, ApiError> {
    let LogsQuery { after, limit } = query(&uri)?;
    let after = after.as_deref().map(position).transpose()?;
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let found = app.read(app.coordinator.browse().find(&key)).await?;
    found.ok_or_else(ApiError::run_not_found)?;
    let of = LogsOf::Task { key, after };
    let reading = app.coordinator.browse().logs(&of, PIECES_PER_PAGE);
    let pieces = app.read(reading).await?;
    Ok(Json(page(&pieces, after, limit)))
}

/// Where a page ended: an attempt and the number of its line, as `nextAfter` says it.
fn position(text: &str) -> Result<(u32, u64), ApiError> {
    let parsed = text
        .split_once('.')
        .and_then(|(attempt, line)| Some((attempt.parse().ok()?, line.parse().ok()?)));
    let what = "is not a position in a log; use `nextAfter` of the previous page";
    parsed.ok_or_else(|| ApiError::field("after", what))
}

fn page(pieces: &[LogRow], after: Option<(u32, u64)>, limit: usize) -> Logs {
    let lines = pieces.iter().flat_map(|row| row.lines.iter().map(move |line| view(row, line)));
    let is_later = |line: &LoggedLine| after.is_none_or(|after| (line.attempt, line.n) > after);
    let mut lines: Vec<LoggedLine> = lines.filter(is_later).collect();
    let has_more = lines.len() > limit || pieces.len() == PIECES_PER_PAGE;
    lines.truncate(limit);
    let last = lines.last().filter(|_| has_more);
    let next_after = last.map(|line| format!("{}.{}", line.attempt, line.n));
    Logs { lines, next_after }
}

fn view(row: &LogRow, line: &Line) -> LoggedLine {
    let is_first = line.number == row.piece.id.first;
    LoggedLine {
        attempt: row.piece.id.attempt,
        n: line.number,
        at: time(line.at),
        level: level(line.level),
        text: line.text.as_str().to_owned(),
        dropped: Some(row.piece.dropped).filter(|dropped| is_first && *dropped > 0),
    }
}

fn level(level: Level) -> LogLevel {
    match level {
        Level::Trace => LogLevel::Trace,
        Level::Debug => LogLevel::Debug,
        Level::Info => LogLevel::Info,
        Level::Warn => LogLevel::Warn,
        Level::Error => LogLevel::Error,
    }
}
