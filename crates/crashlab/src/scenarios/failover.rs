//! Failover of the database of several coordinators, under load.
//!
//! With a synchronous standby no acknowledged write and no lease may be lost. With an asynchronous one the last
//! acknowledged writes are lost: they are counted and reported, and no fence may be granted twice because of it. In
//! some failovers two servers accept writes at once. Coordinators join, leave and are killed meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use historyck::event::{Answer, EventKind, Operation};
use tokio::task::block_in_place;
use tokio::time::Instant;
use wire::State;

use super::{LabOptions, Tally};
use crate::cluster::{Cluster, Replication};
use crate::fleet::Fleet;
use crate::judge;
use crate::recording_client::ulid_of;
use crate::single_database::SingleDatabase;
use crate::waits::TIMEOUT;

const COORDINATORS: usize = 3;
/// Events between two faults: enough that every actor has a call in progress.
const EVENTS_BETWEEN: usize = 240;
/// Events acknowledged while the standby is cut off, so that there is something to lose.
const EVENTS_UNHEARD: usize = 200;
/// In one of this many failovers two servers accept writes.
const SPLIT_ONE_IN: usize = 3;
/// How long both accept writes before commits waiting on the old one are cancelled, how often that happens, and how
/// long until the old one is killed.
const SPLIT: Duration = Duration::from_millis(500);
const CANCELS: usize = 2;
/// One asynchronous failover for this many synchronous ones.
const SYNCHRONOUS_PER_ASYNCHRONOUS: usize = 3;

pub async fn all(options: &LabOptions, times: usize, only: Option<&str>) -> Result<()> {
    let is_wanted = |name: &str| only.is_none_or(|only| name.starts_with(only));
    if is_wanted("synchronous") {
        let tally =
            with_a_synchronous_standby(options, times).await.context("synchronous failed")?;
        println!("{:12} {tally}; nothing acknowledged was lost", "synchronous");
    }
    let cuts =
        if is_wanted("asynchronous") { times.div_ceil(SYNCHRONOUS_PER_ASYNCHRONOUS) } else { 0 };
    for _ in 0..cuts {
        let lost = with_an_asynchronous_standby(options).await.context("asynchronous failed")?;
        println!("{:12} {lost}", "asynchronous");
    }
    if is_wanted("rolling") {
        let tally = while_coordinators_come_and_go(options).await.context("rolling failed")?;
        println!("{:12} {tally}; no worker saw an error", "rolling");
    }
    if is_wanted("joining") {
        let tally = while_the_fleet_changes(options).await.context("joining failed")?;
        println!("{:12} {tally}; the newcomer took its share", "joining");
    }
    Ok(())
}

fn fleet(options: &LabOptions, cluster: &Cluster, size: usize, seed: u64) -> Result<Fleet> {
    let (keep, seed) = (options.keep.clone(), options.seed ^ seed);
    Fleet::start(&options.binary, keep, cluster.url(), (size, 0), seed)
}

/// What the primary does when its standby is promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Former {
    Dies,
    /// Accepts writes for a while, as when only the link to the standby is broken. Its commits wait for that standby.
    /// None may be acknowledged, including those it reports as committed because their wait was cancelled.
    LivesOn,
}

/// The primary fails, the standby is promoted, and service resumes.
async fn fail_over(
    fleet: &mut Fleet,
    cluster: &mut Cluster,
    key: &str,
    former: Former,
) -> Result<Duration> {
    fleet.note_down("the primary");
    if former == Former::LivesOn {
        block_in_place(|| cluster.promote())?;
        for _ in 0..CANCELS {
            // Two primaries at once are the fault.
            tokio::time::sleep(SPLIT).await;
            block_in_place(|| cluster.cancel_waiting_on_former())?;
        }
        tokio::time::sleep(SPLIT).await;
    }
    let since = Instant::now();
    block_in_place(|| match former {
        Former::LivesOn => cluster.kill_former(),
        Former::Dies => cluster.kill_primary().and_then(|()| cluster.promote()),
    })?;
    let promoted = since.elapsed();
    fleet.wait_until_serving(key).await?;
    fleet.note_up("the standby");
    let flows = since.elapsed();
    println!(
        "    {key}: the former {former:?}; promoted after {promoted:.2?}, the next write acknowledged after {flows:.2?}"
    );
    fleet.tally.kills += 1;
    Ok(flows)
}

async fn with_a_synchronous_standby(options: &LabOptions, times: usize) -> Result<Tally> {
    let mut cluster = block_in_place(|| Cluster::start(Replication::Synchronous))?;
    let mut fleet = block_in_place(|| fleet(options, &cluster, COORDINATORS, 0x51))?;
    fleet.start_load();
    let mut longest = Duration::ZERO;
    for n in 0..times {
        fleet.wait_for_events(EVENTS_BETWEEN).await?;
        let former = if n % SPLIT_ONE_IN == 1 { Former::LivesOn } else { Former::Dies };
        let key = format!("failover-{n}");
        let flows = fail_over(&mut fleet, &mut cluster, &key, former).await?;
        longest = longest.max(flows);
        if n + 1 < times {
            prepare_for_the_next(&fleet, &mut cluster)?;
        }
    }
    fleet.wait_for_events(EVENTS_BETWEEN).await?;
    let runs = fleet.settle().await?;
    fleet.judge("failover")?;
    ensure!(fences(&fleet).len() == 1, "C1: a lossless failover costs nobody a lease");
    block_in_place(|| fleet.verify(runs))?;
    println!("    the longest outage took {longest:.2?}");
    println!("    {} writes were acknowledged, none of them was lost", acknowledged(&fleet));
    Ok(fleet.tally.clone())
}

/// Creates a new standby and waits until every coordinator knows that commits wait for it. Load is reduced meanwhile.
fn prepare_for_the_next(fleet: &Fleet, cluster: &mut Cluster) -> Result<()> {
    fleet.load.slow_down();
    let since = Instant::now();
    block_in_place(|| cluster.follow())?;
    let follows = since.elapsed();
    block_in_place(|| cluster.wait_until_noticed())?;
    println!(
        "    a standby follows after {follows:.2?}, coordinators know it after {:.2?}",
        since.elapsed()
    );
    fleet.load.speed_up();
    Ok(())
}

/// How many writes were acknowledged as durable.
fn acknowledged(fleet: &Fleet) -> usize {
    let events = fleet.load.history.events();
    let mut writes = BTreeSet::new();
    let is_write = |op| !matches!(op, Operation::Get | Operation::Lease);
    for event in &events {
        if let EventKind::Invoke(invoke) = &event.what
            && is_write(invoke.op)
        {
            writes.insert(invoke.call);
        }
    }
    let told = events.iter().filter(|event| {
        matches!(&event.what, EventKind::Return(answer)
            if answer.answer == Answer::Ok && (!answer.grants.is_empty() || writes.contains(&answer.call)))
    });
    told.count()
}

/// The acknowledged writes lost in a failover to a standby that lagged behind.
struct Lost {
    submitted: usize,
    completed: usize,
    acknowledged: usize,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Lost { submitted, completed, acknowledged } = self;
        write!(
            f,
            "{submitted} submissions and {completed} results lost of {acknowledged} acknowledged \
             writes, as was warned of at the start; no fence was given twice"
        )
    }
}

async fn with_an_asynchronous_standby(options: &LabOptions) -> Result<Lost> {
    let mut cluster = block_in_place(|| Cluster::start(Replication::Asynchronous))?;
    let mut fleet = block_in_place(|| fleet(options, &cluster, COORDINATORS, 0xa5))?;
    fleet.start_load();
    fleet.wait_for_events(EVENTS_BETWEEN).await?;
    block_in_place(|| cluster.cut())?;
    fleet.wait_for_events(EVENTS_UNHEARD).await?;
    let before = fleet.load.history.len();
    fail_over(&mut fleet, &mut cluster, "asynchronous", Former::Dies).await?;
    fleet.load.make_room();
    fleet.wait_for_events(EVENTS_BETWEEN).await?;
    let runs = fleet.settle().await?;
    block_in_place(|| fleet.verify(runs))?;
    // A2: a fence granted before the failover is smaller than every fence granted after it.
    ensure!(fences(&fleet).len() == 2, "A2: the epoch was raised once");
    no_fence_is_given_twice(&fleet)?;
    count_lost(&fleet, before).await
}

/// Every epoch in which a fence was granted.
fn fences(fleet: &Fleet) -> BTreeSet<u64> {
    granted(fleet).map(|(_, fence, _)| fence >> 32).collect()
}

/// Task, fence and lease of every grant that a worker received.
fn granted(fleet: &Fleet) -> impl Iterator<Item = (String, u64, Option<String>)> {
    let returns = fleet.load.history.events().into_iter().filter_map(|event| match event.what {
        EventKind::Return(answer) => Some(answer.grants),
        _ => None,
    });
    returns.flatten().filter_map(|grant| Some((grant.task, grant.fence?, grant.lease)))
}

fn no_fence_is_given_twice(fleet: &Fleet) -> Result<()> {
    let mut given: BTreeMap<(String, u64), Option<String>> = BTreeMap::new();
    for (task, fence, lease) in granted(fleet) {
        let before = given.insert((task.clone(), fence), lease.clone());
        ensure!(
            before.is_none_or(|before| before == lease),
            "A2: the fence {fence} of {task} was given twice"
        );
    }
    Ok(())
}

/// Counts the writes that were acknowledged before the failover and that the store does not hold any more.
async fn count_lost(fleet: &Fleet, before: usize) -> Result<Lost> {
    let reader = fleet.load.recording_as("reader");
    let client = reader.client();
    let runs = judge::all_runs(client).await?;
    let ended: BTreeMap<String, State> =
        runs.iter().map(|run| (ulid_of(&run.run_id), run.state)).collect();
    let mut asked = BTreeMap::new();
    let mut lost = Lost { submitted: 0, completed: 0, acknowledged: 0 };
    for event in fleet.load.history.events().into_iter().take(before) {
        match event.what {
            EventKind::Invoke(invoke) => {
                asked.insert(invoke.call, (invoke.op, invoke.task));
            }
            EventKind::Return(answer) if answer.answer == Answer::Ok => {
                match asked.get(&answer.call) {
                    Some((Operation::Submit, _)) => {
                        lost.acknowledged += 1;
                        let task = answer.task.context("a submission names its task")?;
                        lost.submitted += usize::from(!ended.contains_key(&task));
                    }
                    Some((Operation::Report, Some(task))) => {
                        lost.acknowledged += 1;
                        let is_there = ended.get(task).is_some_and(|state| state.is_terminal());
                        lost.completed += usize::from(!is_there);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    Ok(lost)
}

/// Restarts each coordinator, during which an SDK worker must see no error; then kills and restarts each one.
async fn while_coordinators_come_and_go(options: &LabOptions) -> Result<Tally> {
    let cluster = block_in_place(|| Cluster::start(Replication::Synchronous))?;
    let mut fleet = block_in_place(|| fleet(options, &cluster, COORDINATORS, 0x70))?;
    let worker = crate::zero_error_probe::ZeroErrorProbe::start(&fleet.urls(), &fleet.api_key)?;
    fleet.start_load();
    // A drain and a start take seconds. Each restart happens under full load; the load is reduced meanwhile, so that
    // there are not thousands of runs to read and judge afterwards.
    for number in 0..fleet.size() {
        fleet.load.speed_up();
        fleet.wait_for_events(EVENTS_BETWEEN).await?;
        fleet.load.slow_down();
        block_in_place(|| fleet.stop(number))?;
        fleet.wait_for_events(EVENTS_BETWEEN / 2).await?;
        block_in_place(|| fleet.restart(number))?;
        worker.works(TIMEOUT).await?;
    }
    worker.end().await.context("a rolling restart was noticed by a worker")?;
    for number in 0..fleet.size() {
        fleet.load.speed_up();
        fleet.wait_for_events(EVENTS_BETWEEN).await?;
        fleet.load.slow_down();
        block_in_place(|| fleet.kill(number))?;
        fleet.wait_for_events(EVENTS_BETWEEN / 2).await?;
        block_in_place(|| fleet.restart(number))?;
    }
    let runs = fleet.settle().await?;
    fleet.judge("rolling")?;
    block_in_place(|| fleet.verify(runs))?;
    Ok(fleet.tally.clone())
}

/// A fourth coordinator joins and grants leases, one is asked to leave, one is killed; those two do not return.
async fn while_the_fleet_changes(options: &LabOptions) -> Result<Tally> {
    let database = block_in_place(SingleDatabase::start)?;
    let (keep, seed) = (options.keep.clone(), options.seed ^ 0x4f);
    let sizes = (COORDINATORS, 1);
    let start = || Fleet::start(&options.binary, keep, database.url(), sizes, seed);
    let mut fleet = block_in_place(start)?;
    let worker = crate::zero_error_probe::ZeroErrorProbe::start(&fleet.urls(), &fleet.api_key)?;
    fleet.start_load();
    fleet.wait_for_events(EVENTS_BETWEEN).await?;
    block_in_place(|| fleet.restart(COORDINATORS))?;
    let newcomers = fleet.add_worker(COORDINATORS)?;
    fleet.wait_for_grant_to(&newcomers).await?;
    block_in_place(|| fleet.stop(0))?;
    fleet.wait_for_events(EVENTS_BETWEEN).await?;
    worker.works(TIMEOUT).await?;
    worker.end().await.context("who joined or left was noticed by a worker")?;
    block_in_place(|| fleet.kill(1))?;
    fleet.wait_for_events(EVENTS_BETWEEN).await?;
    let runs = fleet.settle().await?;
    fleet.judge("joining")?;
    block_in_place(|| fleet.verify(runs))?;
    Ok(fleet.tally.clone())
}
