//! What breaks when: drawn from the seed before the world begins.

use crate::dice::{Dice, Stream};
use crate::options::Options;

/// Something done to the world at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    Crash {
        host: usize,
        down_ms: u64,
    },
    Pause {
        host: usize,
        millis: u64,
    },
    /// Asked to stop, and started again.
    Stop {
        host: usize,
    },
    /// Every coordinator and the store at once.
    Blackout {
        down_ms: u64,
    },
    /// The same, and the store comes back from a backup.
    Restore {
        down_ms: u64,
    },
    CutOff {
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
    /// Every connection to the database is gone; for so long there are no new ones.
    Disconnect {
        millis: u64,
    },
}

/// Down, paused or stalled for longer than the longest lease, sometimes.
const OUTAGE_MS: (u64, u64) = (50, 9_000);
const DOWN_MS: (u64, u64) = (50, 7_000);
/// Two hours: far beyond every lease, far below the life of a key.
const JUMP_MS: u64 = 2 * 60 * 60 * 1000;

/// All blows in order of time.
pub(crate) fn schedule(seed: u64, options: &Options) -> Vec<(u64, Blow)> {
    let mut dice = Dice::new(seed, Stream::Nemesis);
    let counts = options.nemesis;
    let hosts = options.hosts() as u64;
    let mut blows = Vec::new();
    let mut plan = |count: u64, make: &dyn Fn(&mut Dice, usize) -> Blow| {
        for _ in 0..count {
            let at = dice.between(500, options.safety_ms);
            let host = dice.between(0, hosts - 1) as usize;
            let blow = make(&mut dice, host);
            blows.push((at, blow));
        }
    };
    plan(counts.crashes, &|dice, host| Blow::Crash { host, down_ms: down(dice) });
    plan(counts.pauses, &|dice, host| Blow::Pause { host, millis: outage(dice) });
    plan(counts.stops, &|_, host| Blow::Stop { host });
    plan(counts.blackouts, &|dice, _| Blow::Blackout { down_ms: down(dice) });
    plan(counts.restores, &|dice, _| Blow::Restore { down_ms: down(dice) });
    plan(counts.partitions, &|dice, host| Blow::CutOff { host, millis: outage(dice) });
    plan(counts.clock_jumps, &|dice, host| Blow::JumpClock { host, millis: jump(dice) });
    plan(counts.full_disks, &|dice, _| Blow::FillDisk { millis: outage(dice) });
    plan(counts.stalls, &|dice, _| Blow::StallDisk { millis: outage(dice) });
    let disconnections = options.database.map_or(0, |database| database.disconnections);
    plan(disconnections, &|dice, _| Blow::Disconnect { millis: dice.sometimes(50, DOWN_MS.1) });
    blows.sort_by_key(|(at, _)| *at);
    blows
}

fn outage(dice: &mut Dice) -> u64 {
    dice.between(OUTAGE_MS.0, OUTAGE_MS.1)
}

fn down(dice: &mut Dice) -> u64 {
    dice.between(DOWN_MS.0, DOWN_MS.1)
}

fn jump(dice: &mut Dice) -> i64 {
    let millis = dice.between(1, JUMP_MS) as i64;
    if dice.chance(500) { millis } else { -millis }
}
