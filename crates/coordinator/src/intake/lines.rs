//! What waits in one priority class, in a line for each tenant, and the tenants take turns.
//!
//! A turn is worth a number of units of a commit. A call that weighs more than its tenant's turn is carried all the same, and
//! its tenant passes as many turns as it took in advance, while others wait: a tenant that submits a thousand runs with each
//! call delays one that submits a single run by about one commit. Within a tenant the order is that of arrival.
//!
//! Questions of the server itself to the carrier have no tenant, weigh nothing and go first. The end comes last.
//!
//! Invariants:
//! - a line is never empty, and a tenant has one at most;
//! - a tenant without a line owes nothing: what it took in advance counts only while it goes on to ask for more.

use std::collections::{HashMap, VecDeque};

use verdict::Name;

use super::Arrival;

/// What one turn is worth, in units of a commit: small enough that many tenants share one commit, and large enough that single
/// submissions of a tenant are mostly taken together.
const TURN: isize = 64;

/// What a tenant waits with.
#[derive(Debug, Default)]
struct Line {
    arrivals: VecDeque<Arrival>,
    /// What is left of the tenant's turns; below zero is what it took in advance.
    credit: isize,
}

#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Without a tenant.
    first: VecDeque<Arrival>,
    lines: HashMap<Name, Line>,
    /// The tenants that have a line, the next turn first.
    turns: VecDeque<Name>,
    last: Option<Arrival>,
    len: usize,
}

impl Lines {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, arrival: Arrival) {
        self.len += 1;
        let tenant = match (&arrival, arrival.tenant()) {
            (Arrival::Close, _) => return self.last = Some(arrival),
            (_, None) => return self.first.push_back(arrival),
            (_, Some(tenant)) => tenant.clone(),
        };
        let is_new = !self.lines.contains_key(&tenant);
        if is_new {
            self.turns.push_back(tenant.clone());
        }
        self.lines.entry(tenant).or_default().arrivals.push_back(arrival);
    }

    /// The next arrival, and what it weighs.
    pub(super) fn pop(&mut self, weigh: impl Fn(&Arrival) -> usize) -> Option<(Arrival, usize)> {
        let arrival = match self.first.pop_front() {
            Some(arrival) => arrival,
            None if self.turns.is_empty() => self.last.take()?,
            None => return Some(self.pop_of_tenant(weigh)),
        };
        self.len -= 1;
        let weight = weigh(&arrival);
        Some((arrival, weight))
    }

    /// Takes out the newest arrival of the tenant that waits with most.
    pub(super) fn shed(&mut self) -> Option<Arrival> {
        let most = self.lines.iter().max_by_key(|(_, line)| line.arrivals.len());
        let tenant = most.map(|(tenant, _)| tenant.clone())?;
        let line = self.lines.get_mut(&tenant).expect("it was just found");
        let newest = line.arrivals.pop_back();
        if line.arrivals.is_empty() {
            self.lines.remove(&tenant);
            self.turns.retain(|it| *it != tenant);
        }
        self.len -= 1;
        newest
    }

    /// Of the tenant whose turn it is. A lone tenant passes no turns, whatever it took.
    fn pop_of_tenant(&mut self, weigh: impl Fn(&Arrival) -> usize) -> (Arrival, usize) {
        let is_alone = self.turns.len() == 1;
        loop {
            let tenant = self.turns.front().expect("it was asked whether a tenant waits");
            let line = self.lines.get_mut(tenant).expect("a tenant with a turn has a line");
            if line.credit <= 0 && !is_alone {
                line.credit += TURN;
                self.turns.rotate_left(1);
                continue;
            }
            let arrival = line.arrivals.pop_front().expect("a line is never empty");
            let weight = weigh(&arrival);
            line.credit = if is_alone { 0 } else { line.credit - weight.cast_signed() };
            if line.arrivals.is_empty() {
                self.lines.remove(tenant);
                self.turns.pop_front();
            }
            self.len -= 1;
            return (arrival, weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use verdict::{Scope, Time};

    use super::super::{CountPolls, ListPolls};
    use super::*;
    use crate::item::{Poll, WaitingPoll};
    use crate::outbox::Endpoints;

    /// An arrival of a tenant. How much it weighs is said apart.
    fn of(tenant: &str) -> Arrival {
        let scope = Scope { tenant: tenant.into(), ..Scope::default() };
        let poll = Poll {
            scope,
            worker: "w".into(),
            queues: Vec::new(),
            kinds: None,
            max: 1,
            until: tokio::time::Instant::now(),
            poll: None,
            build: None,
        };
        Arrival::Poll(WaitingPoll { poll, reply: oneshot::channel().0 })
    }

    fn lines(tenants: &[(&str, usize)]) -> Lines {
        let mut lines = Lines::default();
        for (tenant, count) in tenants {
            (0..*count).for_each(|_| lines.push(of(tenant)));
        }
        lines
    }

    /// What tenants weigh: those of `big` a thousand each time, others one.
    fn weigh(arrival: &Arrival) -> usize {
        match arrival.tenant().map(Name::as_str) {
            Some("big") => 1_000,
            Some(_) => 1,
            None => 0,
        }
    }

    fn order(lines: &mut Lines, count: usize) -> Vec<String> {
        let next = |lines: &mut Lines| lines.pop(weigh).map(|(arrival, _)| arrival);
        let name = |arrival: Arrival| arrival.tenant().map_or_else(String::new, Name::to_string);
        std::iter::from_fn(|| next(lines)).take(count).map(name).collect()
    }

    #[test]
    fn one_who_comes_after_a_flood_is_next() {
        let mut lines = lines(&[("big", 6), ("small", 1)]);
        assert_eq!(order(&mut lines, 3), ["big", "small", "big"]);
    }

    #[test]
    fn tenants_share_by_what_they_write_and_not_by_calls() {
        let mut lines = lines(&[("big", 6), ("small", 3_000)]);
        let taken = order(&mut lines, 2_000);
        let big = taken.iter().filter(|tenant| *tenant == "big").count();
        assert!((2..=3).contains(&big), "about a thousand units of each in turn: {big}");
        assert_eq!(taken.len(), 2_000);
    }

    #[test]
    fn light_tenants_alternate_in_turns() {
        let mut lines = lines(&[("a", 100), ("b", 100)]);
        let taken = order(&mut lines, 200);
        let of_a = taken[..128].iter().filter(|tenant| *tenant == "a").count();
        assert_eq!(of_a, 64, "{taken:?}");
        assert_eq!(lines.len(), 0);
    }

    #[test]
    fn the_tenant_that_waits_with_most_is_refused_its_newest() {
        let mut lines = lines(&[("few", 2), ("many", 3)]);
        let of = |arrival: Arrival| arrival.tenant().map(Name::to_string);
        assert_eq!(lines.shed().and_then(of).as_deref(), Some("many"));
        assert_eq!(lines.len(), 4);
        let mut lines = self::lines(&[("one", 1)]);
        assert_eq!(lines.shed().and_then(of).as_deref(), Some("one"));
        assert!(lines.shed().is_none() && lines.pop(weigh).is_none(), "no empty line has a turn");
        lines.push(self::of("one"));
        assert_eq!(order(&mut lines, 2), ["one"]);
    }

    #[test]
    fn a_lone_tenant_owes_nothing() {
        let mut lines = lines(&[("big", 3)]);
        assert_eq!(order(&mut lines, 3).len(), 3);
        let mut lines = self::lines(&[("big", 3)]);
        order(&mut lines, 2);
        lines.push(of("small"));
        assert_eq!(order(&mut lines, 2), ["big", "small"]);
    }

    #[test]
    fn questions_to_the_carrier_come_first_and_the_end_last() {
        let mut lines = Lines::default();
        lines.push(Arrival::Close);
        lines.push(of("a"));
        lines.push(Arrival::TasksEnded { created: Vec::new(), at: Time::default() });
        let mut next = || lines.pop(weigh).map(|(arrival, _)| arrival);
        assert!(matches!(next(), Some(Arrival::TasksEnded { .. })));
        assert!(matches!(next(), Some(Arrival::Poll(_))));
        assert!(matches!(next(), Some(Arrival::Close)));
        assert!(next().is_none());
        assert_eq!(lines.len(), 0);
    }

    #[test]
    fn questions_about_polls_are_of_a_tenant_and_weigh_something() {
        let scope = Scope::default();
        let (queue, kind) = (Name::from("q"), Name::from("k"));
        let count = CountPolls { scope: scope.clone(), queue, kind, reply: oneshot::channel().0 };
        let (queues, after, reply) = (None, None, oneshot::channel().0);
        let list = ListPolls { scope: scope.clone(), queues, after, limit: 1, reply };
        for question in [Arrival::CountPolls(count), Arrival::ListPolls(list)] {
            assert_eq!(question.tenant(), Some(&scope.tenant));
            assert!(question.weight(&Endpoints::new()) > 0);
        }
    }
}
