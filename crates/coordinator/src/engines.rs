//! The commit loop of each engine, compiled here and not in the crates that use it.
//!
//! A generic function is compiled in the crate that chooses its type. These functions choose it, and hide
//! the futures behind pointers, so that a program pays for neither (ADR 0035).

use std::future::Future;
use std::pin::Pin;

#[cfg(feature = "postgres")]
use store::PostgresStore;
use store::{Failure, SqliteStore};

use crate::coordinator::{Coordinator, Options};
#[cfg(feature = "http")]
use crate::server::{ServeError, ServeOptions, Server, serve};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Starts a coordinator over a SQLite file.
pub fn start_sqlite(store: SqliteStore, options: Options) -> Boxed<Result<Coordinator, Failure>> {
    Box::pin(Coordinator::start(store, options))
}

/// Starts a coordinator over a PostgreSQL database.
#[cfg(feature = "postgres")]
pub fn start_postgres(
    store: PostgresStore,
    options: Options,
) -> Boxed<Result<Coordinator, Failure>> {
    Box::pin(Coordinator::start(store, options))
}

/// Starts a coordinator over a SQLite file and serves it.
#[cfg(feature = "http")]
pub fn serve_sqlite(
    store: SqliteStore,
    options: ServeOptions,
) -> Boxed<Result<Server, ServeError>> {
    Box::pin(serve(store, options))
}

/// Starts a coordinator over a PostgreSQL database and serves it.
#[cfg(all(feature = "http", feature = "postgres"))]
pub fn serve_postgres(
    store: PostgresStore,
    options: ServeOptions,
) -> Boxed<Result<Server, ServeError>> {
    Box::pin(serve(store, options))
}
