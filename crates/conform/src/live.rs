//! `--live`: subjects against a real server, with kills, judged by what all of them left behind.
//!
//! ```text
//! three subjects ──► recording proxy ──► tenure serve
//!   SIGKILL, SIGSTOP        │               SIGKILL
//!                           └─► history ──► historyck
//! ```
//!
//! Three judges: `historyck` reads the calls as the proxy saw them, `tenure verify` the store, and the marks say that code
//! of an attempt did not begin after the next attempt had. What happens is chosen by a seed; when it happens is not.

mod chaos;
mod history;
mod proxy;
mod server;
mod workload;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use historyck::event::{EventKind, Settled};
use tokio::time::Instant;

use self::chaos::Chaos;
use self::proxy::Proxy;
use self::server::LiveServer;
use self::workload::Workload;

/// How long everything may take to end after the faults: leases are short, and nothing else stands in the way.
const SETTLE_WITHIN: Duration = Duration::from_secs(120);

/// What a live run is made of.
#[derive(Clone, Debug)]
pub struct Live {
    pub command: Vec<String>,
    /// The `tenure` that serves.
    pub binary: PathBuf,
    pub seed: u64,
    pub chaos: Duration,
    pub runs: usize,
}

/// What was wrong; empty if nothing was.
pub async fn perform(live: &Live) -> io::Result<Vec<String>> {
    let folder = folder(live.seed)?;
    let mut server = LiveServer::start(&live.binary, &folder).await?;
    let proxy = Proxy::start(server.authority()).await?;
    server.serve_as(&proxy.url).await?;
    let workload = Workload::new(live.runs, Arc::clone(&proxy), server.api_key().to_owned());
    workload.submit().await?;
    let helper = tokio::spawn(workload.clone().help());
    let mut chaos = Chaos::start(live, &proxy, server.api_key())?;
    chaos.rage(&mut server, live.chaos).await?;
    let left = workload.wait_for_ends(Instant::now() + SETTLE_WITHIN).await;
    helper.abort();
    chaos.stop().await;
    proxy.note("kit", EventKind::Settled(Settled {}));
    let mut findings: Vec<String> =
        left.into_iter().map(|run| format!("{run} has not ended")).collect();
    server.stop().await;
    findings.extend(proxy.judge());
    findings.extend(server.verify().await?);
    tell(&proxy, &folder, findings.is_empty())?;
    Ok(findings)
}

/// The history stays where a person can look at it, unless there is nothing to see.
fn tell(proxy: &Proxy, folder: &std::path::Path, is_good: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", proxy.summary())?;
    if is_good {
        return std::fs::remove_dir_all(folder);
    }
    std::fs::write(folder.join("history.jsonl"), proxy.history())?;
    writeln!(out, "the history is in {}", folder.display())
}

fn folder(seed: u64) -> io::Result<PathBuf> {
    let name = format!("tenure-conform-live-{}-{seed}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
