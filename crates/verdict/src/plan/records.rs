//! The steps of one plan in memory, as events change them: what a store keeps in rows of steps and edges.
//!
//! The tests and the model use it, and an engine is right if it loads what this loads. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::Name;

use super::event::PlanEvent;
use super::loaded::{PlanLoaded, PlanNeed, StepRow};
use super::step::PlanStep;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlanRecords {
    /// The keys in the order of the plan.
    order: Vec<Name>,
    rows: BTreeMap<Name, StepRow>,
    edges: BTreeMap<Name, BTreeSet<Name>>,
}

impl PlanRecords {
    /// The steps of a submission, which is accepted in the same commit.
    pub fn put(&mut self, steps: &[PlanStep]) {
        for step in steps {
            let key = &step.child.key;
            self.order.push(key.clone());
            self.rows.insert(key.clone(), StepRow::of(step));
            for upstream in step.upstreams.iter() {
                self.edges.entry(upstream.clone()).or_default().insert(key.clone());
            }
        }
    }

    pub fn note(&mut self, event: &PlanEvent) {
        match event {
            PlanEvent::StepsSpawned(steps) => {
                for spawned in steps {
                    self.row(&spawned.step.child.key).is_spawned = true;
                }
            }
            PlanEvent::DownstreamsTold { told, .. } => {
                for told in told {
                    let row = self.row(&told.key);
                    (row.missing, row.blame) = (told.missing, told.blame.clone());
                }
            }
            PlanEvent::Planned(_)
            | PlanEvent::StageEntered(_)
            | PlanEvent::StepBlamed(_)
            | PlanEvent::StepSpawned { .. }
            | PlanEvent::Released { .. } => {}
        }
    }

    fn row(&mut self, key: &Name) -> &mut StepRow {
        self.rows.get_mut(key).expect("the steps of a plan are stored with its submission")
    }

    /// What the rules need, in slices of this size.
    pub fn load(&self, need: PlanNeed<'_>, slice: usize) -> PlanLoaded {
        match need {
            PlanNeed::Ended { key } => {
                let (downstreams, has_more_downstreams) = self.downstreams(key, None, slice);
                let ended = self.rows.get(key).cloned();
                PlanLoaded { ended, downstreams, has_more_downstreams, ..PlanLoaded::default() }
            }
            PlanNeed::Downstreams { of, after } => {
                let (downstreams, has_more_downstreams) = self.downstreams(of, after, slice);
                PlanLoaded { downstreams, has_more_downstreams, ..PlanLoaded::default() }
            }
            PlanNeed::Unspawned { from } => {
                let keys = self.order.iter().skip(from as usize).take(slice);
                let unspawned = keys.filter_map(|key| self.rows.get(key).cloned()).collect();
                PlanLoaded { unspawned, ..PlanLoaded::default() }
            }
        }
    }

    fn downstreams(&self, of: &Name, after: Option<&Name>, slice: usize) -> (Vec<StepRow>, bool) {
        let is_next = |key: &&Name| after.is_none_or(|after| *key > after);
        let keys = self.edges.get(of).into_iter().flatten().filter(is_next);
        let mut rows: Vec<StepRow> =
            keys.take(slice + 1).filter_map(|key| self.rows.get(key).cloned()).collect();
        let has_more = rows.len() > slice;
        rows.truncate(slice);
        (rows, has_more)
    }

    pub fn rows(&self) -> impl Iterator<Item = &StepRow> {
        self.rows.values()
    }
}
