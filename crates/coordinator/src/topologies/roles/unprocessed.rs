//! Events whose task ended otherwise than by its role: lost too often, given up, cancelled. Each leaves a pause state (A0-11).
//!
//! The end itself leaves a note, in its own commit ([`crate::topologies::rows::note_of_end`]), so that people learn of it however it
//! came about, even if the coordinator dies right after it. What the pause state says is decided by [`topology::roles::unprocessed`].

use store::{Browse, ObjectFilter, StoredTask, TaskKey};
use topology::roles::unprocessed::{self, Ended};
use verdict::topology::deployment_of_events;
use verdict::{Done, Name, Object, ObjectType, Scope, State, Subject, TaskId};

use super::{Interrupted, PAGE, Roles};
use crate::item::{Item, TopologyCall};
use crate::topologies::rows::millis;
use crate::topologies::submissions::EventInput;

impl Roles {
    /// Makes the pause states of all notes.
    pub(super) async fn tell_unprocessed(&self) -> Result<(), Interrupted> {
        let mut filter = ObjectFilter {
            object_type: Some(ObjectType::UnprocessedEvent),
            is_pending: true,
            limit: PAGE,
            ..ObjectFilter::default()
        };
        loop {
            let page = self.coordinator.browse().objects(&filter).await?;
            let mut items = Vec::new();
            for note in &page {
                items.extend(self.told_unprocessed(note).await?);
            }
            self.ask(items).await?;
            filter.after = page.last().map(|last| last.key.clone());
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// What one note asks for; `None` if its run is not stored any more.
    async fn told_unprocessed(&self, note: &Object) -> Result<Option<Item>, Interrupted> {
        let scope = &note.key.scope;
        let Some(task) = TaskId::parse(note.key.id.as_str()) else { return Ok(None) };
        let key = TaskKey { scope: scope.clone(), id: task };
        let found = self.coordinator.browse().find(&key).await?;
        let Some(StoredTask { subject: Subject::Done(done), spec }) = found else {
            return Ok(None);
        };
        let input = serde_json::from_str::<EventInput>(spec.input.as_str()).ok();
        let Some((deployment, generation)) = self.told_of_end(scope, &done, input.as_ref()) else {
            return Ok(None);
        };
        let (run, why) = (task.run_name(), why(&done));
        let ended = Ended {
            run: &run,
            is_cancelled: done.end.state == State::Cancelled,
            why: &why,
            at: millis(done.completed_at),
        };
        let now = millis(self.coordinator.now());
        let pause = unprocessed::pause(input.as_ref().map(|it| &it.event), &ended, now);
        let call = TopologyCall::Unprocessed { task, pause: Box::new(pause) };
        Ok(Some(Item::topology(scope, &deployment, generation, call)))
    }

    /// The deployment that is told: the one in the input, or that of the queue if the input cannot be read.
    fn told_of_end(
        &self,
        scope: &Scope,
        done: &Done,
        input: Option<&EventInput>,
    ) -> Option<(Name, u32)> {
        if let Some(input) = input {
            return Some((input.deployment.as_str().into(), input.generation));
        }
        let name = Name::from(deployment_of_events(&done.queue)?);
        let known = self.coordinator.topologies().snapshot();
        let generation = known.get(scope).and_then(|it| it.get(&name)).map(|row| row.generation);
        Some((name, generation.unwrap_or_default()))
    }
}

/// Why the task ended, in words.
fn why(done: &Done) -> String {
    let run = done.id.run_name();
    match (&done.end.fault, done.end.reason) {
        (Some(fault), _) if !fault.message.as_str().is_empty() => fault.message.to_string(),
        (_, Some(reason)) => format!("its run {run} ended with {}", reason.name()),
        (_, None) => format!("its run {run} ended as {}", done.end.state.name()),
    }
}
