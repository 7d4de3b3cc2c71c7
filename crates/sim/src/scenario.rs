//! Scenarios: what the world of a seed concentrates on.
//!
//! Seeds below 1,000,000 draw everything at random. Each further million is one scenario that chance alone produces
//! too rarely: an idle system, one of two committers failing, slow batches, failover between coordinators, many
//! tenants on one coordinator, durable runs, durable runs asleep, flow keys, schedules, durable runs that ask people, plans, stalls,
//! budgets, recovery, deployments.
//! This module fixes the options that define a scenario; the rest is drawn as usual.

use crate::options::{
    BehaviourOptions, ClockOptions, CommitterFaultOptions, DatabaseOptions, DurableOptions,
    NemesisOptions, NetworkOptions, Options, RunOptions, StoreOptions, Topology,
};
use crate::rng::{PerMille, SimRng, Stream};

/// How many seeds each scenario has.
const SEEDS_EACH: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Everything is drawn.
    Swarm,
    /// Nothing fails and calls are rare: time alone must cause every change.
    Idle,
    /// One coordinator with two committers over a database; one or the other fails.
    TwoCommitters,
    /// Every call to the store is slow, permanently.
    SlowStore,
    /// Several coordinators fail, one after the other; workers fail over to the next.
    Failover,
    /// Many tenants, queues and idle workers.
    ManyTenants,
    /// Durable runs under everything that can fail.
    Durable,
    /// Durable runs of which most sleep or wait, while nothing fails and calls are rare.
    Asleep,
    /// Runs that share a few flow keys, under everything that can fail.
    FlowKeys,
    /// Schedules, under everything that can fail.
    Schedules,
    /// Durable runs that ask people, under everything that can fail.
    People,
    /// Plans with edges, some of them large, under everything that can fail.
    Plans,
    /// Runs with a progress clock, and workers that live and get nowhere, while coordinators and stores fail.
    Stalls,
    /// Durable runs and children with budgets, under everything that can fail.
    Escrow,
    /// Runs that fail and are recovered, under everything that can fail.
    Recovery,
    /// A deployment of a topology, under everything that can fail.
    Deployments,
}

impl Scenario {
    pub const ALL: &[Scenario] = &[
        Scenario::Swarm,
        Scenario::Idle,
        Scenario::TwoCommitters,
        Scenario::SlowStore,
        Scenario::Failover,
        Scenario::ManyTenants,
        Scenario::Durable,
        Scenario::Asleep,
        Scenario::FlowKeys,
        Scenario::Schedules,
        Scenario::People,
        Scenario::Plans,
        Scenario::Stalls,
        Scenario::Escrow,
        Scenario::Recovery,
        Scenario::Deployments,
    ];

    pub fn of(seed: u64) -> Self {
        let place = usize::try_from(seed / SEEDS_EACH).unwrap_or(usize::MAX);
        Self::ALL.get(place).copied().unwrap_or(Scenario::Swarm)
    }

    /// The first seed of the scenario.
    pub fn first_seed(self) -> u64 {
        self as u64 * SEEDS_EACH
    }

    /// Sets the options that define the scenario.
    pub(crate) fn shape(self, seed: u64, options: Options) -> Options {
        let mut rng = SimRng::new(seed, Stream::Scenario);
        match self {
            Scenario::Swarm => options,
            Scenario::Idle => idle(&mut rng, options),
            Scenario::TwoCommitters => two_committers(&mut rng, options),
            Scenario::SlowStore => slow_store(&mut rng, options),
            Scenario::Failover => failover(&mut rng, options),
            Scenario::ManyTenants => many_tenants(&mut rng, options),
            Scenario::Durable => durable(&mut rng, options),
            Scenario::Asleep => asleep(&mut rng, options),
            Scenario::FlowKeys => flow_keys(&mut rng, options),
            Scenario::Schedules => schedules(&mut rng, options),
            Scenario::People => people(&mut rng, options),
            Scenario::Plans => plans(&mut rng, options),
            Scenario::Stalls => stalls(&mut rng, options),
            Scenario::Escrow => escrow(&mut rng, options),
            Scenario::Recovery => recovery(&mut rng, options),
            Scenario::Deployments => deployments(&mut rng, options),
        }
    }
}

/// A network without faults.
fn reliable_network(options: &Options) -> NetworkOptions {
    NetworkOptions { delay_ms: options.network.delay_ms, ..NetworkOptions::healthy() }
}

/// Workers that follow the rules, except that some die.
fn honest(rng: &mut SimRng) -> BehaviourOptions {
    BehaviourOptions {
        silent: rng.sometimes(20, 100) as PerMille,
        vanish: rng.sometimes(20, 100) as PerMille,
        ..BehaviourOptions::OBEDIENT
    }
}

fn idle(rng: &mut SimRng, options: Options) -> Options {
    let lease = rng.between(4_000, 40_000);
    let runs = RunOptions {
        lease_ms: (lease, lease + 2_000),
        work_ms: (0, 2_000),
        grace_ms: (0, rng.sometimes(100, 2_000)),
        delayed: 400,
        deadline: 500,
        past_deadline: rng.sometimes(100, 500) as PerMille,
        cancel: 300,
        fail: rng.sometimes(100, 500) as PerMille,
        ..options.runs
    };
    let behaviour = BehaviourOptions {
        silent: rng.sometimes(100, 300) as PerMille,
        vanish: rng.sometimes(100, 300) as PerMille,
        ignore_cancel: 800,
        poll_wait_ms: (10_000, 25_000),
        at_once_max: 64,
        takes_all: true,
        ..BehaviourOptions::OBEDIENT
    };
    let a_day_later = rng.chance(300);
    Options {
        // Coordinators that share a store must notice their peers' changes, which only a database supports.
        topology: if options.database.is_some() { Topology::Shared } else { Topology::Embedded },
        safety_ms: rng.between(30_000, 60_000),
        clients: rng.between(1, 2) as u32,
        workers: 1,
        runs_per_client: rng.between(2, 5),
        network: reliable_network(&options),
        store: StoreOptions::healthy(),
        database: options
            .database
            .map(|database| DatabaseOptions { disconnections: 0, ..database.healthy() }),
        older: 0,
        nemesis: NemesisOptions::NONE,
        runs,
        behaviour,
        a_day_later,
        clock: if a_day_later { ClockOptions::TRUE } else { options.clock },
        ..options
    }
}

/// Half of these worlds spare the committer for calls under a lease, so none of its work may be affected.
fn two_committers(rng: &mut SimRng, options: Options) -> Options {
    let new_work_only = rng.chance(500);
    let unless_new_work_only = |count: u64| if new_work_only { 0 } else { count };
    let committer_faults = CommitterFaultOptions {
        hangs: rng.between(1, 4),
        refusals: rng.sometimes(1, 3),
        breaks: unless_new_work_only(rng.sometimes(1, 2)),
        new_work_only,
    };
    let nemesis = NemesisOptions {
        crashes: unless_new_work_only(rng.sometimes(1, 2)),
        stops: unless_new_work_only(rng.sometimes(1, 2)),
        store_stalls: unless_new_work_only(rng.between(1, 4)),
        full_readers: unless_new_work_only(rng.sometimes(1, 2)),
        committer_faults,
        ..NemesisOptions::NONE
    };
    let database = DatabaseOptions {
        coordinators: 1,
        hints: rng.chance(500),
        lose_race: rng.sometimes(2, 30) as PerMille,
        pass_over: rng.sometimes(50, 200) as PerMille,
        ..DatabaseOptions::HEALTHY
    };
    let is_called_off = rng.chance(150);
    let lease = rng.between(2_000, 3_000);
    let runs = RunOptions {
        lease_ms: (lease, lease + 500),
        work_ms: (2_000, 8_000),
        cancel: if is_called_off { 1_000 } else { rng.sometimes(300, 900) as PerMille },
        delayed: if is_called_off { 1_000 } else { 0 },
        delay_ms: if is_called_off { (20_000, 30_000) } else { options.runs.delay_ms },
        force: 0,
        deadline: 0,
        attempt_limit: 0,
        ..options.runs
    };
    Options {
        topology: Topology::Shared,
        clients: rng.between(2, 3) as u32,
        workers: rng.between(3, 6) as u32,
        runs_per_client: rng.between(5, 9),
        network: reliable_network(&options),
        store: StoreOptions { call_ms: (0, rng.between(1, 10)), ..StoreOptions::healthy() },
        database: Some(database),
        older: 0,
        nemesis,
        runs,
        behaviour: honest(rng),
        committers: Some(2),
        a_day_later: is_called_off,
        clock: if is_called_off { ClockOptions::TRUE } else { options.clock },
        ..options
    }
}

/// A round has at least five calls. At this duration they take longer than the silence that counts as a stall for
/// such leases. Slightly shorter rounds can cost a lease and are outside this scenario.
const SLOW_CALL_MS: (u64, u64) = (250, 600);
const SLOW_LEASE_MS: (u64, u64) = (2_000, 2_500);

fn slow_store(rng: &mut SimRng, options: Options) -> Options {
    let (call, sync) = (rng.between(SLOW_CALL_MS.0, SLOW_CALL_MS.1), rng.between(200, 1_500));
    let store =
        StoreOptions { call_ms: (call, call), sync_ms: (0, sync), ..StoreOptions::healthy() };
    let database = options.database.map(|database| DatabaseOptions {
        coordinators: 1,
        disconnections: 0,
        ..database.healthy()
    });
    let behaviour = BehaviourOptions {
        // Workers of a slow service use long timeouts, and make no start call that would delay their heartbeats.
        timeout_ms: 10_000,
        starts: 0,
        ..honest(rng)
    };
    Options {
        clients: 1,
        workers: rng.between(1, 3) as u32,
        runs_per_client: rng.between(2, 5),
        network: reliable_network(&options),
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
        behaviour,
        committers: Some(rng.between(1, if database.is_some() { 2 } else { 1 }) as usize),
        ..options
    }
}

fn failover(rng: &mut SimRng, options: Options) -> Options {
    let database = DatabaseOptions {
        coordinators: rng.between(2, 4) as usize,
        hints: rng.chance(500),
        lose_race: rng.sometimes(2, 30) as PerMille,
        pass_over: rng.sometimes(50, 300) as PerMille,
        candidates_max: if rng.chance(500) { rng.between(1, 3) as usize } else { usize::MAX },
        disconnections: rng.sometimes(1, 2),
        ..DatabaseOptions::HEALTHY
    };
    let nemesis = NemesisOptions {
        crashes: rng.between(1, 4),
        stops: rng.sometimes(1, 3),
        blackouts: rng.sometimes(1, 2),
        stalls: rng.sometimes(1, 2),
        store_stalls: rng.sometimes(1, 2),
        full_readers: rng.sometimes(1, 2),
        ..NemesisOptions::NONE
    };
    let behaviour = BehaviourOptions { fails_over: true, ..honest(rng) };
    let runs = RunOptions { deadline: 0, attempt_limit: 0, force: 0, ..options.runs };
    Options {
        topology: Topology::Shared,
        workers: rng.between(3, 8) as u32,
        network: reliable_network(&options),
        store: StoreOptions::healthy(),
        database: Some(database),
        nemesis,
        runs,
        behaviour,
        ..options
    }
}

fn many_tenants(rng: &mut SimRng, options: Options) -> Options {
    let runs = RunOptions {
        work_ms: (0, 1_000),
        queues: rng.between(2, 6),
        delayed: 0,
        deadline: 0,
        fail: rng.sometimes(50, 200) as PerMille,
        ..options.runs
    };
    let scopes = rng.between(3, 6) as u32;
    // One coordinator, so that a round of grants includes all tenants.
    let database = options.database.map(|database| DatabaseOptions {
        coordinators: 1,
        disconnections: 0,
        ..database.healthy()
    });
    Options {
        topology: if database.is_some() { Topology::Shared } else { Topology::Embedded },
        safety_ms: rng.between(8_000, 12_000),
        clients: rng.between(3, 6) as u32,
        // At least one worker for each scope.
        workers: scopes + rng.between(0, 3) as u32,
        scopes,
        idle_workers: rng.between(80, 200) as u32,
        flood: rng.between(40, 120),
        intruders: 2,
        runs_per_client: rng.between(2, 4),
        network: reliable_network(&options),
        store: StoreOptions::healthy(),
        database,
        older: 0,
        nemesis: NemesisOptions::NONE,
        runs,
        behaviour: BehaviourOptions { at_once_max: 16, ..BehaviourOptions::OBEDIENT },
        clock: ClockOptions::TRUE,
        ..options
    }
}

/// Every fault of a drawn world, with durable runs among plain ones. Deadlines and limits would end programs early.
fn durable(rng: &mut SimRng, options: Options) -> Options {
    let durable = DurableOptions {
        share: 800,
        children_max: if rng.chance(200) { rng.between(20, 60) } else { rng.between(1, 5) },
        depth_max: rng.between(1, 2) as u32,
        crash: rng.sometimes(50, 300) as PerMille,
        oversleep: rng.sometimes(50, 200) as PerMille,
        repeat: rng.sometimes(100, 500) as PerMille,
        diverge: rng.sometimes(20, 100) as PerMille,
        rounds_max: 0,
        approvals: 0,
        escrow: false,
    };
    let runs = RunOptions { deadline: 0, attempt_limit: 0, delayed: 0, ..options.runs };
    let behaviour = BehaviourOptions {
        at_once_max: 8,
        poll_wait_ms: options.behaviour.poll_wait_ms,
        ..options.behaviour
    };
    Options {
        workers: rng.between(2, 5) as u32,
        runs_per_client: rng.between(2, 5),
        // Rules before the newest know no durable runs.
        older: 0,
        runs,
        behaviour,
        durable: Some(durable),
        ..options
    }
}

/// Durable worlds in which many operations wait for people. Votes are judged after the end, so nothing may go back in time.
fn people(rng: &mut SimRng, options: Options) -> Options {
    let options = durable(rng, options);
    let durable = options.durable.map(|durable| DurableOptions { approvals: 400, ..durable });
    Options {
        people: rng.between(3, 5) as u32,
        nemesis: NemesisOptions { restores: 0, ..options.nemesis },
        durable,
        ..options
    }
}

/// An idle world in which all runs are durable: what wakes them is time, a signal or a child, and never the call of another
/// client. Some are loops that go on for long.
fn asleep(rng: &mut SimRng, options: Options) -> Options {
    let durable = DurableOptions {
        share: 1_000,
        children_max: rng.between(1, 3),
        depth_max: rng.between(1, 2) as u32,
        crash: rng.sometimes(50, 200) as PerMille,
        oversleep: 0,
        repeat: 0,
        diverge: 0,
        rounds_max: rng.sometimes(20, 80),
        approvals: 0,
        escrow: false,
    };
    let idle = idle(rng, options);
    Options {
        runs: RunOptions { deadline: 0, attempt_limit: 0, delayed: 0, ..idle.runs },
        // Retention has worlds of its own, and would remove what is to be judged.
        a_day_later: false,
        durable: Some(durable),
        ..idle
    }
}

/// Every fault of a drawn world, with few slots for many runs. Deadlines would end what waits for a slot.
fn flow_keys(rng: &mut SimRng, options: Options) -> Options {
    let runs = RunOptions {
        work_ms: (0, 1_500),
        queues: rng.between(1, 3),
        deadline: 0,
        attempt_limit: 0,
        flow_keys: rng.between(1, 3),
        flow_life: *rng.pick(&[0, 300, 1_000]),
        flow_rates: rng.chance(300),
        ..options.runs
    };
    let behaviour = BehaviourOptions {
        at_once_max: 8,
        poll_wait_ms: options.behaviour.poll_wait_ms,
        ..options.behaviour
    };
    Options {
        workers: rng.between(3, 6) as u32,
        runs_per_client: rng.between(5, 9),
        // Rules before the newest know no flow keys.
        older: 0,
        runs,
        behaviour,
        ..options
    }
}

/// Every fault of a drawn world but a restore, which may take back what fired: then an instant fires again, and should.
fn schedules(rng: &mut SimRng, options: Options) -> Options {
    let runs = RunOptions { work_ms: (0, 3_000), deadline: 0, attempt_limit: 0, ..options.runs };
    let nemesis = NemesisOptions {
        crashes: rng.between(2, 8),
        blackouts: rng.between(0, 2),
        restores: 0,
        ..options.nemesis
    };
    Options {
        workers: rng.between(3, 6) as u32,
        runs_per_client: rng.between(1, 3),
        schedules: rng.between(1, 4) as u32,
        // Rules before the newest know no schedules.
        older: 0,
        runs,
        nemesis,
        ..options
    }
}

/// Every fault of a drawn world, with plans among plain runs. Deadlines and limits would end steps early, and what a reader
/// was shown must stay true.
fn plans(rng: &mut SimRng, options: Options) -> Options {
    let runs = RunOptions {
        work_ms: (0, 1_500),
        deadline: 0,
        attempt_limit: 0,
        delayed: 0,
        cancel: 300,
        ..options.runs
    };
    let behaviour = BehaviourOptions {
        at_once_max: 8,
        poll_wait_ms: options.behaviour.poll_wait_ms,
        ..options.behaviour
    };
    Options {
        workers: rng.between(3, 6) as u32,
        runs_per_client: rng.between(2, 4),
        // Rules before the newest know no plans.
        older: 0,
        nemesis: NemesisOptions { restores: 0, ..options.nemesis },
        a_day_later: false,
        runs,
        behaviour,
        plans: 800,
        wide_plans: if rng.chance(150) { 300 } else { 0 },
        ..options
    }
}

/// One coordinator that crashes, stops and stalls over a network that loses nothing, so that a worker which says how far it is
/// can be judged. Nothing but the progress clock ends an attempt early.
fn stalls(rng: &mut SimRng, options: Options) -> Options {
    let runs = RunOptions {
        work_ms: (0, 12_000),
        deadline: 0,
        attempt_limit: 0,
        stall: true,
        ..options.runs
    };
    Options {
        network: reliable_network(&options),
        database: None,
        older: 0,
        nemesis: NemesisOptions { partitions: 0, restores: 0, ..options.nemesis },
        workers: rng.between(2, 5) as u32,
        runs,
        behaviour: BehaviourOptions { wedge: 250, at_once_max: 8, ..honest(rng) },
        a_day_later: false,
        ..options
    }
}

/// Durable worlds in which every run has a budget and gives parts of it to its children. Sums are compared after the end, so
/// nothing may go back in time.
fn escrow(rng: &mut SimRng, options: Options) -> Options {
    let options = durable(rng, options);
    let durable = options.durable.map(|durable| DurableOptions { escrow: true, ..durable });
    Options { nemesis: NemesisOptions { restores: 0, ..options.nemesis }, durable, ..options }
}

/// Every fault of a drawn world but a restore, which takes back what was recovered. Half of the attempts fail, and workers vanish.
fn recovery(rng: &mut SimRng, options: Options) -> Options {
    let runs = RunOptions {
        work_ms: (0, 1_500),
        deadline: 0,
        attempt_limit: 0,
        delayed: 0,
        cancel: 50,
        fail: 500,
        ..options.runs
    };
    let behaviour = BehaviourOptions {
        vanish: 150,
        at_once_max: 8,
        poll_wait_ms: options.behaviour.poll_wait_ms,
        ..options.behaviour
    };
    let nemesis = NemesisOptions {
        crashes: rng.between(2, 8),
        blackouts: rng.between(0, 2),
        restores: 0,
        ..options.nemesis
    };
    Options {
        workers: rng.between(3, 6) as u32,
        runs_per_client: rng.between(4, 9),
        people: rng.between(2, 4) as u32,
        recovery: Some(crate::recovery::draw(rng)),
        // Rules before the newest know no recovery.
        older: 0,
        a_day_later: false,
        runs,
        behaviour,
        nemesis,
        ..options
    }
}

/// Every fault of a drawn world but a restore, which takes back what people were told.
fn deployments(rng: &mut SimRng, options: Options) -> Options {
    let nemesis = NemesisOptions {
        crashes: rng.between(2, 10),
        blackouts: rng.between(0, 2),
        restores: 0,
        ..options.nemesis
    };
    Options {
        clients: 1,
        runs_per_client: rng.between(2, 4),
        deployment: Some(crate::deployments::DeploymentOptions::draw(rng)),
        // Rules before the newest know no deployments.
        older: 0,
        a_day_later: false,
        nemesis,
        ..options
    }
}
