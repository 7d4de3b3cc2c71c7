//! `/livez`, `/readyz` and `/version`: open to everybody, say nothing about anybody's work.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use store::Store;
use wire::answers::{Ready, ReadyCheck, Version};

use super::door::Door;

/// The process runs and answers. Restart it if this fails.
pub(super) async fn livez() -> &'static str {
    "ok\n"
}

/// Work goes through: an empty batch went round. Send no traffic if this fails.
pub(super) async fn readyz<S: Store>(State(door): State<Door<S>>) -> Response {
    let patience = door.inner.patience.progress;
    let progress = tokio::time::timeout(patience, door.coordinator.is_progressing()).await;
    let detail = match progress {
        Ok(Ok(())) => None,
        Ok(Err(trouble)) => Some(trouble.to_string()),
        Err(_) => Some(format!("no batch went through within {patience:?}")),
    };
    let ready = detail.is_none();
    let checks = vec![ReadyCheck { name: "progress".into(), ok: ready, detail }];
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Ready { ready, checks })).into_response()
}

pub(super) async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION").into(), api: "v1".into() })
}
