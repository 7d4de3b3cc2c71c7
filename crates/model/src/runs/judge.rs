//! An independent check of every decision in a run's world.
//!
//! The judge counts events and compares the rules with its own counts. What a wait waits for it reads from the wait's
//! items; whether that has come it knows from what it has counted itself.

use verdict::run::{AwaitedEvent, Recorded, RunEvent, RunRequest, Wait, WaitMode, Waiting};
use verdict::{Answer, Event, Name, Phase, Request, State, Subject, Task, Time, Verdict};

use super::property::{RunBroken, RunProperty};
use super::world::{CHILD_KEYS, ROOT, RunWorld, Seen};

/// Whether a call that was accepted had authority.
pub(super) fn judge_call(
    seen: &Seen,
    task: usize,
    request: &Request,
    verdict: &Verdict,
    now: Time,
) -> RunBroken {
    let mut broken = RunBroken::default();
    let is_new = !verdict.events.is_empty() && !matches!(verdict.answer, Answer::Refused(_));
    if let (Some(caller), true) = (request.caller(), is_new) {
        let open = seen.open[task];
        let holds =
            open.is_some_and(|(lease, until)| lease == caller.lease && !until.has_come(now));
        broken.require(RunProperty::Authority, holds);
    }
    broken
}

impl Seen {
    /// Counts what the events say.
    pub(super) fn note(&mut self, task: usize, events: &[Event], now: Time) {
        for event in events {
            match event {
                Event::Submitted(_) => self.births[task] += 1,
                Event::Granted { lease, expires_at, .. } => {
                    self.open[task] = Some((*lease, *expires_at));
                }
                Event::Renewed { expires_at, .. } | Event::Extended { expires_at, .. } => {
                    let renew = |(_, until): &mut (_, Time)| *until = (*until).max(*expires_at);
                    self.open[task].iter_mut().for_each(renew);
                }
                Event::AttemptClosed { .. } => self.open[task] = None,
                Event::Run(event) => self.note_run(task, event),
                Event::Started
                | Event::Stalled { .. }
                | Event::CancelRequested { .. }
                | Event::CancelSignalled
                | Event::Ended(_) => {}
            }
        }
        debug_assert!(now.millis() >= 0, "time is counted from the epoch");
    }

    fn note_run(&mut self, task: usize, event: &RunEvent) {
        match event {
            RunEvent::Spawned { .. } => self.births[task] += 1,
            RunEvent::ChildSpawned(child) => count(&mut self.spawned, child.key.clone()),
            RunEvent::SignalReceived(signal) => {
                count(&mut self.signals, signal.key.clone().unwrap_or_else(|| signal.name.clone()));
            }
            RunEvent::Checkpointed(checkpoint) if task == ROOT => match &checkpoint.recorded {
                Recorded::Step(_) => count(&mut self.checkpoints, checkpoint.key.clone()),
                Recorded::Child(_) => count(&mut self.ended, checkpoint.key.clone()),
                Recorded::Wait(wait) => {
                    count(&mut self.checkpoints, checkpoint.key.clone());
                    wait.taken.iter().for_each(|taken| count(&mut self.taken, taken.signal));
                }
            },
            _ => {}
        }
    }
}

fn count<K: Ord>(counts: &mut std::collections::BTreeMap<K, u8>, key: K) {
    *counts.entry(key).or_default() += 1;
}

/// The properties that the state breaks.
pub(super) fn judge_state(world: &RunWorld) -> RunBroken {
    let mut broken = RunBroken::default();
    let seen = &world.seen;
    broken.require(RunProperty::OneResult, seen.checkpoints.values().all(|count| *count == 1));
    let is_single = seen.spawned.values().chain(&seen.births).all(|count| *count <= 1);
    broken.require(RunProperty::OneChild, is_single);
    broken.require(RunProperty::EachMessageOnce, counts_are_right(world));
    if let Subject::Live(root) = &world.tasks[ROOT].subject {
        let is_lost = open_wait(root).is_some_and(|wait| is_satisfied(wait, seen));
        broken.require(RunProperty::NoLostWakeUp, !is_lost);
    }
    broken.require(RunProperty::ChildrenFirst, children_end_first(world));
    broken
}

/// Each end and each signal counted once, and the live children are those spawned and not ended.
fn counts_are_right(world: &RunWorld) -> bool {
    let seen = &world.seen;
    let once = seen.ended.values().chain(seen.signals.values()).chain(seen.taken.values());
    let live = seen.spawned.len() - seen.ended.len();
    let run = match &world.tasks[ROOT].subject {
        Subject::Absent => None,
        Subject::Live(task) => task.run.as_ref(),
        Subject::Done(done) => done.run.as_ref(),
    };
    let (counted, pending) =
        run.map_or((0, 0), |run| (run.live_children as usize, run.signals.pending as usize));
    once.into_iter().all(|count| *count == 1)
        && counted == live
        && pending == seen.signals.len() - seen.taken.len()
        && nothing_is_lost(world)
}

/// A child that has ended is recorded as ended, or its message is saved.
fn nothing_is_lost(world: &RunWorld) -> bool {
    let is_saved =
        |at: usize| world.saved.iter().any(|message| super::world::place(message.from) == at);
    world.tasks.iter().enumerate().skip(1).all(|(at, row)| {
        let has_ended = matches!(row.subject, Subject::Done(_));
        !has_ended || is_saved(at) || world.seen.ended.contains_key(&Name::from(CHILD_KEYS[at - 1]))
    })
}

fn children_end_first(world: &RunWorld) -> bool {
    let is_done = matches!(world.tasks[ROOT].subject, Subject::Done(_));
    let is_live = |row: &super::world::RunRow| matches!(row.subject, Subject::Live(_));
    !is_done || !world.tasks[1..].iter().any(is_live)
}

pub(super) fn open_wait(task: &Task) -> Option<&Wait> {
    match &task.phase {
        Phase::Waiting(waiting) => match &**waiting {
            Waiting::For(wait) => Some(wait),
            _ => None,
        },
        _ => None,
    }
}

/// Whether what the wait is for has come, times apart: those need a sweep, which the space looks ahead to.
fn is_satisfied(wait: &Wait, seen: &Seen) -> bool {
    let pending = seen.signals.len() - seen.taken.len();
    let has_come = |event: &AwaitedEvent| match event {
        AwaitedEvent::Time(_) => false,
        AwaitedEvent::Signal(_) => pending > 0,
        AwaitedEvent::Child(key) => seen.ended.contains_key(key),
    };
    let mut items = wait.items.iter().map(|item| has_come(&item.event));
    match wait.mode {
        WaitMode::All => items.all(|come| come),
        WaitMode::Any => items.any(|come| come),
    }
}

/// Whether a sweep at the time of the wait's timer makes the task ready.
pub(super) fn is_woken_by(events: &[Event]) -> bool {
    events.iter().any(|event| match event {
        Event::Run(event) => matches!(&**event, RunEvent::Checkpointed(checkpoint)
            if matches!(checkpoint.recorded, Recorded::Wait(_))),
        Event::Ended(_) => true,
        _ => false,
    })
}

/// The goals that one decision reaches.
pub(super) fn goals(
    before: &Subject,
    request: &Request,
    verdict: &Verdict,
    after: &Subject,
) -> Vec<&'static str> {
    let mut reached = Vec::new();
    for event in &verdict.events {
        reached.extend(goal_of_event(before, request, event));
    }
    reached.extend(goal_of_answer(request, verdict));
    let was_closing = before.live().is_some_and(|task| task.closing().is_some());
    if was_closing && matches!(after, Subject::Done(_)) {
        reached.push("closing ends");
    }
    let was_waiting = before.live().is_some_and(|task| open_wait(task).is_some());
    if was_waiting && matches!(request, Request::Cancel(_)) {
        reached.push("cancelled while waiting");
    }
    reached
}

fn goal_of_event(before: &Subject, request: &Request, event: &Event) -> Option<&'static str> {
    let is_waiting = before.live().is_some_and(|task| open_wait(task).is_some());
    match event {
        Event::Granted { .. } => {
            let lost = before.live().is_some_and(|task| task.lost > 0 && task.run.is_some());
            lost.then_some("a lost worker's task is resumed")
        }
        Event::AttemptClosed { next: verdict::Next::Wait(waiting), .. } => match &**waiting {
            Waiting::For(_) => Some("suspended"),
            Waiting::Closing(_) => Some("closing"),
            _ => None,
        },
        Event::Run(event) => match &**event {
            RunEvent::Checkpointed(checkpoint) => match &checkpoint.recorded {
                Recorded::Step(_) => Some("a step is recorded"),
                Recorded::Wait(_) if !is_waiting => Some("satisfied at once"),
                Recorded::Wait(_) => Some(woken_by(request)),
                Recorded::Child(_) => None,
            },
            RunEvent::Closing(..) => Some("closing"),
            RunEvent::Hastened => Some("hastened"),
            _ => None,
        },
        _ => None,
    }
}

fn woken_by(request: &Request) -> &'static str {
    match request {
        Request::Sweep => "woken by a timer",
        Request::Run(request) if matches!(**request, RunRequest::Signal(_)) => "woken by a signal",
        _ => "woken by a child",
    }
}

fn goal_of_answer(request: &Request, verdict: &Verdict) -> Option<&'static str> {
    let Request::Run(request) = request else { return None };
    match (&**request, &verdict.answer) {
        (RunRequest::Message(_), Answer::Nothing) => Some("a message changes nothing"),
        (_, Answer::Refused(refusal)) => match refusal.name() {
            "conflicting_step" => Some("a conflicting step is refused"),
            "message_early" => Some("a message comes too early"),
            "task_expired" | "attempt_mismatch" => Some("a stale call is refused"),
            _ => None,
        },
        (RunRequest::Signal(_), _) if verdict.events.is_empty() => Some("a signal is recognised"),
        (RunRequest::Checkpoint(call), Answer::Run(answer)) => match &**answer {
            verdict::RunAnswer::Checkpointed(answer) if answer.state == State::Running => {
                let is_replayed = |key: &str| answer.replayed_keys.contains(&Name::from(key));
                let has_step = call.steps.iter().any(|step| is_replayed(step.key.as_str()));
                let has_wait = is_replayed("w1") || is_replayed("w2");
                let step = has_step.then_some("a step is replayed");
                step.or(has_wait.then_some("a wait is replayed"))
            }
            _ => None,
        },
        _ => None,
    }
}
