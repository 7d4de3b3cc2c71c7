//! The turns of one role: taken, kept while they are decided, proposed or given back.
//!
//! A scheduler's or a gate's turn is a claim, which is renewed while its function runs; a function whose claim is lost is dropped.
//! A readiness's or a review's turn holds nothing: what has changed meanwhile is refused, and told again.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use wire::topologies::{Turn, Turns};
use wire::{Code, Json, Time};

use super::decider::{Context, Decider, Deciding};
use super::event::{Events, RoleEvent};
use super::told::Version;
use crate::client::OutsideRole;
use crate::worker::catch_panic;
use crate::{Client, Error};

/// How long one call for turns waits.
const WAIT: Duration = Duration::from_secs(20);
/// Versions that are known, and need not be sent again: as many as one call can name.
const VERSIONS_MAX: usize = 32;
/// How often a turn is decided again because something had changed, or because the decision was refused.
const READS_MAX: usize = 8;
/// The pause after a call without an answer, and before a turn that nothing holds is told again.
const PAUSE: Duration = Duration::from_millis(500);
/// So often in the time of its claim a turn is renewed: two calls may fail.
const RENEWALS: u32 = 3;
/// The shortest pause between two renewals, whatever the clocks say.
const RENEW_AFTER_MIN: Duration = Duration::from_millis(100);
/// As much of a reason as the server takes.
const REASON_CHARS_MAX: usize = 1_000;

pub(super) struct RoleTurns {
    pub(super) client: Client,
    pub(super) deployment: String,
    pub(super) role: String,
    pub(super) worker_id: String,
    pub(super) decider: Decider,
    pub(super) at_once: u32,
    pub(super) events: Events,
    pub(super) stop: CancellationToken,
}

/// How the decision of a turn came out.
enum Decided {
    This(Json),
    /// Nothing, for this reason: the turn is given back.
    Not(String),
    /// The claim is another process's.
    Lost(Error),
}

/// What became of a turn.
enum End {
    Over,
    /// It is still there, and the next call would get it at once.
    PutOff,
}

impl RoleTurns {
    pub(super) async fn work(self) -> Result<(), Error> {
        let mut versions = BTreeMap::new();
        // The first call does not wait: it shows whether these turns may be taken at all.
        let mut wait = Duration::ZERO;
        loop {
            let taken = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(()),
                taken = self.take(&versions, wait) => taken,
            };
            match taken {
                Ok(turns) => {
                    wait = WAIT;
                    self.decide_all(turns, &mut versions).await?;
                }
                Err(error) if error.is_retryable() => {
                    let (role, why) = (self.role.clone(), error.to_string());
                    self.events.emit(&RoleEvent::Unreachable { role, why });
                    self.pause().await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn take(
        &self,
        versions: &BTreeMap<String, Version>,
        wait: Duration,
    ) -> Result<Turns, Error> {
        self.calls().take().max(self.at_once).wait(wait).known(versions.keys()).await
    }

    fn calls(&self) -> OutsideRole<'_> {
        self.client.deployments().role(&self.deployment, &self.role, &self.worker_id)
    }

    async fn pause(&self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = sleep(PAUSE) => {}
        }
    }

    async fn decide_all(
        &self,
        Turns { turns, versions: sent, server_time, .. }: Turns,
        versions: &mut BTreeMap<String, Version>,
    ) -> Result<(), Error> {
        if versions.len() + sent.len() > VERSIONS_MAX {
            versions.clear();
        }
        for sent in sent {
            let version = Version::new(&sent.version, sent.declaration);
            versions.insert(sent.version, version);
        }
        let versions = &*versions;
        let turns = turns.into_iter().map(|turn| {
            let renew_after = renew_after(&turn, server_time);
            Box::pin(self.turn(turn, versions, renew_after))
        });
        let mut is_put_off = false;
        for ended in join_all(turns).await {
            is_put_off |= matches!(ended?, End::PutOff);
        }
        if is_put_off {
            self.pause().await;
        }
        Ok(())
    }

    /// Decides one turn, as often as what it is about changes meanwhile.
    async fn turn(
        &self,
        mut turn: Turn,
        versions: &BTreeMap<String, Version>,
        renew_after: Duration,
    ) -> Result<End, Error> {
        let mut why = "what it is about changed whenever it was read".to_owned();
        let mut refusal: Option<String> = None;
        for _ in 0..READS_MAX {
            let Some(version) = versions.get(&turn.version).cloned() else {
                why = "its version is not known yet".to_owned();
                break;
            };
            let deciding =
                match (self.decider)(&turn.told, Context { version, refusal: refusal.clone() }) {
                    Ok(deciding) => deciding,
                    Err(unreadable) => return Err(self.foreign(&turn, &unreadable).await),
                };
            let decision = match self.decide(&turn, deciding, renew_after).await {
                Decided::This(decision) => decision,
                Decided::Not(reason) => {
                    why = reason;
                    break;
                }
                Decided::Lost(error) => return Ok(self.lost(&turn, &error)),
            };
            match self.calls().propose(&turn, &decision).await {
                Ok(_) => return Ok(self.decided(&turn)),
                Err(error) if error.code() == Some(Code::ArtifactChanged) => refusal = None,
                Err(error) if error.code() == Some(Code::TransitionNotAllowed) => {
                    let said = error.message();
                    if refusal.is_some() || turn.claim.is_none() {
                        why = said;
                        break;
                    }
                    refusal = Some(said);
                }
                Err(error) => return Ok(self.lost(&turn, &error)),
            }
            let Some(claim) = &turn.claim else { return Ok(End::Over) };
            match self.calls().renew(claim).await {
                Ok(renewed) => turn = renewed,
                Err(error) => return Ok(self.lost(&turn, &error)),
            }
        }
        Ok(self.give_back(&turn, &why).await)
    }

    /// Runs the user's function, and keeps the turn meanwhile.
    async fn decide(&self, turn: &Turn, deciding: Deciding, renew_after: Duration) -> Decided {
        tokio::select! {
            biased;
            ended = catch_panic(deciding) => match ended {
                Ok(decision) => Decided::This(decision),
                Err(failure) => Decided::Not(failure.message),
            },
            error = self.keep(turn, renew_after) => Decided::Lost(error),
            () = self.stop.cancelled() => Decided::Not("its process ends".to_owned()),
        }
    }

    /// Renews a claim until it is lost.
    async fn keep(&self, turn: &Turn, renew_after: Duration) -> Error {
        let Some(claim) = &turn.claim else { return std::future::pending().await };
        loop {
            sleep(renew_after).await;
            match self.calls().renew(claim).await {
                Ok(_) => {}
                Err(error) if error.is_retryable() => {}
                Err(error) => return error,
            }
        }
    }

    async fn give_back(&self, turn: &Turn, why: &str) -> End {
        let end = match &turn.claim {
            None => End::PutOff,
            Some(claim) => {
                let reason: String = why.chars().take(REASON_CHARS_MAX).collect();
                if let Err(error) = self.calls().give_back(claim, reason).await {
                    return self.lost(turn, &error);
                }
                End::Over
            }
        };
        let (role, about, why) = (self.role.clone(), about(turn), why.to_owned());
        self.events.emit(&RoleEvent::GivenBack { role, about, why });
        end
    }

    fn decided(&self, turn: &Turn) -> End {
        let (role, about) = (self.role.clone(), about(turn));
        self.events.emit(&RoleEvent::Decided { role, about });
        End::Over
    }

    /// A turn that is lost is somebody else's; a server that does not answer may come back.
    fn lost(&self, turn: &Turn, error: &Error) -> End {
        let (role, about, why) = (self.role.clone(), about(turn), error.to_string());
        self.events.emit(&RoleEvent::Lost { role, about, why });
        match turn.claim {
            Some(_) => End::Over,
            None => End::PutOff,
        }
    }

    /// A turn of another logic, or of a newer server: no later one would be readable either.
    async fn foreign(&self, turn: &Turn, unreadable: &crate::Unreadable) -> Error {
        self.give_back(turn, "its process cannot read it").await;
        let role = &self.role;
        Error::Setup(format!(
            "the role `{role}` is told something else than its function decides, {unreadable}; add it as what it `uses`, or use \
             the version of this crate that the server has"
        ))
    }
}

/// A third of the time that the claim has.
fn renew_after(turn: &Turn, server_time: Time) -> Duration {
    let ends_at = turn.lease_expires_at.unwrap_or(server_time);
    let left = u64::try_from(ends_at.as_ms() - server_time.as_ms()).unwrap_or_default();
    (Duration::from_millis(left) / RENEWALS).max(RENEW_AFTER_MIN)
}

/// The name of the event, work order or artifact of a turn, for people.
fn about(turn: &Turn) -> String {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct About {
        event: Option<Named>,
        work_order: Option<Named>,
        artifact: Option<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    let about = turn.told.read::<About>().ok();
    let named = about.and_then(|it| it.event.or(it.work_order).or(it.artifact));
    named.map_or_else(String::new, |it| it.id)
}
