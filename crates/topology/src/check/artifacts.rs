//! Statuses and transitions: everything named, everything reachable, one authority for each change.

use std::collections::BTreeSet;

use super::{Checker, ENTRIES_MAX};
use crate::declaration::{ArtifactType, Logic};

/// Who may make a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By<'t> {
    Approval,
    Person,
    Role(&'t str),
}

impl<'t> By<'t> {
    pub(crate) fn parse(text: &'t str) -> Option<Self> {
        match text {
            "approval" => Some(Self::Approval),
            "person" => Some(Self::Person),
            other => other.strip_prefix("role:").map(Self::Role),
        }
    }
}

impl Checker<'_> {
    pub(super) fn artifacts(&mut self) {
        for (name, artifact) in &self.declared.artifacts {
            let path = format!("artifacts.{name}");
            self.statuses(&path, name, artifact);
            self.transitions(&path, name, artifact);
            self.reachable(&path, artifact);
            self.reviews_end(&path, artifact);
            if let Some(schema) = &artifact.schema {
                self.schema(format!("{path}.schema"), schema);
            }
        }
    }

    fn statuses(&mut self, path: &str, name: &str, artifact: &ArtifactType) {
        let count = artifact.statuses.len();
        let message = format!("give 1 to {ENTRIES_MAX} statuses");
        self.require((1..=ENTRIES_MAX).contains(&count), format!("{path}.statuses"), message);
        let mut seen = BTreeSet::new();
        for (place, status) in artifact.statuses.iter().enumerate() {
            let path = format!("{path}.statuses.{place}");
            self.name(&path, status);
            self.require(seen.insert(status), path, format!("`{status}` stands here twice"));
        }
        self.status(&format!("{path}.initial"), name, &artifact.initial);
        for (place, status) in artifact.final_statuses.iter().enumerate() {
            self.status(&format!("{path}.final.{place}"), name, status);
        }
    }

    fn transitions(&mut self, path: &str, name: &str, artifact: &ArtifactType) {
        let mut seen = BTreeSet::new();
        for (place, transition) in artifact.transitions.iter().enumerate() {
            let path = format!("{path}.transitions.{place}");
            let (from, to) = (&transition.from, &transition.to);
            let known = self.status(&format!("{path}.from"), name, from)
                & self.status(&format!("{path}.to"), name, to);
            if known {
                let ends = artifact.final_statuses.contains(from);
                let message = format!("`{from}` is final, so nothing leaves it");
                self.require(!ends, format!("{path}.from"), message);
            }
            let message = format!("{from} → {to} stands here twice; one authority makes it");
            self.require(seen.insert((from, to)), path.clone(), message);
            self.authority(&format!("{path}.by"), &transition.by, name, from, to);
        }
    }

    fn authority(&mut self, path: &str, by: &str, artifact: &str, from: &str, to: &str) {
        let role = match By::parse(by) {
            Some(By::Role(role)) => role,
            Some(By::Approval | By::Person) => return,
            None => {
                return self
                    .find(path, format!("`{by}` is no authority: approval, person or role:NAME"));
            }
        };
        let declared = self.declared;
        if !self.known(path, "role", role, &declared.roles) {
            return;
        }
        let makes = self.moves_of(role);
        let message = format!("impossible: role `{role}` never makes {from} → {to}");
        let is = |it: &Move<'_>| {
            it.artifact == artifact
                && it.from.is_none_or(|it| it == from)
                && it.to.is_none_or(|it| it == to)
        };
        self.require(makes.iter().any(is), path, message);
    }

    /// The status changes that a role makes by its declaration.
    fn moves_of(&self, role: &str) -> Vec<Move<'_>> {
        let declared = self.declared;
        let Some(role) = declared.roles.get(role) else {
            return Vec::new();
        };
        match role.uses {
            Logic::Review => {
                let artifact = role.artifact.as_deref();
                artifact
                    .map(|artifact| Move { artifact, from: None, to: None })
                    .into_iter()
                    .collect()
            }
            Logic::Scheduler => {
                let source = role.event.as_ref().and_then(|event| declared.events.get(event));
                let from = source.and_then(|it| it.artifact.as_deref().zip(it.status.as_deref()));
                let targets = [role.to.as_deref(), role.blocked.as_deref()];
                from.map(|(artifact, from)| {
                    let made = |to| Move { artifact, from: Some(from), to: Some(to) };
                    targets.into_iter().flatten().map(made).collect()
                })
                .unwrap_or_default()
            }
            Logic::Gate => role.work_orders.iter().flat_map(|it| self.moves_of_gate(it)).collect(),
            Logic::Readiness | Logic::Runner | Logic::DeadlineMonitor => Vec::new(),
        }
    }

    fn moves_of_gate(&self, template: &str) -> Vec<Move<'_>> {
        let declared = self.declared;
        let gate = declared.work_orders.get(template).and_then(|it| declared.gates.get(&it.gate));
        let held = self.held_while_executing(template);
        let (Some(gate), Some((artifact, from))) = (gate, held) else {
            return Vec::new();
        };
        let passes = gate.pass.to.as_deref().filter(|_| gate.pass.auto_confirm);
        [passes, gate.fail.to.as_deref()]
            .into_iter()
            .flatten()
            .map(|to| Move { artifact, from: Some(from), to: Some(to) })
            .collect()
    }

    /// The artifact type that work orders of a template are about, and its status while they execute.
    pub(super) fn held_while_executing(&self, template: &str) -> Option<(&str, &str)> {
        let declared = self.declared;
        let scheduler = declared.roles.values().find(|role| {
            role.uses == Logic::Scheduler && role.work_order.as_deref() == Some(template)
        })?;
        let source = declared.events.get(scheduler.event.as_ref()?)?;
        let status = scheduler.to.as_deref().or(source.status.as_deref())?;
        Some((source.artifact.as_deref()?, status))
    }

    /// Reviews look at fields, which no role changes: what they move in a circle would be moved for ever.
    fn reviews_end(&mut self, path: &str, artifact: &ArtifactType) {
        let declared = self.declared;
        let is_review = |by: &str| {
            let role = By::parse(by).and_then(|by| match by {
                By::Role(role) => declared.roles.get(role),
                By::Approval | By::Person => None,
            });
            role.is_some_and(|role| role.uses == Logic::Review)
        };
        let made: Vec<_> = artifact.transitions.iter().filter(|it| is_review(&it.by)).collect();
        for (place, transition) in artifact.transitions.iter().enumerate() {
            if !is_review(&transition.by) {
                continue;
            }
            let mut reached = BTreeSet::from([transition.to.as_str()]);
            let mut found = 0;
            while found < reached.len() {
                found = reached.len();
                let next = made.iter().filter(|it| reached.contains(it.from.as_str()));
                let next: Vec<&str> = next.map(|it| it.to.as_str()).collect();
                reached.extend(next);
            }
            let path = format!("{path}.transitions.{place}");
            let message = format!(
                "reviews lead from `{0}` back to `{0}`, so nothing would ever stop them; let a person make one of these changes",
                transition.from
            );
            self.require(!reached.contains(transition.from.as_str()), path, message);
        }
    }

    /// Every status can be reached, and every status that is not final can be left.
    fn reachable(&mut self, path: &str, artifact: &ArtifactType) {
        let mut reached = BTreeSet::from([artifact.initial.as_str()]);
        let mut found = 0;
        while found < reached.len() {
            found = reached.len();
            let next = artifact.transitions.iter().filter(|it| reached.contains(it.from.as_str()));
            let next: Vec<&str> = next.map(|it| it.to.as_str()).collect();
            reached.extend(next);
        }
        for (place, status) in artifact.statuses.iter().enumerate() {
            let path = format!("{path}.statuses.{place}");
            let message = format!("no transition leads from `{}` to `{status}`", artifact.initial);
            self.require(reached.contains(status.as_str()), path.clone(), message);
            let left = artifact.transitions.iter().any(|it| it.from == *status && it.to != *status);
            let final_status = artifact.final_statuses.contains(status);
            let message =
                format!("nothing leaves `{status}`; add a transition or list it under `final`");
            self.require(left || final_status, path, message);
        }
    }
}

/// A status change that a role makes; `None` means any.
struct Move<'d> {
    artifact: &'d str,
    from: Option<&'d str>,
    to: Option<&'d str>,
}
