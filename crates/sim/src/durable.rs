//! Durable runs in the simulation: workers that perform a run's program over several attempts.
//!
//! A program is a list of operations (`program`). A worker replays what is recorded, performs the rest, and records
//! each result under its lease. Its results name the attempt, so a step that was recorded twice shows. It crashes
//! between and within calls, repeats calls, and continues long after its lease has ended.

mod calls;
pub(crate) mod judge;
mod performance;

use std::collections::BTreeMap;
use std::rc::Rc;

use historyck::durable::{Recorded, Replay};
use historyck::event::EventKind;
use wire::CheckpointOutcome;
use wire::answers::{Checkpoint, Envelope};

use crate::actor_context::ActorContext;
use crate::coverage::CoverageGoal;
use crate::fault::Fault;
use crate::history::name;
use crate::options::DurableOptions;
use crate::program::Program;
use crate::rng::SimRng;

/// How many calls a worker makes before it crashes, oversleeps or diverges.
const CALLS_BEFORE_MAX: u64 = 4;

/// How a worker behaves in one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    Obedient,
    /// Makes no call after this many, or hangs up in the middle of that call.
    Crashes {
        after: u64,
        is_amid: bool,
    },
    /// Sleeps past its lease before this call, and continues as if nothing had happened.
    Oversleeps {
        before: u64,
    },
    /// Sends every call twice.
    Repeats,
    /// Its code is another one: it says so at this call.
    Diverges {
        at: u64,
    },
}

impl Conduct {
    fn draw(rng: &mut SimRng, options: &DurableOptions, ctx: &ActorContext) -> Self {
        let n = rng.between(0, CALLS_BEFORE_MAX);
        let is_amid = rng.chance(500);
        let ways = [
            (options.crash, Conduct::Crashes { after: n, is_amid }, Fault::DurableWorkerCrashed),
            (options.oversleep, Conduct::Oversleeps { before: n }, Fault::DurableWorkerOverslept),
            (options.repeat, Conduct::Repeats, Fault::CheckpointRepeated),
            (options.diverge, Conduct::Diverges { at: n }, Fault::CodeDiverged),
        ];
        for (per_mille, conduct, fault) in ways {
            if rng.chance(per_mille) {
                ctx.log.fault(fault);
                return conduct;
            }
        }
        Conduct::Obedient
    }
}

/// One attempt of a durable run in a worker's hands.
pub(crate) struct Attempt {
    ctx: Rc<ActorContext>,
    who: String,
    scope: usize,
    rng: SimRng,
    conduct: Conduct,
    task: String,
    queue: String,
    attempt: u32,
    token: String,
    lease_ms: u64,
    program: Program,
    /// What is recorded, by key and whether it is the start of a child.
    recorded: BTreeMap<(String, bool), Checkpoint>,
    /// The coordinator's time in its last answer.
    server_ms: i64,
    calls: u64,
    is_cancelled: bool,
    /// What the steps of this attempt used.
    spent: u64,
}

impl Attempt {
    pub(crate) fn new(
        ctx: Rc<ActorContext>,
        (who, scope): (String, usize),
        mut rng: SimRng,
        envelope: &Envelope,
    ) -> Self {
        let options = ctx.options.durable.expect("only durable worlds have programs");
        let conduct = match ctx.faults_stopped.get() {
            true => Conduct::Obedient,
            false => Conduct::draw(&mut rng, &options, &ctx),
        };
        let (task, attempt) = (envelope.task_id.clone(), envelope.attempt);
        ctx.say(format_args!("{who} performs {task} attempt {attempt} {conduct:?}"));
        let lease_ms = envelope.heartbeat_timeout_ms;
        Self {
            who,
            scope,
            rng,
            conduct,
            task,
            queue: envelope.queue.clone(),
            attempt,
            token: envelope.task_token.clone(),
            lease_ms,
            program: envelope.input.read().expect("the input of a program is one"),
            recorded: BTreeMap::new(),
            server_ms: envelope.lease_expires_at.as_ms() - lease_ms as i64,
            calls: 0,
            is_cancelled: false,
            spent: 0,
            ctx,
        }
    }

    /// Replays what is recorded, and performs the rest.
    pub(crate) async fn work(mut self, envelope: Envelope) {
        let Some(recorded) = self.read_rest(envelope).await else { return };
        if !recorded.is_empty() && self.attempt > 1 {
            self.ctx.log.reach_goal(CoverageGoal::ReplayContinued);
        }
        show(&self.ctx, &self.who, &self.task, Some(self.attempt), &recorded);
        let savepoint = recorded.first().filter(|first| first.savepoint).cloned();
        recorded.into_iter().for_each(|checkpoint| self.note(checkpoint));
        self.perform(savepoint).await;
    }

    fn note(&mut self, checkpoint: Checkpoint) {
        let is_started = checkpoint.outcome == CheckpointOutcome::Started;
        self.recorded.insert((checkpoint.key.clone(), is_started), checkpoint);
    }

    fn find(&self, key: &str) -> Option<&Checkpoint> {
        self.recorded.get(&(key.to_owned(), false))
    }

    fn is_started(&self, key: &str) -> bool {
        self.recorded.contains_key(&(key.to_owned(), true))
    }
}

/// Records in the history what an attempt was shown, or a reader after the end.
pub(crate) fn show(
    ctx: &ActorContext,
    who: &str,
    task: &str,
    attempt: Option<u32>,
    recorded: &[Checkpoint],
) {
    let recorded = recorded.iter().map(shown).collect();
    let replay = Replay { task: name(task), attempt, recorded };
    ctx.history.borrow_mut().record(ctx.now(), who, EventKind::Replay(replay));
}

fn shown(checkpoint: &Checkpoint) -> Recorded {
    let Checkpoint { number, key, outcome, result, error, task_id, wait, savepoint, .. } =
        checkpoint.clone();
    let result = result.map(wire::Json::into_text);
    Recorded {
        number,
        key,
        started: outcome == CheckpointOutcome::Started,
        result: Some(format!("{outcome} {result:?} {error:?} {task_id:?} {wait:?}")),
        savepoint,
    }
}
