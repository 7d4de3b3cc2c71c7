//! A server under load that is killed and comes back, until it is enough; then everything must end and be there.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use historyck::event::{DOWN, Fault, Phase, What};
use tenure::{Client, Retries};
use tokio::task::JoinSet;
use wire::State;
use wire::requests::ListRuns;

use super::{PATIENCE, Tally, Wishes};
use crate::chance::Chance;
use crate::judge;
use crate::load::{Load, QUEUE};
use crate::site::{Server, Site};

const CLIENTS: u64 = 4;
const WORKERS: u64 = 4;
const NEMESIS: &str = "nemesis";
/// Between two looks whether everything has ended.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) struct Storm {
    pub(crate) site: Site,
    pub(crate) load: Load,
    pub(crate) chance: Chance,
    server: Option<Server>,
    actors: Vec<JoinSet<()>>,
    tally: Tally,
}

impl Storm {
    pub(crate) fn begin(wishes: &Wishes, seed: u64) -> Result<Storm> {
        let mut chance = Chance::new(seed);
        let site = Site::new(&wishes.binary, wishes.mutant, &mut chance)?;
        Storm::on(site, chance, seed)
    }

    pub(crate) fn on(site: Site, chance: Chance, seed: u64) -> Result<Storm> {
        let server = site.start(None)?.expect_ready(&site)?;
        let url = format!("http://{}", site.listen);
        // It never repeats a call by itself: the history wants to see every silence.
        let client = Client::new(&url, &server.api_key()?)?.with_retries(Retries::NONE);
        let load = Load::new(client, seed);
        Ok(Storm {
            site,
            load,
            chance,
            server: Some(server),
            actors: Vec::new(),
            tally: Tally::default(),
        })
    }

    pub(crate) fn rage(&mut self) {
        self.actors = vec![self.load.clients(CLIENTS), self.load.workers(WORKERS)];
    }

    /// Waits until so much more has happened.
    pub(crate) async fn further(&self, events: usize) -> Result<()> {
        let enough = self.load.history.len() + events;
        let happens = async {
            while self.load.history.len() < enough {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(PATIENCE, happens).await.context("nothing happens any more")
    }

    pub(crate) fn server(&mut self) -> Result<&mut Server> {
        self.server.as_mut().context("the server is down")
    }

    pub(crate) fn note(&self, fault: &str, phase: Phase, detail: Option<&str>) {
        let fault = Fault { fault: fault.to_owned(), phase, detail: detail.map(str::to_owned) };
        let noted = self.load.history.record(NEMESIS, What::Fault(fault));
        noted.expect("a history is kept in memory");
    }

    /// The server is dead: what it left must be whole.
    pub(crate) fn died(&mut self, how: &str) -> Result<()> {
        self.note(DOWN, Phase::Begin, Some(how));
        self.server = None;
        self.tally.kills += 1;
        self.site.verify().with_context(|| format!("after {how}"))?;
        self.tally.verified += 1;
        Ok(())
    }

    /// A new server; it may be made to die, even before it is ready.
    pub(crate) fn rise(&mut self, blow: Option<&str>) -> Result<()> {
        self.note(DOWN, Phase::End, blow);
        let server = self.site.start(blow)?;
        let is_ready = server.ready.is_some();
        self.server = Some(server);
        ensure!(is_ready || blow.is_some(), "the server does not start any more");
        Ok(())
    }

    pub(crate) fn kill(&mut self, how: &str) -> Result<()> {
        self.server()?.kill()?;
        self.died(how)
    }

    pub(crate) fn reached(&mut self) {
        self.tally.points += 1;
    }

    /// No more faults: everything ends, everything is read, and the history is judged.
    pub(crate) async fn settle(&mut self, name: &str, wishes: &Wishes) -> Result<Tally> {
        if self.server.is_none() {
            self.rise(None)?;
        }
        self.load.enough.cancel();
        tokio::time::timeout(PATIENCE, self.until_all_have_ended())
            .await
            .context("G1: something that was accepted does not end")??;
        self.load.come_back_late().await;
        self.load.over.cancel();
        for actors in &mut self.actors {
            while actors.join_next().await.is_some() {}
        }
        let reader = self.load.as_who("reader");
        self.tally.runs += judge::write_down(&reader).await?;
        self.tally.events += judge::judge(name, &self.load.history, &wishes.keep)?;
        self.tally.unanswered += judge::unanswered(&self.load.history);
        self.server()?.kill()?;
        self.server = None;
        let tasks = self.site.verify()?;
        self.tally.verified += 1;
        ensure!(
            tasks as usize == self.tally.runs,
            "{tasks} tasks are on the disk, {} were listed",
            self.tally.runs
        );
        Ok(self.tally.clone())
    }

    async fn until_all_have_ended(&mut self) -> Result<()> {
        let client = self.load.as_who("reader").client;
        // Whoever still submits is done when the last of its calls is answered.
        while let Some(ended) = self.actors.first_mut().map(JoinSet::join_next) {
            if ended.await.is_none() {
                break;
            }
        }
        for state in [State::Queued, State::Running, State::Retry, State::Queued, State::Running] {
            let filter = ListRuns {
                state: Some(state),
                queue: Some(QUEUE.to_owned()),
                ..ListRuns::default()
            };
            while !client.list(&filter).await?.runs.is_empty() {
                tokio::time::sleep(LOOK).await;
            }
        }
        Ok(())
    }
}
