//! Whose turn it is to change keys, limits or pauses: one at a time, and the tenants take turns.
//!
//! A change is decided by what is known here and is durable before the next one begins, so changes wait for each other. Each
//! is a commit: a tenant that makes a thousand keys at once would keep the revocation of another tenant's key waiting for as
//! many commits. What other coordinators have changed is taken over before any change that waits, or a key that was revoked
//! there would go on to be valid here.
//!
//! It does not decide about changes. A caller that leaves while it waits is passed over.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use verdict::Name;

use crate::tenant_turns::TenantTurns;

/// Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct ChangeTurns(Arc<Mutex<Waiting>>);

/// The right to change. The next one has it when this is dropped.
pub(super) struct Turn(Option<ChangeTurns>);

/// Where the turn is passed on to.
type Next = oneshot::Sender<Turn>;

#[derive(Default)]
struct Waiting {
    is_taken: bool,
    /// What takes over the changes of other coordinators.
    server: VecDeque<Next>,
    tenants: TenantTurns<Next>,
}

impl ChangeTurns {
    /// Waits for a turn of this tenant.
    pub(super) async fn of_tenant(&self, tenant: &Name) -> Turn {
        self.wait(|waiting, next| waiting.tenants.push(tenant, next)).await
    }

    /// Waits for the change that is under way, and for no other.
    pub(super) async fn of_server(&self) -> Turn {
        self.wait(|waiting, next| waiting.server.push_back(next)).await
    }

    async fn wait(&self, line_up: impl FnOnce(&mut Waiting, Next)) -> Turn {
        let passed_on = {
            let mut waiting = self.lock();
            if !waiting.is_taken {
                waiting.is_taken = true;
                return Turn(Some(self.clone()));
            }
            let (sender, passed_on) = oneshot::channel();
            line_up(&mut waiting, sender);
            passed_on
        };
        passed_on.await.expect("a line is kept until all in it had their turn")
    }

    /// To the next who still waits.
    fn pass_on(self) {
        loop {
            let next = self.lock().next();
            let Some(next) = next else { return };
            match next.send(Turn(Some(self.clone()))) {
                Ok(()) => return,
                Err(mut unwanted) => unwanted.0 = None,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Takes the next one out of its line; the turn is free if there is none.
    fn next(&mut self) -> Option<Next> {
        let next = self.server.pop_front().or_else(|| self.tenants.pop());
        self.is_taken = next.is_some();
        next
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    use super::*;

    /// Waits of these tenants, in this order.
    fn wait_all(
        turns: &ChangeTurns,
        tenants: &[&'static str],
    ) -> Vec<(String, BoxFuture<'static, Turn>)> {
        let wait = |tenant: &&'static str| {
            let (turns, name) = (turns.clone(), (*tenant).to_owned());
            let waits = async move { turns.of_tenant(&name.as_str().into()).await };
            let mut waits = waits.boxed();
            assert!((&mut waits).now_or_never().is_none(), "the turn is taken");
            ((*tenant).to_owned(), waits)
        };
        tenants.iter().map(wait).collect()
    }

    /// The one that has the turn now.
    fn next(waits: &mut Vec<(String, BoxFuture<'static, Turn>)>) -> Option<(String, Turn)> {
        let found = waits
            .iter_mut()
            .enumerate()
            .find_map(|(place, (_, waits))| Some((place, waits.now_or_never()?)));
        found.map(|(place, turn)| (waits.remove(place).0, turn))
    }

    #[test]
    fn tenants_take_turns_however_many_changes_one_of_them_makes() {
        let turns = ChangeTurns::default();
        let mut held = turns.of_tenant(&"busy".into()).now_or_never().expect("it is free");
        let mut waits = wait_all(&turns, &["busy", "busy", "busy", "calm", "busy", "calm"]);
        let mut order = Vec::new();
        loop {
            drop(held);
            let Some((tenant, turn)) = next(&mut waits) else { break };
            assert!(next(&mut waits).is_none(), "one at a time");
            order.push(tenant);
            held = turn;
        }
        assert_eq!(order, ["busy", "calm", "busy", "calm", "busy", "busy"]);
        assert!(turns.lock().tenants.is_empty());
        assert!(turns.of_server().now_or_never().is_some(), "it is free again");
    }

    #[test]
    fn what_others_have_changed_is_taken_over_before_any_change_that_waits() {
        // X12: a revocation elsewhere is in force here in bounded time.
        let turns = ChangeTurns::default();
        let held = turns.of_tenant(&"busy".into()).now_or_never().expect("it is free");
        let mut waits = wait_all(&turns, &["busy", "busy"]);
        let mut server = turns.of_server().boxed();
        assert!((&mut server).now_or_never().is_none());
        drop(held);
        assert!(next(&mut waits).is_none());
        let taken_over = (&mut server).now_or_never().expect("it is next");
        drop(taken_over);
        assert!(next(&mut waits).is_some());
    }

    #[test]
    fn a_caller_that_leaves_takes_no_turn_with_it() {
        let turns = ChangeTurns::default();
        let held = turns.of_tenant(&"a".into()).now_or_never().expect("it is free");
        let mut waits = wait_all(&turns, &["a", "b", "c"]);
        drop(waits.remove(1));
        drop(held);
        let (first, turn) = next(&mut waits).expect("the next one");
        assert_eq!(first, "a");
        drop(turn);
        // One that left after it was given the turn and before it knew.
        let (name, last) = waits.remove(0);
        assert_eq!(name, "c");
        drop(last);
        assert!(turns.of_tenant(&"d".into()).now_or_never().is_some(), "it is free again");
    }
}
