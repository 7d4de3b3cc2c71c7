//! The transport's own ceiling: a server that reads a body and answers a few bytes.

use std::time::Duration;

use tokio::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::http::Connection;
use crate::measurement::{Measurement, Mode};
use crate::trouble::Trouble;

/// What a lifecycle needs in mode `single`.
const CALLS_PER_LIFECYCLE: u64 = 3;

async fn nothing(_: Bytes) -> &'static str {
    r#"{"acknowledged":true}"#
}

/// Lifecycles per second if deciding and storing took no time.
pub(crate) async fn ceiling(concurrency: usize, span: Duration) -> Result<Measurement, Trouble> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move {
        let routes = Router::new().route("/v1/nothing", post(nothing));
        axum::serve(listener, routes).await
    });
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..concurrency {
        let mut connection = Connection::open(address).await?;
        callers.spawn(async move {
            let mut calls = 0u64;
            while began.elapsed() < span {
                connection.post("/v1/nothing", "none", r#"{"at":1}"#).await?;
                calls += 1;
            }
            Ok::<u64, Trouble>(calls)
        });
    }
    let mut calls = 0;
    while let Some(called) = callers.join_next().await {
        calls += called.map_err(|panic| Trouble::Engine(panic.to_string()))??;
    }
    let lifecycles = (calls / CALLS_PER_LIFECYCLE) as f64;
    serving.abort();
    Ok(Measurement {
        concurrency: Some(concurrency),
        mode: Some(Mode::Single),
        lifecycles_per_second: Some(lifecycles / began.elapsed().as_secs_f64()),
        ..Measurement::named("transport alone")
    })
}
