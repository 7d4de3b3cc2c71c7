//! Private PostgreSQL servers: for tests, the crash lab and benchmarks, which start, break and remove them.
//!
//! A [`Server`] is made by a [`Builder`], lies in a folder of its own, and is gone with its value, also when the
//! process that holds it is killed. It can be stopped, killed with all its family, started again, followed by
//! another one and promoted. [`Shared`] is one server for many short-lived processes, [`SmallVolume`] a disk that is
//! soon full, [`Pooler`] a pgbouncer before a server.
//!
//! PostgreSQL refuses to run as root; as root, everything here runs as the user that its package made. Nothing here
//! speaks PostgreSQL's protocol: who wants to ask more than `psql` can print brings a driver.

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
