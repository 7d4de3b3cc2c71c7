//! What waits, in a line for each tenant, and the tenants take turns: one that waits with ten thousand delays another by one.
//!
//! Within a tenant the order is that of arrival. Everything counts the same here; where what waits differs in what it costs,
//! see [`crate::intake`].
//!
//! Invariant: no line is empty, and a tenant has one at most.

use std::collections::{HashMap, VecDeque};

use verdict::Name;

#[derive(Debug)]
pub(crate) struct TenantTurns<T> {
    lines: HashMap<Name, VecDeque<T>>,
    /// The tenants that have a line, the next turn first.
    turns: VecDeque<Name>,
    len: usize,
}

impl<T> Default for TenantTurns<T> {
    fn default() -> Self {
        Self { lines: HashMap::new(), turns: VecDeque::new(), len: 0 }
    }
}

impl<T> TenantTurns<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[cfg(any(feature = "http", test))]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Behind what else the tenant waits with.
    pub(crate) fn push(&mut self, tenant: &Name, waiting: T) {
        if !self.lines.contains_key(tenant) {
            self.turns.push_back(tenant.clone());
        }
        self.lines.entry(tenant.clone()).or_default().push_back(waiting);
        self.len += 1;
    }

    /// The first in the line of the tenant whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let tenant = self.turns.pop_front()?;
        let line = self.lines.get_mut(&tenant).expect("a tenant with a turn has a line");
        let first = line.pop_front();
        match line.is_empty() {
            true => drop(self.lines.remove(&tenant)),
            false => self.turns.push_back(tenant),
        }
        self.len -= 1;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_comes_after_ten_thousand_is_next() {
        let (busy, calm) = (Name::from("busy"), Name::from("calm"));
        let mut turns = TenantTurns::default();
        (0..10_000).for_each(|n| turns.push(&busy, n));
        (20_000..20_002).for_each(|n| turns.push(&calm, n));
        let order: Vec<i32> = std::iter::from_fn(|| turns.pop()).take(5).collect();
        assert_eq!(order, [0, 20_000, 1, 20_001, 2]);
        assert_eq!(turns.len(), 9_997);
        while turns.pop().is_some() {}
        assert!(turns.is_empty() && turns.lines.is_empty() && turns.turns.is_empty());
    }
}
