//! Servers under load that are killed and come back, until it is enough; then everything must end and be there.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use historyck::event::{DOWN, Fault, Phase, What};
use rustix::process::Signal;
use tenure::{Client, Retries};
use tokio::task::JoinSet;
use wire::answers::QueueView;

use crate::chance::Chance;
use crate::judge;
use crate::load::Load;
use crate::scenarios::{Tally, Wishes};
use crate::site::{Server, Site};
use crate::waits::within;

const CLIENTS: u64 = 4;
const WORKERS: u64 = 4;
const NEMESIS: &str = "nemesis";
/// One of several is gone: those who ask it must ask another.
const ONE_DOWN: &str = "one down";
/// All that still serve are stopped for a moment.
const LOOKED_AT: &str = "looked at";
/// Between two looks whether everything has ended.
const LOOK: Duration = Duration::from_millis(50);

pub struct Storm {
    pub site: Site,
    pub load: Load,
    pub(crate) chance: Chance,
    servers: Vec<Option<Server>>,
    actors: Vec<JoinSet<()>>,
    tally: Tally,
}

impl Storm {
    pub fn begin(wishes: &Wishes, seed: u64) -> Result<Storm> {
        let mut chance = Chance::new(seed);
        let site = Site::new(&wishes.binary, wishes.mutant, &mut chance)?;
        Storm::on(site, chance, seed)
    }

    pub(crate) fn on(site: Site, chance: Chance, seed: u64) -> Result<Storm> {
        let mut servers = vec![site.start(0, None)?.expect_ready(&site)?];
        let api_key = servers[0].api_key()?;
        for at in 1..site.listen.len() {
            servers.push(site.start(at, None)?.expect_ready(&site)?);
        }
        // It never repeats a call by itself: the history wants to see every silence.
        let client = |listen: &String| -> Result<Client> {
            let client = Client::new(&format!("http://{listen}"), &api_key)?;
            Ok(client.with_retries(Retries::NONE))
        };
        let clients = site.listen.iter().map(client).collect::<Result<_>>()?;
        let load = Load::new(clients, seed);
        Ok(Storm {
            site,
            load,
            chance,
            servers: servers.into_iter().map(Some).collect(),
            actors: Vec::new(),
            tally: Tally::default(),
        })
    }

    pub fn rage(&mut self) {
        self.actors = vec![self.load.clients(CLIENTS), self.load.workers(WORKERS)];
    }

    /// Waits until so much more has happened.
    pub async fn further(&self, events: usize) -> Result<()> {
        let enough = self.load.history.len() + events;
        let happens = async {
            while self.load.history.len() < enough {
                tokio::time::sleep(LOOK).await;
            }
        };
        within("something to happen", happens).await
    }

    pub fn server(&mut self, at: usize) -> Result<&mut Server> {
        self.servers[at].as_mut().context("the server is down")
    }

    pub fn note(&self, fault: &str, phase: Phase, detail: Option<&str>) {
        let fault = Fault { fault: fault.to_owned(), phase, detail: detail.map(str::to_owned) };
        let noted = self.load.history.record(NEMESIS, What::Fault(fault));
        noted.expect("a history is kept in memory");
    }

    /// What it means that one server is gone.
    fn loss(&self) -> &'static str {
        if self.servers.len() == 1 { DOWN } else { ONE_DOWN }
    }

    /// A server is dead: what it left must be whole.
    pub fn died(&mut self, at: usize, how: &str) -> Result<()> {
        self.note(self.loss(), Phase::Begin, Some(how));
        self.servers[at] = None;
        self.tally.kills += 1;
        self.verify().with_context(|| format!("after {how}"))
    }

    /// Looks at the store. Whoever still serves from it stands still meanwhile: a database grows faster than it
    /// is read, and standing still is one more thing that must cost nobody a lease.
    pub fn verify(&mut self) -> Result<()> {
        let serving: Vec<&Server> = self.servers.iter().flatten().collect();
        if !serving.is_empty() {
            // No outage for the judge: a stop that is shorter than what counts as one is not given back.
            self.note(LOOKED_AT, Phase::Begin, None);
        }
        serving.iter().try_for_each(|server| server.freeze())?;
        let verified = self.site.verify();
        serving.iter().try_for_each(|server| server.signal(Signal::CONT))?;
        self.tally.verified += 1;
        verified.map(|_| ())
    }

    /// A new server; it may be made to die, even before it is ready.
    pub fn rise(&mut self, at: usize, blow: Option<&str>) -> Result<()> {
        self.note(self.loss(), Phase::End, blow);
        let server = self.site.start(at, blow)?;
        if blow.is_none() {
            self.servers[at] = Some(server.expect_ready(&self.site)?);
        } else {
            self.servers[at] = Some(server);
        }
        Ok(())
    }

    /// Waits until every coordinator takes work, each by itself.
    pub async fn all_serve(&self, when: &str) -> Result<()> {
        for at in 0..self.servers.len() {
            let me = self.load.at(at, "probe");
            let key = format!("probe-{when}-{at}");
            let accepted = self.load.insist(|| me.submit(self.load.plain_run(), &key));
            within("a coordinator to take work again", accepted).await??;
        }
        Ok(())
    }

    /// Fails if a server has ended by itself.
    pub fn all_still_run(&mut self) -> Result<()> {
        for server in self.servers.iter_mut().flatten() {
            server.expect_running(&self.site)?;
        }
        Ok(())
    }

    pub fn kill(&mut self, at: usize, how: &str) -> Result<()> {
        self.server(at)?.kill()?;
        self.died(at, how)
    }

    pub(crate) fn reached(&mut self) {
        self.tally.points += 1;
    }

    /// How many answers so far were the recorded ones, and how many calls nobody answered.
    pub fn repeated(&self) -> (usize, usize) {
        (judge::replayed(&self.load.history), judge::unanswered(&self.load.history))
    }

    /// No more faults: everything ends, everything is read, and the history is judged.
    pub async fn settle(&mut self, name: &str, wishes: &Wishes) -> Result<Tally> {
        for at in 0..self.servers.len() {
            if self.servers[at].is_none() {
                tokio::task::block_in_place(|| self.rise(at, None))?;
            }
        }
        self.load.enough.cancel();
        within("the end of everything that was accepted (G1)", self.until_all_have_ended())
            .await??;
        within("late reports to be answered", self.load.come_back_late()).await??;
        self.load.over.cancel();
        within("workers to go home", self.until_all_are_home()).await??;
        let reader = self.load.as_who("reader");
        self.tally.runs += within("everything to be read", judge::write_down(&reader)).await??;
        self.tally.events += judge::judge(name, &self.load.history, &wishes.keep)?;
        self.tally.unanswered += judge::unanswered(&self.load.history);
        self.servers.iter_mut().flatten().try_for_each(Server::kill)?;
        self.servers.iter_mut().for_each(|server| *server = None);
        let tasks = tokio::task::block_in_place(|| self.site.verify())?;
        self.tally.verified += 1;
        ensure!(
            tasks as usize == self.tally.runs,
            "{tasks} tasks are stored, {} were listed",
            self.tally.runs
        );
        Ok(self.tally.clone())
    }

    /// Whoever ends otherwise than by going home has found something.
    async fn until_all_are_home(&mut self) -> Result<()> {
        for actors in &mut self.actors {
            while let Some(gone) = actors.join_next().await {
                gone.context("a client or worker gave up")?;
            }
        }
        Ok(())
    }

    async fn until_all_have_ended(&mut self) -> Result<()> {
        // Whoever still submits is done when the last of its calls is answered.
        while let Some(gone) = self.actors.first_mut().map(JoinSet::join_next) {
            let Some(gone) = gone.await else { break };
            gone.context("a client gave up")?;
        }
        let reader = self.load.as_who("reader");
        loop {
            match reader.client().queues().await {
                Ok(seen) if seen.queues.iter().all(is_empty) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.may_repeat() => reader.turn_away(),
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn is_empty(queue: &QueueView) -> bool {
    queue.ready + queue.delayed + queue.running == 0
}
