//! Which lanes to look at next: in the order in which their turn comes, going round tenants.
//!
//! A look takes a bounded number of lanes. Every tenant whose lanes are due gets as many of those places as any other, and
//! of a tenant's places every second one is for lanes of queues that never held anything, as long as there are others: names
//! that somebody invented make nobody wait. Time that goes into such lanes is counted for their tenant, and gets a
//! small share. Lanes that take long are looked at one by one, beside the others.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;
use verdict::Name;

use super::candidates::LaneKey;
use super::pace::Pace;

/// How many lanes one look takes: some milliseconds of the database's time.
pub(super) const LANES_PER_LOOK: usize = 256;

/// A lane that took longer than this makes others wait if it is read with them.
const SLOW: Duration = Duration::from_millis(20);

/// Which lanes are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    /// Many at once.
    Quick,
    /// One after the other.
    Slow,
}

impl Class {
    pub(super) const ALL: [Class; 2] = [Class::Quick, Class::Slow];

    /// Of a lane whose last look took so long.
    pub(super) fn of(took: Duration) -> Self {
        if took > SLOW { Class::Slow } else { Class::Quick }
    }
}

/// What is known of a lane's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Renown {
    /// It has held something, or somebody needs the look now.
    Held,
    /// Nothing that anybody heard of was ever in it.
    Unheld,
}

/// Where a lane stands in the agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) at: Instant,
    pub(super) class: Class,
    pub(super) renown: Renown,
}

type Order = BTreeSet<(Instant, LaneKey)>;

#[derive(Default)]
struct Tenant {
    orders: HashMap<(Class, Renown), Order>,
    /// Of the time that went into queues which never held anything.
    unheld: Option<Pace>,
}

impl Tenant {
    fn is_resting(&self, here: Instant) -> bool {
        self.unheld.is_some_and(|pace| here < pace.rests_until(Duration::ZERO))
    }

    /// The first lane of an order, if its turn has come.
    fn pop(&mut self, class: Class, renown: Renown, here: Instant) -> Option<LaneKey> {
        if renown == Renown::Unheld && self.is_resting(here) {
            return None;
        }
        let order = self.orders.get_mut(&(class, renown))?;
        let (at, _) = order.first()?;
        if *at > here {
            return None;
        }
        order.pop_first().map(|(_, key)| key)
    }

    fn is_empty(&self) -> bool {
        self.orders.values().all(BTreeSet::is_empty)
    }

    /// When a lane of this class is next to be looked at.
    fn next(&self, class: Class) -> Option<Instant> {
        let first = |renown| self.orders.get(&(class, renown)).and_then(|order| order.first());
        let rests = self.unheld.map(|pace| pace.rests_until(Duration::ZERO));
        let held = first(Renown::Held).map(|(at, _)| *at);
        let unheld = first(Renown::Unheld).map(|(at, _)| rests.map_or(*at, |rests| rests.max(*at)));
        [held, unheld].into_iter().flatten().min()
    }
}

#[derive(Default)]
pub(super) struct Agenda {
    tenants: HashMap<Name, Tenant>,
    /// In which order tenants come; the next look begins behind the last one of this.
    rota: Vec<Name>,
    last: usize,
}

impl Agenda {
    pub(super) fn add(&mut self, key: &LaneKey, turn: Turn) {
        let name = &key.scope.tenant;
        if !self.tenants.contains_key(name) {
            self.rota.push(name.clone());
            self.tenants.insert(name.clone(), Tenant::default());
        }
        let tenant = self.tenants.get_mut(name).expect("it was just put there");
        let order = tenant.orders.entry((turn.class, turn.renown)).or_default();
        order.insert((turn.at, key.clone()));
    }

    pub(super) fn remove(&mut self, key: &LaneKey, turn: Turn) {
        if let Some(tenant) = self.tenants.get_mut(&key.scope.tenant)
            && let Some(order) = tenant.orders.get_mut(&(turn.class, turn.renown))
        {
            order.remove(&(turn.at, key.clone()));
        }
    }

    /// Takes the lanes of the next look.
    pub(super) fn take(&mut self, class: Class, here: Instant) -> Vec<LaneKey> {
        let max = if class == Class::Slow { 1 } else { LANES_PER_LOOK };
        let mut taken = Vec::new();
        let mut passed_over = 0;
        self.forget_idle();
        while !self.rota.is_empty() && passed_over < self.rota.len() && taken.len() < max {
            self.last = (self.last + 1) % self.rota.len();
            let before = taken.len();
            if let Some(tenant) = self.tenants.get_mut(&self.rota[self.last]) {
                let both = [Renown::Held, Renown::Unheld];
                let lanes = both.into_iter().filter_map(|renown| tenant.pop(class, renown, here));
                taken.extend(lanes.take(max - before));
            }
            passed_over = if taken.len() == before { passed_over + 1 } else { 0 };
        }
        taken
    }

    /// Tenants without lanes that owe nothing.
    fn forget_idle(&mut self) {
        let here = tokio::time::Instant::now();
        self.tenants.retain(|_, tenant| !tenant.is_empty() || tenant.is_resting(here));
        if self.rota.len() > self.tenants.len() {
            let tenants = &self.tenants;
            self.rota.retain(|name| tenants.contains_key(name));
            self.last = 0;
        }
    }

    /// So much time went into lanes of a tenant whose queues never held anything.
    pub(super) fn spent_in_vain(&mut self, tenant: &Name, took: Duration, here: Instant) {
        if let Some(tenant) = self.tenants.get_mut(tenant) {
            tenant.unheld = Some(Pace::after(here, took, tenant.unheld));
        }
    }

    /// Whether a tenant's new names wait, since it has had its share of looks.
    pub(super) fn is_resting(&self, tenant: &Name, here: Instant) -> bool {
        self.tenants.get(tenant).is_some_and(|tenant| tenant.is_resting(here))
    }

    /// When there is next something to look at.
    pub(super) fn next(&self, class: Class) -> Option<Instant> {
        self.tenants.values().filter_map(|tenant| tenant.next(class)).min()
    }

    /// Of the tenant with the most lanes, one whose turn is furthest away: first of queues that never held anything.
    pub(super) fn most_idle(&self) -> Option<LaneKey> {
        let lanes = |tenant: &&Tenant| tenant.orders.values().map(BTreeSet::len).sum::<usize>();
        let largest = self.tenants.values().max_by_key(lanes)?;
        let last = |renown| {
            let orders = largest.orders.iter().filter(move |((_, it), _)| *it == renown);
            orders.filter_map(|(_, order)| order.last()).max_by_key(|(at, _)| *at)
        };
        last(Renown::Unheld).or_else(|| last(Renown::Held)).map(|(_, key)| key.clone())
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
