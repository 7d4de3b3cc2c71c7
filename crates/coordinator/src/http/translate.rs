//! Translates the types of the rules into those of the wire. The other direction is [`crate::requests`].
//!
//! Neither side knows the other. Matches are exhaustive, so a new variant on one side does not compile
//! until the other has one.

use axum::extract::Query;
use axum::http::Uri;
use serde::de::DeserializeOwned;
use verdict::{Name, Scope, Span, Time};
use wire::{Check, Code};

use super::api_error::ApiError;
pub(super) use crate::requests::instant;
use crate::requests::reported_category;

/// Clocks of honest machines differ by less than this; a larger skew needs attention.
const SKEW_TOLERATED: Span = Span::from_secs(5 * 60);

/// The scope that a call names; the caller's own where it names none.
pub(super) fn scope_or(own: &Scope, tenant: Option<String>, workspace: Option<String>) -> Scope {
    Scope {
        tenant: tenant.map_or_else(|| own.tenant.clone(), Name::from),
        workspace: workspace.map_or_else(|| own.workspace.clone(), Name::from),
    }
}

pub(super) fn time(time: Time) -> wire::Time {
    wire::Time::from_ms(time.millis())
}

pub(super) fn state(state: verdict::State) -> wire::State {
    match state {
        verdict::State::Queued => wire::State::Queued,
        verdict::State::Running => wire::State::Running,
        verdict::State::Retry => wire::State::Retry,
        verdict::State::Succeeded => wire::State::Succeeded,
        verdict::State::Failed => wire::State::Failed,
        verdict::State::Halted => wire::State::Halted,
        verdict::State::Cancelled => wire::State::Cancelled,
        verdict::State::Waiting => wire::State::Waiting,
        verdict::State::Blocked => wire::State::Blocked,
        verdict::State::Skipped => wire::State::Skipped,
    }
}

pub(super) fn worker_verdict(worker_verdict: verdict::WorkerVerdict) -> wire::Verdict {
    match worker_verdict {
        verdict::WorkerVerdict::Committed => wire::Verdict::Committed,
        verdict::WorkerVerdict::Cancelled => wire::Verdict::Cancelled,
        verdict::WorkerVerdict::Rejected => wire::Verdict::Rejected,
    }
}

pub(super) fn state_filter(state: wire::State) -> verdict::State {
    match state {
        wire::State::Queued => verdict::State::Queued,
        wire::State::Running => verdict::State::Running,
        wire::State::Retry => verdict::State::Retry,
        wire::State::Succeeded => verdict::State::Succeeded,
        wire::State::Failed => verdict::State::Failed,
        wire::State::Halted => verdict::State::Halted,
        wire::State::Cancelled => verdict::State::Cancelled,
        wire::State::Waiting => verdict::State::Waiting,
        wire::State::Blocked => verdict::State::Blocked,
        wire::State::Skipped => verdict::State::Skipped,
    }
}

pub(super) fn category(category: verdict::Category) -> wire::ErrorCategory {
    match category {
        verdict::Category::UserCode => wire::ErrorCategory::UserCode,
        verdict::Category::DataQuality => wire::ErrorCategory::DataQuality,
        verdict::Category::Infrastructure => wire::ErrorCategory::Infrastructure,
        verdict::Category::Configuration => wire::ErrorCategory::Configuration,
        verdict::Category::Timeout => wire::ErrorCategory::Timeout,
    }
}

/// `None` for the category that no failure has.
pub(super) fn category_filter(category: wire::ErrorCategory) -> Option<verdict::Category> {
    reported_category(category)
}

pub(super) fn attempt_outcome(outcome: verdict::AttemptOutcome) -> wire::AttemptOutcome {
    match outcome {
        verdict::AttemptOutcome::Succeeded => wire::AttemptOutcome::Succeeded,
        verdict::AttemptOutcome::Failed => wire::AttemptOutcome::Failed,
        verdict::AttemptOutcome::Cancelled => wire::AttemptOutcome::Cancelled,
        verdict::AttemptOutcome::Lost => wire::AttemptOutcome::Lost,
        verdict::AttemptOutcome::Undelivered => wire::AttemptOutcome::Undelivered,
        verdict::AttemptOutcome::Revoked => wire::AttemptOutcome::Revoked,
        verdict::AttemptOutcome::Released => wire::AttemptOutcome::Released,
        verdict::AttemptOutcome::Suspended => wire::AttemptOutcome::Suspended,
        verdict::AttemptOutcome::Diverged => wire::AttemptOutcome::Diverged,
    }
}

/// Stored JSON was validated when it was received.
pub(super) fn json(json: &verdict::Json) -> wire::Json {
    wire::Json::from_text(json.as_str().to_owned()).expect("only valid JSON is ever stored")
}

/// The query of a request: unknown, repeated and malformed members are refused like those of a body.
pub(super) fn query<T: DeserializeOwned + Check>(uri: &Uri) -> Result<T, ApiError> {
    let query: T = parsed(uri)?;
    query.check()?;
    Ok(query)
}

/// The same for a query in which one parameter may be repeated. `set` receives its values, if there are any.
pub(super) fn query_with_repeated<T: DeserializeOwned + Check>(
    uri: &Uri,
    name: &str,
    set: impl FnOnce(&mut T, Vec<String>),
) -> Result<T, ApiError> {
    let is_repeated = |pair: &&str| pair.split('=').next() == Some(name);
    let pairs = || uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let (repeated, others): (Vec<&str>, Vec<&str>) = pairs().partition(is_repeated);
    let mut query: T = parsed(&of_pairs(&others)?)?;
    let repeated: Vec<(String, String)> = parsed(&of_pairs(&repeated)?)?;
    if !repeated.is_empty() {
        set(&mut query, repeated.into_iter().map(|(_, value)| value).collect());
    }
    query.check()?;
    Ok(query)
}

fn of_pairs(pairs: &[&str]) -> Result<Uri, ApiError> {
    Uri::try_from(format!("/?{}", pairs.join("&")))
        .map_err(|_| ApiError::new(Code::InvalidArgument, "the query is not valid in a URI"))
}

/// How the library begins what it says about a query. The rest names the parameter and what is wrong with it.
const LIBRARY_PREFIX: &str = "Failed to deserialize query string: ";

fn parsed<T: DeserializeOwned>(uri: &Uri) -> Result<T, ApiError> {
    let Query(query) = Query::<T>::try_from_uri(uri).map_err(|problem| {
        let said = problem.body_text();
        let why = said.strip_prefix(LIBRARY_PREFIX).unwrap_or(&said);
        ApiError::new(Code::InvalidArgument, format!("the query is invalid: {why}"))
    })?;
    Ok(query)
}

/// The skew of a worker's clock, if it is too large to ignore: positive if the worker's clock is ahead.
pub(super) fn skew(claimed: Time, at: Time) -> Option<i64> {
    let apart = claimed.millis().saturating_sub(at.millis());
    (apart.unsigned_abs() > SKEW_TOLERATED.millis()).then_some(apart)
}
