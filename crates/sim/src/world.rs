//! The world of one seed: hosts, clients, workers and the faults injected into them, advanced in small steps of true
//! time. In the first phase faults occur and no invariant may break; in the second phase faults have stopped and
//! everything that was accepted must end.

mod after;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use coordinator::admit::NewKey;
use coordinator::{Entropy, SeededEntropy};
use store::{Administration, Batch, Browse, ScanDepth, Store, Writer};
use storetest::MemoryStore;
use storetest::Writers;
use storetest::memory::CommitOutcome;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use verdict::{Retention, Rules, Subject, SupportedRules, Time};

use crate::actor_context::{ActorContext, Observations};
use crate::background_actors::{administrator, idle_worker, intruder};
use crate::client::client;
use crate::clock::{EPOCH_MS, HostClock};
use crate::committer_faults::CommitterFault;
use crate::coverage::CoverageGoal;
use crate::deployments;
use crate::fault::Fault;
use crate::history::History;
use crate::host::{Boot, Host, virtual_now};
use crate::judge;
use crate::log::{Keep, Log, Tally};
use crate::nemesis::{NemesisAction, schedule};
use crate::network::{Arrival, CallEnd, CallId, HttpRequest, Network};
use crate::options::{Options, Topology};
use crate::people::person;
use crate::planted_bug::PlantedBug;
use crate::recovery;
use crate::rng::{SimRng, Stream};
use crate::scenario::Scenario;
use crate::schedules::planner;
use crate::scopes::Scopes;
use crate::store_faults::StoreFaults;
use crate::worker::worker;

/// Everything must end within this time after faults have stopped: the longest sleep of a coordinator plus a full
/// round of attempts, losses and waits under the longest policy that is drawn.
pub const DRAINED_WITHIN_MS: u64 = 240_000;

/// The step of time after faults have stopped.
const DRAIN_STEP_MS: u64 = 25;

/// Interval at which the world checks whether everything has ended.
const LOOK_EVERY_MS: u64 = 500;

/// The rules that a coordinator supports before its upgrade.
const OLDER: SupportedRules = SupportedRules::only(Rules::V1, Rules::V1);

/// How long a commit without a living writer may stay in doubt at a database.
const DOUBT_MS: (u64, u64) = (0, 2_000);
/// The same where the doubt must not cost workers a lease of two seconds.
const FAIR_DOUBT_MS: u64 = 200;

/// Workers that evaluate, where candidates are evaluated by workers.
const EVALUATORS: u32 = 2;

/// How long a process takes to start.
const BOOT_MS: (u64, u64) = (20, 800);

/// How soon a process with two committers must end after it was asked to stop or found its store untrustworthy.
const OVER_WITHIN_MS: u64 = 15_000;

/// The result of a seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub seed: u64,
    pub digest: String,
    pub violation: Option<String>,
    pub tally: Tally,
    pub lines: Vec<String>,
    pub runs: u64,
    /// Simulated time, and the part of it between the last fault and the last end.
    pub simulated_ms: u64,
    pub drained_ms: u64,
}

/// Whether the world of a seed has faults only in coordinators and their store.
pub fn is_fair_to_workers(seed: u64) -> bool {
    Options::draw(seed).is_fair_to_workers()
}

/// Runs the world of a seed from the start to the judgement.
pub fn run(seed: u64, keep: Keep, bug: PlantedBug) -> Outcome {
    let mut world = World::new(seed, keep, bug);
    world.run_with_faults();
    world.stop_faults();
    let drained_ms = world.drain();
    world.try_forbidden_calls();
    world.judge_all();
    if world.ctx.options.a_day_later {
        world.check_retention();
    }
    world.into_outcome(drained_ms)
}

/// How the store is opened the next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reopening {
    AsItIs,
    Again,
    Restored,
}

struct World {
    seed: u64,
    ctx: Rc<ActorContext>,
    runtime: Runtime,
    actors: LocalSet,
    hosts: Vec<Host>,
    store: Option<MemoryStore>,
    reopening: Reopening,
    store_faults: StoreFaults,
    actions: Vec<(u64, NemesisAction)>,
    rng: SimRng,
    now: u64,
    database_us: u64,
    /// Requests to a paused host.
    backlog: Vec<(usize, HttpRequest, CallId)>,
    /// Commits in doubt, each with the time at which it is settled and its outcome.
    orphans: BTreeMap<u64, (u64, CommitOutcome)>,
    /// Processes that must end, each with its limit in time and the expected ending.
    expected_exits: BTreeMap<usize, (u64, &'static str)>,
    signing_key: [u8; 32],
    keys: Vec<NewKey>,
    log: Log,
}

impl World {
    fn new(seed: u64, keep: Keep, bug: PlantedBug) -> Self {
        let options = Options::draw(seed);
        let log = Log::new(keep);
        log.say(format_args!("{options:?}"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime with only a timer needs nothing from the system");
        let entered = runtime.enter();
        let began = virtual_now();
        drop(entered);
        let mut entropy = SeededEntropy::new(seed);
        let mut scopes = Scopes::first(&mut entropy);
        let mut signing_key = [0; 32];
        entropy.fill(&mut signing_key);
        scopes.extend(&mut entropy, options.scopes);
        scopes.add_people(&mut entropy, options.people);
        if options.deployment.is_some() {
            scopes.add_owner(&mut entropy);
        }
        let network_dice = SimRng::new(seed, Stream::Network);
        let network = Network::new(options.network, network_dice, log.clone(), options.hosts());
        let store_faults = StoreFaults::new(seed, &options, log.clone(), bug);
        let hosts = (0..options.hosts())
            .map(|n| {
                let starts_with = if n < options.older { OLDER } else { options.newer_rules() };
                let knows = [starts_with, options.newer_rules()];
                Host::new(options.topology, options.clock.of_host(n), knows)
            })
            .collect();
        let mut actions = schedule(seed, &options);
        actions.reverse();
        let drifts = options.clock.drift_ppm.iter().filter(|ppm| **ppm != 0).count();
        (0..drifts).for_each(|_| log.fault(Fault::ClockDrifts));
        let ctx = ActorContext {
            seed,
            options,
            log: log.clone(),
            network: RefCell::new(network),
            history: RefCell::new(History::default()),
            observations: RefCell::new(Observations::default()),
            scope_tags: RefCell::default(),
            accesses: scopes.accesses,
            administrator: scopes.administrator,
            faults_stopped: Cell::new(false),
            is_over: Cell::new(false),
            began,
        };
        let mut world = Self {
            seed,
            ctx: Rc::new(ctx),
            runtime,
            actors: LocalSet::new(),
            hosts,
            store: None,
            reopening: Reopening::AsItIs,
            store_faults,
            actions,
            rng: SimRng::new(seed, Stream::Entropy),
            now: 0,
            database_us: 0,
            backlog: Vec::new(),
            orphans: BTreeMap::new(),
            expected_exits: BTreeMap::new(),
            signing_key,
            keys: scopes.keys,
            log,
        };
        world.begin();
        world
    }

    /// Boots every host and spawns every actor.
    fn begin(&mut self) {
        (0..self.hosts.len()).for_each(|host| self.boot(host));
        let keys = self.keys.iter().map(|key| key.row(Time::from_millis(EPOCH_MS))).collect();
        let act = Administration { keys, ..Administration::default() };
        // This happens before a host has run, while its writer is still free.
        let store = self.store.clone().expect("a host was booted").with_rules(OLDER);
        let terms = self.ctx.options.recovery.clone();
        self.runtime.block_on(async move {
            let mut writer = store.writer().await.expect("nobody writes yet");
            writer.administer(&act).await.expect("memory takes it");
            if let Some(terms) = terms {
                let mut batch = writer.begin().await.expect("nobody writes yet");
                let policy = recovery::in_force(&terms, Time::from_millis(EPOCH_MS));
                batch.save(policy).await.expect("memory takes it");
                batch.commit().await.expect("memory takes it");
            }
        });
        let ctx = &self.ctx;
        let _inside = self.actors.enter();
        for n in 0..ctx.options.clients {
            ctx.spawn(client(ctx.clone(), n));
        }
        for n in 0..ctx.options.workers {
            ctx.spawn(worker(ctx.clone(), n));
        }
        for n in 0..ctx.options.idle_workers {
            ctx.spawn(idle_worker(ctx.clone(), n));
        }
        for n in 0..ctx.options.intruders {
            ctx.spawn(intruder(ctx.clone(), n));
        }
        for n in 0..ctx.options.schedules {
            ctx.spawn(planner(ctx.clone(), n));
        }
        for n in 0..ctx.options.people {
            ctx.spawn(person(ctx.clone(), n));
        }
        if ctx.options.recovery.is_some() {
            for n in 0..EVALUATORS {
                ctx.spawn(recovery::evaluator(ctx.clone(), n));
            }
        }
        if let Some(options) = ctx.options.deployment {
            ctx.spawn(deployments::owner(ctx.clone(), options));
            for n in 0..deployments::EXECUTORS {
                ctx.spawn(deployments::executor(ctx.clone(), n));
            }
            for n in (0..deployments::INSPECTORS).filter(|_| options.is_gate_outside) {
                ctx.spawn(deployments::inspector(ctx.clone(), options, n));
            }
        }
        ctx.spawn(administrator(ctx.clone()));
    }

    /// The phase with faults.
    fn run_with_faults(&mut self) {
        let step_ms = self.ctx.options.step_ms;
        while self.now < self.ctx.options.safety_ms && !self.log.is_violated() {
            self.step(step_ms);
        }
    }

    /// Stops all faults.
    fn stop_faults(&mut self) {
        self.say(format_args!("faults stop"));
        self.actions.clear();
        self.ctx.faults_stopped.set(true);
        self.ctx.network.borrow_mut().stop_faults();
        self.store_faults.stop_faults();
        self.expected_exits.retain(|_, (_, how)| *how != "fatal");
        if self.ctx.options.scenario == Scenario::TwoCommitters {
            // From now on every process can start.
            self.ctx.history.borrow_mut().restarted(self.now);
        }
        for host in &mut self.hosts {
            host.paused_until = None;
            host.down_until = host.down_until.min(self.now);
        }
    }

    /// Runs until everything has ended; returns how long that took.
    fn drain(&mut self) -> u64 {
        let began = self.now;
        let mut look_at = self.now;
        while self.now < began + DRAINED_WITHIN_MS && !self.log.is_violated() {
            self.step(DRAIN_STEP_MS);
            if self.now >= look_at {
                look_at = self.now + LOOK_EVERY_MS;
                if self.is_drained() {
                    return self.now - began;
                }
            }
        }
        self.report_unfinished();
        self.now - began
    }

    /// Reports everything that should have ended and has not.
    fn report_unfinished(&self) {
        let store = self.store.clone().expect("a host was booted");
        let scan = store.browse().scan(None, usize::MAX, ScanDepth::Task);
        let everything = self.runtime.block_on(scan);
        for found in everything.expect("memory can be read") {
            if let Subject::Live(task) = found.task.subject {
                let (id, phase) = (task.id, task.phase);
                self.log.violate("G1", format_args!("{id} has not ended: {phase:?}"));
            }
        }
        if self.ctx.options.recovery.is_some() {
            self.runtime.block_on(recovery::report_unfinished(&self.ctx, &store));
        }
        if self.ctx.options.deployment.is_some() {
            self.runtime.block_on(deployments::judge::report_unfinished(&self.ctx, &store));
        }
        let open = self.ctx.observations.borrow().open;
        if open > 0 {
            self.log.violate("G1", format_args!("{open} clients still wait"));
        }
    }

    fn is_drained(&self) -> bool {
        let Some(store) = &self.store else { return false };
        if self.ctx.observations.borrow().open > 0 || !store.orphans().is_empty() {
            return false;
        }
        let scan = store.browse().scan(None, usize::MAX, ScanDepth::Task);
        let everything = self.runtime.block_on(scan);
        let everything = everything.expect("memory can be read");
        everything.iter().all(|found| matches!(found.task.subject, Subject::Done(_)))
            && !self.has_messages(store)
            && !self.is_busy(store)
    }

    /// Whether recovery or roles still have something to do.
    fn is_busy(&self, store: &MemoryStore) -> bool {
        let options = &self.ctx.options;
        (options.recovery.is_some() && self.runtime.block_on(recovery::is_busy(store)))
            || (options.deployment.is_some()
                && self.runtime.block_on(deployments::judge::is_busy(store)))
    }

    /// Whether tasks of durable runs still have something to tell each other.
    fn has_messages(&self, store: &MemoryStore) -> bool {
        let saved = self.runtime.block_on(store.browse().saved_messages(None, 1));
        !saved.expect("memory can be read").is_empty()
    }

    fn say(&self, what: std::fmt::Arguments<'_>) {
        self.log.set_now(self.now);
        self.log.say(what);
    }

    fn database_ms(&self) -> u64 {
        self.database_us / 1_000
    }

    /// Advances everything by one step of time.
    fn step(&mut self, millis: u64) {
        let target = self.ctx.began + Duration::from_millis(self.now + millis);
        let until = async { tokio::time::sleep_until(target).await };
        self.runtime.block_on(self.actors.run_until(until));
        self.now += millis;
        self.log.set_now(self.now);
        while let Some((_, action)) = self.actions.pop_if(|(at, _)| *at <= self.now) {
            self.inject(action);
        }
        self.wake_hosts();
        self.deliver();
        let database_ms = self.database_ms();
        self.hosts.iter_mut().for_each(|host| host.advance(millis, database_ms));
        let rate = (1_000_000 + self.ctx.options.clock.of_database()) as u64;
        self.database_us += millis * rate / 1_000;
        self.collect();
        self.restart_ended();
        self.resolve_commits();
        self.check_expected_exits();
    }

    /// Reports processes that should have ended by now.
    fn check_expected_exits(&mut self) {
        let now = self.now;
        if let Some((host, (_, how))) = self.expected_exits.iter().find(|(_, (by, _))| *by < now) {
            self.log.violate("G6", format_args!("host {host} should have ended as {how} by now"));
        }
    }

    /// Expects a process with two committers to end as a whole, in time and in the expected way.
    fn expect_exit(&mut self, host: usize, how: &'static str) {
        if self.ctx.options.scenario == Scenario::TwoCommitters {
            self.expected_exits.insert(host, (self.now + OVER_WITHIN_MS, how));
        }
    }

    fn inject(&mut self, action: NemesisAction) {
        self.say(format_args!("{action:?}"));
        self.ctx.history.borrow_mut().fault(self.now, &format!("{action:?}"));
        match action {
            NemesisAction::Crash { host, down_ms } => {
                if self.hosts[host].is_up() {
                    self.log.fault(Fault::HostCrashed);
                    self.crash(host, down_ms);
                    self.resolve_commits();
                    self.inspect();
                }
            }
            NemesisAction::Pause { host, millis } => {
                if self.hosts[host].is_up() && self.hosts[host].paused_until.is_none() {
                    self.log.fault(Fault::HostPaused);
                    self.hosts[host].paused_until = Some(self.now + millis);
                }
            }
            NemesisAction::Stop { host } => {
                if self.hosts[host].is_serving() && !self.expected_exits.contains_key(&host) {
                    self.log.fault(Fault::HostStopped);
                    self.hosts[host].stop();
                    self.expect_exit(host, "drained");
                }
            }
            NemesisAction::CrashAll { down_ms } => self.crash_all(down_ms, Reopening::Again),
            NemesisAction::Restore { down_ms } => self.crash_all(down_ms, Reopening::Restored),
            NemesisAction::Partition { host, millis } => {
                self.log.fault(Fault::HostPartitioned);
                self.ctx.network.borrow_mut().cut_off(host, self.now + millis);
            }
            NemesisAction::JumpClock { host, millis } => self.jump_clock(host, millis),
            NemesisAction::FillDisk { millis } => self.store_faults.fill_disk(self.now + millis),
            NemesisAction::StallDisk { millis } => self.store_faults.stall_disk(self.now + millis),
            NemesisAction::Disconnect { millis } => {
                self.log.fault(Fault::Disconnected);
                self.store_faults.disconnect(self.now + millis);
            }
            NemesisAction::StallStore { millis } => {
                self.store_faults.stall_store(self.now + millis)
            }
            NemesisAction::FillReaders { millis } => {
                self.store_faults.fill_readers(self.now + millis)
            }
            NemesisAction::FailCommitter { committer_id, fault, millis } => {
                let ends = fault == CommitterFault::Breaks;
                if !ends {
                    self.store_faults.committer_faults.inject(
                        committer_id,
                        fault,
                        self.now + millis,
                    );
                } else if self.hosts[committer_id.host].is_serving()
                    && !self.expected_exits.contains_key(&committer_id.host)
                {
                    self.store_faults.committer_faults.inject(committer_id, fault, u64::MAX);
                    self.expect_exit(committer_id.host, "fatal");
                }
            }
        }
    }

    /// Sets a host's wall clock. If it were set back before a commit holds the store's time, the store would begin
    /// with the earlier time, and a run with a start in true time would wait until that clock has caught up. That is
    /// correct behaviour and does not end with the faults, so a clock is set back only after the first commit.
    fn jump_clock(&mut self, host: usize, millis: i64) {
        let has_begun = !self.ctx.observations.borrow().accepted.is_empty();
        if millis < 0 && !has_begun {
            self.say(format_args!("but nothing is committed yet"));
            return;
        }
        self.log.fault(Fault::ClockJumped);
        self.hosts[host].clock.jump(millis);
    }

    fn crash_all(&mut self, down_ms: u64, reopening: Reopening) {
        let fault = match reopening {
            Reopening::Restored => Fault::Restored,
            Reopening::AsItIs | Reopening::Again => Fault::Blackout,
        };
        self.log.fault(fault);
        (0..self.hosts.len()).for_each(|host| self.crash(host, down_ms));
        self.resolve_all_commits();
        self.inspect();
        // A restore that is not finished stays a restore.
        if self.reopening != Reopening::Restored {
            self.reopening = reopening;
        }
        if reopening == Reopening::Restored {
            self.ctx.observations.borrow_mut().restores += 1;
        }
    }

    fn crash(&mut self, host: usize, down_ms: u64) {
        let store = self.store.as_ref().expect("a host was booted");
        let in_doubt = store.orphans().len();
        let cut = self.hosts[host].crash();
        self.store_faults.committer_faults.remove_host(host);
        self.expected_exits.remove(&host);
        if store.orphans().len() > in_doubt {
            self.log.reach_goal(CoverageGoal::CrashedInCommit);
        }
        let mut network = self.ctx.network.borrow_mut();
        cut.into_iter().for_each(|call_id| network.answer(self.now, call_id, CallEnd::Gone));
        drop(network);
        self.reset_backlog(host);
        self.hosts[host].down_until = self.now + down_ms;
    }

    /// Resets connections that a dead host had not yet read.
    fn reset_backlog(&mut self, host: usize) {
        let waiting = std::mem::take(&mut self.backlog);
        for (to, ask, call_id) in waiting {
            if to == host {
                self.ctx.network.borrow_mut().answer(self.now, call_id, CallEnd::Gone);
            } else {
                self.backlog.push((to, ask, call_id));
            }
        }
    }

    /// Restarts a process that ended on its own, as a supervisor would.
    fn restart_ended(&mut self) {
        for host in 0..self.hosts.len() {
            if let Some(why) = self.hosts[host].ended() {
                self.say(format_args!("host {host} ended: {why}"));
                if let Some((_, how)) =
                    self.expected_exits.remove(&host).filter(|(_, how)| !why.starts_with(how))
                {
                    let told = format_args!("host {host} should have ended as {how}: {why}");
                    self.log.violate("G6", told);
                }
                let down_ms = self.rng.between(BOOT_MS.0, BOOT_MS.1);
                self.crash(host, down_ms);
            }
        }
    }

    fn wake_hosts(&mut self) {
        for host in 0..self.hosts.len() {
            if self.hosts[host].paused_until.is_some_and(|until| until <= self.now) {
                self.hosts[host].paused_until = None;
                self.say(format_args!("host {host} goes on"));
            }
            if !self.hosts[host].is_up() && self.hosts[host].down_until <= self.now {
                self.boot(host);
            }
        }
        let waiting = std::mem::take(&mut self.backlog);
        waiting.into_iter().for_each(|(to, ask, call_id)| self.deliver_one(to, ask, call_id));
    }

    fn boot(&mut self, host: usize) {
        self.say(format_args!("host {host} boots"));
        if self.ctx.options.topology == Topology::Embedded {
            self.resolve_all_commits();
        }
        let is_aged = self.ctx.options.a_day_later;
        let boot = Boot {
            host,
            committers: self.ctx.options.committers,
            retention: if is_aged { Retention::of(Some(0), None) } else { Retention::FOR_EVER },
            store_faults: self.store_faults.clone(),
            entropy: self.rng.number(),
            signing_key: self.signing_key,
            database_ms: self.database_ms(),
            has_roles: self.ctx.options.deployment.is_some(),
        };
        let (topology, hosts) = (self.ctx.options.topology, self.ctx.options.hosts());
        let reopening = std::mem::replace(&mut self.reopening, Reopening::AsItIs);
        let disk = Arc::new(self.store_faults.clone());
        let before = self.store.take();
        let mut opened = None;
        self.hosts[host].boot(boot, |clock| {
            let store = open(before, clock, (topology, hosts), reopening).on_disk(disk);
            opened = Some(store.clone());
            store
        });
        self.store = opened;
    }

    fn deliver(&mut self) {
        let arrivals = self.ctx.network.borrow_mut().arrivals(self.now);
        for arrival in arrivals {
            match arrival {
                Arrival::Request { to, ask, call_id } => self.deliver_one(to, ask, call_id),
                Arrival::HangUp { to, call_id } => {
                    self.backlog.retain(|(_, _, waiting)| *waiting != call_id);
                    if self.hosts[to].paused_until.is_none() {
                        self.hosts[to].hang_up(call_id);
                    }
                }
                Arrival::CallEnd { .. } => unreachable!("the network hands those over itself"),
            }
        }
    }

    fn deliver_one(&mut self, to: usize, ask: HttpRequest, call_id: CallId) {
        if self.hosts[to].paused_until.is_some() {
            self.backlog.push((to, ask, call_id));
        } else if !self.hosts[to].deliver(ask, call_id) {
            self.ctx.network.borrow_mut().answer(self.now, call_id, CallEnd::Refused);
        }
    }

    fn collect(&mut self) {
        for host in &mut self.hosts {
            for (call_id, reply) in host.answers() {
                let ending = CallEnd::Answered(reply);
                self.ctx.network.borrow_mut().answer(self.now, call_id, ending);
            }
        }
    }

    /// Decides the outcome of commits whose writer is dead.
    fn resolve_commits(&mut self) {
        let Some(store) = self.store.clone() else { return };
        let is_fair = self.ctx.options.behaviour.fails_over;
        let (low, high) = match (self.ctx.options.topology, self.ctx.faults_stopped.get()) {
            // Rows of a dead process stay locked meanwhile, so no call about them can be decided.
            (Topology::Shared, false) if is_fair => (0, FAIR_DOUBT_MS),
            (Topology::Shared, false) => DOUBT_MS,
            _ => (0, 0),
        };
        for orphan in store.orphans() {
            if !self.orphans.contains_key(&orphan) {
                let at = self.now + self.rng.between(low, high);
                let fate =
                    if self.rng.chance(500) { CommitOutcome::Kept } else { CommitOutcome::Lost };
                self.orphans.insert(orphan, (at, fate));
            }
        }
        let due: Vec<u64> = self
            .orphans
            .iter()
            .filter(|(_, (at, _))| *at <= self.now)
            .map(|(orphan, _)| *orphan)
            .collect();
        due.into_iter().for_each(|orphan| self.resolve_commit(&store, orphan));
    }

    fn resolve_all_commits(&mut self) {
        self.resolve_commits();
        let Some(store) = self.store.clone() else { return };
        store.orphans().into_iter().for_each(|orphan| self.resolve_commit(&store, orphan));
    }

    fn resolve_commit(&mut self, store: &MemoryStore, orphan: u64) {
        let Some((_, fate)) = self.orphans.remove(&orphan) else { return };
        self.say(format_args!("a commit in doubt is {fate:?}"));
        self.log.fault(match fate {
            CommitOutcome::Kept => Fault::CommitUnknownKept,
            CommitOutcome::Lost => Fault::CommitUnknownLost,
        });
        store.settle(orphan, fate);
    }

    fn inspect(&self) {
        let store = self.store.clone().expect("a host was booted");
        self.runtime.block_on(judge::inspect(&self.ctx, &store));
    }
}

/// The largest number of writers of one coordinator.
const WRITERS_MAX: usize = 2;

fn open(
    before: Option<MemoryStore>,
    clock: &Arc<HostClock>,
    (topology, hosts): (Topology, usize),
    reopening: Reopening,
) -> MemoryStore {
    let Some(before) = before else {
        let writers = match topology {
            Topology::Embedded => Writers::One,
            Topology::Shared => Writers::Several(hosts * WRITERS_MAX),
        };
        return MemoryStore::with_writers(clock.clone(), writers);
    };
    let attached = before.attach(clock.clone());
    match (reopening, topology) {
        (Reopening::Restored, _) => attached.restore(),
        (Reopening::Again, _) | (Reopening::AsItIs, Topology::Embedded) => attached.reopen(),
        (Reopening::AsItIs, Topology::Shared) => attached,
    }
}
