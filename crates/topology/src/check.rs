//! Checks a declaration as a whole, and compiles it into a [`Topology`] that roles can rely on.
//!
//! All checks run, so that one reading of the file shows everything that is wrong. A check names the member it is about
//! by its path; [`crate::reading`] turns the path into line and column.

mod artifacts;
mod events;
mod gates;
mod roles;
mod tracks;

use std::collections::BTreeMap;

use crate::declaration::{
    ArtifactType, Declaration, EventSource, Gate, Logic, Role, WorkOrderTemplate,
};
use crate::digest;
use crate::places::join;
use crate::schema::{PATTERNS_MAX, Schema, patterns};
use crate::work::Work;

/// The name under which schedulers ask other deployments for their pause states. No artifact type may have it.
pub const PAUSE_STATE: &str = "pause_state";

/// The longest name of anything in a topology, in characters.
pub const NAME_CHARS_MAX: usize = 64;

/// The same for kinds and queues, which every submission may name: as long as there.
const OUTSIDE_CHARS_MAX: usize = 128;

/// What the kinds and queues of the server's own tasks begin with.
const RESERVED_PREFIX: &str = "tenure.";

/// The most entries of one map or list. Far more than people can oversee, and it bounds every loop over a topology.
pub const ENTRIES_MAX: usize = 200;

/// The most next actions of a pause state: more is a list, not a next step.
pub const ACTIONS_MAX: usize = 3;

/// The largest value of a limit on work orders, attempts and collected artifacts. A role's report names at most 100
/// artifacts.
pub const LIMIT_MAX: u32 = 100;

/// A declaration that passed every check.
#[derive(Debug, Clone)]
pub struct Topology {
    declaration: Declaration,
    digest: String,
    bytes: u64,
    /// Compiled schemas by path.
    schemas: BTreeMap<String, Schema>,
    /// How many tracks go before each track: 0 goes first.
    ranks: BTreeMap<String, u32>,
}

/// What is wrong, by path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) message: String,
}

/// What the checks share.
struct Checker<'d> {
    declared: &'d Declaration,
    findings: Vec<Finding>,
    origin: Origin,
    schemas: BTreeMap<String, Schema>,
    patterns: usize,
}

/// Where a declaration comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A person wants it to come into force.
    File,
    /// It came into force before, by the bounds of that time.
    Store,
}

/// Checks everything; of a stored one everything but its schemas.
pub(crate) fn compile(declaration: Declaration, origin: Origin) -> Result<Topology, Vec<Finding>> {
    let mut checker = Checker {
        declared: &declaration,
        findings: Vec::new(),
        origin,
        schemas: BTreeMap::new(),
        patterns: 0,
    };
    checker.names();
    checker.artifacts();
    checker.events();
    let ranks = checker.tracks();
    checker.gates();
    checker.templates();
    checker.roles();
    checker.limits();
    let Checker { findings, schemas, .. } = checker;
    if findings.is_empty() {
        let (digest, bytes) = digest::of(&declaration);
        Ok(Topology { declaration, digest, bytes, schemas, ranks })
    } else {
        Err(findings)
    }
}

impl Checker<'_> {
    fn find(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.findings.push(Finding { path: path.into(), message: message.into() });
    }

    fn require(&mut self, holds: bool, path: impl Into<String>, message: impl Into<String>) {
        if !holds {
            self.find(path, message);
        }
    }

    fn names(&mut self) {
        let declared = self.declared;
        self.name("topology", &declared.topology);
        self.map("artifacts", declared.artifacts.keys());
        self.map("events", declared.events.keys());
        self.map("tracks", declared.tracks.keys());
        self.map("workOrders", declared.work_orders.keys());
        self.map("gates", declared.gates.keys());
        self.map("roles", declared.roles.keys());
        for (place, read) in declared.reads.iter().enumerate() {
            self.name(&format!("reads.{place}"), read);
        }
        self.require(
            !declared.artifacts.contains_key(PAUSE_STATE),
            format!("artifacts.{PAUSE_STATE}"),
            format!("`{PAUSE_STATE}` is the name of what every deployment has; choose another"),
        );
        let some = !declared.artifacts.is_empty() && !declared.roles.is_empty();
        self.require(some, "", "a topology needs at least one artifact type and one role");
    }

    fn map<'n>(&mut self, path: &str, names: impl ExactSizeIterator<Item = &'n String>) {
        let message = format!("at most {ENTRIES_MAX} entries are allowed");
        self.require(names.len() <= ENTRIES_MAX, path, message);
        for name in names {
            self.name(&join(path, name), name);
        }
    }

    fn name(&mut self, path: &str, name: &str) {
        let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
        let rest = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let message = format!(
            "`{name}` is no name: a letter, then letters, digits, `_` and `-`, at most {NAME_CHARS_MAX} in all"
        );
        self.require(starts && rest && name.len() <= NAME_CHARS_MAX, path, message);
    }

    /// The name of a kind or a queue, which workers outside know: what a submission may name, so that existing workers fit.
    fn name_outside(&mut self, path: &str, name: &str) {
        let is_allowed =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '/' | '-');
        let is_name =
            !name.is_empty() && name.len() <= OUTSIDE_CHARS_MAX && name.chars().all(is_allowed);
        let message = format!(
            "`{name}` is no name: letters, digits, `.`, `_`, `:`, `/` and `-`, at most {OUTSIDE_CHARS_MAX} in all"
        );
        self.require(is_name, path, message);
        let message = format!(
            "names that begin with `{RESERVED_PREFIX}` are the server's own; choose another"
        );
        self.require(!name.starts_with(RESERVED_PREFIX), path, message);
    }

    /// A name that must be declared elsewhere.
    fn known<T>(
        &mut self,
        path: &str,
        what: &str,
        name: &str,
        declared: &BTreeMap<String, T>,
    ) -> bool {
        let known = declared.contains_key(name);
        let names: Vec<&str> = declared.keys().map(String::as_str).collect();
        let message = format!("no {what} is named `{name}`; declared: {}", listed(&names));
        self.require(known, path, message);
        known
    }

    fn status(&mut self, path: &str, artifact: &str, status: &str) -> bool {
        let Some(declared) = self.declared.artifacts.get(artifact) else {
            return false;
        };
        let known = declared.statuses.iter().any(|it| it == status);
        let names: Vec<&str> = declared.statuses.iter().map(String::as_str).collect();
        let message =
            format!("`{artifact}` has no status `{status}`; declared: {}", listed(&names));
        self.require(known, path, message);
        known
    }

    fn actions(&mut self, path: &str, actions: &[String]) {
        let count = (1..=ACTIONS_MAX).contains(&actions.len());
        let message = format!("name 1 to {ACTIONS_MAX} next actions, the most important first");
        self.require(count, path, message);
        let empty = actions.iter().any(|action| action.trim().is_empty());
        self.require(!empty, path, "an action must say something");
    }

    fn schema(&mut self, path: String, schema: &serde_json::Value) {
        if self.origin == Origin::Store {
            self.schemas.insert(path, Schema::stored(schema));
            return;
        }
        self.patterns += patterns(schema);
        if self.patterns > PATTERNS_MAX {
            let message = format!("at most {PATTERNS_MAX} patterns are allowed in all schemas");
            return self.find(path, message);
        }
        match Schema::compile(schema) {
            Ok(compiled) => {
                self.schemas.insert(path, compiled);
            }
            Err(message) => self.find(path, message),
        }
    }

    fn between(&mut self, path: &str, number: u32) {
        let message = format!("give a number from 1 to {LIMIT_MAX}");
        self.require((1..=LIMIT_MAX).contains(&number), path, message);
    }

    fn limits(&mut self) {
        let limits = self.declared.limits.clone();
        self.between("limits.executors", limits.executors);
        self.between("limits.cycles", limits.cycles);
    }
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Lookups that cannot fail on a checked topology return the value; the others an `Option`.
impl Topology {
    #[must_use]
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.declaration.topology
    }

    /// The version: see [`digest`].
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// How large it is: the bytes of its canonical JSON.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    #[must_use]
    pub fn artifact(&self, name: &str) -> Option<&ArtifactType> {
        self.declaration.artifacts.get(name)
    }

    #[must_use]
    pub fn event(&self, name: &str) -> Option<&EventSource> {
        self.declaration.events.get(name)
    }

    #[must_use]
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.declaration.roles.get(name)
    }

    #[must_use]
    pub fn template(&self, name: &str) -> Option<&WorkOrderTemplate> {
        self.declaration.work_orders.get(name)
    }

    #[must_use]
    pub fn gate_of(&self, template: &str) -> Option<&Gate> {
        self.declaration.gates.get(&self.template(template)?.gate)
    }

    /// The event that an artifact of this type makes by entering this status.
    #[must_use]
    pub fn event_of(&self, artifact: &str, status: &str) -> Option<&str> {
        let is = |value: &Option<String>, wanted: &str| value.as_deref() == Some(wanted);
        self.declaration
            .events
            .iter()
            .find(|(_, source)| is(&source.artifact, artifact) && is(&source.status, status))
            .map(|(name, _)| name.as_str())
    }

    /// The role that processes an event.
    #[must_use]
    pub fn scheduler_of(&self, event: &str) -> Option<(&str, &Role)> {
        self.roles_using(Logic::Scheduler).find(|(_, role)| role.event.as_deref() == Some(event))
    }

    /// The role that judges work orders of a template.
    #[must_use]
    pub fn judge_of(&self, template: &str) -> Option<(&str, &Role)> {
        let mut gates = self.roles_using(Logic::Gate);
        gates.find(|(_, role)| role.work_orders.iter().any(|it| it == template))
    }

    pub fn roles_using(&self, logic: Logic) -> impl Iterator<Item = (&str, &Role)> {
        self.declaration
            .roles
            .iter()
            .filter(move |(_, role)| role.uses == logic)
            .map(|(name, role)| (name.as_str(), role))
    }

    /// Who may move an artifact of this type from one status to another, as declared.
    #[must_use]
    pub fn authority(&self, artifact: &str, from: &str, to: &str) -> Option<&str> {
        let transitions = &self.artifact(artifact)?.transitions;
        let found = transitions.iter().find(|it| it.from == from && it.to == to)?;
        Some(&found.by)
    }

    /// The key whose holder is the only active work order among its tracks.
    #[must_use]
    pub fn serial_key(&self, track: Option<&str>) -> Option<&str> {
        self.declaration.tracks.get(track?)?.serial.as_deref()
    }

    /// How many tracks go before this one: the track with the smaller rank goes first.
    #[must_use]
    pub fn rank(&self, track: Option<&str>) -> u32 {
        track.and_then(|track| self.ranks.get(track)).copied().unwrap_or(0)
    }

    pub(crate) fn schema(&self, path: &str) -> Option<&Schema> {
        self.schemas.get(path)
    }

    /// Whether the fields of an artifact are as its type declares. `Err` says what is not, or that testing costs too much.
    pub fn test_fields(
        &self,
        artifact: &str,
        fields: &serde_json::Value,
        work: &mut Work,
    ) -> Result<(), String> {
        if !fields.is_object() {
            return Err("the fields of an artifact are an object".to_owned());
        }
        match self.fields_schema(artifact) {
            Some(schema) => schema.test(fields, work),
            None => Ok(()),
        }
    }

    /// What testing the fields of an artifact costs at most.
    #[must_use]
    pub fn fields_steps(&self, artifact: &str, fields: &serde_json::Value) -> u64 {
        self.fields_schema(artifact).map_or(0, |schema| schema.steps(fields))
    }

    fn fields_schema(&self, artifact: &str) -> Option<&Schema> {
        self.schema(&format!("artifacts.{artifact}.schema"))
    }
}
