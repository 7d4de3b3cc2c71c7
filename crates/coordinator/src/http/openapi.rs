//! `GET /openapi.json`: the description of this API, generated from the types that are parsed.

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

static DOCUMENT: LazyLock<String> = LazyLock::new(wire::openapi_json);

pub(super) async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT.as_str())
}
