//! Which schema a store is opened with, and what is said of a store that has another one.
//!
//! Each engine has its own steps from an empty store to the current schema, in its `opening`. A step that was released is
//! never edited, and a store remembers the digest of each step that was applied to it.

/// The schema to bring a store to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schema {
    #[default]
    Current,
    /// The current one and a further step, planted so that tests can upgrade a store and meet one that is newer.
    #[cfg(feature = "testing")]
    Planted,
}

/// Follows the name of a store whose first steps are not ours.
pub(crate) const UNRELEASED: &str = "was made by an unreleased build of Tenure, whose format no release reads; export \
    its runs with that build, or start with a new store";
