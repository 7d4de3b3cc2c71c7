//! What breaks when: drawn from the seed before the world begins.

use crate::dice::{Dice, Stream};
use crate::options::Options;
use crate::seat::{Seat, Trouble};

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
    /// Every call to the store waits for so long.
    StandStill {
        millis: u64,
    },
    FillReaders {
        millis: u64,
    },
    /// One committer of one coordinator is in trouble.
    Unseat {
        seat: Seat,
        trouble: Trouble,
        millis: u64,
    },
}

/// Down, paused or stalled for longer than the longest lease, sometimes.
const OUTAGE_MS: (u64, u64) = (50, 9_000);
const DOWN_MS: (u64, u64) = (50, 7_000);
/// Two hours: far beyond every lease, far below the life of a key.
const JUMP_MS: u64 = 2 * 60 * 60 * 1000;
/// Long enough to matter to the shortest lease, and some longer than it.
const SEAT_MS: (u64, u64) = (1_200, 4_500);
/// How long before a hang ends its process may die, and how soon it is back.
const DIES_BEFORE_MS: u64 = 300;
const BACK_AFTER_MS: (u64, u64) = (50, 400);

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
    blows.extend(of_setting(seed, options));
    blows.sort_by_key(|(at, _)| *at);
    blows
}

/// What only some settings have, drawn apart so that other worlds stay as they are.
fn of_setting(seed: u64, options: &Options) -> Vec<(u64, Blow)> {
    let mut dice = Dice::new(seed, Stream::Seats);
    let counts = options.nemesis;
    let mut blows = Vec::new();
    for _ in 0..counts.standstills {
        let (at, millis) = moment(&mut dice, options);
        blows.push((at, Blow::StandStill { millis }));
    }
    for _ in 0..counts.full_readers {
        let (at, millis) = moment(&mut dice, options);
        blows.push((at, Blow::FillReaders { millis }));
    }
    let seats = counts.seats;
    let troubles = [
        (seats.hangs, Trouble::Hangs),
        (seats.refusals, Trouble::Refuses),
        (seats.breaks, Trouble::Breaks),
    ];
    for (count, trouble) in troubles {
        for _ in 0..count {
            let (at, millis) = moment(&mut dice, options);
            let host = dice.between(0, options.hosts() as u64 - 1) as usize;
            let committer = if seats.spares_hearing { 1 } else { dice.between(0, 1) as usize };
            let seat = Seat { host, committer };
            blows.push((at, Blow::Unseat { seat, trouble, millis }));
            // A process that dies while it does not hear must not forget that.
            if trouble == Trouble::Hangs && committer == 0 && dice.chance(400) {
                let before = dice.between(0, DIES_BEFORE_MS);
                let down_ms = dice.between(BACK_AFTER_MS.0, BACK_AFTER_MS.1);
                blows.push((at + millis - before, Blow::Crash { host, down_ms }));
            }
        }
    }
    blows
}

/// When something of a setting begins, and how long it takes.
fn moment(dice: &mut Dice, options: &Options) -> (u64, u64) {
    (dice.between(2_000, options.safety_ms), dice.between(SEAT_MS.0, SEAT_MS.1))
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
