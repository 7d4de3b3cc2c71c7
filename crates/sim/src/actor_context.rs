//! State shared by simulated clients and workers: the time, the network, and everything they observed.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use historyck::event::{Answer, Invoke, Return};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wire::answers::Problem;

use crate::clock::EPOCH_MS;
use crate::coverage::CoverageGoal;
use crate::history::{self, History};
use crate::host::virtual_now;
use crate::log::Log;
use crate::network::{CallEnd, CallId, HttpRequest, HttpResponse, Network};
use crate::options::{ClockOptions, Options};
use crate::rng::SimRng;
use crate::run_spec::scope_tags;
use crate::scopes::{Access, Administrator};

/// A lease as its worker received it. The judge compares it with the store afterwards.
#[derive(Clone, Debug)]
pub(crate) struct HeldLease {
    pub(crate) worker: u32,
    /// The worker follows every rule, so a fault of ours must never cost it the lease.
    pub(crate) is_obedient: bool,
}

#[derive(Default)]
pub(crate) struct Observations {
    /// Submissions and follow-up actions that have not finished.
    pub(crate) open: u64,
    pub(crate) accepted: BTreeSet<String>,
    pub(crate) ended: BTreeSet<String>,
    /// Leases as workers received them, by task and attempt.
    pub(crate) held: BTreeMap<(String, u32), HeldLease>,
    /// Every token seen so far. Some workers present them for other tasks.
    pub(crate) tokens: Vec<(String, u32, String)>,
    /// The coordinator that granted each lease.
    pub(crate) granted_by: BTreeMap<(String, u32), usize>,
    /// How many times the store was restored.
    pub(crate) restores: u64,
    /// Runs that were accepted, with their scope.
    pub(crate) owned: Vec<(usize, String)>,
}

pub(crate) struct ActorContext {
    pub(crate) seed: u64,
    pub(crate) options: Options,
    pub(crate) log: Log,
    pub(crate) network: RefCell<Network>,
    pub(crate) history: RefCell<History>,
    pub(crate) observations: RefCell<Observations>,
    /// The scopes whose tags appeared in the answer to each call.
    pub(crate) scope_tags: RefCell<BTreeMap<u64, Vec<String>>>,
    /// All scopes. Clients and workers are distributed over them round-robin.
    pub(crate) accesses: Vec<Access>,
    pub(crate) administrator: Option<Administrator>,
    pub(crate) faults_stopped: Cell<bool>,
    pub(crate) is_over: Cell<bool>,
    pub(crate) began: Instant,
}

/// A request with its caller, its history entries and its timeout.
pub(crate) struct OutgoingCall<'a> {
    pub(crate) who: &'a str,
    pub(crate) to: usize,
    pub(crate) ask: HttpRequest,
    pub(crate) timeout_ms: u64,
    /// The history entries of this call: one for each item of a batch request.
    pub(crate) invokes: Vec<Invoke>,
}

/// A call that has ended, with its numbers in the history.
pub(crate) struct FinishedCall {
    pub(crate) ending: CallEnd,
    pub(crate) calls: Vec<u64>,
}

/// The meaning of a reply, common to all kinds of calls.
pub(crate) enum CallOutcome<T> {
    Ok(T),
    /// Refused: nothing happened.
    Refused(Box<Problem>),
    /// Nothing happened, for the reason with this code. A retry may succeed.
    NotNow(String),
    /// The outcome is unknown.
    Unknown,
}

/// The history's code for a connection that was not accepted.
const UNREACHABLE: &str = "unreachable";

/// Hangs up when the waiting caller is dropped.
struct HangUpGuard<'a> {
    ctx: &'a ActorContext,
    call_id: CallId,
}

impl Drop for HangUpGuard<'_> {
    fn drop(&mut self) {
        self.ctx.network.borrow_mut().hang_up(self.ctx.now(), self.call_id);
    }
}

impl ActorContext {
    /// True time.
    pub(crate) fn now(&self) -> u64 {
        virtual_now().saturating_duration_since(self.began).as_millis() as u64
    }

    pub(crate) async fn sleep(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    pub(crate) fn say(&self, what: std::fmt::Arguments<'_>) {
        self.log.set_now(self.now());
        self.log.say(what);
    }

    /// Spawns an actor. A panic in it is a defect of the simulation and must not pass silently.
    pub(crate) fn spawn(&self, actor: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
        let log = self.log.clone();
        tokio::task::spawn_local(async move {
            if AssertUnwindSafe(actor).catch_unwind().await.is_err() {
                log.violate("sim", format_args!("a client or worker panicked"));
            }
        })
    }

    /// The scope of the actor with this number.
    pub(crate) fn scope_of(&self, number: u32) -> usize {
        number as usize % self.accesses.len()
    }

    /// A run that belongs to another scope.
    pub(crate) fn pick_foreign_run(&self, rng: &mut SimRng, own: usize) -> Option<String> {
        let observations = self.observations.borrow();
        let foreign: Vec<&String> = observations
            .owned
            .iter()
            .filter(|(scope, _)| *scope != own)
            .map(|(_, run)| run)
            .collect();
        if foreign.is_empty() { None } else { Some((*rng.pick(&foreign)).clone()) }
    }

    /// The store's current time; `None` where a clock may be wrong.
    pub(crate) fn store_time(&self) -> Option<i64> {
        let is_true = self.options.clock == ClockOptions::TRUE;
        is_true.then(|| EPOCH_MS + self.now() as i64)
    }

    pub(crate) fn pick_host(&self, rng: &mut SimRng) -> usize {
        rng.between(0, self.options.hosts() as u64 - 1) as usize
    }

    pub(crate) async fn call(&self, calling: OutgoingCall<'_>) -> FinishedCall {
        let OutgoingCall { who, to, ask, timeout_ms, invokes } = calling;
        let now = self.now();
        let calls: Vec<u64> = {
            let mut history = self.history.borrow_mut();
            invokes.iter().map(|invoke| history.invoke(now, who, invoke)).collect()
        };
        let sent = self.network.borrow_mut().send(now, to, ask);
        if sent.is_duplicated {
            // The duplicate is a separate call whose answer no caller receives.
            let mut history = self.history.borrow_mut();
            for invoke in &invokes {
                history.invoke(now, "network", invoke);
            }
        }
        let on_the_line = HangUpGuard { ctx: self, call_id: sent.call_id };
        let patience = Duration::from_millis(timeout_ms);
        let ending = match tokio::time::timeout(patience, sent.ending).await {
            Ok(Ok(ending)) => ending,
            Ok(Err(_)) | Err(_) => CallEnd::Gone,
        };
        drop(on_the_line);
        self.note_scope_tags(&ending, &calls);
        FinishedCall { ending, calls }
    }

    /// Records which scopes' tags an answer contains, for its entry in the history.
    fn note_scope_tags(&self, ending: &CallEnd, calls: &[u64]) {
        let (CallEnd::Answered(HttpResponse { body, .. }), 2..) = (ending, self.accesses.len())
        else {
            return;
        };
        let found = scope_tags(&String::from_utf8_lossy(body));
        let mut noted = self.scope_tags.borrow_mut();
        calls.iter().for_each(|call| drop(noted.insert(*call, found.clone())));
    }

    /// Records the result of a call.
    pub(crate) fn record_return(&self, who: &str, call: u64, given: Return) {
        let scope_tags = self.scope_tags.borrow_mut().remove(&call).unwrap_or_default();
        let given = Return { scope_tags, ..given };
        self.history.borrow_mut().record_return(self.now(), who, call, given);
    }

    /// Parses a reply. Anything but an answer is recorded at once for every call in it; the caller records an answer.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(
        &self,
        who: &str,
        called: &FinishedCall,
    ) -> CallOutcome<T> {
        let said = self.classify(&called.ending);
        let given = match &said {
            CallOutcome::Ok(_) => return said,
            CallOutcome::Refused(problem) => Return {
                code: Some(problem.error.clone()),
                verdict: problem.verdict.map(|verdict| verdict.as_str().to_owned()),
                ..history::answer(Answer::Fail)
            },
            CallOutcome::NotNow(code) => {
                Return { code: Some(code.clone()), ..history::answer(Answer::Fail) }
            }
            CallOutcome::Unknown => history::answer(Answer::Info),
        };
        called.calls.iter().for_each(|call| self.record_return(who, *call, given.clone()));
        said
    }

    fn classify<T: serde::de::DeserializeOwned>(&self, ending: &CallEnd) -> CallOutcome<T> {
        let HttpResponse { status, body } = match ending {
            CallEnd::Answered(reply) => reply,
            CallEnd::Refused => return CallOutcome::NotNow(UNREACHABLE.to_owned()),
            CallEnd::Gone => return CallOutcome::Unknown,
        };
        if *status < 300 {
            return CallOutcome::Ok(
                serde_json::from_slice(body).expect("an answer is as documented"),
            );
        }
        let problem: Problem = serde_json::from_slice(body).expect("a problem is as documented");
        match (*status, problem.error.as_str()) {
            (503, "unknown_outcome") => {
                self.log.reach_goal(CoverageGoal::UnknownOutcomeAnswered);
                CallOutcome::Unknown
            }
            (503, error) => {
                if error == "unavailable" {
                    self.log.reach_goal(CoverageGoal::UnavailableAnswered);
                }
                if error == "shutting_down" {
                    self.log.reach_goal(CoverageGoal::ShuttingDownAnswered);
                }
                CallOutcome::NotNow(error.to_owned())
            }
            (500.., error) => {
                self.log.violate("X32", format_args!("answered {status} {error}"));
                CallOutcome::Unknown
            }
            _ => CallOutcome::Refused(Box::new(problem)),
        }
    }
}
