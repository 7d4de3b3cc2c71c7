//! Where nothing fails and hardly anybody calls, whatever time does is done in time: a lease that runs out, a deadline,
//! a grace that is over, a retry that is due. A wake-up that never comes is seen here; elsewhere the next caller hides it.

use store::Entry;
use verdict::{AttemptOutcome, ClosedAttempt, Event, Next, Policy, Reason, Request, Time};

use crate::actor_context::ActorContext;

/// How late a thing may be: a look at what others did, and the way of a poll.
const LATE_MAX_MS: u64 = 1_500;

/// What is known of a task on the way through its history.
#[derive(Default)]
struct TaskTimeline {
    policy: Option<Policy>,
    /// From when on it may be leased.
    due: Option<Time>,
    signalled_at: Option<Time>,
    decided_at: Option<Time>,
}

/// Looks at everything that time alone brought about.
pub(crate) fn check(ctx: &ActorContext, id: &str, history: &[Entry]) {
    let mut timeline = TaskTimeline::default();
    for entry in history {
        if let Some(instant) = timeline.instant(entry) {
            // Nothing can be done about a task before it is there.
            let instant = timeline.decided_at.map_or(instant, |decided_at| instant.max(decided_at));
            let late_ms = entry.at.since(instant).millis();
            if late_ms > LATE_MAX_MS {
                let what = entry.events.last().map_or("nothing", Event::name);
                ctx.log.violate("late", format_args!("{id} was {what} {late_ms} ms late"));
            }
        }
        if entry.events.iter().any(|event| matches!(event, Event::Extended { .. })) {
            let told = format_args!("{id} got time back although somebody listened");
            ctx.log.violate("A8", told);
        }
        timeline.follow(entry);
    }
}

impl TaskTimeline {
    /// When an entry should have come to be, if time alone made it.
    fn instant(&self, entry: &Entry) -> Option<Time> {
        match entry.request {
            Request::Grant(_) => self.due,
            Request::Sweep => entry.events.iter().find_map(|event| match event {
                Event::AttemptClosed { closed, .. } => self.closed_at(entry, closed),
                Event::Ended(_) => self.policy.as_ref()?.deadline,
                _ => None,
            }),
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
                Event::Submitted(submitted) => {
                    self.policy = Some(submitted.policy.clone());
                    self.due = Some(submitted.due);
                }
                Event::CancelSignalled => self.signalled_at = Some(entry.at),
                Event::AttemptClosed { next: Next::Retry { due }, .. } => self.due = Some(*due),
                _ => {}
            }
        }
    }
}
