//! A step that asks people: its task waits for an approval instead of a worker, and ends with what they decide.
//!
//! Such a task has an ordinary wait and an ordinary approval, both under the key of the step, so people find and decide it
//! like any other. It differs in two ways: nobody leased it, so the keys that are barred from deciding are those of the stages or
//! steps before it ([`super::StagesState::done_by`], [`super::StepTerms::done_by`]); and the decision ends the step instead of
//! waking a worker. Whether it waits follows from its place in the plan: [`phase`] is part of the fold, and the decision that
//! lets a task enter such a step opens the approval.

use crate::approval::{self, Terms};
use crate::id::{Digest, Name};
use crate::run::limits::WAIT_DEFAULT;
use crate::run::{Awaited, AwaitedEvent, Wait, WaitMode, Waiting};
use crate::task::{Phase, Task};
use crate::time::Time;

use super::state::PlanState;

/// The phase of a task that asks from this moment on.
pub(crate) fn phase(key: &Name, terms: &Terms, from: Time) -> Phase {
    let event = AwaitedEvent::Signal(approval::signal_name(key));
    let item = Awaited { key: key.clone(), event };
    let longest = terms.expires_in.map_or(WAIT_DEFAULT, |span| span.max(WAIT_DEFAULT));
    Phase::Waiting(Box::new(Waiting::For(Wait {
        key: key.clone(),
        digest: Digest::of(&[b"asking", key.as_str().as_bytes()]),
        mode: WaitMode::All,
        items: [item].into_iter().collect(),
        missing: 1,
        gives_up_at: from.plus(longest).max(terms.expires_at.unwrap_or(from)),
    })))
}

impl Task {
    /// The key and the terms of the step that the task is in, if it asks people.
    pub fn asking(&self) -> Option<(&Name, &Terms)> {
        match self.plan()? {
            PlanState::Stages(stages) => {
                let stage = stages.stage();
                Some((&stage.key, stage.asks.as_deref()?))
            }
            PlanState::Step(terms) => {
                let (_, key) = self.run.as_ref()?.lineage.as_ref()?.parent()?;
                Some((key, terms.asks.as_deref()?))
            }
            PlanState::Root(_) => None,
        }
    }
}
