//! A database as one end of a copy: the source that is read, and the target that becomes a store at the end.

pub mod copy_source;
pub mod copy_target;
