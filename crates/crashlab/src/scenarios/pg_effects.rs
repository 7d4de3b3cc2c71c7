//! Effects of three coordinators over one database, one of which dies at every step of a delivery. The others go on: they take
//! over what it had claimed, once the claim has run out, and nothing else.
//!
//! Calls go to the coordinator that is to die, because whoever commits an effect is the first to deliver it. A call that got no
//! answer is repeated at another coordinator, so each effect is asked for once or twice and must be one. A claim holds for a
//! minute of the database's time, which nobody can set: the claims of all the dead run out together at the end.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use anyhow::{Context as _, Result, ensure};
use historyck::event::{EventKind, Fault, Phase, Settled};
use rustix::process::Signal;
use tenure::{Client, Retries};

use super::effects::{TIMES, points};
use super::{LabOptions, Tally};
use crate::judge;
use crate::load::RETRY_DELAY;
use crate::receiver::{Declaration, Receiver, settled};
use crate::rng::SeededRng;
use crate::test_cluster::{Server, TestCluster};
use crate::waits;

const COORDINATORS: usize = 3;
const VICTIM: usize = COORDINATORS - 1;

struct Lab {
    cluster: TestCluster,
    survivors: Vec<Server>,
    /// Calls whichever coordinator answers.
    anyone: Client,
    /// Calls the one that is to die, once.
    victim: Client,
    receiver: Receiver,
    tally: Tally,
}

pub(crate) async fn one_of_three_killed_while_delivering(options: &LabOptions) -> Result<Tally> {
    let mut lab = Lab::start(options).await?;
    lab.tally.points = points().len();
    for point in points() {
        for time in 1..=TIMES {
            let fault_spec = format!("kill@{}#{time}", point.name);
            lab.kill_at(&fault_spec).await.with_context(|| fault_spec.clone())?;
        }
    }
    lab.settle(options).await
}

impl Lab {
    async fn start(options: &LabOptions) -> Result<Self> {
        let mut rng = SeededRng::new(options.seed ^ 0xdbef);
        let cluster = TestCluster::new(&options.binary, options.mutant, &mut rng)?;
        let cluster = cluster.on_a_database(COORDINATORS, &mut rng)?;
        let start = |at: usize| {
            tokio::task::block_in_place(|| cluster.start(at, None)?.expect_ready(&cluster))
        };
        let survivors = (0..VICTIM).map(start).collect::<Result<Vec<Server>>>()?;
        let api_key = survivors[0].api_key()?;
        let urls: Vec<String> = cluster.listen.iter().map(|it| format!("http://{it}")).collect();
        let anyone = Client::new(&urls[..VICTIM].join(","), &api_key)?;
        let victim = Client::new(&urls[VICTIM], &api_key)?.with_retries(Retries::NONE);
        let receiver = Receiver::start()?;
        receiver.register(&anyone).await?;
        Ok(Lab { cluster, survivors, anyone, victim, receiver, tally: Tally::default() })
    }

    /// Asks for effects until the victim has died over one of them. Another coordinator may be faster now and then.
    async fn kill_at(&mut self, fault_spec: &str) -> Result<()> {
        let cluster = &self.cluster;
        let mut server = tokio::task::block_in_place(|| cluster.start(VICTIM, Some(fault_spec)))?;
        let died = loop {
            let queue = format!("q{}", self.tally.runs);
            let asked = self.receiver.begin(&self.anyone, &queue).await?;
            self.tally.runs += 1;
            self.declare(&asked).await?;
            let ended = self.death_or_delivery(&mut server, &asked);
            if let Some(died) = waits::within("a death or a delivery", ended).await?? {
                break died;
            }
        };
        ensure!(died.signal() == Some(Signal::KILL.as_raw()), "the server ended by itself, {died}");
        self.tally.kills += 1;
        self.note(fault_spec)?;
        self.verify()
    }

    /// Asks the victim, and then another coordinator until one answers.
    async fn declare(&mut self, asked: &Declaration) -> Result<()> {
        if self.receiver.declare(&self.victim, asked).await.is_err() {
            self.tally.unanswered += 1;
            self.receiver.declare(&self.anyone, asked).await?;
        }
        Ok(())
    }

    /// How the victim died; `None` if the effects were delivered first.
    async fn death_or_delivery(
        &self,
        server: &mut Server,
        asked: &Declaration,
    ) -> Result<Option<ExitStatus>> {
        loop {
            // The receiver first: what a dead victim sent is no reason to go on.
            let is_delivered = self.receiver.has_seen(asked);
            match server.exit_status()? {
                Some(died) => return Ok(Some(died)),
                None if is_delivered => return Ok(None),
                None => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
    }

    fn note(&self, how: &str) -> Result<()> {
        for phase in [Phase::Begin, Phase::End] {
            let fault = Fault { fault: "one down".to_owned(), phase, detail: Some(how.to_owned()) };
            self.receiver.history.record("nemesis", EventKind::Fault(fault))?;
        }
        Ok(())
    }

    /// Verifies the database while nobody writes.
    fn verify(&mut self) -> Result<()> {
        tokio::task::block_in_place(|| {
            self.survivors.iter().try_for_each(Server::freeze)?;
            let verified = self.cluster.verify();
            self.survivors.iter().try_for_each(|server| server.signal(Signal::CONT))?;
            verified
        })?;
        self.tally.verified += 1;
        Ok(())
    }

    async fn settle(mut self, options: &LabOptions) -> Result<Tally> {
        waits::within("all effects are delivered", settled(&self.anyone)).await??;
        self.receiver.history.record("reader", EventKind::Settled(Settled {}))?;
        self.tally.events = judge::judge("pg-effects", &self.receiver.history, &options.keep)?;
        for server in &mut self.survivors {
            server.expect_running(&self.cluster)?;
        }
        self.survivors.iter_mut().try_for_each(Server::kill)?;
        tokio::task::block_in_place(|| self.cluster.verify())?;
        self.tally.verified += 1;
        Ok(self.tally)
    }
}
