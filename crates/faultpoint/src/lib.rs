//! Places at which a test build can be made to die, and bugs it can be made to have.
//!
//! `faultpoint::point!("commit.before")` marks a place; `faultpoint::mutant(9)` asks whether bug 9 of the museum
//! is to be played. Without the feature `lab` the first is nothing at all and the second is the constant
//! `false`: no name, no variable and no branch is left in the binary. With it, the variable `TENURE_LAB` chooses
//! at run time, so that one build serves every experiment:
//!
//! ```text
//! TENURE_LAB=kill@commit.before#3          SIGKILL when that place is reached for the third time
//! TENURE_LAB=stop@carry.decided            SIGSTOP at the first time
//! TENURE_LAB=mutant@09,skew@90000000       bug 9, and a wall clock that is 25 hours ahead
//! TENURE_LAB=skew-in@FILE                  a wall clock as far ahead as the file says at any moment
//! ```
//!
//! A place has a row in [`POINTS`], a bug one in [`MUTANTS`]. Nothing here knows what the code around does.

mod tables;

pub use tables::{MUTANTS, POINTS, Point, StoreKind, Trigger};

#[cfg(feature = "lab")]
mod lab_config;
#[cfg(feature = "lab")]
pub use lab_config::{VARIABLE, draw, mutant, reach, skew_ms};

/// A place with a name.
#[cfg(feature = "lab")]
#[macro_export]
macro_rules! point {
    ($name:literal) => {
        $crate::reach($name)
    };
}

/// A place with a name: nothing, in this build.
#[cfg(not(feature = "lab"))]
#[macro_export]
macro_rules! point {
    ($name:literal) => {};
}

/// Whether this build is to have a bug of the museum. This one never has.
#[cfg(not(feature = "lab"))]
#[inline(always)]
pub const fn mutant(_: u8) -> bool {
    false
}

/// The next number of a stream that a bug of the museum draws from; there is none.
#[cfg(not(feature = "lab"))]
#[inline(always)]
pub const fn draw() -> u32 {
    0
}

/// How far the wall clock is put ahead: not at all.
#[cfg(not(feature = "lab"))]
#[inline(always)]
pub const fn skew_ms() -> i64 {
    0
}

/// The compiler knows all of it in an ordinary build: no name, no variable and no branch is left for run time.
#[cfg(not(feature = "lab"))]
const _: () = {
    point!("commit.before");
    assert!(!mutant(1) && draw() == 0 && skew_ms() == 0);
};
