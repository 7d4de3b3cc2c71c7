//! The steps of one plan in memory, as events change them: what a store keeps in rows of steps and edges.
//!
//! The tests and the model use it, and an engine is right if it loads what this loads. It decides nothing. A carrier puts
//! here what an engine loaded for several messages to one root, so that each sees what the one before it changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::Name;

use super::event::PlanEvent;
use super::loaded::{PlanLoaded, PlanNeed, StepRow};
use super::step::PlanStep;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlanRecords {
    /// The keys by their places in the plan.
    order: BTreeMap<u32, Name>,
    rows: BTreeMap<Name, StepRow>,
    /// The downstreams of each step.
    edges: BTreeMap<Name, BTreeSet<Name>>,
    /// Steps that have more downstreams than were loaded.
    unloaded: BTreeSet<Name>,
}

impl PlanRecords {
    /// The steps of a submission, which is accepted in the same commit.
    pub fn put(&mut self, steps: &[PlanStep]) {
        for (place, step) in (0..).zip(steps) {
            let key = &step.child.key;
            self.order.insert(place, key.clone());
            self.rows.insert(key.clone(), StepRow::of(step));
            for upstream in step.upstreams.iter() {
                self.edges.entry(upstream.clone()).or_default().insert(key.clone());
            }
        }
    }

    /// Adds what a store loaded for `need`. A row that is here already is newer.
    pub fn put_loaded(&mut self, need: PlanNeed<'_>, loaded: PlanLoaded) {
        let PlanLoaded { ended, downstreams, has_more_downstreams, unspawned } = loaded;
        if let PlanNeed::Unspawned { from } = need {
            let places = (from..).zip(&unspawned);
            self.order.extend(places.map(|(place, row)| (place, row.step.child.key.clone())));
        }
        if let PlanNeed::Ended { key: of } | PlanNeed::Downstreams { of, .. } = need {
            let keys = downstreams.iter().map(|row| row.step.child.key.clone());
            self.edges.entry(of.clone()).or_default().extend(keys);
            if has_more_downstreams {
                self.unloaded.insert(of.clone());
            }
        }
        for row in ended.into_iter().chain(downstreams).chain(unspawned) {
            self.rows.entry(row.step.child.key.clone()).or_insert(row);
        }
    }

    /// Rows that were not loaded are left to the store.
    pub fn note(&mut self, event: &PlanEvent) {
        match event {
            PlanEvent::StepsSpawned(steps) => {
                for spawned in steps {
                    if let Some(row) = self.rows.get_mut(&spawned.step.child.key) {
                        row.is_spawned = true;
                    }
                }
            }
            PlanEvent::DownstreamsTold { told, .. } => {
                for told in told {
                    if let Some(row) = self.rows.get_mut(&told.key) {
                        (row.missing, row.blame) = (told.missing, told.blame.clone());
                    }
                }
            }
            PlanEvent::Planned(_)
            | PlanEvent::StageEntered(_)
            | PlanEvent::StepBlamed(_)
            | PlanEvent::StepSpawned { .. }
            | PlanEvent::Released { .. }
            | PlanEvent::Prepared { .. }
            | PlanEvent::DoneBy(_) => {}
        }
    }

    /// What the rules need, in slices of this size.
    pub fn load(&self, need: PlanNeed<'_>, slice: usize) -> PlanLoaded {
        match need {
            PlanNeed::Ended { key } => {
                let (downstreams, has_more_downstreams) = self.downstreams(key, None, slice);
                let ended = self.rows.get(key).map(StepRow::without_upstreams);
                PlanLoaded { ended, downstreams, has_more_downstreams, ..PlanLoaded::default() }
            }
            PlanNeed::Downstreams { of, after } => {
                let (downstreams, has_more_downstreams) = self.downstreams(of, after, slice);
                PlanLoaded { downstreams, has_more_downstreams, ..PlanLoaded::default() }
            }
            PlanNeed::Unspawned { from } => {
                let keys = self.order.range(from..).take(slice).map(|(_, key)| key);
                let unspawned = keys.filter_map(|key| self.rows.get(key).cloned()).collect();
                PlanLoaded { unspawned, ..PlanLoaded::default() }
            }
        }
    }

    fn downstreams(&self, of: &Name, after: Option<&Name>, slice: usize) -> (Vec<StepRow>, bool) {
        let is_next = |key: &&Name| after.is_none_or(|after| *key > after);
        let keys = self.edges.get(of).into_iter().flatten().filter(is_next);
        let rows = keys.take(slice + 1).filter_map(|key| self.rows.get(key));
        let mut rows: Vec<StepRow> = rows.map(StepRow::without_upstreams).collect();
        let has_more = rows.len() > slice || self.unloaded.contains(of);
        rows.truncate(slice);
        (rows, has_more)
    }

    pub fn rows(&self) -> impl Iterator<Item = &StepRow> {
        self.rows.values()
    }

    pub fn row(&self, key: &Name) -> Option<&StepRow> {
        self.rows.get(key)
    }

    /// The steps in the order of the plan.
    pub fn steps(&self) -> impl Iterator<Item = &PlanStep> {
        self.order.values().filter_map(|key| self.rows.get(key)).map(|row| &row.step)
    }
}
