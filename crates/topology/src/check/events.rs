//! Events: what makes each, who emits it and who processes it.

use super::Checker;
use crate::declaration::{EventSource, Logic, Trigger};

impl Checker<'_> {
    pub(super) fn events(&mut self) {
        for (name, source) in &self.declared.events {
            let path = format!("events.{name}");
            match source.on {
                Trigger::Transition => self.on_transition(&path, name, source),
                Trigger::Schedule => self.on_schedule(&path, source),
                Trigger::Request => self.on_request(&path, source),
            }
            self.emitted(&path, name, source);
            self.processed(&path, name);
        }
    }

    fn on_transition(&mut self, path: &str, name: &str, source: &EventSource) {
        self.require(
            source.every.is_none(),
            format!("{path}.every"),
            "`every` belongs to `on: schedule`",
        );
        let (Some(artifact), Some(status)) = (&source.artifact, &source.status) else {
            return self.find(path, "`on: transition` needs `artifact` and `status`");
        };
        let declared = self.declared;
        if !self.known(&format!("{path}.artifact"), "artifact type", artifact, &declared.artifacts)
            || !self.status(&format!("{path}.status"), artifact, status)
        {
            return;
        }
        let first = declared
            .events
            .iter()
            .find(|(_, other)| other.artifact == source.artifact && other.status == source.status);
        if let Some((first, _)) = first.filter(|(first, _)| *first != name) {
            let message = format!(
                "`{first}` already comes from {artifact} in {status}; one event per status"
            );
            self.find(path, message);
        }
    }

    fn on_schedule(&mut self, path: &str, source: &EventSource) {
        let every = source.every.is_some_and(|every| every.ms() > 0);
        self.require(every, path, "`on: schedule` needs `every`, a length of time above zero");
        self.no_artifact(path, source);
    }

    fn on_request(&mut self, path: &str, source: &EventSource) {
        self.require(
            source.every.is_none(),
            format!("{path}.every"),
            "`every` belongs to `on: schedule`",
        );
        self.no_artifact(path, source);
    }

    fn no_artifact(&mut self, path: &str, source: &EventSource) {
        let none = source.artifact.is_none() && source.status.is_none();
        self.require(none, path, "`artifact` and `status` belong to `on: transition`");
    }

    fn emitted(&mut self, path: &str, name: &str, source: &EventSource) {
        let emitters = self.declared.roles.values().filter(|role| {
            role.uses == Logic::Readiness && role.emits.iter().any(|event| event == name)
        });
        let count = emitters.count();
        match source.on {
            Trigger::Request => {
                self.require(count == 0, path, "an event on request is not emitted by a role");
            }
            Trigger::Transition | Trigger::Schedule => {
                let message =
                    format!("exactly one readiness role must emit `{name}`, and {count} do");
                self.require(count == 1, path, message);
            }
        }
    }

    fn processed(&mut self, path: &str, name: &str) {
        let schedulers =
            self.declared.roles.values().filter(|role| {
                role.uses == Logic::Scheduler && role.event.as_deref() == Some(name)
            });
        let count = schedulers.count();
        let message = format!("exactly one scheduler must process `{name}`, and {count} do");
        self.require(count == 1, path, message);
    }
}
