//! Private PostgreSQL servers: tests, the crash lab and benchmarks start, break and remove them.
//!
//! A [`Server`] is created by a [`Builder`] in a temporary folder. It is removed when its value is dropped, and also
//! when the process that owns it is killed. It can be stopped, killed with all of its processes, started again,
//! replicated to a standby and promoted. [`Shared`] is one server for many short-lived processes, [`SmallVolume`] a
//! disk that fills up soon, [`Pooler`] a pgbouncer in front of a server.
//!
//! PostgreSQL refuses to run as root; as root, everything here runs as the user that its package creates. Nothing
//! here implements PostgreSQL's protocol: a caller that needs more than the output of `psql` uses a driver.

mod builder;
mod error;
mod pooler;
mod processes;
mod programs;
mod server;
mod shared;
mod standby;
mod volume;
mod watchdog;

pub use builder::Builder;
pub use error::Error;
pub use pooler::Pooler;
pub use programs::{Programs, give_to_server_user};
pub use server::{Server, Stop};
pub use shared::Shared;
pub use volume::SmallVolume;

pub(crate) type Result<T> = std::result::Result<T, Error>;
