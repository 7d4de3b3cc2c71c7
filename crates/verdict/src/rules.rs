//! Which version of the rules decides, and when a newer one takes effect.
//!
//! The version grows whenever a rule changes an answer. Every recorded decision names the version
//! that made it, so that the same version can replay it. Coordinators of different versions may
//! share a store during a rolling upgrade: all of them decide by one version that all of them know,
//! and a newer one takes effect once every coordinator supports it. The store records which version
//! is in force.
//!
//! Invariants: the version in force never decreases; no coordinator decides by a version that it
//! does not know.

use std::fmt;

/// A version of the rules that this code can decide by. Each place where versions differ matches on
/// it, so that a new version does not compile before every difference is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rules {
    V1,
    /// A second version with one changed answer (extensions after an outage), planted so that tests
    /// can upgrade coordinators. No coordinator decides by it unless a test says that it supports it.
    #[cfg(feature = "lab")]
    Planted,
}

impl Rules {
    #[cfg(not(feature = "lab"))]
    pub const ALL: [Rules; 1] = [Rules::V1];
    #[cfg(feature = "lab")]
    pub const ALL: [Rules; 2] = [Rules::V1, Rules::Planted];
    /// The oldest version whose histories can be decided again. Once a version is released it stays: dropping it would
    /// leave its histories unchecked, and keeping it costs one branch in one place.
    pub const OLDEST: Rules = Rules::V1;
    /// The version that a store uses as soon as all of its coordinators support it.
    pub const NEWEST: Rules = Rules::V1;

    pub const fn number(self) -> u32 {
        match self {
            Rules::V1 => 1,
            #[cfg(feature = "lab")]
            Rules::Planted => 2,
        }
    }

    /// `None` for a version that this code does not know, or no longer knows.
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|rules| rules.number() == number)
    }
}

/// The versions that a coordinator supports: all from the oldest to the newest. They may be newer
/// than ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SupportedRules {
    oldest: u32,
    newest: u32,
}

impl SupportedRules {
    /// The versions that this code supports.
    pub const OURS: SupportedRules = SupportedRules::only(Rules::OLDEST, Rules::NEWEST);

    /// What a coordinator of the next version would support.
    #[cfg(feature = "lab")]
    pub const NEXT: SupportedRules = SupportedRules::only(Rules::V1, Rules::Planted);

    /// A subset of the versions that this code supports.
    pub const fn only(oldest: Rules, newest: Rules) -> Self {
        assert!(oldest.number() <= newest.number(), "the oldest is not newer than the newest");
        Self { oldest: oldest.number(), newest: newest.number() }
    }

    /// The versions that another coordinator announces; `None` if the range is invalid.
    pub fn from_numbers(oldest: u32, newest: u32) -> Option<Self> {
        (oldest <= newest).then_some(Self { oldest, newest })
    }

    pub const fn oldest(self) -> u32 {
        self.oldest
    }

    pub const fn newest(self) -> u32 {
        self.newest
    }

    /// The version with this number, if both this range and this code support it.
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

/// The version that should be in force: the greatest that all live coordinators support, and never
/// lower than the present one.
pub fn to_activate(in_force: u32, living: &[SupportedRules]) -> u32 {
    let newest = living.iter().map(|known| known.newest).min();
    let all_know = |number: &u32| living.iter().all(|known| known.has(*number));
    newest.filter(all_know).map_or(in_force, |newest| newest.max(in_force))
}

/// A version that some coordinator supports but that cannot take effect yet, because others do not
/// support it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingVersion {
    pub version: u32,
    /// Indices into the list of live coordinators.
    pub lacking: Vec<usize>,
}

/// The version that would be in force if all coordinators supported it, and those that it waits
/// for.
pub fn pending_version(in_force: u32, living: &[SupportedRules]) -> Option<PendingVersion> {
    let version = living.iter().map(|known| known.newest).max()?;
    let lacks = |(_, known): &(usize, &SupportedRules)| !known.has(version);
    let lacking: Vec<usize> =
        living.iter().enumerate().filter(lacks).map(|(place, _)| place).collect();
    (version > in_force && !lacking.is_empty()).then_some(PendingVersion { version, lacking })
}

/// The version in force after a coordinator with this support has joined the live ones. `None` if
/// it could not decide by that version and therefore must not join.
pub fn to_join(in_force: u32, newcomer: SupportedRules, living: &[SupportedRules]) -> Option<u32> {
    let everybody: Vec<SupportedRules> = living.iter().copied().chain([newcomer]).collect();
    Some(to_activate(in_force, &everybody)).filter(|version| newcomer.has(*version))
}
