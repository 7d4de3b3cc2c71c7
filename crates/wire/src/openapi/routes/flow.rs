//! The routes of flow keys.

use super::{Body, Route, query};
use crate::Code;
use crate::openapi::{Caller, HttpMethod};
use crate::requests::ListFlowKeys;

pub(in crate::openapi) const FLOW_ROUTES: &[Route] = &[Route {
    method: HttpMethod::Get,
    path: "/v1/flow-keys",
    id: "listFlowKeys",
    tag: "runs",
    summary: "Show flow keys: how many tasks hold a slot, which ones, and how many wait for one",
    caller: Caller::ApiKey,
    parameters: query::<ListFlowKeys>,
    body: None,
    answers: &[(200, "A page of flow keys, by name.", Body::Json("FlowKeys"))],
    codes: with_key_codes![],
}];
