//! Roles: the members that belong to each logic, and names that exist.

use super::Checker;
use crate::declaration::{Logic, Role, Trigger};
use crate::predicate::DEPTH_MAX;

/// How long a turn of an outside process may last: from what a busy process can renew, up to a day.
const LEASE_MS: std::ops::RangeInclusive<u64> = 2_000..=86_400_000;

impl Checker<'_> {
    pub(super) fn roles(&mut self) {
        for (name, role) in &self.declared.roles {
            let path = format!("roles.{name}");
            self.members(&path, role);
            self.outside(&path, role);
            match role.uses {
                Logic::Readiness => self.readiness(&path, role),
                Logic::Scheduler => self.scheduler(&path, name, role),
                Logic::Runner | Logic::Gate => self.work_orders_of(&path, role),
                Logic::DeadlineMonitor => self.deadline_monitor(&path, role),
                Logic::Review => self.review(&path, role),
            }
        }
    }

    /// A member that the logic does not use is a mistake, not a comment.
    fn members(&mut self, path: &str, role: &Role) {
        use Logic::{DeadlineMonitor, Gate, Readiness, Review, Runner, Scheduler};
        let given: [(&str, bool, &[Logic]); 17] = [
            ("emits", !role.emits.is_empty(), &[Readiness]),
            ("event", role.event.is_some(), &[Scheduler]),
            ("collect", role.collect.is_some(), &[Scheduler]),
            ("lists", !role.lists.is_empty(), &[Scheduler]),
            ("queries", !role.queries.is_empty(), &[Scheduler]),
            ("workOrder", role.work_order.is_some(), &[Scheduler]),
            ("to", role.to.is_some(), &[Scheduler]),
            ("blocked", role.blocked.is_some(), &[Scheduler]),
            ("blockedActions", !role.blocked_actions.is_empty(), &[Scheduler]),
            ("track", role.track.is_some(), &[Scheduler, DeadlineMonitor]),
            ("reasons", role.reasons != crate::declaration::Reasons::default(), &[Scheduler]),
            ("workOrders", !role.work_orders.is_empty(), &[Runner, Gate]),
            ("artifact", role.artifact.is_some(), &[DeadlineMonitor, Review]),
            ("urgency", role.urgency.is_some(), &[DeadlineMonitor]),
            ("after", !role.after.is_empty(), &[DeadlineMonitor]),
            ("actions", !role.actions.is_empty(), &[DeadlineMonitor]),
            ("when", role.when.is_some(), &[Review]),
        ];
        for (member, present, logics) in given {
            if present && !logics.contains(&role.uses) {
                self.find(format!("{path}.{member}"), format!("this logic takes no `{member}`"));
            }
        }
    }

    /// A role whose turns are taken over HTTP. The clock of deadlines and intervals is the server's, and executors are outside
    /// in any case.
    fn outside(&mut self, path: &str, role: &Role) {
        let lease_path = format!("{path}.lease");
        if let Some(lease) = role.lease {
            let claims = matches!(role.uses, Logic::Scheduler | Logic::Gate) && role.outside;
            let message = "`lease` belongs to a scheduler or gate with `outside: true`";
            self.require(claims, lease_path.clone(), message);
            let message = "give a length of time from 2s to 1d";
            self.require(LEASE_MS.contains(&lease.ms()), lease_path, message);
        }
        if !role.outside {
            return;
        }
        let path = format!("{path}.outside");
        match role.uses {
            Logic::Scheduler | Logic::Gate | Logic::Review => {}
            Logic::Readiness => self.outside_readiness(&path, role),
            Logic::Runner => self.find(
                path,
                "executors are outside already: they poll the queue of their work orders, so a runner takes no `outside`",
            ),
            Logic::DeadlineMonitor => self.find(
                path,
                "deadlines are watched by the server's clock, so a deadline monitor takes no `outside`",
            ),
        }
    }

    fn outside_readiness(&mut self, path: &str, role: &Role) {
        let declared = self.declared;
        let scheduled = role.emits.iter().find(|event| {
            declared.events.get(*event).is_some_and(|source| source.on == Trigger::Schedule)
        });
        if let Some(event) = scheduled {
            let message = format!(
                "`{event}` comes at an interval, which is the server's clock; emit it by another role"
            );
            self.find(path, message);
        }
    }

    fn readiness(&mut self, path: &str, role: &Role) {
        self.require(!role.emits.is_empty(), path, "a readiness role needs `emits`");
        let declared = self.declared;
        for (place, event) in role.emits.iter().enumerate() {
            self.known(&format!("{path}.emits.{place}"), "event", event, &declared.events);
        }
    }

    fn scheduler(&mut self, path: &str, name: &str, role: &Role) {
        let declared = self.declared;
        let (Some(event), Some(template)) = (&role.event, &role.work_order) else {
            return self.find(path, "a scheduler needs `event` and `workOrder`");
        };
        self.known(
            &format!("{path}.workOrder"),
            "template of work orders",
            template,
            &declared.work_orders,
        );
        if let Some(track) = &role.track {
            self.known(&format!("{path}.track"), "track", track, &declared.tracks);
        }
        self.context(path, role);
        if !self.known(&format!("{path}.event"), "event", event, &declared.events) {
            return;
        }
        let source = &declared.events[event];
        match source.artifact.as_deref().zip(source.status.as_deref()) {
            Some((artifact, status)) if source.on == Trigger::Transition => {
                self.subject(path, name, role, artifact, status);
            }
            _ => {
                let none = role.to.is_none() && role.blocked.is_none() && role.collect.is_none();
                let message = format!(
                    "`{event}` is about no artifact, so `to`, `blocked` and `collect` mean nothing"
                );
                self.require(none, path, message);
            }
        }
    }

    /// What a scheduler does with the artifact of its event.
    fn subject(&mut self, path: &str, name: &str, role: &Role, artifact: &str, status: &str) {
        if let Some(to) = &role.to {
            let path = format!("{path}.to");
            if self.status(&path, artifact, to) {
                self.allowed(&path, artifact, status, to, Some(name));
            }
        }
        let one = role.to.is_none() || role.collect.is_none();
        self.require(
            one,
            path,
            "give `to` (the artifact moves) or `collect` (artifacts are reserved), not both",
        );
        if let Some(collect) = &role.collect {
            self.between(&format!("{path}.collect.atMost"), collect.at_most);
        }
        let blockers =
            self.declared.artifacts.get(artifact).is_some_and(|it| it.blockers.is_some());
        let message = format!("`blocked` and the `blockers` of `{artifact}` belong together");
        self.require(blockers == role.blocked.is_some(), path, message);
        if let Some(blocked) = &role.blocked {
            self.actions(&format!("{path}.blockedActions"), &role.blocked_actions);
            let path = format!("{path}.blocked");
            if self.status(&path, artifact, blocked) {
                self.allowed(&path, artifact, status, blocked, Some(name));
            }
        }
    }

    fn context(&mut self, path: &str, role: &Role) {
        let declared = self.declared;
        for (place, listing) in role.lists.iter().enumerate() {
            let path = format!("{path}.lists.{place}");
            self.known(
                &format!("{path}.artifact"),
                "artifact type",
                &listing.artifact,
                &declared.artifacts,
            );
            if let Some(status) = &listing.status {
                self.status(&format!("{path}.status"), &listing.artifact, status);
            }
            self.between(&format!("{path}.atMost"), listing.at_most);
        }
        for (place, query) in role.queries.iter().enumerate() {
            let message =
                format!("`{query}` is not under `reads`, so other deployments would deny it");
            self.require(
                declared.reads.contains(query),
                format!("{path}.queries.{place}"),
                message,
            );
        }
    }

    fn work_orders_of(&mut self, path: &str, role: &Role) {
        self.require(!role.work_orders.is_empty(), path, "this role needs `workOrders`");
        let declared = self.declared;
        for (place, template) in role.work_orders.iter().enumerate() {
            let path = format!("{path}.workOrders.{place}");
            self.known(&path, "template of work orders", template, &declared.work_orders);
        }
    }

    fn deadline_monitor(&mut self, path: &str, role: &Role) {
        let declared = self.declared;
        let (Some(artifact), Some(_)) = (&role.artifact, &role.urgency) else {
            return self.find(path, "a deadline monitor needs `artifact` and `urgency`");
        };
        self.known(&format!("{path}.artifact"), "artifact type", artifact, &declared.artifacts);
        self.require(!role.after.is_empty(), path, "a deadline monitor needs `after`");
        self.actions(&format!("{path}.actions"), &role.actions);
        if let Some(track) = &role.track
            && self.known(&format!("{path}.track"), "track", track, &declared.tracks)
        {
            let free = declared.tracks[track].serial.is_none();
            let message = "a deadline monitor waits for nobody; its track has no `serial`";
            self.require(free, format!("{path}.track"), message);
        }
    }

    fn review(&mut self, path: &str, role: &Role) {
        let declared = self.declared;
        let (Some(artifact), Some(when)) = (&role.artifact, &role.when) else {
            return self.find(path, "a review needs `artifact` and `when`");
        };
        self.known(&format!("{path}.artifact"), "artifact type", artifact, &declared.artifacts);
        self.predicate(&format!("{path}.when"), when, DEPTH_MAX);
    }
}
