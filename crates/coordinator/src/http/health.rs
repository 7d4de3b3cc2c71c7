//! `/livez`, `/readyz` and `/version`: open to everybody, say nothing about anybody's work.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use store::Store;
use wire::answers::{Ready, ReadyCheck, Version};

use super::door::Door;
use crate::server::tls::Certificates;

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
    let mut checks = vec![ReadyCheck { name: "progress".into(), ok: ready, detail }];
    checks.extend(door.inner.certificates.as_ref().map(certificate));
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Ready { ready, checks })).into_response()
}

/// An old certificate still opens the door: worth a word, and no reason to send traffic elsewhere. What is
/// wrong with the files is for the operator's log.
fn certificate(certificates: &Certificates) -> ReadyCheck {
    let is_stale = certificates.trouble().is_some();
    let detail = is_stale.then(|| {
        "the new certificate cannot be used, so the old one is shown; the log says why".to_owned()
    });
    ReadyCheck { name: "certificate".into(), ok: !is_stale, detail }
}

pub(super) async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION").into(), api: "v1".into() })
}
