//! What may be sent next, in memory: candidates of each endpoint by their time, and how many calls are in flight.
//!
//! Each endpoint has room of its own, so one that is slow or dead delays no other (D5). What one commit claims is shared in turns of
//! the tenants, and of a tenant's endpoints. Candidates are hints: one that is
//! wrong costs a refused claim, one that is missing is found by the next scan.

use std::collections::{BTreeSet, HashMap};

use store::effects::endpoint_of;
use verdict::effect::{EffectId, Endpoint, EndpointStatus};
use verdict::{Name, ObjectKey, Rate, RateUsage, Scope, Span, Time};

use super::{Candidate, Endpoints};
use crate::tenant_turns::TenantTurns;

/// Candidates that are kept for one endpoint. More are found by a scan when these are gone.
const CANDIDATES_MAX: usize = 10_000;

/// Calls in flight to all endpoints together: each is a connection.
const IN_FLIGHT_MAX: usize = 2_048;

/// Of one tenant: half of them, so that one whose receivers do not answer leaves room for others.
const IN_FLIGHT_OF_TENANT_MAX: usize = IN_FLIGHT_MAX / 2;

/// Effects claimed in one commit.
const CLAIMS_MAX: usize = 256;

pub(super) type Place = (Scope, Name);

#[derive(Default)]
pub(super) struct Agenda {
    waiting: HashMap<Place, Waiting>,
    in_flight: InFlight,
    /// How often something was taken: each time another tenant and another endpoint is first.
    round: usize,
}

/// How many calls are in flight.
#[derive(Default)]
struct InFlight {
    all: usize,
    /// At most one entry for each tenant with calls.
    by_tenant: HashMap<Name, usize>,
}

#[derive(Default)]
struct Waiting {
    by_time: BTreeSet<(Time, ObjectKey)>,
    times: HashMap<ObjectKey, (Time, EffectId)>,
    in_flight: usize,
    spent: RateUsage,
    /// Candidates were dropped.
    is_partial: bool,
}

impl Agenda {
    pub(super) fn add(&mut self, candidate: Candidate) {
        let Candidate { key, id, due } = candidate;
        let Some(endpoint) = endpoint_of(&key) else { return };
        let waiting = self.waiting.entry((key.scope.clone(), endpoint)).or_default();
        if let Some((before, _)) = waiting.times.get(&key) {
            waiting.by_time.remove(&(*before, key.clone()));
        } else if waiting.times.len() == CANDIDATES_MAX {
            waiting.is_partial = true;
            return;
        }
        waiting.times.insert(key.clone(), (due, id));
        waiting.by_time.insert((due, key));
    }

    /// Whether there is room for more candidates of an endpoint.
    pub(super) fn has_room(&self, place: &Place) -> bool {
        self.waiting.get(place).is_none_or(|waiting| waiting.times.len() < CANDIDATES_MAX)
    }

    /// Whether candidates that were dropped fit again.
    pub(super) fn wants_scan(&self) -> bool {
        let wants = |it: &Waiting| it.is_partial && it.times.len() < CANDIDATES_MAX / 2;
        self.waiting.values().any(wants)
    }

    /// A scan has begun: what it leaves out is noted again.
    pub(super) fn scanning(&mut self) {
        self.waiting.values_mut().for_each(|waiting| waiting.is_partial = false);
    }

    /// Takes what is due and has room, and counts it as in flight. Tenants take turns, and the endpoints of each.
    pub(super) fn take(&mut self, endpoints: &Endpoints, now: Time) -> Vec<(Place, Candidate)> {
        let mut taken = Vec::new();
        if faultpoint::mutant(23) && self.is_any_full(endpoints) {
            return taken;
        }
        let mut turns = self.turns(endpoints, now);
        while taken.len() < CLAIMS_MAX
            && let Some(place) = turns.pop()
        {
            let Some(candidate) = self.take_one(&place, endpoints, now) else { continue };
            turns.push(&place.0.tenant, place.clone());
            taken.push((place, candidate));
        }
        taken
    }

    /// The endpoints to which something may be sent now.
    fn turns(&mut self, endpoints: &Endpoints, now: Time) -> TenantTurns<Place> {
        let may_send = |(place, waiting): &(&Place, &Waiting)| {
            let endpoint = endpoint(endpoints, place);
            waiting.is_due(now) && endpoint.is_some_and(|endpoint| waiting.may_send(endpoint, now))
        };
        let ready: Vec<&Place> = self.waiting.iter().filter(may_send).map(|it| it.0).collect();
        self.round = self.round.wrapping_add(1);
        let first = self.round.checked_rem(ready.len()).unwrap_or(0);
        let mut turns = TenantTurns::default();
        for place in ready[first..].iter().chain(&ready[..first]) {
            turns.push(&place.0.tenant, (*place).clone());
        }
        turns
    }

    fn take_one(&mut self, place: &Place, endpoints: &Endpoints, now: Time) -> Option<Candidate> {
        let (waiting, endpoint) = (self.waiting.get_mut(place)?, endpoint(endpoints, place)?);
        if self.in_flight.room(&place.0.tenant) == 0 || !waiting.may_send(endpoint, now) {
            return None;
        }
        let candidate = waiting.pop_due(now)?;
        waiting.spend(endpoint, now);
        waiting.in_flight += 1;
        self.in_flight.begin(&place.0.tenant);
        Some(candidate)
    }

    /// Bug 23 of the museum asks whether any endpoint has no room.
    fn is_any_full(&self, endpoints: &Endpoints) -> bool {
        let is_full = |(place, waiting): (&Place, &Waiting)| {
            endpoint(endpoints, place)
                .is_some_and(|it| waiting.in_flight >= it.concurrency as usize)
        };
        self.waiting.iter().any(is_full)
    }

    /// A call has ended, or was not begun.
    pub(super) fn finished(&mut self, place: &Place) {
        if let Some(waiting) = self.waiting.get_mut(place) {
            waiting.in_flight -= 1;
            self.in_flight.end(&place.0.tenant);
            if waiting.times.is_empty() && waiting.in_flight == 0 && !waiting.is_partial {
                self.waiting.remove(place);
            }
        }
    }

    /// When to look again, as far as time decides it.
    pub(super) fn next(&self, endpoints: &Endpoints, now: Time) -> Option<Span> {
        let next = |(place, waiting): (&Place, &Waiting)| {
            let endpoint = endpoint(endpoints, place)?;
            let is_full = waiting.in_flight >= endpoint.concurrency as usize;
            if is_full || self.in_flight.room(&place.0.tenant) == 0 {
                return None;
            }
            let (due, _) = waiting.by_time.first()?;
            Some(due.since(now).max(waiting.rate_pause(endpoint, now)))
        };
        self.waiting.iter().filter_map(next).min()
    }
}

impl InFlight {
    /// How many more calls to endpoints of a tenant may begin.
    fn room(&self, tenant: &Name) -> usize {
        let of_tenant = self.by_tenant.get(tenant).copied().unwrap_or(0);
        let left = IN_FLIGHT_OF_TENANT_MAX.saturating_sub(of_tenant);
        IN_FLIGHT_MAX.saturating_sub(self.all).min(left)
    }

    fn begin(&mut self, tenant: &Name) {
        self.all += 1;
        match self.by_tenant.get_mut(tenant) {
            Some(count) => *count += 1,
            None => drop(self.by_tenant.insert(tenant.clone(), 1)),
        }
    }

    fn end(&mut self, tenant: &Name) {
        self.all -= 1;
        if let Some(count) = self.by_tenant.get_mut(tenant) {
            *count -= 1;
            if *count == 0 {
                self.by_tenant.remove(tenant);
            }
        }
    }
}

/// The endpoint, if something can be done about its effects now: send them, or give them up.
fn endpoint<'a>(endpoints: &'a Endpoints, (scope, name): &Place) -> Option<&'a Endpoint> {
    let endpoint = &endpoints.get(scope)?.get(name)?.endpoint;
    (endpoint.status != EndpointStatus::Disabled).then_some(endpoint)
}

impl Waiting {
    fn may_send(&self, endpoint: &Endpoint, now: Time) -> bool {
        self.in_flight < endpoint.concurrency as usize
            && self.rate_pause(endpoint, now) == Span::ZERO
    }

    fn rate_pause(&self, endpoint: &Endpoint, now: Time) -> Span {
        let taken = endpoint.rate.map(|rate| Rate::new(rate, None).try_acquire(self.spent, now));
        taken.and_then(Result::err).unwrap_or(Span::ZERO)
    }

    fn spend(&mut self, endpoint: &Endpoint, now: Time) {
        if let Some(rate) = endpoint.rate
            && let Ok(spent) = Rate::new(rate, None).try_acquire(self.spent, now)
        {
            self.spent = spent;
        }
    }

    fn is_due(&self, now: Time) -> bool {
        self.by_time.first().is_some_and(|(due, _)| due.has_come(now))
    }

    fn pop_due(&mut self, now: Time) -> Option<Candidate> {
        let (due, _) = self.by_time.first()?;
        if !due.has_come(now) {
            return None;
        }
        let (due, key) = self.by_time.pop_first()?;
        let (_, id) = self.times.remove(&key)?;
        Some(Candidate { key, id, due })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::effects::{StoredEndpoint, effect_key};
    use verdict::TaskId;
    use verdict::effect::LineId;

    use super::*;

    fn at(millis: i64) -> Time {
        Time::from_millis(millis)
    }

    fn endpoints(all: &[Endpoint]) -> Endpoints {
        let stored = |endpoint: &Endpoint| {
            let (endpoint, created_at) = (endpoint.clone(), Time::default());
            (
                endpoint.name.clone(),
                Arc::new(StoredEndpoint { endpoint, secrets: vec![], created_at }),
            )
        };
        [(Scope::default(), all.iter().map(stored).collect())].into()
    }

    fn endpoint(name: &str, concurrency: u32) -> Endpoint {
        Endpoint { concurrency, ..Endpoint::new(name.into(), "https://example.com/".into()) }
    }

    fn candidate(endpoint: &str, aggregate: &str, due: i64) -> Candidate {
        let (scope, endpoint) = (Scope::default(), Name::from(endpoint));
        let line = LineId::of(&scope, &endpoint, &aggregate.into());
        let id = EffectId::of_end(TaskId::from_u128(7), &endpoint);
        Candidate { key: effect_key(&scope, &endpoint, line, 1), id, due: at(due) }
    }

    #[test]
    fn a_full_endpoint_takes_no_room_of_another() {
        // D5
        let known = endpoints(&[endpoint("dead", 2), endpoint("well", 2)]);
        let mut agenda = Agenda::default();
        (0..50).for_each(|n| agenda.add(candidate("dead", &format!("a{n}"), 0)));
        assert_eq!(agenda.take(&known, at(1)).len(), 2);
        assert_eq!(agenda.take(&known, at(1)).len(), 0, "two are in flight");
        agenda.add(candidate("well", "b", 0));
        assert_eq!(agenda.next(&known, at(1)), Some(Span::ZERO));
        let taken = agenda.take(&known, at(1));
        assert_eq!(taken.iter().map(|(place, _)| place.1.as_str()).collect::<Vec<_>>(), ["well"]);
        agenda.finished(&(Scope::default(), "dead".into()));
        assert_eq!(agenda.take(&known, at(1)).len(), 1);
    }

    #[test]
    fn a_tenant_whose_receivers_do_not_answer_leaves_half_of_the_calls_to_others() {
        let (stuck, other) = (Scope::new("stuck", "main"), Scope::new("other", "main"));
        let many: Vec<Endpoint> = (0..10).map(|n| endpoint(&format!("e{n}"), 256)).collect();
        let of_scope = endpoints(&many).remove(&Scope::default()).unwrap();
        let known: Endpoints =
            [(stuck.clone(), of_scope.clone()), (other.clone(), of_scope)].into();
        let mut agenda = Agenda::default();
        let add = |agenda: &mut Agenda, scope: &Scope| {
            for n in 0..2_560 {
                let candidate = candidate(&format!("e{}", n % 10), &format!("a{n}"), 0);
                let key = ObjectKey { scope: scope.clone(), ..candidate.key };
                agenda.add(Candidate { key, ..candidate });
            }
        };
        let take_all = |agenda: &mut Agenda| {
            let taken = std::iter::from_fn(|| Some(agenda.take(&known, at(1))));
            taken.take_while(|taken| !taken.is_empty()).flatten().collect::<Vec<_>>()
        };
        add(&mut agenda, &stuck);
        let held = take_all(&mut agenda);
        assert_eq!(held.len(), IN_FLIGHT_OF_TENANT_MAX);
        assert_eq!(agenda.next(&known, at(1)), None, "it waits for one of its own calls");
        add(&mut agenda, &other);
        assert_eq!(agenda.next(&known, at(1)), Some(Span::ZERO));
        assert_eq!(held.len() + take_all(&mut agenda).len(), IN_FLIGHT_MAX);
        agenda.finished(&held[0].0);
        assert_eq!(take_all(&mut agenda).len(), 1);
    }

    #[test]
    fn a_tenant_with_ten_thousand_due_leaves_room_in_every_commit() {
        let scopes = [Scope::new("busy", "main"), Scope::new("calm", "main")];
        let names: Vec<String> = (0..8).map(|n| format!("e{n}")).collect();
        let many: Vec<Endpoint> = names.iter().map(|name| endpoint(name, 256)).collect();
        let of_scope = endpoints(&many).remove(&Scope::default()).unwrap();
        let known: Endpoints = scopes.clone().map(|scope| (scope, of_scope.clone())).into();
        let mut agenda = Agenda::default();
        let mut add = |scope: &Scope, name: &str, n: i32| {
            let candidate = candidate(name, &format!("a{n}"), 0);
            let key = ObjectKey { scope: scope.clone(), ..candidate.key };
            agenda.add(Candidate { key, ..candidate });
        };
        for name in &names {
            (0..1_000).for_each(|n| add(&scopes[0], name, n));
        }
        (0..20).for_each(|n| add(&scopes[1], "e3", n));
        let taken = agenda.take(&known, at(1));
        let of = |scope: &Scope| taken.iter().filter(|(place, _)| place.0 == *scope).count();
        assert_eq!((taken.len(), of(&scopes[1])), (CLAIMS_MAX, 20));
        // Its own endpoints share the rest evenly.
        let least = names.iter().map(|name| {
            taken
                .iter()
                .filter(|(place, _)| place.0 == scopes[0] && place.1.as_str() == name)
                .count()
        });
        assert_eq!(least.min(), Some((CLAIMS_MAX - 20) / names.len()));
    }

    #[test]
    fn nothing_is_taken_before_its_time_or_for_a_disabled_endpoint() {
        // D8, D10
        let known = endpoints(&[endpoint("a", 2)]);
        let mut agenda = Agenda::default();
        agenda.add(candidate("a", "x", 500));
        assert_eq!(agenda.take(&known, at(499)), []);
        assert_eq!(agenda.next(&known, at(100)), Some(Span::from_millis(400)));
        let disabled = Endpoint { status: EndpointStatus::Disabled, ..endpoint("a", 2) };
        assert_eq!(agenda.take(&endpoints(&[disabled]), at(500)), []);
        assert_eq!(agenda.take(&known, at(500)).len(), 1);
    }

    #[test]
    fn a_rate_spreads_calls_over_time() {
        let limited = Endpoint { rate: Some(10), ..endpoint("a", 200) };
        let known = endpoints(&[limited]);
        let mut agenda = Agenda::default();
        (0..50).for_each(|n| agenda.add(candidate("a", &format!("x{n}"), 0)));
        assert_eq!(agenda.take(&known, at(10_000)).len(), 10);
        assert_eq!(agenda.next(&known, at(10_000)), Some(Span::from_millis(100)));
        assert_eq!(agenda.take(&known, at(10_100)).len(), 1);
    }

    #[test]
    fn a_candidate_is_kept_once_with_its_newest_time() {
        let known = endpoints(&[endpoint("a", 9)]);
        let mut agenda = Agenda::default();
        agenda.add(candidate("a", "x", 60_000));
        agenda.add(candidate("a", "x", 5));
        assert_eq!(agenda.take(&known, at(5)).len(), 1);
        assert_eq!(agenda.take(&known, at(90_000)), []);
        assert!(!agenda.wants_scan());
        (0..=CANDIDATES_MAX).for_each(|n| agenda.add(candidate("a", &format!("y{n}"), 5)));
        assert!(!agenda.has_room(&(Scope::default(), "a".into())));
    }
}
