//! What a role proposes, and what becomes of it: all of a proposal is committed, or none.
//!
//! A commit checks every change against the declaration and against what is there: the transition must be declared, its
//! author must be the one declared for it, and the artifact must still have the revision that was read. A refused
//! proposal changes nothing.

use std::fmt;

use serde_json::Value;

use crate::check::Topology;
use crate::deployment::{
    Artifact, ArtifactRef, Asked, Deployment, Event, OutputBundle, PauseState, Processed,
    RunRecord, WorkOrder,
};
use crate::fields::CheckedFields;

/// Who proposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author<'n> {
    Role(&'n str),
    /// A person, who may also decide approvals.
    Person,
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Does nothing if the event exists.
    Emit(Event),
    Process {
        event: String,
        reason: String,
    },
    Artifact(ArtifactChange),
    Create {
        artifact: ArtifactRef,
        fields: CheckedFields,
    },
    Order(Box<WorkOrder>),
    /// An attempt that left no output.
    Setback {
        work_order: String,
        setback: Setback,
    },
    Output {
        work_order: String,
        bundle: OutputBundle,
    },
    /// A question of a gate.
    Ask {
        work_order: String,
        check: String,
    },
    Answer {
        work_order: String,
        check: String,
        answer: Value,
    },
    Record(Box<RunRecord>),
    /// Does nothing if the same cause has a pause state.
    Pause(PauseState),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setback {
    Raised,
    Lost,
}

/// A change of an artifact that was read at revision `expect`.
#[derive(Debug, Clone, PartialEq)]
pub struct ArtifactChange {
    pub artifact: ArtifactRef,
    pub expect: u64,
    /// A new entry into a status, which may be the one it has.
    pub to: Option<String>,
    pub emitted: Option<u64>,
    pub cycles: Option<u32>,
    pub reserved_by: Option<Option<String>>,
    pub passed: Option<Option<String>>,
    /// Its fields from now on. Only a person changes them.
    pub fields: Option<CheckedFields>,
}

impl ArtifactChange {
    #[must_use]
    pub fn of(artifact: &Artifact) -> Self {
        Self {
            artifact: artifact.name.clone(),
            expect: artifact.revision,
            to: None,
            emitted: None,
            cycles: None,
            reserved_by: None,
            passed: None,
            fields: None,
        }
    }
}

/// Why a proposal was not committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The artifact has changed since it was read.
    StaleRevision(ArtifactRef),
    /// Not declared, or declared for another author.
    NotAllowed {
        artifact: ArtifactRef,
        from: String,
        to: String,
    },
    Missing(String),
    /// The event is processed, the work order exists or has its output, the run record exists.
    Done(String),
    Exists(ArtifactRef),
    BadFields(String),
    /// The fields were checked for another type or by another version.
    Unchecked(ArtifactRef),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StaleRevision(artifact) => write!(f, "{artifact} has changed since it was read"),
            Self::NotAllowed { artifact, from, to } => {
                write!(f, "{artifact} may not be moved from {from} to {to} by this author")
            }
            Self::Missing(what) => write!(f, "{what} does not exist"),
            Self::Done(what) => write!(f, "{what} is done already"),
            Self::Exists(artifact) => write!(f, "{artifact} exists already"),
            Self::BadFields(why) => write!(f, "the fields do not fit the artifact type: {why}"),
            Self::Unchecked(artifact) => {
                write!(
                    f,
                    "another version came into force while the fields of {artifact} were checked"
                )
            }
        }
    }
}

/// A row as it was, to take a change back.
enum Before {
    Artifact(ArtifactRef, Option<Artifact>),
    Event(String, Option<Event>),
    WorkOrder(String, Option<Box<WorkOrder>>),
    RunRecord(String),
    Pause(String),
}

/// Commits all changes at `now`, or none.
pub fn commit(
    topology: &Topology,
    deployment: &mut Deployment,
    author: Author<'_>,
    changes: &[Change],
    now: u64,
) -> Result<(), Refusal> {
    let mut before = Vec::new();
    let mut work = Commit { topology, deployment, author, now, before: &mut before };
    let result = changes.iter().try_for_each(|change| work.apply(change));
    if result.is_err() {
        before.into_iter().rev().for_each(|row| restore(deployment, row));
    }
    result
}

fn restore(deployment: &mut Deployment, row: Before) {
    fn put<K: Ord, V>(map: &mut std::collections::BTreeMap<K, V>, key: K, value: Option<V>) {
        match value {
            Some(value) => map.insert(key, value),
            None => map.remove(&key),
        };
    }
    match row {
        Before::Artifact(name, value) => put(&mut deployment.artifacts, name, value),
        Before::Event(id, value) => put(&mut deployment.events, id, value),
        Before::WorkOrder(id, value) => put(&mut deployment.work_orders, id, value.map(|it| *it)),
        Before::RunRecord(id) => put(&mut deployment.run_records, id, None),
        Before::Pause(id) => put(&mut deployment.pauses, id, None),
    }
}

struct Commit<'c> {
    topology: &'c Topology,
    deployment: &'c mut Deployment,
    author: Author<'c>,
    now: u64,
    before: &'c mut Vec<Before>,
}

impl Commit<'_> {
    fn apply(&mut self, change: &Change) -> Result<(), Refusal> {
        match change {
            Change::Emit(event) => self.emit(event),
            Change::Process { event, reason } => self.process(event, reason),
            Change::Artifact(change) => self.artifact(change),
            Change::Create { artifact, fields } => self.create(artifact, fields),
            Change::Order(order) => self.order(order),
            Change::Setback { work_order, setback } => self.work_order(work_order, |order| {
                match setback {
                    Setback::Raised => order.failures += 1,
                    Setback::Lost => order.lost += 1,
                }
                Ok(())
            }),
            Change::Output { work_order, bundle } => self.work_order(work_order, |order| {
                if order.output.is_some() {
                    return Err(Refusal::Done(work_order.clone()));
                }
                order.output = Some(bundle.clone());
                Ok(())
            }),
            Change::Ask { work_order, check } => {
                let at = self.now;
                self.work_order(work_order, |order| {
                    order.asked.entry(check.clone()).or_insert(Asked { at, answer: None });
                    Ok(())
                })
            }
            Change::Answer { work_order, check, answer } => self.work_order(work_order, |order| {
                let missing = || Refusal::Missing(format!("the question {check}"));
                let asked = order.asked.get_mut(check).ok_or_else(missing)?;
                asked.answer.get_or_insert_with(|| answer.clone());
                Ok(())
            }),
            Change::Record(record) => self.record(record),
            Change::Pause(pause) => {
                if !self.deployment.pauses.contains_key(&pause.id) {
                    self.before.push(Before::Pause(pause.id.clone()));
                    self.deployment.pauses.insert(pause.id.clone(), pause.clone());
                }
                Ok(())
            }
        }
    }

    fn emit(&mut self, event: &Event) -> Result<(), Refusal> {
        if !self.deployment.events.contains_key(&event.id) {
            self.before.push(Before::Event(event.id.clone(), None));
            self.deployment.events.insert(event.id.clone(), event.clone());
        }
        Ok(())
    }

    fn process(&mut self, id: &str, reason: &str) -> Result<(), Refusal> {
        let missing = || Refusal::Missing(id.to_owned());
        let event = self.deployment.events.get_mut(id).ok_or_else(missing)?;
        if event.processed.is_some() {
            return Err(Refusal::Done(id.to_owned()));
        }
        self.before.push(Before::Event(id.to_owned(), Some(event.clone())));
        event.processed =
            Some(Processed { terminal_reason: reason.to_owned(), processed_at: self.now });
        Ok(())
    }

    fn artifact(&mut self, change: &ArtifactChange) -> Result<(), Refusal> {
        let name = &change.artifact;
        let missing = || Refusal::Missing(name.to_string());
        let artifact = self.deployment.artifacts.get(name).ok_or_else(missing)?;
        if artifact.revision != change.expect {
            return Err(Refusal::StaleRevision(name.clone()));
        }
        let mut next = artifact.clone();
        next.revision += 1;
        next.emitted = change.emitted.unwrap_or(next.emitted);
        next.cycles = change.cycles.unwrap_or(next.cycles);
        next.reserved_by = change.reserved_by.clone().unwrap_or(next.reserved_by);
        next.passed = change.passed.clone().unwrap_or(next.passed);
        if let Some(fields) = &change.fields {
            if self.author != Author::Person {
                let why = "a role changes no fields".to_owned();
                return Err(Refusal::BadFields(why));
            }
            let unchecked = || Refusal::Unchecked(name.clone());
            next.fields = fields.of(self.topology, &name.kind).ok_or_else(unchecked)?.clone();
        }
        if let Some(to) = &change.to {
            self.enter(&mut next, to)?;
        }
        self.before.push(Before::Artifact(name.clone(), Some(artifact.clone())));
        self.deployment.artifacts.insert(name.clone(), next);
        Ok(())
    }

    fn enter(&self, artifact: &mut Artifact, to: &str) -> Result<(), Refusal> {
        if !may_move(self.topology, &artifact.name.kind, &artifact.status, to, self.author) {
            let (from, to) = (artifact.status.clone(), to.to_owned());
            return Err(Refusal::NotAllowed { artifact: artifact.name.clone(), from, to });
        }
        artifact.status = to.to_owned();
        artifact.transition_no += 1;
        artifact.entered_at = self.now;
        artifact.passed = None;
        if self.author == Author::Person {
            artifact.cycles = 0;
        }
        Ok(())
    }

    fn create(&mut self, name: &ArtifactRef, fields: &CheckedFields) -> Result<(), Refusal> {
        let Some(declared) = self.topology.artifact(&name.kind) else {
            return Err(Refusal::Missing(format!("the artifact type {}", name.kind)));
        };
        if self.deployment.artifacts.contains_key(name) {
            return Err(Refusal::Exists(name.clone()));
        }
        let unchecked = || Refusal::Unchecked(name.clone());
        let fields = fields.of(self.topology, &name.kind).ok_or_else(unchecked)?;
        let artifact = Artifact {
            name: name.clone(),
            status: declared.initial.clone(),
            revision: 1,
            transition_no: 1,
            emitted: 0,
            cycles: 0,
            reserved_by: None,
            passed: None,
            fields: fields.clone(),
            created_at: self.now,
            entered_at: self.now,
        };
        self.before.push(Before::Artifact(name.clone(), None));
        self.deployment.artifacts.insert(name.clone(), artifact);
        Ok(())
    }

    fn order(&mut self, order: &WorkOrder) -> Result<(), Refusal> {
        if self.deployment.work_orders.contains_key(&order.id) {
            return Err(Refusal::Done(order.id.clone()));
        }
        self.before.push(Before::WorkOrder(order.id.clone(), None));
        self.deployment.work_orders.insert(order.id.clone(), order.clone());
        Ok(())
    }

    fn work_order(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut WorkOrder) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let missing = || Refusal::Missing(id.to_owned());
        let order = self.deployment.work_orders.get_mut(id).ok_or_else(missing)?;
        let before = order.clone();
        change(order)?;
        self.before.push(Before::WorkOrder(id.to_owned(), Some(Box::new(before))));
        Ok(())
    }

    fn record(&mut self, record: &RunRecord) -> Result<(), Refusal> {
        let id = &record.work_order;
        if self.deployment.run_records.contains_key(id) {
            return Err(Refusal::Done(id.clone()));
        }
        self.before.push(Before::RunRecord(id.clone()));
        self.deployment.run_records.insert(id.clone(), record.clone());
        Ok(())
    }
}

/// Whether this author may make this status change: it is declared, and for this author.
#[must_use]
pub fn may_move(topology: &Topology, kind: &str, from: &str, to: &str, author: Author<'_>) -> bool {
    match (topology.authority(kind, from, to), author) {
        (Some(by), Author::Role(role)) => by.strip_prefix("role:") == Some(role),
        (Some("approval" | "person"), Author::Person) => true,
        _ => false,
    }
}
