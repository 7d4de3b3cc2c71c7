//! The order of one aggregate at one endpoint.

use std::fmt;

use crate::id::{Digest, Name, Scope};

/// The name of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(Digest);

impl LineId {
    pub fn of(scope: &Scope, endpoint: &Name, aggregate: &Name) -> Self {
        let fields = [&scope.tenant, &scope.workspace, endpoint, aggregate];
        Self(Digest::of(&fields.map(|field| field.as_str().as_bytes())))
    }
}

impl fmt::Display for LineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line_{}", self.0)
    }
}

/// Three numbers. The effects themselves are elsewhere, each with its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Line {
    /// The number of the newest effect; 0 before the first.
    pub last: u64,
    /// Every effect up to this number is settled. The next one, if there is one, is the head.
    pub settled: u64,
    /// The number of the last effect that was delivered in its turn. Between it and the head are the gaps.
    pub delivered: u64,
}

impl Line {
    pub const fn head(&self) -> Option<u64> {
        if self.settled < self.last { Some(self.settled + 1) } else { None }
    }

    /// How many effects right before the head were given up. The receiver is told.
    pub const fn gap(&self) -> u64 {
        self.settled - self.delivered
    }
}
