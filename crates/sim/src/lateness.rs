//! Checks that time-driven changes happen on time where nothing fails and calls are rare: a lease expiry, a deadline,
//! the end of a grace, a due retry, the end of a sleep, the lease of a run that was woken. A missing wake-up shows up
//! here; elsewhere the next call hides it.

use store::Entry;
use verdict::event::Submitted;
use verdict::run::{RunEvent, Waiting};
use verdict::{AttemptOutcome, ClosedAttempt, Event, Next, Policy, Reason, Request, Time};

use crate::actor_context::ActorContext;

/// How late a change may be: one poll of the peers' changes plus the latency of a worker's poll.
const LATE_MAX_MS: u64 = 1_500;

/// What the history has shown of a task so far.
#[derive(Default)]
struct TaskTimeline {
    policy: Option<Policy>,
    /// The instant from which it may be leased.
    due: Option<Time>,
    /// When its wait ends by time alone.
    timer: Option<Time>,
    signalled_at: Option<Time>,
    decided_at: Option<Time>,
}

/// Checks every change that time alone caused.
pub(crate) fn check(ctx: &ActorContext, id: &str, history: &[Entry]) {
    let mut timeline = TaskTimeline::default();
    for entry in history {
        if let Some(instant) = timeline.instant(entry) {
            // A task cannot change before it exists.
            let instant = timeline.decided_at.map_or(instant, |decided_at| instant.max(decided_at));
            let late_ms = entry.at.since(instant).millis();
            if late_ms > LATE_MAX_MS {
                let what = entry.events.last().map_or("nothing", Event::name);
                ctx.log.violate("late", format_args!("{id} was {what} {late_ms} ms late"));
            }
        }
        if entry.events.iter().any(|event| matches!(event, Event::Extended { .. })) {
            let told = format_args!("{id} was extended without a stall");
            ctx.log.violate("A8", told);
        }
        timeline.follow(entry);
    }
}

impl TaskTimeline {
    /// When an entry was due, if time alone caused it.
    fn instant(&self, entry: &Entry) -> Option<Time> {
        match entry.request {
            Request::Grant(_) => self.due,
            Request::Sweep => entry.events.iter().find_map(|event| match event {
                Event::AttemptClosed { closed, .. } => self.closed_at(entry, closed),
                Event::Ended(_) => self.policy.as_ref()?.deadline,
                Event::Run(event) => self.run_instant(event),
                _ => None,
            }),
            _ => None,
        }
    }

    fn run_instant(&self, event: &RunEvent) -> Option<Time> {
        match event {
            RunEvent::Checkpointed(_) => self.timer,
            // The children of a task that ends are cancelled without a pause.
            RunEvent::ChildrenCancelled { .. } => self.decided_at,
            _ => None,
        }
    }

    fn closed_at(&self, entry: &Entry, closed: &ClosedAttempt) -> Option<Time> {
        let expires_at = entry.loaded?.expires_at;
        match (closed.outcome, closed.reason) {
            (AttemptOutcome::Revoked, Some(Reason::CancelTimeout)) => {
                let grace = self.policy.as_ref()?.cancel_grace;
                Some(self.signalled_at?.plus(grace))
            }
            _ => expires_at,
        }
    }

    fn follow(&mut self, entry: &Entry) {
        self.decided_at = Some(entry.at);
        for event in &entry.events {
            match event {
                Event::Submitted(submitted) => self.follow_submission(submitted),
                Event::CancelSignalled => self.signalled_at = Some(entry.at),
                Event::AttemptClosed { next: Next::Retry { due }, .. } => self.due = Some(*due),
                Event::AttemptClosed { next: Next::Wait(waiting), .. } => {
                    self.follow_wait(waiting);
                }
                Event::Run(event) => self.follow_run(event, entry.at),
                _ => {}
            }
        }
    }

    fn follow_submission(&mut self, submitted: &Submitted) {
        self.policy = Some(submitted.policy.clone());
        self.due = Some(submitted.due);
    }

    fn follow_wait(&mut self, waiting: &Waiting) {
        self.due = waiting.claimable_at();
        self.timer = match waiting {
            Waiting::For(wait) => wait.timer(),
            Waiting::Ready { .. }
            | Waiting::Diverged(_)
            | Waiting::Closing(_)
            | Waiting::Blocked { .. }
            | Waiting::Steps => None,
        };
    }

    fn follow_run(&mut self, event: &RunEvent, at: Time) {
        match event {
            RunEvent::Spawned { submitted, .. } => self.follow_submission(submitted),
            // While a task waits, only what it waited for leaves a checkpoint that lets a worker have it. The end of a
            // child that it does not wait for leaves one too, and no worker gets the task then.
            RunEvent::Checkpointed(_) => self.due = Some(at),
            _ => {}
        }
    }
}
