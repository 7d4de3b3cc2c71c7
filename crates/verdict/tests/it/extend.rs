//! Lease time runs only while a coordinator could have received a heartbeat.

use verdict::request::Extend;
use verdict::{Answer, Event, Policy, Request, Time};

use crate::world::{START, World, secs};

fn gap(stalled_since: Time, seconds: u64) -> Request {
    Request::Extend(Extend { stalled_since, gap: secs(seconds) })
}

#[test]
fn an_outage_of_ours_costs_no_honest_worker_its_lease() {
    let (mut world, caller) = World::running();
    world.beat(&caller);
    let (stalled_since, before) = (START.plus(secs(10)), world.task().claim_version);
    world.now = START.plus(secs(310));
    assert_eq!(world.extend(stalled_since, secs(300)), Answer::Done);
    // The lease has as much time left as it had when the stall began, and the history records it.
    assert_eq!(world.lease().expires_at, START.plus(secs(390)));
    assert!(world.events.iter().all(Event::is_history));
    assert_eq!(world.task().claim_version, before + 1);
    assert!(matches!(world.beat(&caller), Answer::Alive { .. }));
}

#[test]
fn a_heartbeat_after_an_extension_shortens_nothing() {
    let (mut world, caller) = World::running();
    world.extend(START, secs(300));
    let extended = world.lease().expires_at;
    // a renewal never shortens a lease, and the worker receives the real expiry.
    assert_eq!(world.beat(&caller), Answer::Alive { expires_at: extended, cancel: None });
    assert_eq!(world.lease().expires_at, extended);
}

#[test]
fn one_outage_is_given_back_once_however_many_coordinators_return_from_it() {
    let (mut world, _) = World::running();
    let (stalled_since, end) = (START.plus(secs(10)), world.lease().expires_at);
    world.now = stalled_since.plus(secs(300));
    world.extend(stalled_since, secs(300));
    assert_eq!(world.lease().expires_at, end.plus(secs(300)));
    // The second coordinator stalled for as long, and can add only the time by which it returned
    // later.
    assert_eq!(world.ask_in_vain(gap(stalled_since, 300)), Answer::Nothing);
    world.now = world.now.plus(secs(2));
    world.extend(stalled_since, secs(302));
    assert_eq!(world.lease().expires_at, end.plus(secs(302)));
}

#[test]
fn a_lease_that_had_run_out_before_stays_lost() {
    let (mut world, _) = World::running();
    let end = world.lease().expires_at;
    world.now = end.plus(secs(300));
    // S3-49: the lease expired before the gap began, so the gap does not extend it.
    assert_eq!(world.ask_in_vain(gap(end, 300)), Answer::Nothing);
    // S3-24: nor does it revive a lease of an earlier epoch.
    world.epoch = 2;
    assert_eq!(world.ask_in_vain(gap(START, 300)), Answer::Nothing);
}

#[test]
fn an_extension_never_passes_limit_or_deadline() {
    let deadline = START.plus(secs(120));
    let (mut world, _) =
        World::running_with(Policy { deadline: Some(deadline), ..Policy::default() });
    world.extend(START, secs(300));
    // W-31: the deadline holds despite the outage.
    assert_eq!(world.lease().expires_at, deadline);
}

#[test]
fn the_grace_of_a_signalled_cancel_is_extended_too() {
    let (mut world, caller) = World::running();
    world.cancel();
    world.beat(&caller);
    world.extend(START.plus(secs(1)), secs(300));
    assert_eq!(world.task().grace_ends_at(), Some(START.plus(secs(330))));
}

#[test]
fn what_is_not_running_has_no_lease_to_extend() {
    for mut world in [World::empty(), World::queued(), World::retrying().0, World::succeeded().0] {
        assert_eq!(world.ask_in_vain(gap(START, 9)), Answer::Nothing);
    }
}
