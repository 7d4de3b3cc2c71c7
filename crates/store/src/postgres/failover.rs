//! Which server is the primary: noticing that another one took over, and what an acknowledged commit survives.

pub(super) mod durability;
pub(super) mod failover_watch;
pub(super) mod primary;
