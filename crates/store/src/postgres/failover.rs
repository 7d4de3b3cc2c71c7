//! Which server is the primary: detects that another one took over, and reports what an acknowledged commit survives.

pub(super) mod durability;
pub(super) mod failover_watch;
pub(super) mod primary;
