//! A step of a plan with edges: a child task of the plan's root, and what it waits for.

use std::sync::Arc;

use crate::approval::Terms;
use crate::done::End;
use crate::id::{Json, Name};
use crate::run::ChildCall;
use crate::task::State;
use crate::time::{Span, Time};

/// A step as it was submitted. It never changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlanStep {
    /// The child task. Its key is the step's key, unique in the plan.
    pub child: ChildCall,
    /// The keys of the steps that must end before it, without repetition.
    pub upstreams: Arc<[Name]>,
    pub terms: StepTerms,
}

/// What the rules know of a step besides its task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepTerms {
    /// A failure of the step does not keep its downstreams from running (S2-91).
    pub continues_on_error: bool,
    /// The step runs once its upstreams have ended, however they ended, and a cancel of the run does not reach it unless it
    /// is forced.
    pub is_always: bool,
    /// How long the step may take, counted from the moment at which it may first be leased.
    pub time_limit: Option<Span>,
    /// Whether the input refers to outputs of upstreams, which a grant must resolve first.
    pub has_references: bool,
    /// The step asks people instead of a worker: no worker ever gets it.
    pub asks: Option<Arc<Terms>>,
    /// The condition under which the step runs, as it was written; rules do not read it. At most [`super::limits::WHEN_BYTES_MAX`].
    pub when: Option<Json>,
    /// A step of the plan asks people, so it is kept under which API keys the others are done.
    pub keeps_keys: bool,
    /// The API keys under which the step was done; of one that asks, those under which steps before it were.
    pub done_by: Vec<Name>,
}

/// The first upstream that keeps a step from running, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Blame {
    pub key: Name,
    pub state: State,
    /// At which limit it was halted, where that decides how the run ends.
    pub halt: Option<Box<End>>,
}

impl StepTerms {
    /// Whether what the step depends on is read before it begins: see [`super::preparing`].
    pub(crate) fn is_prepared(&self) -> bool {
        self.when.is_some() || (self.asks.is_some() && self.has_references)
    }

    /// Whether this end of the step keeps its downstreams from running. A step that was skipped passes the skip on, because
    /// nothing of it ran that it could go on without.
    pub(crate) fn blocks(&self, end: State) -> bool {
        match end {
            State::Succeeded => false,
            State::Skipped => true,
            _ => !self.continues_on_error,
        }
    }

    /// The deadline of the step once it may be leased. The run's is `outer`, and does not bind a step that must run after it.
    pub(crate) fn deadline(&self, outer: Option<Time>, now: Time) -> Option<Time> {
        let own = self.time_limit.map(|limit| now.plus(limit));
        let outer = outer.filter(|_| !self.is_always);
        [own, outer].into_iter().flatten().min()
    }
}
