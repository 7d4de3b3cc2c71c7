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
        "the user of the database may not make databases, and each measurement needs an empty one"
    )]
    MayNotCreate,
    #[error("only a database keeps old versions for open transactions")]
    NoDatabase,
    #[error("only {waiting} of {count} idle workers could wait at the server")]
    NotWaiting { waiting: usize, count: usize },
    #[error("the connection to the server broke")]
    Stream(#[from] hyper::Error),
    #[error("the engine refused: {0}")]
    Engine(String),
}
