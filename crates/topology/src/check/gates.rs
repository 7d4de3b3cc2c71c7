//! Gates and templates: every check can be decided, every gate ends, and every result leads somewhere.

use std::collections::BTreeSet;

use super::artifacts::By;
use super::{Checker, ENTRIES_MAX};
use crate::declaration::{Check, Gate, Logic, Outcome, WorkOrderTemplate};
use crate::predicate::{DEPTH_MAX, Operator, Predicate};

impl Checker<'_> {
    pub(super) fn gates(&mut self) {
        for (name, gate) in &self.declared.gates {
            let path = format!("gates.{name}");
            let count = (1..=ENTRIES_MAX).contains(&gate.checks.len());
            self.require(
                count,
                format!("{path}.checks"),
                format!("give 1 to {ENTRIES_MAX} checks"),
            );
            let mut seen = BTreeSet::new();
            for (place, check) in gate.checks.iter().enumerate() {
                let path = format!("{path}.checks.{place}");
                let message = format!("`{}` stands here twice", check.name);
                self.require(seen.insert(&check.name), path.clone(), message);
                self.name(&format!("{path}.name"), &check.name);
                self.one_check(&path, check);
            }
            self.outcome(&format!("{path}.pass"), &gate.pass);
            self.outcome(&format!("{path}.fail"), &gate.fail);
            let plain = gate.fail.auto_confirm
                && gate.fail.creates.is_none()
                && gate.fail.actions_from.is_none();
            let message = "`autoConfirm`, `creates` and `actionsFrom` belong to `pass`";
            self.require(plain, format!("{path}.fail"), message);
        }
    }

    fn one_check(&mut self, path: &str, check: &Check) {
        let ways = [
            check.require.is_some(),
            check.schema.is_some(),
            check.judge.is_some(),
            check.people.is_some(),
        ];
        let count = ways.into_iter().filter(|way| *way).count();
        let message = "give exactly one of `require`, `schema`, `judge` and `people`";
        self.require(count == 1, path, message);
        if let Some(predicate) = &check.require {
            self.predicate(&format!("{path}.require"), predicate, DEPTH_MAX);
        }
        if let Some(schema) = &check.schema {
            self.schema(format!("{path}.schema"), schema);
        }
        let endless = "a gate must end: give `within` a length of time above zero";
        if let Some(judge) = &check.judge {
            let path = format!("{path}.judge");
            self.name_outside(&format!("{path}.kind"), &judge.kind);
            self.name_outside(&format!("{path}.queue"), &judge.queue);
            self.require(judge.within.ms() > 0, format!("{path}.within"), endless);
            self.predicate(&format!("{path}.pass"), &judge.pass, DEPTH_MAX);
        }
        if let Some(people) = &check.people {
            let path = format!("{path}.people");
            self.require(people.within.ms() > 0, format!("{path}.within"), endless);
            self.require(!people.ask.trim().is_empty(), format!("{path}.ask"), "ask a question");
        }
    }

    pub(super) fn predicate(&mut self, path: &str, predicate: &Predicate, depth: usize) {
        let Predicate { path: member, op, value, of, all, any, not } = predicate;
        if depth == 0 {
            return self
                .find(path, format!("at most {DEPTH_MAX} levels of `all`, `any` and `not`"));
        }
        let groups =
            usize::from(all.is_some()) + usize::from(any.is_some()) + usize::from(not.is_some());
        let clause = member.is_some() || op.is_some() || value.is_some() || of.is_some();
        if groups > 1 || (groups == 1) == clause {
            return self.find(
                path,
                "give either `path` with `op`, or exactly one of `all`, `any` and `not`",
            );
        }
        for (word, parts) in [("all", all), ("any", any)] {
            let parts = parts.as_deref();
            let filled = parts.is_none_or(|parts| (1..=ENTRIES_MAX).contains(&parts.len()));
            self.require(filled, path, format!("`{word}` needs 1 to {ENTRIES_MAX} conditions"));
            for (place, part) in parts.unwrap_or_default().iter().enumerate() {
                self.predicate(&format!("{path}.{word}.{place}"), part, depth - 1);
            }
        }
        if let Some(not) = not {
            self.predicate(&format!("{path}.not"), not, depth - 1);
        }
        if groups == 0 {
            self.clause(path, predicate);
        }
    }

    fn clause(&mut self, path: &str, clause: &Predicate) {
        let (Some(_), Some(op)) = (&clause.path, clause.op) else {
            return self.find(path, "a condition needs `path` and `op`");
        };
        let message = if op.takes_value() {
            "this operator needs `value`"
        } else {
            "this operator takes no `value`"
        };
        self.require(op.takes_value() == clause.value.is_some(), path, message);
        let list =
            op != Operator::In || clause.value.as_ref().is_some_and(serde_json::Value::is_array);
        self.require(list, path, "`in` compares with a list");
        let among = (op == Operator::Among) == clause.of.is_some();
        self.require(among, path, "`of` belongs to `among`, which needs it");
    }

    fn outcome(&mut self, path: &str, outcome: &Outcome) {
        self.actions(&format!("{path}.actions"), &outcome.actions);
        if let Some(creates) = &outcome.creates {
            let declared = self.declared;
            let path = format!("{path}.creates.artifact");
            self.known(&path, "artifact type", &creates.artifact, &declared.artifacts);
        }
    }

    pub(super) fn templates(&mut self) {
        let declared = self.declared;
        for (name, template) in &declared.work_orders {
            let path = format!("workOrders.{name}");
            self.name_outside(&format!("{path}.kind"), &template.kind);
            self.name_outside(&format!("{path}.queue"), &template.queue);
            let positive = template.budget.time.ms() > 0;
            self.require(
                positive,
                format!("{path}.budget.time"),
                "give a length of time above zero",
            );
            self.between(&format!("{path}.attempts"), template.attempts);
            for (logic, word) in [(Logic::Runner, "runner"), (Logic::Gate, "gate")] {
                let taken = |it: &&crate::declaration::Role| {
                    it.uses == logic && it.work_orders.contains(name)
                };
                let count = declared.roles.values().filter(taken).count();
                let message =
                    format!("exactly one {word} must take work orders of `{name}`, and {count} do");
                self.require(count == 1, path.clone(), message);
            }
            let ordered = |it: &&crate::declaration::Role| it.work_order.as_ref() == Some(name);
            let count = declared.roles.values().filter(ordered).count();
            let message =
                format!("exactly one scheduler must make work orders of `{name}`, and {count} do");
            self.require(count == 1, path.clone(), message);
            if self.known(&format!("{path}.gate"), "gate", &template.gate, &declared.gates) {
                self.results(name, template, &declared.gates[&template.gate]);
            }
        }
    }

    /// A work order that holds artifacts must let go of them, whatever its gate says.
    fn results(&mut self, name: &str, template: &WorkOrderTemplate, gate: &Gate) {
        let declared = self.declared;
        let held = self
            .held_while_executing(name)
            .map(|(artifact, status)| (artifact.to_owned(), status.to_owned()));
        let role = declared
            .roles
            .iter()
            .find(|(_, it)| it.uses == Logic::Gate && it.work_orders.iter().any(|it| it == name));
        for (word, outcome) in [("pass", &gate.pass), ("fail", &gate.fail)] {
            let path = format!("gates.{}.{word}", template.gate);
            match (&held, &outcome.to) {
                (None, None) => {}
                (None, Some(_)) => {
                    self.find(
                        format!("{path}.to"),
                        format!("work orders of `{name}` have no artifacts to move"),
                    );
                }
                (Some((artifact, status)), None) => {
                    self.find(
                        path,
                        format!("give `to`: {artifact} artifacts would stay in {status} for ever"),
                    );
                }
                (Some((artifact, from)), Some(to)) => {
                    if self.status(&format!("{path}.to"), artifact, to) {
                        let by =
                            role.map(|(role, _)| role.as_str()).filter(|_| outcome.auto_confirm);
                        self.allowed(&format!("{path}.to"), artifact, from, to, by);
                    }
                }
            }
        }
    }

    /// A transition that a role (or, without one, a person) makes must be declared so.
    pub(super) fn allowed(
        &mut self,
        path: &str,
        artifact: &str,
        from: &str,
        to: &str,
        role: Option<&str>,
    ) {
        let Some(declared) = self.declared.artifacts.get(artifact) else {
            return;
        };
        let found = declared.transitions.iter().find(|it| it.from == from && it.to == to);
        let by = found.and_then(|it| By::parse(&it.by));
        let wanted = role.map_or_else(|| "person".to_owned(), |role| format!("role:{role}"));
        let fits = match (by, role) {
            (Some(By::Role(declared)), Some(role)) => declared == role,
            (Some(By::Person | By::Approval), None) => true,
            _ => false,
        };
        let message = match found {
            None => format!("impossible: {artifact} has no transition {from} → {to} by {wanted}"),
            Some(it) => format!(
                "impossible: {from} → {to} of {artifact} is made by {}, not by {wanted}",
                it.by
            ),
        };
        self.require(fits, path, message);
    }
}
