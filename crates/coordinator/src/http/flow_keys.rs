//! `GET /v1/flow-keys`: who holds the slots of each flow key, and how many wait for one.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use store::{Browse, FlowFilter, FlowKeyRow};
use verdict::flow::{Hold, Rate, UNLIMITED};
use verdict::{FlowKey, Name, TaskId};
use wire::Code;
use wire::answers::{FlowKeyView, FlowKeys};
use wire::limits::PAGE_ITEMS_DEFAULT;
use wire::requests::{Flow, FlowHold, FlowRate, ListFlowKeys};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::translate::{query, time};
use crate::admit::ReaderPrincipal;
use crate::admit::principals::Principal as _;

/// How many holders an answer names. The list of runs finds the others.
pub(super) const HOLDERS_MAX: usize = 10;

pub(super) async fn flow_keys(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    uri: Uri,
) -> Result<Json<FlowKeys>, ApiError> {
    let ListFlowKeys { key, after, limit } = query(&uri)?;
    if principal.queues().is_some() {
        let message = "flow keys span queues; use a key without a limit to queues";
        let error = ApiError::new(Code::Forbidden, message);
        return Err(error.by(principal.key(), principal.scope()));
    }
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let filter = FlowFilter {
        scope: principal.scope().clone(),
        key: key.map(Name::from),
        after: after.map(Name::from),
        // One more than the page has, to know whether there is another page.
        limit: limit + 1,
        holders: HOLDERS_MAX,
    };
    let browse = app.coordinator.browse();
    let mut rows = app.read(browse.flow_keys(&filter)).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next_after = rows.last().filter(|_| has_more).map(|row| row.key.to_string());
    let flow_keys = rows.into_iter().map(view).collect();
    Ok(Json(FlowKeys { flow_keys, next_after, server_time: app.server_time() }))
}

fn view(row: FlowKeyRow) -> FlowKeyView {
    let parked = row.parked();
    let FlowKeyRow { key, limit, held, ready: _, live, holders, rate, opens_at } = row;
    FlowKeyView {
        key: key.to_string(),
        limit: (limit != UNLIMITED).then_some(limit),
        rate: rate.map(|it| rate_view(it.rate)),
        opens_at: opens_at.map(time),
        held,
        parked,
        live,
        holders: holders.iter().map(TaskId::to_string).collect(),
    }
}

/// A flow key as clients see it.
pub(super) fn flow_view(flow: &FlowKey) -> Flow {
    let limit = (flow.limit != UNLIMITED).then_some(flow.limit);
    let debounce_ms = flow.debounce.map(|it| it.span.millis());
    let debounce_max_ms = flow.debounce.map(|it| it.max.millis());
    let (key, rate) = (flow.name.to_string(), flow.rate.map(rate_view));
    let hold = (flow.hold == Hold::Life).then_some(FlowHold::Life);
    Flow { key, limit, rate, debounce_ms, debounce_max_ms, hold }
}

fn rate_view(rate: Rate) -> FlowRate {
    FlowRate { count: rate.count, per_ms: rate.per.millis() }
}
