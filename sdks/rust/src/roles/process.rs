//! A process to configure and run: the roles of one deployment that it decides.

use std::collections::BTreeMap;
use std::future::Future;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::topologies::TURNS_MAX;
use workflow::Failure;

use super::decider::{Decider, decider};
use super::decision::{ArtifactDecision, GateDecision, SchedulerDecision};
use super::event::{Events, RoleEvent};
use super::told::{ArtifactTurn, EventTurn, OrderTurn};
use super::turns::RoleTurns;
use crate::worker::{instance_id, termination_signal};
use crate::{Client, Error};

/// As many as a worker runs at once unless it is told otherwise.
const TURNS_AT_ONCE_DEFAULT: u32 = 8;

/// A process that decides the turns of roles, each by a function of its own.
///
/// Any number of processes may decide the same roles, on any machines, and die at any moment: what a process does not decide
/// comes to the next one. A key of a worker must name each role (`tenure keys create --role worker --queue role:DEPLOYMENT/ROLE`).
///
/// A function that returns an error, or panics, gives its turn back, to be tried again after a pause;
/// [`Failure::hand_back`] says why in words. Share state by capturing it: `.gate("gate", move |turn| judge(app.clone(), turn))`.
#[must_use = "a process decides nothing until it is run"]
pub struct RoleProcess {
    client: Client,
    deployment: String,
    name: String,
    deciders: BTreeMap<String, Decider>,
    at_once: u32,
    events: Events,
}

impl RoleProcess {
    pub fn new(client: Client, deployment: impl Into<String>) -> RoleProcess {
        RoleProcess {
            client,
            deployment: deployment.into(),
            name: "role".to_owned(),
            deciders: BTreeMap::new(),
            at_once: TURNS_AT_ONCE_DEFAULT,
            events: Events::new(|_| {}),
        }
    }

    /// For the coordinator that `TENURE_URL` and `TENURE_API_KEY` name.
    pub fn from_env(deployment: impl Into<String>) -> Result<RoleProcess, Error> {
        Ok(RoleProcess::new(Client::from_env()?, deployment))
    }

    /// The process's name, for people. Every start adds random characters: a process that was started again has none of the
    /// turns of the one before.
    pub fn name(mut self, name: impl Into<String>) -> RoleProcess {
        self.name = name.into();
        self
    }

    /// How many turns of a role are decided at the same time, from 1 to 64; 8 by default.
    pub fn turns_at_once(mut self, turns: u32) -> RoleProcess {
        self.at_once = turns.clamp(1, u32::try_from(TURNS_MAX).unwrap_or(u32::MAX));
        self
    }

    /// Decides the events of a scheduler.
    pub fn scheduler<F, Fut>(self, role: impl Into<String>, decide: F) -> RoleProcess
    where
        F: Fn(EventTurn) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<SchedulerDecision, Failure>> + Send + 'static,
    {
        self.add(role.into(), decider(decide))
    }

    /// Judges the outputs of a gate's work orders.
    pub fn gate<F, Fut>(self, role: impl Into<String>, decide: F) -> RoleProcess
    where
        F: Fn(OrderTurn) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<GateDecision, Failure>> + Send + 'static,
    {
        self.add(role.into(), decider(decide))
    }

    /// Decides whether the events of a readiness are emitted.
    pub fn readiness<F, Fut>(self, role: impl Into<String>, decide: F) -> RoleProcess
    where
        F: Fn(ArtifactTurn) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ArtifactDecision, Failure>> + Send + 'static,
    {
        self.add(role.into(), decider(decide))
    }

    /// Decides whether the artifacts of a review are moved.
    pub fn review<F, Fut>(self, role: impl Into<String>, decide: F) -> RoleProcess
    where
        F: Fn(ArtifactTurn) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ArtifactDecision, Failure>> + Send + 'static,
    {
        self.add(role.into(), decider(decide))
    }

    fn add(mut self, role: String, decider: Decider) -> RoleProcess {
        self.deciders.insert(role, decider);
        self
    }

    /// Calls `observer` for everything that becomes of turns. Must not block.
    pub fn on_event(
        mut self,
        observer: impl Fn(&RoleEvent) + Send + Sync + 'static,
    ) -> RoleProcess {
        self.events = Events::new(observer);
        self
    }

    /// Decides turns until the process is asked to end (Ctrl-C, SIGTERM), and then gives back what is not decided.
    pub async fn run(self) -> Result<(), Error> {
        self.run_until(termination_signal()).await
    }

    /// Decides turns until `shutdown` completes, and then gives back what is not decided. An error means that the server refused
    /// the turns of a role, or that a role is told something else than its function decides.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        if self.deciders.is_empty() {
            let missing = "a process needs a role to decide; call `.gate(…)` or `.scheduler(…)`";
            return Err(Error::Setup(missing.to_owned()));
        }
        let stop = CancellationToken::new();
        let mut running = self.start(&stop)?;
        let refused = tokio::select! {
            biased;
            () = shutdown => None,
            ended = running.join_next() => ended,
        };
        stop.cancel();
        let mut ended = refused.map_or(Ok(()), joined);
        while let Some(next) = running.join_next().await {
            ended = ended.and(joined(next));
        }
        ended
    }

    fn start(self, stop: &CancellationToken) -> Result<JoinSet<Result<(), Error>>, Error> {
        let worker_id = instance_id(&self.name)?;
        let mut running = JoinSet::new();
        for (role, decider) in self.deciders {
            let turns = RoleTurns {
                client: self.client.clone(),
                deployment: self.deployment.clone(),
                role,
                worker_id: worker_id.clone(),
                decider,
                at_once: self.at_once,
                events: self.events.clone(),
                stop: stop.clone(),
            };
            running.spawn(turns.work());
        }
        Ok(running)
    }
}

/// Panics of users' functions end their turns; another one is a defect.
fn joined(ended: Result<Result<(), Error>, tokio::task::JoinError>) -> Result<(), Error> {
    ended.unwrap_or_else(|join| match join.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Ok(()),
    })
}
