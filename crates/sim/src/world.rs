//! The world of one seed: hosts, clients, workers and what is done to them, moved in small steps of true
//! time. First a phase with faults, in which nothing wrong may happen; then faults stop, and everything
//! that was accepted must end.

mod after;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use coordinator::admit::NewKey;
use coordinator::{Entropy, SeededEntropy};
use store::memory::{Fate, MemoryStore};
use store::{Administration, Browse, Store, Writer, Writers};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use verdict::{Known, Retention, Rules, Subject, Time};

use crate::bystander::{administrator, idler, intruder};
use crate::client::client;
use crate::clock::{EPOCH_MS, HostClock};
use crate::dice::{Dice, Stream};
use crate::fault::Fault;
use crate::history::History;
use crate::host::{Boot, Host, virtual_now};
use crate::judge;
use crate::log::{Keep, Log, Tally};
use crate::mark::Mark;
use crate::nemesis::{Blow, schedule};
use crate::network::{Arrival, Ask, Ending, Network, Ticket};
use crate::options::{Options, Topology};
use crate::plant::Plant;
use crate::scopes::Scopes;
use crate::seat::Trouble;
use crate::setting::Setting;
use crate::stage::{Books, Stage};
use crate::weather::Weather;
use crate::worker::worker;

/// Once faults have stopped, everything must have ended within this time: the longest sleep of a
/// coordinator, and a full round of attempts, losses and waits of the longest policy that is drawn.
pub const DRAINED_WITHIN_MS: u64 = 240_000;

/// The grain of time when nothing breaks any more.
const CALM_STEP_MS: u64 = 25;

/// How often to look whether everything has ended.
const LOOK_EVERY_MS: u64 = 500;

/// What a coordinator knows that is not upgraded yet.
const OLDER: Known = Known::only(Rules::V1, Rules::V1);

/// How long a commit whose writer is gone may stay in doubt at a database.
const DOUBT_MS: (u64, u64) = (0, 2_000);
/// The same where workers must not lose a lease of two seconds by it.
const FAIR_DOUBT_MS: u64 = 200;

/// How long a process needs to start.
const BOOT_MS: (u64, u64) = (20, 800);

/// How soon a process is over that was asked to stop, or whose store is not to be trusted, with two committers.
const OVER_WITHIN_MS: u64 = 15_000;

/// What a seed came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub seed: u64,
    pub digest: String,
    pub violation: Option<String>,
    pub tally: Tally,
    pub lines: Vec<String>,
    pub runs: u64,
    /// Simulated time, and how much of it passed between the last fault and the last end.
    pub simulated_ms: u64,
    pub drained_ms: u64,
}

/// Whether the world of a seed breaks nothing but coordinators and their store.
pub fn is_fair_to_workers(seed: u64) -> bool {
    Options::draw(seed).is_fair_to_workers()
}

/// Runs the world of a seed from its beginning to its judgement.
pub fn run(seed: u64, keep: Keep, plant: Plant) -> Outcome {
    let mut world = World::new(seed, keep, plant);
    world.rage();
    world.calm_down();
    let drained_ms = world.drain();
    world.try_what_is_forbidden();
    world.judge_all();
    if world.stage.options.a_day_later {
        world.forget_all();
    }
    world.tell(drained_ms)
}

/// How the store is to be opened the next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reopening {
    AsItIs,
    Again,
    Restored,
}

struct World {
    seed: u64,
    stage: Rc<Stage>,
    runtime: Runtime,
    actors: LocalSet,
    hosts: Vec<Host>,
    store: Option<MemoryStore>,
    reopening: Reopening,
    weather: Weather,
    blows: Vec<(u64, Blow)>,
    dice: Dice,
    now: u64,
    database_us: u64,
    /// Requests that wait for a paused host.
    backlog: Vec<(usize, Ask, Ticket)>,
    /// Commits in doubt: when they are settled, and how.
    orphans: BTreeMap<u64, (u64, Fate)>,
    /// Processes that must be over by a time, and how.
    owed: BTreeMap<usize, (u64, &'static str)>,
    signing_key: [u8; 32],
    keys: Vec<NewKey>,
    log: Log,
}

impl World {
    fn new(seed: u64, keep: Keep, plant: Plant) -> Self {
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
        let network_dice = Dice::new(seed, Stream::Network);
        let network = Network::new(options.network, network_dice, log.clone(), options.hosts());
        let weather = Weather::new(seed, &options, log.clone(), plant);
        let hosts = (0..options.hosts())
            .map(|n| {
                let knows = if n < options.older { OLDER } else { Known::OURS };
                Host::new(options.topology, options.clock.of_host(n), knows)
            })
            .collect();
        let mut blows = schedule(seed, &options);
        blows.reverse();
        let drifts = options.clock.drift_ppm.iter().filter(|ppm| **ppm != 0).count();
        (0..drifts).for_each(|_| log.fault(Fault::ClockDrifts));
        let stage = Stage {
            seed,
            options,
            log: log.clone(),
            network: RefCell::new(network),
            history: RefCell::new(History::default()),
            books: RefCell::new(Books::default()),
            marks: RefCell::default(),
            accesses: scopes.accesses,
            administrator: scopes.administrator,
            is_calm: Cell::new(false),
            is_over: Cell::new(false),
            began,
        };
        let mut world = Self {
            seed,
            stage: Rc::new(stage),
            runtime,
            actors: LocalSet::new(),
            hosts,
            store: None,
            reopening: Reopening::AsItIs,
            weather,
            blows,
            dice: Dice::new(seed, Stream::Entropy),
            now: 0,
            database_us: 0,
            backlog: Vec::new(),
            orphans: BTreeMap::new(),
            owed: BTreeMap::new(),
            signing_key,
            keys: scopes.keys,
            log,
        };
        world.begin();
        world
    }

    /// Boots every host and sends everybody out.
    fn begin(&mut self) {
        (0..self.hosts.len()).for_each(|host| self.boot(host));
        let keys = self.keys.iter().map(|key| key.row(Time::from_millis(EPOCH_MS))).collect();
        let act = Administration { keys, ..Administration::default() };
        // Before a host has run at all, so that its writer is not taken yet.
        let store = self.store.clone().expect("a host was booted").knowing(OLDER);
        self.runtime.block_on(async move {
            let mut writer = store.writer().await.expect("nobody writes yet");
            writer.administer(&act).await.expect("memory takes it");
        });
        let stage = &self.stage;
        let _inside = self.actors.enter();
        for n in 0..stage.options.clients {
            stage.spawn(client(stage.clone(), n));
        }
        for n in 0..stage.options.workers {
            stage.spawn(worker(stage.clone(), n));
        }
        for n in 0..stage.options.idlers {
            stage.spawn(idler(stage.clone(), n));
        }
        for n in 0..stage.options.intruders {
            stage.spawn(intruder(stage.clone(), n));
        }
        stage.spawn(administrator(stage.clone()));
    }

    /// The phase with faults.
    fn rage(&mut self) {
        let step_ms = self.stage.options.step_ms;
        while self.now < self.stage.options.safety_ms && !self.log.is_violated() {
            self.step(step_ms);
        }
    }

    /// From now on nothing breaks.
    fn calm_down(&mut self) {
        self.say(format_args!("faults stop"));
        self.blows.clear();
        self.stage.is_calm.set(true);
        self.stage.network.borrow_mut().calm_down();
        self.weather.calm_down();
        self.owed.retain(|_, (_, how)| *how != "fatal");
        if self.stage.options.setting == Setting::Pair {
            // From now on nothing keeps a process from starting.
            self.stage.history.borrow_mut().restarted(self.now);
        }
        for host in &mut self.hosts {
            host.paused_until = None;
            host.down_until = host.down_until.min(self.now);
        }
    }

    /// Lets everything end; returns how long that took.
    fn drain(&mut self) -> u64 {
        let began = self.now;
        let mut look_at = self.now;
        while self.now < began + DRAINED_WITHIN_MS && !self.log.is_violated() {
            self.step(CALM_STEP_MS);
            if self.now >= look_at {
                look_at = self.now + LOOK_EVERY_MS;
                if self.is_drained() {
                    return self.now - began;
                }
            }
        }
        self.name_the_stuck();
        self.now - began
    }

    /// Everything that should have ended and has not.
    fn name_the_stuck(&self) {
        let store = self.store.clone().expect("a host was booted");
        let everything = self.runtime.block_on(store.browse().everything(None, usize::MAX));
        for found in everything.expect("memory can be read") {
            if let Subject::Live(task) = found.subject {
                let (id, phase) = (task.id, task.phase);
                self.log.violate("G1", format_args!("{id} has not ended: {phase:?}"));
            }
        }
        let open = self.stage.books.borrow().open;
        if open > 0 {
            self.log.violate("G1", format_args!("{open} clients still wait"));
        }
    }

    fn is_drained(&self) -> bool {
        let Some(store) = &self.store else { return false };
        if self.stage.books.borrow().open > 0 || !store.orphans().is_empty() {
            return false;
        }
        let everything = self.runtime.block_on(store.browse().everything(None, usize::MAX));
        let everything = everything.expect("memory can be read");
        everything.iter().all(|found| matches!(found.subject, Subject::Done(_)))
    }

    fn say(&self, what: std::fmt::Arguments<'_>) {
        self.log.set_now(self.now);
        self.log.say(what);
    }

    fn database_ms(&self) -> u64 {
        self.database_us / 1_000
    }

    /// Moves everything on by one grain of time.
    fn step(&mut self, millis: u64) {
        let target = self.stage.began + Duration::from_millis(self.now + millis);
        let until = async { tokio::time::sleep_until(target).await };
        self.runtime.block_on(self.actors.run_until(until));
        self.now += millis;
        self.log.set_now(self.now);
        while let Some((_, blow)) = self.blows.pop_if(|(at, _)| *at <= self.now) {
            self.strike(blow);
        }
        self.wake_hosts();
        self.deliver();
        let database_ms = self.database_ms();
        self.hosts.iter_mut().for_each(|host| host.advance(millis, database_ms));
        let rate = (1_000_000 + self.stage.options.clock.of_database()) as u64;
        self.database_us += millis * rate / 1_000;
        self.collect();
        self.bury();
        self.settle();
        self.claim_what_is_owed();
    }

    /// A process that had to be over by now.
    fn claim_what_is_owed(&mut self) {
        let now = self.now;
        if let Some((host, (_, how))) = self.owed.iter().find(|(_, (by, _))| *by < now) {
            self.log.violate("G6", format_args!("host {host} should have ended as {how} by now"));
        }
    }

    /// With two committers a process ends as a whole: by a time, and as it should.
    fn owe(&mut self, host: usize, how: &'static str) {
        if self.stage.options.setting == Setting::Pair {
            self.owed.insert(host, (self.now + OVER_WITHIN_MS, how));
        }
    }

    fn strike(&mut self, blow: Blow) {
        self.say(format_args!("{blow:?}"));
        self.stage.history.borrow_mut().fault(self.now, &format!("{blow:?}"));
        match blow {
            Blow::Crash { host, down_ms } => {
                if self.hosts[host].is_up() {
                    self.log.fault(Fault::HostCrashed);
                    self.crash(host, down_ms);
                    self.settle();
                    self.inspect();
                }
            }
            Blow::Pause { host, millis } => {
                if self.hosts[host].is_up() && self.hosts[host].paused_until.is_none() {
                    self.log.fault(Fault::HostPaused);
                    self.hosts[host].paused_until = Some(self.now + millis);
                }
            }
            Blow::Stop { host } => {
                if self.hosts[host].is_serving() && !self.owed.contains_key(&host) {
                    self.log.fault(Fault::HostStopped);
                    self.hosts[host].stop();
                    self.owe(host, "drained");
                }
            }
            Blow::Blackout { down_ms } => self.black_out(down_ms, Reopening::Again),
            Blow::Restore { down_ms } => self.black_out(down_ms, Reopening::Restored),
            Blow::CutOff { host, millis } => {
                self.log.fault(Fault::HostPartitioned);
                self.stage.network.borrow_mut().cut_off(host, self.now + millis);
            }
            Blow::JumpClock { host, millis } => self.jump_clock(host, millis),
            Blow::FillDisk { millis } => self.weather.fill_disk(self.now + millis),
            Blow::StallDisk { millis } => self.weather.stall_disk(self.now + millis),
            Blow::Disconnect { millis } => {
                self.log.fault(Fault::Disconnected);
                self.weather.disconnect(self.now + millis);
            }
            Blow::StandStill { millis } => self.weather.stand_still(self.now + millis),
            Blow::FillReaders { millis } => self.weather.fill_readers(self.now + millis),
            Blow::Unseat { seat, trouble, millis } => {
                let ends = trouble == Trouble::Breaks;
                if !ends {
                    self.weather.seats.strike(seat, trouble, self.now + millis);
                } else if self.hosts[seat.host].is_serving() && !self.owed.contains_key(&seat.host)
                {
                    self.weather.seats.strike(seat, trouble, u64::MAX);
                    self.owe(seat.host, "fatal");
                }
            }
        }
    }

    /// A clock that was never right may be set back before it has counted for anything: the store begins
    /// with it, and whoever asks for a start by true time waits until that clock has caught up. That is as
    /// it must be and no fault that could end with the others, so a clock goes back only once a commit
    /// holds the store's time.
    fn jump_clock(&mut self, host: usize, millis: i64) {
        let has_begun = !self.stage.books.borrow().accepted.is_empty();
        if millis < 0 && !has_begun {
            self.say(format_args!("but nothing is committed yet"));
            return;
        }
        self.log.fault(Fault::ClockJumped);
        self.hosts[host].clock.jump(millis);
    }

    fn black_out(&mut self, down_ms: u64, reopening: Reopening) {
        let fault = match reopening {
            Reopening::Restored => Fault::Restored,
            Reopening::AsItIs | Reopening::Again => Fault::Blackout,
        };
        self.log.fault(fault);
        (0..self.hosts.len()).for_each(|host| self.crash(host, down_ms));
        self.settle_all();
        self.inspect();
        // A restore that is not through yet stays one.
        if self.reopening != Reopening::Restored {
            self.reopening = reopening;
        }
        if reopening == Reopening::Restored {
            self.stage.books.borrow_mut().restores += 1;
        }
    }

    fn crash(&mut self, host: usize, down_ms: u64) {
        let store = self.store.as_ref().expect("a host was booted");
        let in_doubt = store.orphans().len();
        let cut = self.hosts[host].crash();
        self.weather.seats.leave(host);
        self.owed.remove(&host);
        if store.orphans().len() > in_doubt {
            self.log.mark(Mark::CrashedInCommit);
        }
        let mut network = self.stage.network.borrow_mut();
        cut.into_iter().for_each(|ticket| network.answer(self.now, ticket, Ending::Gone));
        drop(network);
        self.reset_backlog(host);
        self.hosts[host].down_until = self.now + down_ms;
    }

    /// Connections that a dead host had not looked at yet are reset.
    fn reset_backlog(&mut self, host: usize) {
        let waiting = std::mem::take(&mut self.backlog);
        for (to, ask, ticket) in waiting {
            if to == host {
                self.stage.network.borrow_mut().answer(self.now, ticket, Ending::Gone);
            } else {
                self.backlog.push((to, ask, ticket));
            }
        }
    }

    /// A process that ended by itself is started again, as a supervisor would.
    fn bury(&mut self) {
        for host in 0..self.hosts.len() {
            if let Some(why) = self.hosts[host].ended() {
                self.say(format_args!("host {host} ended: {why}"));
                if let Some((_, how)) =
                    self.owed.remove(&host).filter(|(_, how)| !why.starts_with(how))
                {
                    let told = format_args!("host {host} should have ended as {how}: {why}");
                    self.log.violate("G6", told);
                }
                let down_ms = self.dice.between(BOOT_MS.0, BOOT_MS.1);
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
        waiting.into_iter().for_each(|(to, ask, ticket)| self.hand_in(to, ask, ticket));
    }

    fn boot(&mut self, host: usize) {
        self.say(format_args!("host {host} boots"));
        if self.stage.options.topology == Topology::Embedded {
            self.settle_all();
        }
        let is_aged = self.stage.options.a_day_later;
        let boot = Boot {
            host,
            committers: self.stage.options.committers,
            retention: if is_aged { Retention::of(Some(0), None) } else { Retention::FOR_EVER },
            weather: self.weather.clone(),
            entropy: self.dice.number(),
            signing_key: self.signing_key,
            database_ms: self.database_ms(),
        };
        let (topology, hosts) = (self.stage.options.topology, self.stage.options.hosts());
        let reopening = std::mem::replace(&mut self.reopening, Reopening::AsItIs);
        let disk = Arc::new(self.weather.clone());
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
        let arrivals = self.stage.network.borrow_mut().arrivals(self.now);
        for arrival in arrivals {
            match arrival {
                Arrival::Request { to, ask, ticket } => self.hand_in(to, ask, ticket),
                Arrival::HangUp { to, ticket } => {
                    self.backlog.retain(|(_, _, waiting)| *waiting != ticket);
                    if self.hosts[to].paused_until.is_none() {
                        self.hosts[to].hang_up(ticket);
                    }
                }
                Arrival::Ending { .. } => unreachable!("the network hands those over itself"),
            }
        }
    }

    fn hand_in(&mut self, to: usize, ask: Ask, ticket: Ticket) {
        if self.hosts[to].paused_until.is_some() {
            self.backlog.push((to, ask, ticket));
        } else if !self.hosts[to].deliver(ask, ticket) {
            self.stage.network.borrow_mut().answer(self.now, ticket, Ending::Refused);
        }
    }

    fn collect(&mut self) {
        for host in &mut self.hosts {
            for (ticket, reply) in host.answers() {
                let ending = Ending::Answered(reply);
                self.stage.network.borrow_mut().answer(self.now, ticket, ending);
            }
        }
    }

    /// Decides what became of commits whose writer is gone.
    fn settle(&mut self) {
        let Some(store) = self.store.clone() else { return };
        let is_fair = self.stage.options.conduct.goes_on_to_the_next;
        let (low, high) = match (self.stage.options.topology, self.stage.is_calm.get()) {
            // Rows of a dead process stay locked meanwhile, and nobody can be heard about them.
            (Topology::Shared, false) if is_fair => (0, FAIR_DOUBT_MS),
            (Topology::Shared, false) => DOUBT_MS,
            _ => (0, 0),
        };
        for orphan in store.orphans() {
            if !self.orphans.contains_key(&orphan) {
                let at = self.now + self.dice.between(low, high);
                let fate = if self.dice.chance(500) { Fate::Kept } else { Fate::Lost };
                self.orphans.insert(orphan, (at, fate));
            }
        }
        let due: Vec<u64> = self
            .orphans
            .iter()
            .filter(|(_, (at, _))| *at <= self.now)
            .map(|(orphan, _)| *orphan)
            .collect();
        due.into_iter().for_each(|orphan| self.settle_one(&store, orphan));
    }

    fn settle_all(&mut self) {
        self.settle();
        let Some(store) = self.store.clone() else { return };
        store.orphans().into_iter().for_each(|orphan| self.settle_one(&store, orphan));
    }

    fn settle_one(&mut self, store: &MemoryStore, orphan: u64) {
        let Some((_, fate)) = self.orphans.remove(&orphan) else { return };
        self.say(format_args!("a commit in doubt is {fate:?}"));
        self.log.fault(match fate {
            Fate::Kept => Fault::CommitUnknownKept,
            Fate::Lost => Fault::CommitUnknownLost,
        });
        store.settle(orphan, fate);
    }

    fn inspect(&self) {
        let store = self.store.clone().expect("a host was booted");
        self.runtime.block_on(judge::inspect(&self.stage, &store));
    }
}

/// Of one coordinator.
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
