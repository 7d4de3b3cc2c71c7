//! Servers under load that are killed and restarted; at the end every run must have ended and no acknowledged write
//! may be missing.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use historyck::event::{DOWN, EventKind, Fault, Phase};
use rustix::process::Signal;
use tenure::{Client, Retries};
use tokio::task::JoinSet;
use wire::answers::QueueView;

use crate::judge;
use crate::load::Load;
use crate::rng::SeededRng;
use crate::scenarios::{LabOptions, Tally};
use crate::test_cluster::{Server, TestCluster};
use crate::waits::within;

const CLIENTS: u64 = 4;
const WORKERS: u64 = 4;
const NEMESIS: &str = "nemesis";
/// One of several servers is down: its callers must fail over to another.
const ONE_DOWN: &str = "one down";
/// All servers that still run are paused while the store is verified.
const LOOKED_AT: &str = "looked at";
/// Interval at which to check whether everything has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub struct CrashScenario {
    pub cluster: TestCluster,
    pub load: Load,
    pub(crate) rng: SeededRng,
    servers: Vec<Option<Server>>,
    actors: Vec<JoinSet<()>>,
    tally: Tally,
}

impl CrashScenario {
    pub fn begin(options: &LabOptions, seed: u64) -> Result<CrashScenario> {
        let mut rng = SeededRng::new(seed);
        let cluster = TestCluster::new(&options.binary, options.mutant, &mut rng)?;
        CrashScenario::on(cluster, rng, seed)
    }

    pub(crate) fn on(cluster: TestCluster, rng: SeededRng, seed: u64) -> Result<CrashScenario> {
        let mut servers = vec![cluster.start(0, None)?.expect_ready(&cluster)?];
        let api_key = servers[0].api_key()?;
        for at in 1..cluster.listen.len() {
            servers.push(cluster.start(at, None)?.expect_ready(&cluster)?);
        }
        // The client does not retry on its own: the history must record every unanswered call.
        let client = |listen: &String| -> Result<Client> {
            let client = Client::new(&format!("http://{listen}"), &api_key)?;
            Ok(client.with_retries(Retries::NONE))
        };
        let clients = cluster.listen.iter().map(client).collect::<Result<_>>()?;
        let load = Load::new(clients, seed);
        Ok(CrashScenario {
            cluster,
            load,
            rng,
            servers: servers.into_iter().map(Some).collect(),
            actors: Vec::new(),
            tally: Tally::default(),
        })
    }

    pub fn start_load(&mut self) {
        self.actors = vec![self.load.clients(CLIENTS), self.load.workers(WORKERS)];
    }

    /// Waits until this many more events were recorded.
    pub async fn wait_for_events(&self, events: usize) -> Result<()> {
        let enough = self.load.history.len() + events;
        let happens = async {
            while self.load.history.len() < enough {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        within("something to happen", happens).await
    }

    pub fn server(&mut self, at: usize) -> Result<&mut Server> {
        self.servers[at].as_mut().context("the server is down")
    }

    pub fn note(&self, fault: &str, phase: Phase, detail: Option<&str>) {
        let fault = Fault { fault: fault.to_owned(), phase, detail: detail.map(str::to_owned) };
        let noted = self.load.history.record(NEMESIS, EventKind::Fault(fault));
        noted.expect("a history is kept in memory");
    }

    /// The fault to record when one server is down.
    fn loss(&self) -> &'static str {
        if self.servers.len() == 1 { DOWN } else { ONE_DOWN }
    }

    /// Records a server's death and verifies the store it left.
    pub fn note_death(&mut self, at: usize, how: &str) -> Result<()> {
        self.note(self.loss(), Phase::Begin, Some(how));
        self.servers[at] = None;
        self.tally.kills += 1;
        self.verify().with_context(|| format!("after {how}"))
    }

    /// Verifies the store. Servers that still run are paused meanwhile: a database grows faster than it is read, and
    /// the pause is one more fault that must not cost any worker a lease.
    pub fn verify(&mut self) -> Result<()> {
        let serving: Vec<&Server> = self.servers.iter().flatten().collect();
        if !serving.is_empty() {
            // The judge does not count this as an outage: leases are not extended by a pause shorter than a stall.
            self.note(LOOKED_AT, Phase::Begin, None);
        }
        serving.iter().try_for_each(|server| server.freeze())?;
        let verified = self.cluster.verify();
        serving.iter().try_for_each(|server| server.signal(Signal::CONT))?;
        self.tally.verified += 1;
        verified.map(|_| ())
    }

    /// Starts a new server; with a fault spec it may die, even before it is ready.
    pub fn restart(&mut self, at: usize, fault_spec: Option<&str>) -> Result<()> {
        self.note(self.loss(), Phase::End, fault_spec);
        let server = self.cluster.start(at, fault_spec)?;
        if fault_spec.is_none() {
            self.servers[at] = Some(server.expect_ready(&self.cluster)?);
        } else {
            self.servers[at] = Some(server);
        }
        Ok(())
    }

    /// Waits until every coordinator accepts work, each checked separately.
    pub async fn wait_until_all_serve(&self, when: &str) -> Result<()> {
        for at in 0..self.servers.len() {
            let me = self.load.at(at, "probe");
            let key = format!("probe-{when}-{at}");
            let accepted = self.load.retry_until_decided(|| me.submit(self.load.plain_run(), &key));
            within("a coordinator to take work again", accepted).await??;
        }
        Ok(())
    }

    /// Fails if a server has exited on its own.
    pub fn expect_all_running(&mut self) -> Result<()> {
        for server in self.servers.iter_mut().flatten() {
            server.expect_running(&self.cluster)?;
        }
        Ok(())
    }

    pub fn kill(&mut self, at: usize, how: &str) -> Result<()> {
        self.server(at)?.kill()?;
        self.note_death(at, how)
    }

    pub(crate) fn reached(&mut self) {
        self.tally.points += 1;
    }

    /// How many answers so far were replays of a recorded one, and how many calls got no answer.
    pub fn repeated(&self) -> (usize, usize) {
        (judge::replayed(&self.load.history), judge::unanswered(&self.load.history))
    }

    /// Stops all faults, waits until everything has ended, reads every run and judges the history.
    pub async fn settle(&mut self, name: &str, options: &LabOptions) -> Result<Tally> {
        tokio::task::block_in_place(|| self.restart_dead())?;
        self.load.stop_submitting.cancel();
        within("the end of everything that was accepted (G1)", self.wait_until_idle()).await??;
        within("late reports to be answered", self.load.send_late_reports()).await??;
        self.load.stop_working.cancel();
        within("workers to go home", self.join_actors()).await??;
        let reader = self.load.recording_as("reader");
        self.tally.runs +=
            within("everything to be read", judge::record_all_runs(&reader)).await??;
        self.tally.events += judge::judge(name, &self.load.history, &options.keep)?;
        self.tally.unanswered += judge::unanswered(&self.load.history);
        let (tally, tasks) = tokio::task::block_in_place(|| self.kill_all_and_verify())?;
        ensure!(tasks == tally.runs, "{tasks} tasks are stored, {} were listed", tally.runs);
        Ok(tally)
    }

    /// Starts every server that is down.
    pub(crate) fn restart_dead(&mut self) -> Result<()> {
        for at in 0..self.servers.len() {
            if self.servers[at].is_none() {
                self.restart(at, None)?;
            }
        }
        Ok(())
    }

    /// Kills every server and verifies the store. Returns the counts so far and the number of stored tasks.
    pub(crate) fn kill_all_and_verify(&mut self) -> Result<(Tally, usize)> {
        self.servers.iter_mut().flatten().try_for_each(Server::kill)?;
        self.servers.iter_mut().for_each(|server| *server = None);
        let tasks = self.cluster.verify()?;
        self.tally.verified += 1;
        Ok((self.tally.clone(), tasks as usize))
    }

    /// Waits for all actors. An actor that ended early has found a defect.
    async fn join_actors(&mut self) -> Result<()> {
        for actors in &mut self.actors {
            while let Some(gone) = actors.join_next().await {
                gone.context("a client or worker gave up")?;
            }
        }
        Ok(())
    }

    async fn wait_until_idle(&mut self) -> Result<()> {
        // Clients are done when the last of their calls is answered.
        while let Some(gone) = self.actors.first_mut().map(JoinSet::join_next) {
            let Some(gone) = gone.await else { break };
            gone.context("a client gave up")?;
        }
        let reader = self.load.recording_as("reader");
        loop {
            match reader.client().queues().list().await {
                Ok(seen) if seen.queues.iter().all(is_empty) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.is_retryable() => reader.next_coordinator(),
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

fn is_empty(queue: &QueueView) -> bool {
    queue.ready + queue.delayed + queue.running == 0
}
