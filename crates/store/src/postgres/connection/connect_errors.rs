//! Why a connection to the database failed and what to do about it, in words for an operator.
//!
//! Each message is a sentence, a semicolon and the remedy. An unknown error is described by its last cause alone.

use std::error::Error;
use std::io;

use tokio_postgres::error::{DbError, SqlState};

use super::connections::PoolError;
use super::tls;
use crate::failure::{Failure, FailureKind};

/// The driver's text if every server of the address is read-only.
const ONLY_READS: &str = "database does not allow writes";

/// The driver's text if a host name does not resolve.
const UNKNOWN_HOST: &str = "failed to lookup address";

/// The driver's text for an answer that is not a complete message.
const NO_MESSAGE: &str = "bytes remaining on stream";

/// Errors that the driver detects have no code; only the start of their text identifies them.
const BY_TEXT: [(&str, &str); 5] = [
    (
        "password missing",
        "the database requires a password and the address has none; write postgres://USER:PASSWORD@HOST/DATABASE",
    ),
    (
        "both host and hostaddr are missing",
        "the address of the database names no host; write postgres://USER:PASSWORD@HOST:PORT/DATABASE",
    ),
    ("error parsing response from server", NOT_POSTGRESQL),
    ("unexpected message from server", NOT_POSTGRESQL),
    ("connection closed", HUNG_UP),
];

const HUNG_UP: &str = "the server at the address of the database closed the connection; check host and port in the \
    address, and read the database's log";

const NOT_POSTGRESQL: &str = "the server at the address of the database does not speak the PostgreSQL protocol; \
    check host and port in the address";

const NO_ANSWER: &str = "the database did not answer within five seconds; check host and port in the address, that \
    no firewall blocks the connection, and that the database is not stuck";

/// The failure of opening a store: it stays closed.
pub(in crate::postgres) fn connect_failure(error: impl Error + Send + Sync + 'static) -> Failure {
    if let Some(what) = tls::tls_refusal(&error) {
        return what.failure(error);
    }
    let what = explain(&error)
        .unwrap_or("the database cannot be reached; check address, user and password");
    Failure::new(FailureKind::Closed, what).because(error)
}

/// The sentence with its remedy, for a known error.
pub(in crate::postgres) fn explain(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let refused = error.downcast_ref::<DbError>().and_then(|refused| by_state(refused.code()));
        let failed = error.downcast_ref::<io::Error>().and_then(by_failure);
        if let Some(what) = refused.or(failed).or_else(|| by_kind(error)) {
            return Some(what);
        }
        cause = error.source();
    }
    None
}

fn by_kind(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if let Some(PoolError::Timeout(_)) = error.downcast_ref::<PoolError>() {
        return Some(NO_ANSWER);
    }
    let said = error.to_string();
    BY_TEXT.iter().find(|(begin, _)| said.starts_with(begin)).map(|(_, what)| *what)
}

fn by_state(state: &SqlState) -> Option<&'static str> {
    let states = [
        (
            SqlState::INVALID_PASSWORD,
            "the database rejected user and password; check both in the address",
        ),
        (
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "the database does not allow this user to connect from here; check the user in the address, and the \
             rules in its pg_hba.conf",
        ),
        (
            SqlState::INVALID_CATALOG_NAME,
            "there is no such database on the server; create it with `createdb`, or check its name in the address",
        ),
        (
            SqlState::INSUFFICIENT_PRIVILEGE,
            "the user may not connect to this database; as an administrator run GRANT CONNECT ON DATABASE … TO \
             the user",
        ),
        (
            SqlState::TOO_MANY_CONNECTIONS,
            "the database accepts no more connections; raise its max_connections, or put a pooler in between: a \
             coordinator uses up to twelve",
        ),
        (
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "the database accepts no connections; as an administrator run ALTER DATABASE … ALLOW_CONNECTIONS true",
        ),
        (
            SqlState::CANNOT_CONNECT_NOW,
            "the database is starting, stopping or recovering; try again when it accepts connections",
        ),
    ];
    states.into_iter().find(|(known, _)| known == state).map(|(_, what)| what)
}

fn by_failure(error: &io::Error) -> Option<&'static str> {
    if error.to_string().contains(ONLY_READS) {
        return Some(
            "no server of the address accepts writes; name the primary, or promote a standby",
        );
    }
    if error.to_string().contains(UNKNOWN_HOST) {
        return Some(
            "the host in the address of the database is unknown; check its spelling, and write @, : and / in \
             a password as %40, %3A and %2F",
        );
    }
    if error.to_string().contains(NO_MESSAGE) {
        return Some(NOT_POSTGRESQL);
    }
    if error.kind() == io::ErrorKind::TimedOut {
        return Some(NO_ANSWER);
    }
    if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) {
        return Some(HUNG_UP);
    }
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound).then_some(
        "no server answers at the address of the database; check that it runs, and host and port in the address",
    )
}
