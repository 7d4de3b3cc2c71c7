//! What people do in a simulation.

use super::script::{Condition, MoveTo, NewArtifact};
use super::world::{Item, World};
use crate::deployment::{ArtifactRef, Event};
use crate::proposal::{ArtifactChange, Author, Change};
use crate::work::Work;

const PERSON: &str = "person";

impl World<'_> {
    /// Steps with a condition that holds for the first time.
    pub(super) fn arm_steps(&mut self) {
        let script = self.script;
        for (index, step) in script.steps.iter().enumerate() {
            let holds = step.once.as_ref().is_some_and(|condition| self.holds_now(condition));
            if holds && !self.armed[index] {
                self.armed[index] = true;
                self.schedule(self.now + step.at.ms(), Item::Step(index));
            }
        }
    }

    fn holds_now(&self, condition: &Condition) -> bool {
        let name = ArtifactRef { kind: condition.artifact.clone(), id: condition.id.clone() };
        self.deployment.artifacts.get(&name).is_some_and(|artifact| {
            condition.status.as_ref().is_none_or(|status| *status == artifact.status)
                && (!condition.passed || artifact.passed.is_some())
        })
    }

    pub(super) fn step(&mut self, index: usize) {
        let script = self.script;
        let step = &script.steps[index];
        if let Some(create) = &step.create {
            self.create(create);
        }
        if let Some(move_to) = &step.move_to {
            self.move_artifact(move_to);
        }
        if let Some(request) = &step.request {
            let event = Event::about_deployment(&request.event, &request.key, self.now);
            self.commit(PERSON, Author::Person, &[Change::Emit(event)]);
        }
    }

    fn create(&mut self, create: &NewArtifact) {
        let fields = create.fields.clone();
        let checked = self.topology.check_fields(&create.artifact, fields, &mut Work::of_check());
        // The script was checked before it started.
        let Ok(fields) = checked else { return };
        for number in 1..=create.count {
            let id = if create.count == 1 {
                create.id.clone()
            } else {
                format!("{}-{number}", create.id)
            };
            let artifact = ArtifactRef { kind: create.artifact.clone(), id };
            let fields = fields.clone();
            self.commit(PERSON, Author::Person, &[Change::Create { artifact, fields }]);
        }
    }

    fn move_artifact(&mut self, move_to: &MoveTo) {
        let name = ArtifactRef { kind: move_to.artifact.clone(), id: move_to.id.clone() };
        let Some(artifact) = self.deployment.artifacts.get(&name) else {
            self.refused.push(format!("{PERSON}: {name} does not exist"));
            return;
        };
        let mut change = ArtifactChange::of(artifact);
        change.to = Some(move_to.to.clone());
        self.commit(PERSON, Author::Person, &[Change::Artifact(change)]);
    }
}
