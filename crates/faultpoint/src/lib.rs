//! Fault points, at which a test build can be made to die, and bugs that it can be made to have.
//!
//! `faultpoint::point!("commit.before")` marks a fault point; `faultpoint::mutant(9)` asks whether bug 9 of the
//! museum is active. Without the feature `lab` the first expands to nothing and the second is the constant `false`:
//! the binary contains no name, no variable and no branch of it. With the feature, the variable `TENURE_LAB` chooses
//! at run time, so one build serves every experiment:
//!
//! ```text
//! TENURE_LAB=kill@commit.before#3          SIGKILL when that place is reached for the third time
//! TENURE_LAB=stop@carry.decided            SIGSTOP at the first time
//! TENURE_LAB=mutant@09,skew@90000000       bug 9, and a wall clock that is 25 hours ahead
//! TENURE_LAB=skew-in@FILE                  a wall clock as far ahead as the file says at any moment
//! ```
//!
//! A fault point has a row in [`POINTS`], a bug has one in [`MUTANTS`]. This crate does not know what the code around
//! them does.

mod tables;

pub use tables::{MUTANTS, POINTS, Point, StoreKind, Trigger};

#[cfg(feature = "lab")]
mod lab_config;
#[cfg(feature = "lab")]
pub use lab_config::{VARIABLE, draw, mutant, reach, skew_ms};

/// A named fault point.
#[cfg(feature = "lab")]
#[macro_export]
macro_rules! point {
    ($name:literal) => {
        $crate::reach($name)
    };
}

/// A named fault point: nothing, in this build.
#[cfg(not(feature = "lab"))]
#[macro_export]
macro_rules! point {
    ($name:literal) => {};
}

/// Whether a bug of the museum is active. Never in this build.
#[cfg(not(feature = "lab"))]
#[inline(always)]
pub const fn mutant(_: u8) -> bool {
    false
}

/// The next number of the stream that bugs of the museum draw from; always 0 in this build.
#[cfg(not(feature = "lab"))]
#[inline(always)]
pub const fn draw() -> u32 {
    0
}

/// How far the wall clock is ahead: not at all in this build.
#[cfg(not(feature = "lab"))]
#[inline(always)]
pub const fn skew_ms() -> i64 {
    0
}

/// The compiler evaluates all of it in an ordinary build: no name, no variable and no branch is left for run time.
#[cfg(not(feature = "lab"))]
const _: () = {
    point!("commit.before");
    assert!(!mutant(1) && draw() == 0 && skew_ms() == 0);
};
