//! `/livez`, `/readyz` and `/version`: open to all callers, and without any information about tenants' work.
//!
//! A readiness probe needs a round of the carrier. It needs no key, so concurrent probes share one round.

use std::sync::Mutex;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio_util::task::TaskTracker;
use wire::answers::{Ready, ReadyCheck, Version};

use super::app_state::AppState;
use crate::server::tls::Certificates;

/// The process runs and answers. Restart it if this fails.
pub(super) async fn livez() -> &'static str {
    "ok\n"
}

/// The probe under way, if any. It returns what is wrong.
#[derive(Default)]
pub(crate) struct Probes {
    under_way: Mutex<Option<Shared<BoxFuture<'static, Option<String>>>>>,
}

impl Probes {
    /// Joins the probe under way, or starts a new one.
    async fn join<F>(&self, background: &TaskTracker, probe: impl FnOnce() -> F) -> Option<String>
    where
        F: Future<Output = Option<String>> + Send + 'static,
    {
        let round = {
            let mut under_way = self.under_way.lock().expect("no code panics while it joins");
            let joined = under_way.take().filter(|round| round.peek().is_none());
            let round = joined.unwrap_or_else(|| {
                let round = probe().boxed().shared();
                // It continues even if its callers disconnect; otherwise the next caller could join a probe of
                // long ago.
                background.spawn(round.clone());
                round
            });
            under_way.insert(round).clone()
        };
        round.await
    }
}

/// Work is processed: an empty batch completed a round. Send no traffic if this fails.
pub(super) async fn readyz(State(app): State<AppState>) -> Response {
    let detail = app.inner.probes.join(&app.inner.background, || progress(app.clone())).await;
    let ready = detail.is_none();
    let mut checks = vec![ReadyCheck { name: "progress".into(), ok: ready, detail }];
    checks.extend(app.inner.certificates.as_ref().map(certificate));
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Ready { ready, checks })).into_response()
}

/// What keeps work from being processed, if anything.
async fn progress(app: AppState) -> Option<String> {
    let timeout = app.inner.timeouts.progress;
    match tokio::time::timeout(timeout, app.coordinator.is_progressing()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no batch was committed within {timeout:?}")),
    }
}

/// An outdated certificate still works: worth reporting, and no reason to redirect traffic. What is wrong with
/// the files is in the operator's log.
fn certificate(certificates: &Certificates) -> ReadyCheck {
    let is_stale = certificates.error().is_some();
    let detail = is_stale.then(|| {
        "the new certificate cannot be used, so the old one is served; the log says why".to_owned()
    });
    ReadyCheck { name: "certificate".into(), ok: !is_stale, detail }
}

pub(super) async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION").into(), api: "v1".into() })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn those_who_ask_at_the_same_time_share_a_round_and_the_next_gets_another() {
        // X46: none has a key, and together they cost the carrier no more than the first.
        const PROBES: usize = 1_000;
        let (probes, background) = (Probes::default(), TaskTracker::new());
        let (rounds, through) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let asked = AtomicUsize::new(0);
        let ask = || async {
            asked.fetch_add(1, Ordering::SeqCst);
            let (rounds, through) = (rounds.clone(), through.clone());
            let round = move || async move {
                let round = rounds.fetch_add(1, Ordering::SeqCst) + 1;
                through.notified().await;
                Some(format!("round {round}"))
            };
            probes.join(&background, round).await
        };
        for round in 1..=3 {
            let carrying = async {
                while asked.load(Ordering::SeqCst) < round * PROBES {
                    tokio::task::yield_now().await;
                }
                through.notify_one();
            };
            let (said, ()) = tokio::join!(join_all((0..PROBES).map(|_| ask())), carrying);
            assert!(said.iter().all(|it| *it == Some(format!("round {round}"))), "{said:?}");
        }
        assert_eq!(rounds.load(Ordering::SeqCst), 3);
    }
}
