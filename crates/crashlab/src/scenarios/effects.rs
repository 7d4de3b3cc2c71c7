//! Effects while the server dies at every step of a delivery: before and after the commit of a claim, before the call, after
//! the answer, and after its record. The receiver's own log is judged: each effect of an aggregate is first seen in the
//! order of its decision (D4), and all deliveries of one id have the same bytes (D3).
//!
//! A claim holds for a minute. Where a dead server left one, the clock of the next server is ahead by more than that.

use std::os::unix::process::ExitStatusExt as _;

use anyhow::{Context as _, Result, ensure};
use faultpoint::{POINTS, Point, Trigger};
use historyck::event::{EventKind, Settled};
use rustix::process::Signal;
use tenure::Client;

use super::{LabOptions, Tally};
use crate::judge;
use crate::receiver::{Receiver, settled};
use crate::rng::SeededRng;
use crate::test_cluster::TestCluster;
use crate::waits;

/// At each fault point the server dies when it is reached for the first time, and for the second.
pub(super) const TIMES: u64 = 2;

/// Longer than a claim, and the pause after a try.
const CLAIM_OVER_MS: i64 = 90_000;

/// The fault points of a delivery.
pub(super) fn points() -> Vec<&'static Point> {
    POINTS.iter().filter(|point| point.trigger == Trigger::Delivering).collect()
}

pub(crate) async fn killed_while_delivering(options: &LabOptions) -> Result<Tally> {
    let mut rng = SeededRng::new(options.seed ^ 0xeffe);
    let cluster = TestCluster::new(&options.binary, options.mutant, &mut rng)?.with_clocks()?;
    let receiver = Receiver::start()?;
    let mut server = tokio::task::block_in_place(|| cluster.start(0, None))?;
    let client = Client::new(&format!("http://{}", cluster.listen[0]), &server.api_key()?)?;
    receiver.register(&client).await?;
    server.kill()?;
    let mut tally = Tally { points: points().len(), ..Tally::default() };
    for point in points() {
        for time in 1..=TIMES {
            let fault_spec = format!("kill@{}#{time}", point.name);
            let ahead = CLAIM_OVER_MS * (tally.kills as i64 + 1);
            let delivered = deliver(&cluster, &client, &receiver, &fault_spec, ahead).await;
            delivered.with_context(|| fault_spec)?;
            tally.kills += 1;
            tally.verified += 1;
        }
    }
    tally.runs = tally.kills;
    receiver.history.record("reader", EventKind::Settled(Settled {}))?;
    tally.events = judge::judge("effects", &receiver.history, &options.keep)?;
    Ok(tally)
}

/// A run with effects, whose delivery a death interrupts.
async fn deliver(
    cluster: &TestCluster,
    client: &Client,
    receiver: &Receiver,
    fault_spec: &str,
    ahead: i64,
) -> Result<()> {
    let mut server = tokio::task::block_in_place(|| cluster.start(0, Some(fault_spec)))?;
    // Whether the call is answered before the server dies does not matter: its commit is what the server dies after. The
    // queue is new, since an older run may be ready again by now.
    let declaring = tokio::spawn({
        let (client, receiver) = (client.clone(), receiver.clone());
        let queue = fault_spec.replace(['@', '#'], "-");
        async move { receiver.declare(&client, &receiver.begin(&client, &queue).await?).await }
    });
    let died = tokio::task::block_in_place(|| server.wait_for_death(fault_spec))?;
    declaring.abort();
    ensure!(died.signal() == Some(Signal::KILL.as_raw()), "the server ended by itself");
    tokio::task::block_in_place(|| cluster.verify())?;
    cluster.set_clock(0, ahead)?;
    let mut server = tokio::task::block_in_place(|| cluster.start(0, None))?;
    waits::within("all effects are delivered", settled(client)).await??;
    server.kill()
}
