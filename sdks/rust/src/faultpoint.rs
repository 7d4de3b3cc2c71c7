//! What a build without the lab has in place of the crate of the same name: no bug can be chosen.
//!
//! With the feature `museum`, which only the workspace's own tests turn on, that crate is linked instead. Programs that use
//! this crate compile nothing of it.

/// Whether a bug of the museum is active. Never in this build.
#[inline(always)]
pub(crate) const fn mutant(_: u8) -> bool {
    false
}
