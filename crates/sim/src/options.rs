//! The options of a seed's world: which faults are enabled, how often they occur, and how large the world is.
//!
//! This is swarm testing: each feature and fault is switched on or off as a whole. A world in which everything
//! happens rarely hides bugs that appear only when one thing happens often.

use verdict::SupportedRules;

use crate::rng::{PerMille, SimRng, Stream};
use crate::scenario::Scenario;

/// How coordinators share a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// One coordinator with the store in its own process; time comes from the host's clock.
    Embedded,
    /// Several coordinators over one database, which provides the clock.
    Shared,
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) scenario: Scenario,
    pub(crate) topology: Topology,
    /// How far the world advances in one step: the granularity of interleavings.
    pub(crate) step_ms: u64,
    pub(crate) safety_ms: u64,
    pub(crate) clients: u32,
    pub(crate) workers: u32,
    pub(crate) runs_per_client: u64,
    pub(crate) network: NetworkOptions,
    pub(crate) store: StoreOptions,
    /// How transactions affect each other, where the store is a database.
    pub(crate) database: Option<DatabaseOptions>,
    /// How many coordinators of a database start with older rules; each is upgraded at its next start.
    pub(crate) older: usize,
    pub(crate) nemesis: NemesisOptions,
    pub(crate) runs: RunOptions,
    pub(crate) behaviour: BehaviourOptions,
    pub(crate) clock: ClockOptions,
    /// Number of committers of every coordinator; `None` draws one or two.
    pub(crate) committers: Option<usize>,
    /// The store stays slow after faults have stopped.
    pub(crate) is_slow_for_good: bool,
    /// Whether the world continues until retention allows all ended tasks to be deleted.
    pub(crate) a_day_later: bool,
    /// Number of scopes (tenants and workspaces) that share the coordinators.
    pub(crate) scopes: u32,
    /// Workers that poll for work that never comes.
    pub(crate) idle_workers: u32,
    /// Number of runs that the first client submits at once.
    pub(crate) flood: u64,
    /// Callers that try to reach other scopes' tasks.
    pub(crate) intruders: u32,
    /// People who decide what runs ask.
    pub(crate) people: u32,
    /// Durable runs, where the world has them.
    pub(crate) durable: Option<DurableOptions>,
    /// Number of schedules.
    pub(crate) schedules: u32,
    /// What recovery may do, where the world has it.
    pub(crate) recovery: Option<verdict::recovery::Terms>,
    /// What the deployment is like, where the world has one.
    pub(crate) deployment: Option<crate::deployments::DeploymentOptions>,
    /// How many of the runs are plans, and how many of the plans are larger than one decision spawns or tells.
    pub(crate) plans: PerMille,
    pub(crate) wide_plans: PerMille,
}

/// How many runs are programs, how large they are, and how workers misbehave with them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurableOptions {
    pub(crate) share: PerMille,
    pub(crate) children_max: u64,
    pub(crate) depth_max: u32,
    pub(crate) crash: PerMille,
    pub(crate) oversleep: PerMille,
    pub(crate) repeat: PerMille,
    pub(crate) diverge: PerMille,
    /// How many rounds a loop has at most that some programs end with; 0 if none does.
    pub(crate) rounds_max: u64,
    /// How many operations of a run ask people.
    pub(crate) approvals: PerMille,
    /// Whether runs and their children have budgets, and their steps use something.
    pub(crate) escrow: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkOptions {
    pub(crate) delay_ms: (u64, u64),
    pub(crate) lose_request: PerMille,
    pub(crate) lose_answer: PerMille,
    pub(crate) duplicate: PerMille,
    pub(crate) straggle: PerMille,
    pub(crate) cut: PerMille,
}

impl NetworkOptions {
    /// The options after faults have stopped.
    pub(crate) fn healthy() -> Self {
        Self {
            delay_ms: (1, 10),
            lose_request: 0,
            lose_answer: 0,
            duplicate: 0,
            straggle: 0,
            cut: 0,
        }
    }

    fn is_reliable(&self) -> bool {
        (self.lose_request, self.lose_answer, self.straggle, self.cut) == (0, 0, 0, 0)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreOptions {
    pub(crate) call_ms: (u64, u64),
    pub(crate) sync_ms: (u64, u64),
    pub(crate) refuse: PerMille,
    pub(crate) roll_back: PerMille,
    pub(crate) unknown: PerMille,
}

impl StoreOptions {
    pub(crate) fn healthy() -> Self {
        Self { call_ms: (0, 0), sync_ms: (0, 3), refuse: 0, roll_back: 0, unknown: 0 }
    }
}

/// A database shared by several coordinators: their batches are concurrent transactions, each lost race and each lost
/// connection affects one transaction, and the outcome of a lost COMMIT can be looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatabaseOptions {
    pub(crate) coordinators: usize,
    /// Whether coordinators notify each other of their commits.
    pub(crate) hints: bool,
    /// A transaction is rolled back because of another: serialization failure, deadlock or lock timeout.
    pub(crate) lose_race: PerMille,
    pub(crate) lose_commit: PerMille,
    /// Share of lost COMMITs whose outcome cannot be looked up.
    pub(crate) cannot_ask: PerMille,
    /// A ready row is skipped, as with an outdated list of candidates.
    pub(crate) pass_over: PerMille,
    /// How often every connection is lost at once; sometimes the database is down for a while, too.
    pub(crate) disconnections: u64,
    /// Largest number of ready rows in a list of candidates.
    pub(crate) candidates_max: usize,
}

impl DatabaseOptions {
    pub(crate) const HEALTHY: DatabaseOptions = DatabaseOptions {
        coordinators: 1,
        hints: true,
        lose_race: 0,
        lose_commit: 0,
        cannot_ask: 0,
        pass_over: 0,
        disconnections: 0,
        candidates_max: usize::MAX,
    };

    fn draw(rng: &mut SimRng) -> Self {
        Self {
            coordinators: rng.between(2, 4) as usize,
            hints: rng.chance(500),
            lose_race: rng.sometimes(2, 60) as PerMille,
            lose_commit: rng.sometimes(2, 60) as PerMille,
            cannot_ask: rng.sometimes(100, 600) as PerMille,
            pass_over: rng.sometimes(50, 400) as PerMille,
            disconnections: rng.sometimes(1, 3),
            candidates_max: usize::MAX,
        }
    }

    /// The options after faults have stopped.
    pub(crate) fn healthy(self) -> Self {
        Self { lose_race: 0, lose_commit: 0, cannot_ask: 0, pass_over: 0, ..self }
    }
}

/// How many faults of each kind occur in the phase with faults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NemesisOptions {
    pub(crate) crashes: u64,
    pub(crate) pauses: u64,
    pub(crate) stops: u64,
    pub(crate) blackouts: u64,
    pub(crate) restores: u64,
    pub(crate) partitions: u64,
    pub(crate) clock_jumps: u64,
    pub(crate) full_disks: u64,
    pub(crate) stalls: u64,
    /// Periods in which every call to the store waits.
    pub(crate) store_stalls: u64,
    /// Periods in which no reader is free, so the next wake-up cannot be read.
    pub(crate) full_readers: u64,
    pub(crate) committer_faults: CommitterFaultOptions,
}

impl NemesisOptions {
    pub(crate) const NONE: NemesisOptions = NemesisOptions {
        crashes: 0,
        pauses: 0,
        stops: 0,
        blackouts: 0,
        restores: 0,
        partitions: 0,
        clock_jumps: 0,
        full_disks: 0,
        stalls: 0,
        store_stalls: 0,
        full_readers: 0,
        committer_faults: CommitterFaultOptions::NONE,
    };
}

/// Faults of a single committer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitterFaultOptions {
    pub(crate) hangs: u64,
    pub(crate) refusals: u64,
    pub(crate) breaks: u64,
    /// Only the committer for new work fails.
    pub(crate) new_work_only: bool,
}

impl CommitterFaultOptions {
    pub(crate) const NONE: CommitterFaultOptions =
        CommitterFaultOptions { hangs: 0, refusals: 0, breaks: 0, new_work_only: false };
}

/// The runs that clients submit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunOptions {
    pub(crate) lease_ms: (u64, u64),
    pub(crate) work_ms: (u64, u64),
    pub(crate) grace_ms: (u64, u64),
    pub(crate) delay_ms: (u64, u64),
    pub(crate) queues: u64,
    pub(crate) cancel: PerMille,
    pub(crate) force: PerMille,
    pub(crate) delayed: PerMille,
    pub(crate) deadline: PerMille,
    /// Share of deadlines that have already passed when the run is submitted.
    pub(crate) past_deadline: PerMille,
    pub(crate) attempt_limit: PerMille,
    pub(crate) priorities: PerMille,
    pub(crate) without_key: PerMille,
    pub(crate) reuse_key: PerMille,
    pub(crate) batch: PerMille,
    pub(crate) fail: PerMille,
    /// How many flow keys runs have; none without any.
    pub(crate) flow_keys: u64,
    /// How many of these hold their slot for life.
    pub(crate) flow_life: PerMille,
    /// Whether the keys have rates.
    pub(crate) flow_rates: bool,
    /// Whether runs have a progress clock, and workers say how far they are.
    pub(crate) stall: bool,
}

/// How often a worker misbehaves, and in which way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BehaviourOptions {
    pub(crate) silent: PerMille,
    pub(crate) vanish: PerMille,
    pub(crate) sleep: PerMille,
    pub(crate) contradict: PerMille,
    pub(crate) continue_after_loss: PerMille,
    pub(crate) foreign_token: PerMille,
    pub(crate) lie: PerMille,
    pub(crate) wedge: PerMille,
    pub(crate) ignore_cancel: PerMille,
    /// Idles for a while before it starts. This is no fault, but it lets others interleave.
    pub(crate) dawdle: PerMille,
    pub(crate) named_polls: PerMille,
    pub(crate) poll_wait_ms: (u64, u64),
    /// Reports its start and waits for the answer before it begins.
    pub(crate) starts: PerMille,
    /// How many leases one worker holds at once.
    pub(crate) at_once_max: u64,
    /// Polls for as many tasks as it can hold.
    pub(crate) takes_all: bool,
    /// A worker's timeout for calls under a lease; other calls have longer timeouts.
    pub(crate) timeout_ms: u64,
    /// Stays with one coordinator while it answers and then fails over to the next; otherwise each call goes to a
    /// random one.
    pub(crate) fails_over: bool,
}

impl BehaviourOptions {
    /// Breaks no rule.
    pub(crate) const OBEDIENT: BehaviourOptions = BehaviourOptions {
        silent: 0,
        vanish: 0,
        sleep: 0,
        contradict: 0,
        continue_after_loss: 0,
        foreign_token: 0,
        lie: 0,
        wedge: 0,
        ignore_cancel: 0,
        dawdle: 0,
        named_polls: 0,
        poll_wait_ms: (0, 2_000),
        starts: 850,
        at_once_max: 3,
        takes_all: false,
        // Short, because lease time passes during the wait.
        timeout_ms: 500,
        fails_over: false,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockOptions {
    /// How much faster than true time each clock runs, in parts per million.
    pub(crate) drift_ppm: [i64; 3],
}

impl ClockOptions {
    /// Every clock is right.
    pub(crate) const TRUE: ClockOptions = ClockOptions { drift_ppm: [0; 3] };

    pub(crate) fn of_host(&self, host: usize) -> i64 {
        self.drift_ppm[host % 2]
    }

    pub(crate) fn of_database(&self) -> i64 {
        self.drift_ppm[2]
    }
}

impl Options {
    /// What coordinators know that were upgraded, or need no upgrade.
    pub(crate) fn newer_rules(&self) -> SupportedRules {
        if self.older > 0 { SupportedRules::NEXT } else { SupportedRules::OURS }
    }

    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = SimRng::new(seed, Stream::Options);
        let rng = &mut rng;
        let topology = if rng.chance(500) { Topology::Embedded } else { Topology::Shared };
        let database = database(seed, topology);
        let scenario = Scenario::of(seed);
        let drawn = Self {
            scenario,
            topology,
            database,
            older: database.map_or(0, |database| older(seed, database.coordinators)),
            step_ms: rng.between(4, 20),
            safety_ms: rng.between(12_000, 30_000),
            clients: rng.between(1, 3) as u32,
            workers: rng.between(1, 5) as u32,
            runs_per_client: rng.between(2, 8),
            network: network(rng),
            store: store(rng),
            nemesis: nemesis(rng),
            runs: runs(rng),
            behaviour: behaviour(rng),
            clock: clock(rng),
            committers: None,
            is_slow_for_good: false,
            a_day_later: false,
            scopes: 1,
            idle_workers: 0,
            flood: 0,
            intruders: 0,
            people: 0,
            durable: None,
            schedules: 0,
            recovery: None,
            deployment: None,
            plans: 0,
            wide_plans: 0,
        };
        scenario.shape(seed, drawn)
    }

    pub(crate) fn hosts(&self) -> usize {
        match self.topology {
            Topology::Embedded => 1,
            Topology::Shared => self.database.map_or(2, |database| database.coordinators),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.scenario, Scenario::Idle | Scenario::Asleep)
    }

    /// Whether only coordinators and stores fail, so that no obedient worker may lose its lease. With several
    /// coordinators a worker may keep calling a dead one for too long, unless it fails over to the next.
    pub(crate) fn is_fair_to_workers(&self) -> bool {
        (self.hosts() == 1 || self.behaviour.fails_over)
            && self.network.is_reliable()
            && self.nemesis.partitions == 0
            && self.nemesis.restores == 0
    }
}

fn network(rng: &mut SimRng) -> NetworkOptions {
    let low = rng.between(0, 10);
    let delay_ms = (low, low + rng.between(1, 40));
    if rng.chance(300) {
        let duplicate = rng.sometimes(20, 200) as PerMille;
        return NetworkOptions { delay_ms, duplicate, ..NetworkOptions::healthy() };
    }
    NetworkOptions {
        delay_ms,
        lose_request: rng.sometimes(5, 150) as PerMille,
        lose_answer: rng.sometimes(5, 150) as PerMille,
        duplicate: rng.sometimes(5, 300) as PerMille,
        straggle: rng.sometimes(5, 100) as PerMille,
        cut: rng.sometimes(5, 100) as PerMille,
    }
}

fn store(rng: &mut SimRng) -> StoreOptions {
    let (call, sync) = (rng.sometimes(1, 8), rng.between(0, 30));
    StoreOptions {
        call_ms: (0, call),
        sync_ms: (0, sync),
        refuse: rng.sometimes(1, 15) as PerMille,
        roll_back: rng.sometimes(1, 30) as PerMille,
        unknown: rng.sometimes(2, 20) as PerMille,
    }
}

fn nemesis(rng: &mut SimRng) -> NemesisOptions {
    NemesisOptions {
        crashes: rng.sometimes(1, 6),
        pauses: rng.sometimes(1, 4),
        stops: rng.sometimes(1, 2),
        blackouts: rng.sometimes(1, 2),
        restores: if rng.chance(200) { 1 } else { 0 },
        partitions: rng.sometimes(1, 3),
        clock_jumps: rng.sometimes(1, 3),
        full_disks: rng.sometimes(1, 2),
        stalls: rng.sometimes(1, 2),
        store_stalls: 0,
        full_readers: 0,
        committer_faults: CommitterFaultOptions::NONE,
    }
}

/// Four shared stores in five are databases; in the fifth, reopening the store is the only way to resolve a lost
/// COMMIT.
fn database(seed: u64, topology: Topology) -> Option<DatabaseOptions> {
    let mut rng = SimRng::new(seed, Stream::Database);
    let is_database = topology == Topology::Shared && rng.chance(800);
    is_database.then(|| DatabaseOptions::draw(&mut rng))
}

/// In half of the databases an upgrade is in progress.
fn older(seed: u64, coordinators: usize) -> usize {
    let mut rng = SimRng::new(seed, Stream::Upgrade);
    if rng.chance(500) { rng.between(1, coordinators as u64) as usize } else { 0 }
}

fn runs(rng: &mut SimRng) -> RunOptions {
    let lease = rng.between(2_000, 4_000);
    RunOptions {
        lease_ms: (lease, lease + rng.between(0, 3_000)),
        work_ms: (0, rng.between(500, 8_000)),
        grace_ms: (0, 3_000),
        delay_ms: (500, 12_000),
        queues: rng.between(1, 3),
        cancel: rng.sometimes(200, 900) as PerMille,
        force: rng.sometimes(100, 500) as PerMille,
        delayed: rng.sometimes(50, 400) as PerMille,
        deadline: rng.sometimes(50, 400) as PerMille,
        past_deadline: 0,
        attempt_limit: rng.sometimes(50, 400) as PerMille,
        priorities: rng.sometimes(100, 1_000) as PerMille,
        without_key: rng.sometimes(50, 300) as PerMille,
        reuse_key: rng.sometimes(50, 300) as PerMille,
        batch: rng.sometimes(50, 300) as PerMille,
        fail: rng.sometimes(50, 600) as PerMille,
        flow_keys: 0,
        flow_life: 0,
        flow_rates: false,
        stall: false,
    }
}

fn behaviour(rng: &mut SimRng) -> BehaviourOptions {
    BehaviourOptions {
        silent: rng.sometimes(20, 200) as PerMille,
        vanish: rng.sometimes(20, 300) as PerMille,
        sleep: rng.sometimes(20, 300) as PerMille,
        contradict: rng.sometimes(20, 300) as PerMille,
        continue_after_loss: rng.sometimes(20, 500) as PerMille,
        foreign_token: rng.sometimes(20, 200) as PerMille,
        lie: rng.sometimes(20, 200) as PerMille,
        ignore_cancel: rng.sometimes(300, 1_000) as PerMille,
        dawdle: rng.sometimes(100, 800) as PerMille,
        named_polls: rng.sometimes(300, 1_000) as PerMille,
        ..BehaviourOptions::OBEDIENT
    }
}

fn clock(rng: &mut SimRng) -> ClockOptions {
    let mut drift = || match rng.between(0, 3) {
        0 => -(rng.between(1, 100_000) as i64),
        1 => rng.between(1, 100_000) as i64,
        _ => 0,
    };
    ClockOptions { drift_ppm: [drift(), drift(), drift()] }
}
