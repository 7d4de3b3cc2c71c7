//! Whose steps are prepared next: the tenants take turns, and the scopes of a tenant.
//!
//! Scopes in which steps begin to wait while others are prepared join at once. A long look at one tenant's ten thousand steps
//! keeps no other tenant's step waiting.

use std::collections::HashSet;

use verdict::{ObjectKey, Scope};

use crate::tenant_turns::TenantTurns;

/// The scopes of one look that are not at their end.
#[derive(Default)]
pub(super) struct Turns {
    /// Each with the step behind which it goes on.
    waiting: TenantTurns<(Scope, Option<ObjectKey>)>,
    /// Those that are somewhere in between: a step that came since may stand before that place.
    begun: HashSet<Scope>,
    passed: usize,
}

impl Turns {
    /// Adds scopes in which steps wait. Returns whether one of them is somewhere in between, and must be looked at again.
    pub(super) fn add(&mut self, scopes: Vec<Scope>) -> bool {
        let mut is_between = false;
        for scope in scopes {
            match self.begun.insert(scope.clone()) {
                true => self.waiting.push(&scope.tenant.clone(), (scope, None)),
                false => is_between = true,
            }
        }
        self.passed = 0;
        is_between
    }

    pub(super) fn next(&mut self) -> Option<(Scope, Option<ObjectKey>)> {
        self.passed += 1;
        self.waiting.pop()
    }

    /// The scope had its turn and goes on behind this step, or has come to its end.
    pub(super) fn had(&mut self, scope: Scope, goes_on: Option<Option<ObjectKey>>) {
        match goes_on {
            Some(after) => self.waiting.push(&scope.tenant.clone(), (scope, after)),
            None => drop(self.begun.remove(&scope)),
        }
    }

    /// Whether as many had their turn as wait: time to see who else waits.
    pub(super) fn is_round_over(&self) -> bool {
        self.passed >= self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(turns: &mut Turns, ends: &[&str]) -> Vec<String> {
        let next = |turns: &mut Turns| {
            let (scope, after) = turns.next()?;
            let name = format!("{}/{}", scope.tenant, scope.workspace);
            let goes_on = (!ends.contains(&name.as_str())).then_some(after);
            turns.had(scope, goes_on);
            Some(name)
        };
        std::iter::from_fn(|| next(turns)).take(4).collect()
    }

    #[test]
    fn a_tenant_with_many_workspaces_has_no_more_turns_than_one_with_one() {
        let mut turns = Turns::default();
        let busy = ["a", "b", "c"].map(|workspace| Scope::new("busy", workspace));
        assert!(!turns.add(busy.to_vec()));
        assert_eq!(order(&mut turns, &[]), ["busy/a", "busy/b", "busy/c", "busy/a"]);
        assert!(turns.is_round_over());
        assert!(!turns.add(vec![Scope::new("calm", "main")]), "it joins while others go on");
        assert!(!turns.is_round_over());
        let first = order(&mut turns, &["calm/main"]);
        assert!(first[..2].contains(&"calm/main".to_owned()), "{first:?}");
    }

    #[test]
    fn a_scope_that_is_between_is_looked_at_again_and_one_at_its_end_begins_anew() {
        let (mut turns, scope) = (Turns::default(), Scope::new("t", "w"));
        turns.add(vec![scope.clone()]);
        let (taken, _) = turns.next().expect("it waits");
        turns.had(taken, Some(None));
        assert!(turns.add(vec![scope.clone()]));
        let (taken, _) = turns.next().expect("once");
        turns.had(taken, None);
        assert!(turns.next().is_none());
        assert!(!turns.add(vec![scope]));
        assert!(turns.next().is_some());
    }
}
