//! Which version of the rules decides, and when a newer one may begin to.
//!
//! A version grows whenever a rule changes what it answers. Every recorded decision names the version it was
//! made by, so that it can be made again by the same one. Coordinators of different versions may share a
//! store while they are replaced one after the other: all of them decide by one version that all of them know,
//! and a newer one takes over once everybody has it. Which one is in force the store remembers.
//!
//! Invariants: the version in force never becomes lower; nobody decides by a version that it does not know.

use std::fmt;

/// A version of the rules that this code can decide by. Each place where they differ matches on it, so that a
/// new version does not compile before every difference is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rules {
    /// Every coordinator that returns from an outage gives leases the whole of it back.
    V1,
    /// An outage is given back once, however many coordinators return from it.
    V2,
    /// Grants that are handed back in a row pause and are limited like unheard ones, and what is recorded of a
    /// task has a bound.
    V3,
}

impl Rules {
    pub const ALL: [Rules; 3] = [Rules::V1, Rules::V2, Rules::V3];
    /// The first version there ever was: dropping one would leave its histories unchecked, and costs nothing
    /// as long as a version is one branch in one place.
    pub const OLDEST: Rules = Rules::V1;
    /// What a store is decided by as soon as everybody who works on it has it.
    pub const NEWEST: Rules = Rules::V3;

    pub const fn number(self) -> u32 {
        match self {
            Rules::V1 => 1,
            Rules::V2 => 2,
            Rules::V3 => 3,
        }
    }

    /// `None` for a version that this code does not know, or no longer.
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|rules| rules.number() == number)
    }
}

/// The versions that somebody can decide by: all from the oldest to the newest. They may be newer than ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SupportedRules {
    oldest: u32,
    newest: u32,
}

impl SupportedRules {
    /// What this code can decide by.
    pub const OURS: SupportedRules = SupportedRules::only(Rules::OLDEST, Rules::NEWEST);

    /// Part of what this code can decide by.
    pub const fn only(oldest: Rules, newest: Rules) -> Self {
        assert!(oldest.number() <= newest.number(), "the oldest is not newer than the newest");
        Self { oldest: oldest.number(), newest: newest.number() }
    }

    /// What somebody else says of itself; `None` where that makes no sense.
    pub fn from_numbers(oldest: u32, newest: u32) -> Option<Self> {
        (oldest <= newest).then_some(Self { oldest, newest })
    }

    pub const fn oldest(self) -> u32 {
        self.oldest
    }

    pub const fn newest(self) -> u32 {
        self.newest
    }

    /// The version with this number, if it is among these and ours.
    pub fn rules(self, number: u32) -> Option<Rules> {
        Rules::of(number).filter(|_| self.has(number))
    }

    const fn has(self, number: u32) -> bool {
        self.oldest <= number && number <= self.newest
    }
}

impl fmt::Display for SupportedRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "{}", self.newest),
            false => write!(f, "{} to {}", self.oldest, self.newest),
        }
    }
}

/// The version that should be in force: the greatest that all who live know, and never a lower one than is.
pub fn to_activate(in_force: u32, living: &[SupportedRules]) -> u32 {
    let newest = living.iter().map(|known| known.newest).min();
    let all_know = |number: &u32| living.iter().all(|known| known.has(*number));
    newest.filter(all_know).map_or(in_force, |newest| newest.max(in_force))
}

/// A version that somebody knows and that cannot be in force yet, because these do not know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingVersion {
    pub version: u32,
    /// Places in the list of those who live.
    pub lacking: Vec<usize>,
}

/// What would be in force if everybody had it, and whom it waits for.
pub fn pending_version(in_force: u32, living: &[SupportedRules]) -> Option<PendingVersion> {
    let version = living.iter().map(|known| known.newest).max()?;
    let lacks = |(_, known): &(usize, &SupportedRules)| !known.has(version);
    let lacking: Vec<usize> =
        living.iter().enumerate().filter(lacks).map(|(place, _)| place).collect();
    (version > in_force && !lacking.is_empty()).then_some(PendingVersion { version, lacking })
}

/// The version in force once somebody with this knowledge has joined those who live, or `None` if it could
/// not decide by it: then it must not join.
pub fn to_join(in_force: u32, newcomer: SupportedRules, living: &[SupportedRules]) -> Option<u32> {
    let everybody: Vec<SupportedRules> = living.iter().copied().chain([newcomer]).collect();
    Some(to_activate(in_force, &everybody)).filter(|version| newcomer.has(*version))
}
