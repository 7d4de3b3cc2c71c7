//! Several coordinators over one database, under load; at the end every run must have ended and no acknowledged write
//! may be missing.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use historyck::event::{DOWN, Event, EventKind, Fault, Phase};
use rustix::process::Signal;
use tenure::{Client, Retries};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::State;
use wire::requests::ListRuns;

use crate::judge;
use crate::load::{Load, QUEUE};
use crate::rng::SeededRng;
use crate::scenarios::Tally;
use crate::test_cluster::{self, Server, TestCluster};
use crate::waits::{TIMEOUT, within};

const CLIENTS: u64 = 4;
const WORKERS: u64 = 6;
const NEMESIS: &str = "nemesis";
/// Interval at which to check whether everything has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) struct Fleet {
    cluster: TestCluster,
    store: String,
    listens: Vec<String>,
    servers: Vec<Option<Server>>,
    pub(crate) api_key: String,
    pub(crate) load: Load,
    actors: Vec<JoinSet<()>>,
    keep: PathBuf,
    pub(crate) tally: Tally,
}

impl Fleet {
    /// Starts `size` coordinators on the store. Clients also know the addresses of the `later` ones.
    pub(crate) fn start(
        binary: &std::path::Path,
        keep: PathBuf,
        store: String,
        (size, later): (usize, usize),
        seed: u64,
    ) -> Result<Fleet> {
        let mut rng = SeededRng::new(seed);
        let cluster = TestCluster::new(binary, None, &mut rng)?;
        let listens: Vec<String> =
            (0..size + later).map(|_| test_cluster::free_address(&mut rng)).collect();
        let mut servers = Vec::new();
        for listen in listens.iter().take(size) {
            servers.push(Some(cluster.start_on(listen, &store, None)?.expect_ready(&cluster)?));
        }
        servers.resize_with(size + later, || None);
        let api_key = servers[0].as_ref().context("the first has started")?.api_key()?;
        let clients: Result<Vec<Client>> =
            (0..WORKERS).map(|_| client(&listens, &api_key)).collect();
        let load = Load::new(clients?, seed);
        let (actors, tally) = (Vec::new(), Tally::default());
        Ok(Fleet { cluster, store, listens, servers, api_key, load, actors, keep, tally })
    }

    /// The addresses of all coordinators, for clients that accept several.
    pub(crate) fn urls(&self) -> String {
        urls(&self.listens)
    }

    pub(crate) fn size(&self) -> usize {
        self.servers.len()
    }

    pub(crate) fn start_load(&mut self) {
        self.actors = vec![self.load.clients(CLIENTS), self.load.workers(WORKERS)];
    }

    /// Adds a worker that calls only this coordinator, so every task it gets was granted there.
    pub(crate) fn add_worker(&mut self, number: usize) -> Result<String> {
        let client = client(&self.listens[number..=number], &self.api_key)?;
        let (name, actors) = self.load.one_more_worker(WORKERS, client);
        self.actors.push(actors);
        Ok(name)
    }

    /// Waits until this worker was granted a task.
    pub(crate) async fn wait_for_grant_to(&self, worker: &str) -> Result<()> {
        let is_its = |event: &Event| {
            event.who == worker
                && matches!(&event.what, EventKind::Return(answer) if !answer.grants.is_empty())
        };
        let given = async {
            while !self.load.history.events().iter().any(is_its) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(TIMEOUT, given).await.context("a coordinator grants nothing")
    }

    /// Waits until this many more events were recorded.
    pub(crate) async fn wait_for_events(&self, events: usize) -> Result<()> {
        let enough = self.load.history.len() + events;
        let happens = async {
            while self.load.history.len() < enough {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(TIMEOUT, happens).await.context("nothing happens any more")
    }

    pub(crate) fn note(&self, fault: &str, phase: Phase, detail: &str) {
        let fault = Fault { fault: fault.to_owned(), phase, detail: Some(detail.to_owned()) };
        let noted = self.load.history.record(NEMESIS, EventKind::Fault(fault));
        noted.expect("a history is kept in memory");
    }

    pub(crate) fn kill(&mut self, number: usize) -> Result<()> {
        let mut server = self.servers[number].take().context("it runs")?;
        server.kill()?;
        self.tally.kills += 1;
        Ok(())
    }

    /// Stops a coordinator gracefully, as an upgrade does, and waits for its exit.
    pub(crate) fn stop(&mut self, number: usize) -> Result<()> {
        let mut server = self.servers[number].take().context("it runs")?;
        server.signal(Signal::TERM)?;
        let ended = server.wait_for_death("a coordinator that drains")?;
        ensure!(ended.success(), "a coordinator that was told to stop ended with {ended}");
        Ok(())
    }

    pub(crate) fn restart(&mut self, number: usize) -> Result<()> {
        let server = self.cluster.start_on(&self.listens[number], &self.store, None)?;
        self.servers[number] = Some(server.expect_ready(&self.cluster)?);
        Ok(())
    }

    /// Waits until any coordinator acknowledges a write.
    pub(crate) async fn wait_until_serving(&self, key: &str) -> Result<()> {
        let me = self.load.recording_as("probe");
        let accepted = self.load.retry_until_decided(|| me.submit(self.load.plain_run(), key));
        let accepted = tokio::time::timeout(TIMEOUT, accepted).await;
        accepted.context("no work flows after the failover")??;
        Ok(())
    }

    /// Stops all faults, waits until everything has ended, and reads every run. Returns the number of runs.
    pub(crate) async fn settle(&mut self) -> Result<usize> {
        self.load.stop_submitting.cancel();
        let since = Instant::now();
        tokio::time::timeout(TIMEOUT, self.wait_until_idle())
            .await
            .context("G1: something that was accepted does not end")??;
        // Where commits were lost, a late worker may get any answer but COMMITTED.
        let _ = within("late reports to be answered", self.load.send_late_reports()).await?;
        self.load.stop_working.cancel();
        let actors = &mut self.actors;
        let all_home = async {
            for actors in actors {
                while actors.join_next().await.is_some() {}
            }
        };
        within("workers to go home", all_home).await?;
        let ended = since.elapsed();
        let runs = judge::record_all_runs(&self.load.recording_as("reader")).await?;
        println!(
            "    everything has ended after {ended:.2?}, {runs} runs are read after {:.2?}",
            since.elapsed()
        );
        self.tally.runs += runs;
        self.tally.unanswered += judge::unanswered(&self.load.history);
        Ok(runs)
    }

    /// Verifies the store and the number of its runs.
    pub(crate) fn verify(&mut self, runs: usize) -> Result<()> {
        let since = Instant::now();
        let tasks = self.cluster.verify_store(&self.store)?;
        println!("    {tasks} tasks are verified after {:.2?}", since.elapsed());
        self.tally.verified += 1;
        ensure!(tasks as usize == runs, "{tasks} tasks are in the database, {runs} were listed");
        Ok(())
    }

    /// Checks every invariant on the history.
    pub(crate) fn judge(&mut self, name: &str) -> Result<()> {
        let since = Instant::now();
        let events = judge::judge(name, &self.load.history, &self.keep)?;
        println!("    {events} events are judged after {:.2?}", since.elapsed());
        self.tally.events += events;
        Ok(())
    }

    async fn wait_until_idle(&mut self) -> Result<()> {
        let client =
            self.load.recording_as("reader").client().clone().with_retries(Retries::default());
        while let Some(ended) = self.actors.first_mut().map(JoinSet::join_next) {
            if ended.await.is_none() {
                break;
            }
        }
        for state in [State::Queued, State::Running, State::Retry, State::Queued, State::Running] {
            let mut filter = ListRuns {
                state: Some(state),
                queue: Some(QUEUE.to_owned()),
                ..ListRuns::default()
            };
            loop {
                let page = client.runs_with(filter.clone()).await?;
                filter.cursor = page.next_cursor;
                if !page.runs.is_empty() {
                    filter.cursor = None;
                    tokio::time::sleep(POLL_INTERVAL).await;
                } else if filter.cursor.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Records that no coordinator can receive calls from now on.
    pub(crate) fn note_down(&self, how: &str) {
        self.note(DOWN, Phase::Begin, how);
    }

    pub(crate) fn note_up(&self, how: &str) {
        self.note(DOWN, Phase::End, how);
    }
}

fn urls(listens: &[String]) -> String {
    let urls: Vec<String> = listens.iter().map(|listen| format!("http://{listen}")).collect();
    urls.join(",")
}

/// The client does not retry on its own: the history must record every unanswered call.
fn client(listens: &[String], api_key: &str) -> Result<Client> {
    Ok(Client::new(&urls(listens), api_key)?.with_retries(Retries::NONE))
}
