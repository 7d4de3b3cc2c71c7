//! What the world of a seed is about.
//!
//! Seeds below a million draw everything by chance. Each further million is about one thing that chance alone shows
//! too seldom: nothing happens but time, one of two committers fails, every batch is slow, coordinators take over from
//! each other, many tenants share one coordinator. What a setting fixes is said here; the rest is drawn as ever.

use crate::dice::{Dice, PerMille, Stream};
use crate::options::{
    ClockOptions, ConductOptions, DatabaseOptions, NemesisOptions, NetworkOptions, Options,
    RunOptions, SeatOptions, StoreOptions, Topology,
};

/// How many seeds each setting has.
const SEEDS_EACH: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Everything is drawn.
    Swarm,
    /// Nothing fails and hardly anybody calls: whatever happens, time alone must bring about.
    Quiet,
    /// One coordinator with two committers over a database, of which one or the other fails.
    Pair,
    /// Every call to the store takes long, for good.
    Slow,
    /// Several coordinators fail, one after the other; workers go on to the next.
    Fellows,
    /// Many tenants, queues and idle workers.
    Crowd,
}

impl Setting {
    pub const ALL: &[Setting] = &[
        Setting::Swarm,
        Setting::Quiet,
        Setting::Pair,
        Setting::Slow,
        Setting::Fellows,
        Setting::Crowd,
    ];

    pub fn of(seed: u64) -> Self {
        let place = usize::try_from(seed / SEEDS_EACH).unwrap_or(usize::MAX);
        Self::ALL.get(place).copied().unwrap_or(Setting::Swarm)
    }

    /// The first of its seeds.
    pub fn first_seed(self) -> u64 {
        self as u64 * SEEDS_EACH
    }

    /// Fixes what the setting is about.
    pub(crate) fn shape(self, seed: u64, options: Options) -> Options {
        let mut dice = Dice::new(seed, Stream::Setting);
        match self {
            Setting::Swarm => options,
            Setting::Quiet => quiet(&mut dice, options),
            Setting::Pair => pair(&mut dice, options),
            Setting::Slow => slow(&mut dice, options),
            Setting::Fellows => fellows(&mut dice, options),
            Setting::Crowd => crowd(&mut dice, options),
        }
    }
}

/// Nothing between a caller and its coordinator fails.
fn kind_network(options: &Options) -> NetworkOptions {
    NetworkOptions { delay_ms: options.network.delay_ms, ..NetworkOptions::calm() }
}

/// Workers that do what they are told, apart from some that die.
fn honest(dice: &mut Dice) -> ConductOptions {
    ConductOptions {
        silent: dice.sometimes(20, 100) as PerMille,
        vanish: dice.sometimes(20, 100) as PerMille,
        ..ConductOptions::OBEDIENT
    }
}

fn quiet(dice: &mut Dice, options: Options) -> Options {
    let lease = dice.between(4_000, 40_000);
    let runs = RunOptions {
        lease_ms: (lease, lease + 2_000),
        work_ms: (0, 2_000),
        grace_ms: (0, dice.sometimes(100, 2_000)),
        delayed: 400,
        deadline: 500,
        past_deadline: dice.sometimes(100, 500) as PerMille,
        cancel: 300,
        fail: dice.sometimes(100, 500) as PerMille,
        ..options.runs
    };
    let conduct = ConductOptions {
        silent: dice.sometimes(100, 300) as PerMille,
        vanish: dice.sometimes(100, 300) as PerMille,
        ignore_cancel: 800,
        poll_wait_ms: (10_000, 25_000),
        at_once_max: 64,
        takes_all: true,
        ..ConductOptions::OBEDIENT
    };
    let a_day_later = dice.chance(300);
    Options {
        // Coordinators that share a store look what others did, which only a database lets them.
        topology: if options.database.is_some() { Topology::Shared } else { Topology::Embedded },
        safety_ms: dice.between(30_000, 60_000),
        clients: dice.between(1, 2) as u32,
        workers: 1,
        runs_per_client: dice.between(2, 5),
        network: kind_network(&options),
        store: StoreOptions::calm(),
        database: options
            .database
            .map(|database| DatabaseOptions { disconnections: 0, ..database.calm() }),
        older: 0,
        nemesis: NemesisOptions::NONE,
        runs,
        conduct,
        a_day_later,
        clock: if a_day_later { ClockOptions::TRUE } else { options.clock },
        ..options
    }
}

/// Half of these worlds spare the committer that hears workers, so that nothing it does may suffer.
fn pair(dice: &mut Dice, options: Options) -> Options {
    let spares_hearing = dice.chance(500);
    let unless_spared = |count: u64| if spares_hearing { 0 } else { count };
    let seats = SeatOptions {
        hangs: dice.between(1, 4),
        refusals: dice.sometimes(1, 3),
        breaks: unless_spared(dice.sometimes(1, 2)),
        spares_hearing,
    };
    let nemesis = NemesisOptions {
        crashes: unless_spared(dice.sometimes(1, 2)),
        stops: unless_spared(dice.sometimes(1, 2)),
        standstills: unless_spared(dice.between(1, 4)),
        full_readers: unless_spared(dice.sometimes(1, 2)),
        seats,
        ..NemesisOptions::NONE
    };
    let database = DatabaseOptions {
        coordinators: 1,
        hints: dice.chance(500),
        lose_race: dice.sometimes(2, 30) as PerMille,
        pass_over: dice.sometimes(50, 200) as PerMille,
        ..DatabaseOptions::CALM
    };
    let is_called_off = dice.chance(150);
    let lease = dice.between(2_000, 3_000);
    let runs = RunOptions {
        lease_ms: (lease, lease + 500),
        work_ms: (2_000, 8_000),
        cancel: if is_called_off { 1_000 } else { dice.sometimes(300, 900) as PerMille },
        delayed: if is_called_off { 1_000 } else { 0 },
        delay_ms: if is_called_off { (20_000, 30_000) } else { options.runs.delay_ms },
        force: 0,
        deadline: 0,
        attempt_limit: 0,
        ..options.runs
    };
    Options {
        topology: Topology::Shared,
        clients: dice.between(2, 3) as u32,
        workers: dice.between(3, 6) as u32,
        runs_per_client: dice.between(5, 9),
        network: kind_network(&options),
        store: StoreOptions { call_ms: (0, dice.between(1, 10)), ..StoreOptions::calm() },
        database: Some(database),
        older: 0,
        nemesis,
        runs,
        conduct: honest(dice),
        committers: Some(2),
        a_day_later: is_called_off,
        clock: if is_called_off { ClockOptions::TRUE } else { options.clock },
        ..options
    }
}

/// Five calls, the fewest of a round, take longer than the silence that counts as a stall of such leases. Rounds that
/// take just less than that can cost a lease, and are not what this is about.
const SLOW_CALL_MS: (u64, u64) = (250, 600);
const SLOW_LEASE_MS: (u64, u64) = (2_000, 2_500);

fn slow(dice: &mut Dice, options: Options) -> Options {
    let (call, sync) = (dice.between(SLOW_CALL_MS.0, SLOW_CALL_MS.1), dice.between(200, 1_500));
    let store = StoreOptions { call_ms: (call, call), sync_ms: (0, sync), ..StoreOptions::calm() };
    let database = options.database.map(|database| DatabaseOptions {
        coordinators: 1,
        disconnections: 0,
        ..database.calm()
    });
    let conduct = ConductOptions {
        // Whoever talks to something slow gives it time, and makes no heartbeat wait for an answer.
        patience_ms: 10_000,
        starts: 0,
        ..honest(dice)
    };
    Options {
        clients: 1,
        workers: dice.between(1, 3) as u32,
        runs_per_client: dice.between(2, 5),
        network: kind_network(&options),
        store,
        is_slow_for_good: true,
        topology: if database.is_some() { Topology::Shared } else { Topology::Embedded },
        database,
        older: 0,
        nemesis: NemesisOptions::NONE,
        runs: RunOptions {
            lease_ms: SLOW_LEASE_MS,
            deadline: 0,
            attempt_limit: 0,
            force: 0,
            ..options.runs
        },
        conduct,
        committers: Some(dice.between(1, if database.is_some() { 2 } else { 1 }) as usize),
        ..options
    }
}

fn fellows(dice: &mut Dice, options: Options) -> Options {
    let database = DatabaseOptions {
        coordinators: dice.between(2, 4) as usize,
        hints: dice.chance(500),
        lose_race: dice.sometimes(2, 30) as PerMille,
        pass_over: dice.sometimes(50, 300) as PerMille,
        candidates_max: if dice.chance(500) { dice.between(1, 3) as usize } else { usize::MAX },
        disconnections: dice.sometimes(1, 2),
        ..DatabaseOptions::CALM
    };
    let nemesis = NemesisOptions {
        crashes: dice.between(1, 4),
        stops: dice.sometimes(1, 3),
        blackouts: dice.sometimes(1, 2),
        stalls: dice.sometimes(1, 2),
        standstills: dice.sometimes(1, 2),
        full_readers: dice.sometimes(1, 2),
        ..NemesisOptions::NONE
    };
    let conduct = ConductOptions { goes_on_to_the_next: true, ..honest(dice) };
    let runs = RunOptions { deadline: 0, attempt_limit: 0, force: 0, ..options.runs };
    Options {
        topology: Topology::Shared,
        workers: dice.between(3, 8) as u32,
        network: kind_network(&options),
        store: StoreOptions::calm(),
        database: Some(database),
        nemesis,
        runs,
        conduct,
        ..options
    }
}

fn crowd(dice: &mut Dice, options: Options) -> Options {
    let runs = RunOptions {
        work_ms: (0, 1_000),
        queues: dice.between(2, 6),
        delayed: 0,
        deadline: 0,
        fail: dice.sometimes(50, 200) as PerMille,
        ..options.runs
    };
    let scopes = dice.between(3, 6) as u32;
    // One coordinator: a round of grants is then a round of everybody's.
    let database = options.database.map(|database| DatabaseOptions {
        coordinators: 1,
        disconnections: 0,
        ..database.calm()
    });
    Options {
        topology: if database.is_some() { Topology::Shared } else { Topology::Embedded },
        safety_ms: dice.between(8_000, 12_000),
        clients: dice.between(3, 6) as u32,
        // At least one worker for each scope.
        workers: scopes + dice.between(0, 3) as u32,
        scopes,
        idlers: dice.between(80, 200) as u32,
        flood: dice.between(40, 120),
        intruders: 2,
        runs_per_client: dice.between(2, 4),
        network: kind_network(&options),
        store: StoreOptions::calm(),
        database,
        older: 0,
        nemesis: NemesisOptions::NONE,
        runs,
        conduct: ConductOptions { at_once_max: 16, ..ConductOptions::OBEDIENT },
        clock: ClockOptions::TRUE,
        ..options
    }
}
