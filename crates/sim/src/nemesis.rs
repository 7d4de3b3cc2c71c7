//! The schedule of faults, drawn from the seed before the world begins.

use crate::committer_faults::{CommitterFault, CommitterId};
use crate::options::Options;
use crate::rng::{SimRng, Stream};

/// A fault injected at a certain time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NemesisAction {
    Crash {
        host: usize,
        down_ms: u64,
    },
    Pause {
        host: usize,
        millis: u64,
    },
    /// Shuts down gracefully and starts again.
    Stop {
        host: usize,
    },
    /// Crashes every coordinator and the store at once.
    CrashAll {
        down_ms: u64,
    },
    /// The same, and the store is restored from a backup.
    Restore {
        down_ms: u64,
    },
    Partition {
        host: usize,
        millis: u64,
    },
    JumpClock {
        host: usize,
        millis: i64,
    },
    FillDisk {
        millis: u64,
    },
    StallDisk {
        millis: u64,
    },
    /// Drops every connection to the database and refuses new ones for this long.
    Disconnect {
        millis: u64,
    },
    /// Delays every call to the store by this long.
    StallStore {
        millis: u64,
    },
    FillReaders {
        millis: u64,
    },
    /// One committer of one coordinator fails.
    FailCommitter {
        committer_id: CommitterId,
        fault: CommitterFault,
        millis: u64,
    },
}

/// How long a process is down or paused, or the store stalled: sometimes longer than the longest lease.
const OUTAGE_MS: (u64, u64) = (50, 9_000);
const DOWN_MS: (u64, u64) = (50, 7_000);
/// Two hours: far beyond every lease, far below the lifetime of a key.
const JUMP_MS: u64 = 2 * 60 * 60 * 1000;
/// Long enough to affect the shortest lease; some are longer than it.
const COMMITTER_FAULT_MS: (u64, u64) = (1_200, 4_500);
/// How long before the end of a hang the process may be killed, and how soon it is restarted.
const DIES_BEFORE_MS: u64 = 300;
const BACK_AFTER_MS: (u64, u64) = (50, 400);

/// All actions, ordered by time.
pub(crate) fn schedule(seed: u64, options: &Options) -> Vec<(u64, NemesisAction)> {
    let mut rng = SimRng::new(seed, Stream::Nemesis);
    let counts = options.nemesis;
    let hosts = options.hosts() as u64;
    let mut actions = Vec::new();
    let mut plan = |count: u64, make: &dyn Fn(&mut SimRng, usize) -> NemesisAction| {
        for _ in 0..count {
            let at = rng.between(500, options.safety_ms);
            let host = rng.between(0, hosts - 1) as usize;
            let action = make(&mut rng, host);
            actions.push((at, action));
        }
    };
    plan(counts.crashes, &|rng, host| NemesisAction::Crash { host, down_ms: down(rng) });
    plan(counts.pauses, &|rng, host| NemesisAction::Pause { host, millis: outage(rng) });
    plan(counts.stops, &|_, host| NemesisAction::Stop { host });
    plan(counts.blackouts, &|rng, _| NemesisAction::CrashAll { down_ms: down(rng) });
    plan(counts.restores, &|rng, _| NemesisAction::Restore { down_ms: down(rng) });
    plan(counts.partitions, &|rng, host| NemesisAction::Partition { host, millis: outage(rng) });
    plan(counts.clock_jumps, &|rng, host| NemesisAction::JumpClock { host, millis: jump(rng) });
    plan(counts.full_disks, &|rng, _| NemesisAction::FillDisk { millis: outage(rng) });
    plan(counts.stalls, &|rng, _| NemesisAction::StallDisk { millis: outage(rng) });
    let disconnections = options.database.map_or(0, |database| database.disconnections);
    plan(disconnections, &|rng, _| NemesisAction::Disconnect {
        millis: rng.sometimes(50, DOWN_MS.1),
    });
    actions.extend(of_scenario(seed, options));
    actions.sort_by_key(|(at, _)| *at);
    actions
}

/// Faults that only some scenarios have. They use a separate random stream, so that other worlds do not change.
fn of_scenario(seed: u64, options: &Options) -> Vec<(u64, NemesisAction)> {
    let mut rng = SimRng::new(seed, Stream::Committers);
    let counts = options.nemesis;
    let mut actions = Vec::new();
    for _ in 0..counts.store_stalls {
        let (at, millis) = moment(&mut rng, options);
        actions.push((at, NemesisAction::StallStore { millis }));
    }
    for _ in 0..counts.full_readers {
        let (at, millis) = moment(&mut rng, options);
        actions.push((at, NemesisAction::FillReaders { millis }));
    }
    let committer_faults = counts.committer_faults;
    let faults = [
        (committer_faults.hangs, CommitterFault::Hangs),
        (committer_faults.refusals, CommitterFault::Refuses),
        (committer_faults.breaks, CommitterFault::Breaks),
    ];
    for (count, fault) in faults {
        for _ in 0..count {
            let (at, millis) = moment(&mut rng, options);
            let host = rng.between(0, options.hosts() as u64 - 1) as usize;
            let committer =
                if committer_faults.new_work_only { 1 } else { rng.between(0, 1) as usize };
            let committer_id = CommitterId { host, committer };
            actions.push((at, NemesisAction::FailCommitter { committer_id, fault, millis }));
            // A process that dies during a stall must not forget the stall.
            if fault == CommitterFault::Hangs && committer == 0 && rng.chance(400) {
                let before = rng.between(0, DIES_BEFORE_MS);
                let down_ms = rng.between(BACK_AFTER_MS.0, BACK_AFTER_MS.1);
                actions.push((at + millis - before, NemesisAction::Crash { host, down_ms }));
            }
        }
    }
    actions
}

/// When a scenario's fault begins, and how long it lasts.
fn moment(rng: &mut SimRng, options: &Options) -> (u64, u64) {
    (rng.between(2_000, options.safety_ms), rng.between(COMMITTER_FAULT_MS.0, COMMITTER_FAULT_MS.1))
}

fn outage(rng: &mut SimRng) -> u64 {
    rng.between(OUTAGE_MS.0, OUTAGE_MS.1)
}

fn down(rng: &mut SimRng) -> u64 {
    rng.between(DOWN_MS.0, DOWN_MS.1)
}

fn jump(rng: &mut SimRng) -> i64 {
    let millis = rng.between(1, JUMP_MS) as i64;
    if rng.chance(500) { millis } else { -millis }
}
