//! What happens to a world after everything in it has ended: forbidden calls, the judgement, and a day of retention.

use historyck::event::{EventKind, Moment, StateDigest};
use store::{Browse, ScanDepth, Store};

use super::{DRAIN_STEP_MS, Outcome, World};
use crate::background_actors::{forbidden, try_forbidden};
use crate::judge;

/// No ended task is deleted before a day has passed, and all are deleted soon after.
const ALMOST_A_DAY_MS: u64 = 23 * 60 * 60 * 1000;
const OVER_A_DAY_MS: u64 = 2 * 60 * 60 * 1000;
const FORGOTTEN_WITHIN_MS: u64 = 5 * 60 * 1000;
const IDLE_STEP_MS: u64 = 1_000;

impl World {
    /// The world is idle, so refused calls must leave the state unchanged.
    pub(super) fn try_forbidden_calls(&mut self) {
        if self.ctx.options.intruders == 0 || self.log.is_violated() {
            return;
        }
        for ask in forbidden(&self.ctx) {
            self.record_state(Moment::Asked);
            let entered = self.actors.enter();
            let trying = self.ctx.spawn(try_forbidden(self.ctx.clone(), ask));
            drop(entered);
            while !trying.is_finished() {
                self.step(DRAIN_STEP_MS);
            }
            self.record_state(Moment::Refused);
        }
    }

    fn record_state(&self, moment: Moment) {
        let store = self.store.clone().expect("a host was booted");
        let digest = self.runtime.block_on(judge::digest(&store));
        let state = EventKind::State(StateDigest { moment, digest });
        self.ctx.history.borrow_mut().record(self.now, "judge", state);
    }

    pub(super) fn judge_all(&mut self) {
        self.ctx.is_over.set(true);
        let store = self.store.clone().expect("a host was booted");
        if !self.log.is_violated() {
            self.runtime.block_on(judge::judge(&self.ctx, &store));
        }
    }

    /// Lets a day pass without calls; ended tasks may then be deleted, and must be.
    pub(super) fn check_retention(&mut self) {
        let rows = self.rows();
        self.sleep(ALMOST_A_DAY_MS);
        if self.rows() != rows && !self.log.is_violated() {
            self.log.violate("retention", format_args!("something was forgotten within a day"));
        }
        self.sleep(OVER_A_DAY_MS);
        let left = self.rows();
        if left > 0 && !self.log.is_violated() {
            self.log.violate("retention", format_args!("{left} runs were never forgotten"));
        }
    }

    /// Pauses every host for this long, then lets the world run for a while.
    fn sleep(&mut self, millis: u64) {
        let until = self.now + millis;
        // The hosts resume only in the step after: a day of polling in small steps would take far too long to
        // simulate.
        self.hosts.iter_mut().for_each(|host| host.paused_until = Some(until + 1));
        self.step(millis);
        (0..FORGOTTEN_WITHIN_MS / IDLE_STEP_MS).for_each(|_| self.step(IDLE_STEP_MS));
    }

    fn rows(&self) -> usize {
        let store = self.store.clone().expect("a host was booted");
        let scan = store.browse().scan(None, usize::MAX, ScanDepth::Task);
        let everything = self.runtime.block_on(scan);
        everything.expect("memory can be read").len()
    }

    pub(super) fn into_outcome(self, drained_ms: u64) -> Outcome {
        let runs = self.ctx.observations.borrow().accepted.len() as u64;
        self.say(format_args!("drained {drained_ms} ms after the last fault"));
        let tally = self.log.tally();
        tally.faults.iter().for_each(|(it, n)| self.log.say(format_args!("{n:>6} {}", it.name())));
        tally.goals.iter().for_each(|(it, n)| self.log.say(format_args!("{n:>6} {}", it.name())));
        Outcome {
            seed: self.seed,
            digest: self.log.digest(),
            violation: self.log.violation(),
            tally,
            lines: self.log.lines(),
            runs,
            simulated_ms: self.now,
            drained_ms,
        }
    }
}
