//! Requests that time makes: schedules to fire, failures to match, artifacts to look at.
//!
//! A sweep names what is due, and a later batch carries it: as much as that has room for, because a single schedule may submit a plan as
//! large as a commit. The tenants take turns. What waits here is in memory alone; what is lost is found again.
//!
//! Invariants: nothing is added while something waits, so nothing waits twice and the number is bounded by what one sweep names; every
//! batch takes some, so callers do not keep time from having its way.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use verdict::Name;

use crate::intake::NewWorkSender;
use crate::item::{Item, Reply};
use crate::weight::BATCH_WEIGHT_MAX;

/// What such requests may take of each commit, however much callers ask for.
const DUE_SHARE: usize = BATCH_WEIGHT_MAX / 8;

#[derive(Debug, Default)]
pub(super) struct DueItems {
    waiting: VecDeque<Item>,
    /// What another carrier has not answered yet.
    sent: Vec<oneshot::Receiver<Vec<Reply>>>,
}

impl DueItems {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Forgets what waits: it is still due, and found again.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Adds what a sweep has named, unless something of an earlier one still waits: it would be named twice.
    pub(super) fn add(&mut self, due: Vec<Item>) {
        if self.waiting.is_empty() {
            self.waiting = in_turns(due).into();
        }
    }

    /// Takes what a commit has room for, and the share of such requests in any case.
    pub(super) fn take(&mut self, room: usize, weigh: impl Fn(&Item) -> usize) -> Vec<Item> {
        let (mut taken, mut left) = (Vec::new(), room.max(DUE_SHARE));
        while left > 0
            && let Some(item) = self.waiting.pop_front()
        {
            left = left.saturating_sub(weigh(&item));
            taken.push(item);
        }
        taken
    }

    /// Hands over what a sweep has named to the carrier that creates tasks, unless it still has something of an earlier one.
    pub(super) fn send(
        &mut self,
        due: Vec<Item>,
        to: &NewWorkSender,
        weigh: impl Fn(&Item) -> usize,
    ) {
        self.sent.retain_mut(|reply| matches!(reply.try_recv(), Err(TryRecvError::Empty)));
        if !self.sent.is_empty() {
            return;
        }
        for group in groups(due, weigh) {
            self.sent.extend(to.send(group));
        }
    }
}

/// The items in an order in which the tenants alternate; those of one tenant keep theirs.
fn in_turns(due: Vec<Item>) -> Vec<Item> {
    let mut placed: Vec<(usize, Item)> = Vec::with_capacity(due.len());
    let mut turns: Vec<(Name, usize)> = Vec::new();
    for item in due {
        let tenant = item.scope().tenant.clone();
        let known = turns.iter_mut().find(|(name, _)| *name == tenant);
        let turn = match known {
            Some((_, turn)) => {
                *turn += 1;
                *turn
            }
            None => {
                turns.push((tenant, 0));
                0
            }
        };
        placed.push((turn, item));
    }
    placed.sort_by_key(|(turn, _)| *turn);
    placed.into_iter().map(|(_, item)| item).collect()
}

/// The items of each tenant, in groups of about one commit.
fn groups(due: Vec<Item>, weigh: impl Fn(&Item) -> usize) -> Vec<Vec<Item>> {
    let mut groups: Vec<(Name, usize, Vec<Item>)> = Vec::new();
    for item in due {
        let (tenant, added) = (item.scope().tenant.clone(), weigh(&item));
        let open = groups.iter_mut().rev().find(|(name, ..)| *name == tenant);
        match open.filter(|(_, weight, _)| weight + added <= BATCH_WEIGHT_MAX) {
            Some((_, weight, items)) => {
                *weight += added;
                items.push(item);
            }
            None => groups.push((tenant, added, vec![item])),
        }
    }
    groups.into_iter().map(|(.., items)| items).collect()
}

#[cfg(test)]
mod tests {
    use verdict::Scope;

    use super::*;
    use crate::item::RecoveryCall;

    /// The request of a tenant with this number.
    fn of(tenant: &str, number: usize) -> Item {
        let scope = Scope { tenant: tenant.into(), ..Scope::default() };
        Item::recovery(&scope, RecoveryCall::Expire { candidate: number.to_string().into() })
    }

    fn names(items: &[Item]) -> Vec<String> {
        items.iter().map(|item| item.scope().tenant.to_string()).collect()
    }

    #[test]
    fn a_batch_takes_what_it_has_room_for_and_the_rest_waits() {
        let mut due = DueItems::default();
        due.add((0..10).map(|n| of("a", n)).collect());
        assert_eq!(due.take(1_000, |_| 400).len(), 3, "the last one may exceed the room");
        due.add(vec![of("b", 0)]);
        assert_eq!(names(&due.take(usize::MAX, |_| 1)), ["a"; 7], "b is found again");
        assert!(due.is_empty());
    }

    #[test]
    fn callers_leave_a_share() {
        let mut due = DueItems::default();
        due.add((0..300).map(|n| of("a", n)).collect());
        assert_eq!(due.take(0, |_| 1).len(), DUE_SHARE);
        assert_eq!(due.take(0, |_| 1_000).len(), 1);
    }

    #[test]
    fn the_tenants_take_turns() {
        let mut due = DueItems::default();
        due.add(["a", "a", "a", "b", "c", "c"].map(|tenant| of(tenant, 0)).into());
        assert_eq!(names(&due.take(usize::MAX, |_| 1)), ["a", "b", "c", "a", "c", "a"]);
    }

    #[test]
    fn what_is_handed_over_is_in_groups_of_one_tenant_and_one_commit() {
        let due = ["a", "b", "a", "a"].map(|tenant| of(tenant, 0)).into();
        let groups = groups(due, |_| 500);
        let groups: Vec<_> = groups.iter().map(|items| names(items)).collect();
        assert_eq!(groups, [vec!["a", "a"], vec!["b"], vec!["a"]]);
    }
}
