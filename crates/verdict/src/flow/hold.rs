//! How long a task holds the slot of its flow key, and who shares it.
//!
//! Usually a slot belongs to the lease. A key may be held for *life* instead: from the first lease until the task has ended, through
//! waits, retries and whatever parks it. So that a parent which waits never blocks its children, they share what it holds, and
//! so do theirs: a descendant of a holder needs no slot of that key, whatever it says about it. The holder outlives them all,
//! because a task does not end before its children.
//!
//! A detached child is a separate run and shares nothing.
//!
//! Nothing is counted here either: who holds a slot follows from the live tasks, and it is free when the holder is none of them.

use crate::flow::{FlowKey, UNLIMITED};
use crate::id::Name;
use crate::run::RunRefusal;
use crate::task::Task;

/// Maximum number of keys that the ancestors of a task hold for life. Every task stores their names, and who holds many keys at
/// once keeps many others from their work.
pub const SHARED_MAX: usize = 8;

/// How long a task holds its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hold {
    /// While it is leased.
    #[default]
    Lease,
    /// From its first lease until it has ended.
    Life,
}

impl FlowKey {
    /// Whether an ancestor holds the slot that the task would need.
    pub fn is_shared(&self) -> bool {
        self.above.contains(&self.name)
    }
}

impl Task {
    /// Whether the task holds a slot of its key.
    pub fn holds_slot(&self) -> bool {
        self.flow().is_some() && (self.lease().is_some() || self.holds_for_life())
    }

    /// Whether it keeps its slot whatever becomes of its lease. Such a task needs no other slot to be leased again.
    pub fn holds_for_life(&self) -> bool {
        self.attempt > 0 && self.flow().is_some_and(|flow| flow.hold == Hold::Life)
    }

    /// The keys whose slots the descendants of the task share.
    fn shares(&self) -> Vec<Name> {
        let named = self.run.as_ref().and_then(|run| run.flow.as_deref());
        let above = named.map_or(&[][..], |flow| &flow.above).iter().cloned();
        let own = self.flow().filter(|_| self.holds_for_life()).map(|flow| flow.name.clone());
        above.chain(own).collect()
    }
}

/// The key of a child of this task: what it named, and whose slots it shares. A child that names none works under what its
/// parent works under.
pub(crate) fn of_child(
    parent: &Task,
    named: Option<Box<FlowKey>>,
) -> Result<Option<Box<FlowKey>>, RunRefusal> {
    let above = parent.shares();
    let Some(nearest) = above.last() else { return Ok(named) };
    let own = parent.run.as_ref().and_then(|run| run.flow.as_deref());
    let limit = own.filter(|flow| flow.name == *nearest).map_or(UNLIMITED, |flow| flow.limit);
    let flow = named.map_or_else(|| FlowKey::new(nearest.clone(), limit), |flow| *flow);
    let flow = FlowKey { above, ..flow };
    let holds_another = flow.hold == Hold::Life && !flow.is_shared();
    if holds_another && flow.above.len() >= SHARED_MAX {
        return Err(RunRefusal::TooManyHeldKeys { key: flow.name, max: SHARED_MAX as u64 });
    }
    Ok(Some(Box::new(flow)))
}
