//! Deployments of topologies while servers die at every step of a commit: events, work orders, run records, pauses and claims are
//! written together or not at all, whichever role was at work.
//!
//! People make artifacts, executors work, and two versions of the topology are put in force by turns all the time. Afterwards every
//! event has ended once with its reason, each has made one work order, each work order has one run record, which names the checks of
//! the version that made it, and nothing is claimed or reserved any more.
//!
//! Over a database one of three servers dies. The others go on with what it had: its roles' claims run out, and whatever it had
//! committed half-way through a chain of changes is found by their polls.

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail, ensure};
use faultpoint::{Point, StoreKind, Trigger};
use rustix::process::Signal;
use serde_json::{Value, json};
use tenure::Client;
use tokio::task::JoinHandle;
use wire::requests::{LeaseRequest, Reports};
use wire::topologies::{
    ArtifactView, CreateArtifact, ListArtifacts, ListPauseStates, ListWorkOrders, WorkOrderView,
};
use wire::{Code, Json, State};

use super::points::places;
use super::{LabOptions, Tally};
use crate::load::RETRY_DELAY;
use crate::rng::SeededRng;
use crate::test_cluster::{Server, TestCluster};
use crate::waits;

const DEPLOYMENT: &str = "workshop";
const QUEUE: &str = "bench";
const COORDINATORS: usize = 3;
/// The coordinator that dies, where several share a database.
const VICTIM: usize = COORDINATORS - 1;

/// At each fault point the server dies when it has been reached at most so often.
const TIMES_MAX: u64 = 12;

/// Artifacts that wait for an executor at most, so that the end is near when the last server has died.
const UNFINISHED_MAX: usize = 8;

/// Work orders of an artifact between two decisions of a person.
const CYCLES: u32 = 3;

/// What differs between the topologies of the two scenarios: how many work orders are active, and on which track.
#[derive(Clone, Copy)]
struct Slots {
    executors: u32,
    track: &'static str,
}

/// One work order after the other: a slot that leaks stops everything.
const ALONE: Slots = Slots { executors: 2, track: r#", "track": "saw""# };

/// What a dead server had is claimed until its roles' leases run out, and the others go on meanwhile. As many slots that leak stop
/// everything.
const BESIDE: Slots = Slots { executors: 6, track: "" };

/// The topology with a check of this name.
fn version(slots: Slots, check: &str) -> Json {
    let Slots { executors, track } = slots;
    let text = format!(
        r#"{{"topology": "workshop",
        "artifacts": {{"plank": {{"statuses": ["rough", "clamped", "smooth"], "initial": "rough",
            "final": ["smooth"], "transitions": [
            {{"from": "rough", "to": "clamped", "by": "role:foreman"}},
            {{"from": "clamped", "to": "rough", "by": "role:inspector"}},
            {{"from": "clamped", "to": "smooth", "by": "role:inspector"}}]}}}},
        "events": {{"plank-arrived": {{"on": "transition", "artifact": "plank", "status": "rough"}}}},
        "tracks": {{"saw": {{"serial": "saw"}}}},
        "workOrders": {{"sand": {{"kind": "sander", "queue": "{QUEUE}", "budget": {{"time": "1h"}},
            "gate": "feel", "attempts": 100}}}},
        "gates": {{"feel": {{
            "checks": [{{"name": "{check}", "require": {{"path": "output.grit", "op": "at-least", "value": 200}}}}],
            "pass": {{"to": "smooth", "actions": ["Stack it."]}},
            "fail": {{"to": "rough", "actions": ["Sand it again."]}}}}}},
        "roles": {{"porter": {{"uses": "readiness", "emits": ["plank-arrived"]}},
            "foreman": {{"uses": "scheduler", "event": "plank-arrived", "workOrder": "sand", "to": "clamped"{track}}},
            "hands": {{"uses": "runner", "workOrders": ["sand"]}},
            "inspector": {{"uses": "gate", "workOrders": ["sand"]}}}},
        "limits": {{"executors": {executors}, "cycles": {CYCLES}}}}}"#
    );
    Json::from_text(text).expect("it is JSON")
}

const CHECKS: [&str; 2] = ["even", "flat"];

pub(crate) async fn killed_at_every_place(options: &LabOptions) -> Result<Tally> {
    let mut rng = SeededRng::new(options.seed ^ 0x7090);
    let cluster = TestCluster::new(&options.binary, options.mutant, &mut rng)?;
    let mut first = tokio::task::block_in_place(|| cluster.start(0, None))?;
    let mut workshop = Workshop::open(&cluster, &first.api_key()?, ALONE, 0..1).await?;
    first.kill()?;
    let mut tally = kill_all(&cluster, &mut rng, StoreKind::Sqlite, 0)?;
    let mut last = tokio::task::block_in_place(|| cluster.start(0, None))?;
    tally.runs = workshop.settle().await?;
    last.kill()?;
    verified(&cluster, tally)
}

pub(crate) async fn one_of_three_killed_at_every_place(options: &LabOptions) -> Result<Tally> {
    let mut rng = SeededRng::new(options.seed ^ 0x7091);
    let cluster = TestCluster::new(&options.binary, options.mutant, &mut rng)?;
    let cluster = cluster.on_a_database(COORDINATORS, &mut rng)?;
    let start =
        |at: usize| tokio::task::block_in_place(|| cluster.start(at, None)?.expect_ready(&cluster));
    let mut survivors = (0..VICTIM).map(start).collect::<Result<Vec<Server>>>()?;
    let key = survivors[0].api_key()?;
    // Executors call the survivors: a lease whose answer is lost would be waited for, and other scenarios lose those.
    let mut workshop = Workshop::open(&cluster, &key, BESIDE, 0..VICTIM).await?;
    let mut tally = kill_all(&cluster, &mut rng, StoreKind::Postgres, VICTIM)?;
    tally.runs = workshop.settle().await?;
    for server in &mut survivors {
        server.expect_running(&cluster)?;
        server.kill()?;
    }
    verified(&cluster, tally)
}

/// Kills a server at every place of a commit, again and again.
fn kill_all(
    cluster: &TestCluster,
    rng: &mut SeededRng,
    store: StoreKind,
    victim: usize,
) -> Result<Tally> {
    // Over a database no worker polls the victim, so no lease leaves it over HTTP.
    let is_passed = |point: &Point| victim == 0 || point.name != "grants.leaving";
    let of_commits = |point: &&Point| point.trigger == Trigger::Serving && is_passed(point);
    let places: Vec<&Point> = places(store).into_iter().filter(of_commits).collect();
    let mut tally = Tally { points: places.len(), ..Tally::default() };
    for point in &places {
        let fault_spec = format!("kill@{}#{}", point.name, 1 + rng.below(TIMES_MAX));
        let died = tokio::task::block_in_place(|| {
            cluster.start(victim, Some(&fault_spec))?.wait_for_death(&fault_spec)
        })?;
        ensure!(died.signal() == Some(Signal::KILL.as_raw()), "{fault_spec}: {died}");
        tally.kills += 1;
    }
    Ok(tally)
}

/// The tally of a store that has no writer any more.
fn verified(cluster: &TestCluster, mut tally: Tally) -> Result<Tally> {
    tokio::task::block_in_place(|| cluster.verify())?;
    (tally.events, tally.verified) = (tally.runs, 1);
    Ok(tally)
}

/// A deployment with everybody who works at it.
struct Workshop {
    clients: Vec<Client>,
    /// Artifacts that somebody tried to make.
    made: Arc<AtomicUsize>,
    /// Those that make artifacts and versions, and those who execute.
    people: Vec<JoinHandle<()>>,
    executors: Vec<JoinHandle<()>>,
}

impl Workshop {
    /// People call every server, executors these.
    async fn open(
        cluster: &TestCluster,
        key: &str,
        slots: Slots,
        execute_at: Range<usize>,
    ) -> Result<Workshop> {
        let client = |listen: &String| Client::new(&format!("http://{listen}"), key);
        let clients: Vec<Client> =
            cluster.listen.iter().map(client).collect::<std::result::Result<_, _>>()?;
        clients[0].deployments().apply(DEPLOYMENT, version(slots, CHECKS[0])).await?;
        let made = Arc::new(AtomicUsize::new(0));
        let (mut people, mut executors) = (Vec::new(), Vec::new());
        for client in &clients {
            people.push(tokio::spawn(make(client.clone(), made.clone())));
            people.push(tokio::spawn(change_versions(client.clone(), slots)));
        }
        for client in &clients[execute_at] {
            executors.push(tokio::spawn(execute(client.clone())));
        }
        Ok(Workshop { clients, made, people, executors })
    }

    fn client(&self) -> &Client {
        &self.clients[0]
    }

    /// Lets everything that was begun come to its end, and judges it. Returns how many work orders there were.
    async fn settle(&mut self) -> Result<usize> {
        for person in std::mem::take(&mut self.people) {
            person.abort();
            // Gone, not only told to go: the number of artifacts stays as it is from here on.
            let _ = person.await;
        }
        let made = self.made.load(Ordering::SeqCst);
        waits::within("every plank exists", async {
            for number in 0..made {
                while !exists(self.client(), number).await {
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        })
        .await?;
        let settled = waits::within("all planks are smooth or given up", async {
            while !self.is_settled().await? {
                tokio::time::sleep(RETRY_DELAY).await;
            }
            anyhow::Ok(())
        });
        if let Err(error) = settled.await? {
            bail!(error);
        }
        self.executors.iter().for_each(JoinHandle::abort);
        self.judge().await
    }

    async fn is_settled(&self) -> Result<bool> {
        let is_done = |it: &ArtifactView| it.status == "smooth" || it.cycles >= CYCLES;
        let planks = self.planks().await?;
        let is_free = planks.iter().all(|it| is_done(it) && it.reserved_by.is_none());
        Ok(is_free && self.open_events().await? == 0)
    }

    async fn planks(&self) -> Result<Vec<ArtifactView>> {
        let mut page = ListArtifacts { limit: Some(1_000), ..ListArtifacts::default() };
        let mut found = Vec::new();
        loop {
            let next = self
                .client()
                .deployments()
                .artifacts(DEPLOYMENT, "plank")
                .with(page.clone())
                .await?;
            found.extend(next.artifacts);
            page.cursor = next.cursor;
            if page.cursor.is_none() {
                return Ok(found);
            }
        }
    }

    async fn orders(&self) -> Result<Vec<WorkOrderView>> {
        let mut page = ListWorkOrders { limit: Some(1_000), ..ListWorkOrders::default() };
        let mut found = Vec::new();
        loop {
            let next =
                self.client().deployments().work_orders(DEPLOYMENT).with(page.clone()).await?;
            found.extend(next.work_orders);
            page.cursor = next.cursor;
            if page.cursor.is_none() {
                return Ok(found);
            }
        }
    }

    async fn open_events(&self) -> Result<usize> {
        let mut open = 0;
        for state in [State::Queued, State::Retry, State::Running] {
            let page = self.client().runs().kind("plank-arrived").state(state).limit(1).await?;
            open += page.runs.len();
        }
        Ok(open)
    }

    /// Returns how many work orders there were.
    async fn judge(&self) -> Result<usize> {
        let (planks, orders) = (self.planks().await?, self.orders().await?);
        let made = self.made.load(Ordering::SeqCst);
        ensure!(planks.len() == made, "{} planks of {made}", planks.len());
        // Each entry into the status made one event, each event one work order.
        let entries: u64 = planks.iter().map(|it| u64::from(it.cycles)).sum();
        ensure!(orders.len() as u64 == entries, "{} orders, {entries} cycles", orders.len());
        for plank in &planks {
            let expected = 2 * u64::from(plank.cycles) + 1;
            ensure!(plank.transition_no == expected, "{plank:?}");
        }
        let events: BTreeSet<&str> = orders.iter().map(|it| it.event.as_str()).collect();
        ensure!(events.len() == orders.len(), "two work orders of one event");
        self.judge_events(orders.len()).await?;
        let versions: BTreeSet<&str> = orders.iter().map(|it| it.version.as_str()).collect();
        ensure!(versions.len() <= CHECKS.len(), "{versions:?}");
        orders.iter().try_for_each(|order| judge_order(order, &orders))?;
        let claims = self.client().deployments().claims(DEPLOYMENT).await?.claims;
        ensure!(claims.is_empty(), "{claims:?}");
        self.judge_pauses(&orders, &planks).await?;
        Ok(orders.len())
    }

    /// Every event ended once, with its reason.
    async fn judge_events(&self, orders: usize) -> Result<()> {
        let (mut cursor, mut seen) = (None, 0);
        loop {
            let mut list = self.client().runs().kind("plank-arrived").limit(1_000);
            if let Some(cursor) = cursor {
                list = list.cursor(cursor);
            }
            let page = list.await?;
            for run in &page.runs {
                let run = self.client().run(&run.run_id).status().await?;
                let output: Value = match &run.output {
                    Some(output) => output.read()?,
                    None => Value::Null,
                };
                ensure!(output["terminalReason"] == "SCHEDULED", "{run:?}");
                seen += 1;
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        ensure!(seen == orders, "{seen} events, {orders} work orders");
        Ok(())
    }

    /// One pause state for each run record, and one for each plank that was given up.
    async fn judge_pauses(&self, orders: &[WorkOrderView], planks: &[ArtifactView]) -> Result<()> {
        let mut page = ListPauseStates { limit: Some(1_000), ..ListPauseStates::default() };
        let mut pauses = 0;
        loop {
            let next =
                self.client().deployments().pause_states(DEPLOYMENT).with(page.clone()).await?;
            pauses += next.pause_states.len();
            page.cursor = next.cursor;
            if page.cursor.is_none() {
                break;
            }
        }
        let halted = planks.iter().filter(|it| it.status != "smooth").count();
        let expected = orders.len() + halted;
        ensure!(pauses == expected, "{pauses} pause states, and {expected} have a cause");
        Ok(())
    }
}

/// A work order was judged once, by the checks of its own version.
fn judge_order(order: &WorkOrderView, all: &[WorkOrderView]) -> Result<()> {
    let record = order.record.as_ref().with_context(|| format!("{order:?} was not judged"))?;
    let failed = |it: &WorkOrderView| {
        let record = it.record.as_ref()?;
        Some(record.gate_reasons.first()?.check.clone()).filter(|it| CHECKS.contains(&it.as_str()))
    };
    let others = all.iter().filter(|it| it.version == order.version);
    let names: BTreeSet<String> = others.filter_map(failed).collect();
    ensure!(names.len() <= 1, "{} was judged by {names:?}", order.version);
    ensure!((record.gate_result == "PASS") == (order.state.as_str() == "passed"), "{order:?}");
    Ok(())
}

async fn create(client: &Client, number: usize) -> Result<(), tenure::Error> {
    let plank = CreateArtifact { id: format!("p{number:05}"), fields: Json::null() };
    client.deployments().create_artifact(DEPLOYMENT, "plank", &plank).await.map(drop)
}

/// Creates it, unless it was created before a server died.
async fn exists(client: &Client, number: usize) -> bool {
    match create(client, number).await {
        Ok(()) => true,
        Err(error) => error.code() == Some(Code::ArtifactExists),
    }
}

/// Makes artifacts while few wait.
async fn make(client: Client, made: Arc<AtomicUsize>) {
    loop {
        let planks = client.deployments().artifacts(DEPLOYMENT, "plank");
        let waiting = planks.status("rough").limit(1_000).await;
        let is_waiting = |it: &&ArtifactView| it.cycles < CYCLES;
        let waiting = waiting.map(|page| page.artifacts.iter().filter(is_waiting).count());
        if waiting.is_ok_and(|count| count < UNFINISHED_MAX) {
            let number = made.fetch_add(1, Ordering::SeqCst);
            let _ = create(&client, number).await;
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Puts both versions in force by turns.
async fn change_versions(client: Client, slots: Slots) {
    loop {
        for check in CHECKS {
            let _ = client.deployments().apply(DEPLOYMENT, version(slots, check)).await;
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

/// Executes what is ready. The first work order of every plank is too coarse.
async fn execute(client: Client) {
    loop {
        let poll = json!({"workerId": "sander", "queues": [QUEUE], "max": 10, "waitMs": 200});
        let poll: LeaseRequest = serde_json::from_value(poll).expect("it is a poll");
        let Ok(leases) = client.lease(&poll).await else {
            tokio::time::sleep(RETRY_DELAY).await;
            continue;
        };
        let report = |lease: &wire::answers::Envelope| {
            let snapshot: Value = lease.input.read().unwrap_or_default();
            let is_first = snapshot["event"].as_str().is_some_and(|it| it.ends_with("/1"));
            let grit = if is_first { 80 } else { 400 };
            json!({"taskId": lease.task_id, "taskToken": lease.task_token, "workerId": "sander",
                "attempt": lease.attempt, "outcome": "SUCCEEDED", "output": {"grit": grit}})
        };
        let reports: Vec<Value> = leases.leases.iter().map(report).collect();
        if !reports.is_empty() {
            let reports: Reports =
                serde_json::from_value(json!({"reports": reports})).expect("these are reports");
            // The answer may be lost with the server: the same report again gets the same one.
            while client.reports(&reports).await.is_err() {
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}
