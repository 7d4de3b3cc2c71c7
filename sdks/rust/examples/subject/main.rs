//! The subject of `tenure conform` for this SDK: the agreed kinds, and a client that is told what to call.
//!
//! It uses the public surface only. What the kinds do is in docs/guide/write-an-sdk.md, and the same for every language.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "the kit reads its lines, and judges real time"
)]

mod client;
mod durable;
mod marks;
mod tasks;

use std::time::Duration;

use serde::Deserialize;
use tenure::{Error, Worker};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    role: String,
    concurrency: usize,
    shutdown_timeout_ms: u64,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let settings = std::env::var("TENURE_CONFORM").expect("the kit sets TENURE_CONFORM");
    let settings: Settings = serde_json::from_str(&settings).expect("the kit writes JSON");
    match settings.role.as_str() {
        "client" => client::serve(&settings).await,
        _ => serve(&settings).await,
    }
}

async fn serve(settings: &Settings) -> Result<(), Error> {
    let worker = Worker::from_env()?
        .name("subject")
        .queue("conform")
        .concurrency(settings.concurrency)
        .shutdown_timeout(Duration::from_millis(settings.shutdown_timeout_ms))
        .on_event(|event| eprintln!("{event:?}"));
    durable::add(tasks::add(worker)).run().await
}
