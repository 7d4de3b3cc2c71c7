//! Why a measurement has no result.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("the connection to the server broke")]
    Connection(#[from] io::Error),
    #[error("the server could not be started: {0}")]
    Start(String),
    #[error("the server answered {status}: {body}")]
    Answer { status: u16, body: String },
    #[error("the server's answer could not be read")]
    Unreadable(#[from] serde_json::Error),
    #[error("the database refused")]
    Database(#[from] tokio_postgres::Error),
    #[error("the database cannot be reached")]
    Unreachable(#[from] store::Failure),
    #[error(
        "the database's user may not create databases, and each measurement needs an empty one"
    )]
    MayNotCreate,
    #[error("an old snapshot can be measured only on a PostgreSQL database")]
    NoDatabase,
    #[error("the server accepted only {waiting} of {count} idle workers")]
    NotWaiting { waiting: usize, count: usize },
    #[error("the connection to the server broke")]
    Stream(#[from] hyper::Error),
    #[error(
        "{connections} connections to the database have no prepared statements, so the figures would be those of \
         planning; please report this with the version of the database"
    )]
    Unprepared { connections: usize },
    #[error("the engine refused: {0}")]
    Engine(String),
}

/// An error of the client or of what is measured, with its text.
pub(crate) fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Engine(error.to_string())
}
