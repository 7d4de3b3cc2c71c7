//! What PostgreSQL's errors mean to a store.

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use verdict::TaskId;

use super::connections::PoolError;
use crate::failure::{Failure, FailureKind};

/// A step's failure before it is known what the step was.
#[derive(Debug)]
pub(super) enum Trouble {
    Sql(Error),
    Failure(Failure),
    /// COMMIT was answered, and did not wait for its standby: what is asked for may still be lost with this server.
    CutShort,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Sql(error)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Failure(failure)
    }
}

impl Trouble {
    pub(super) fn while_doing(self, what: &'static str) -> Failure {
        match self {
            Trouble::Sql(error) => Failure::new(kind_of(&error), what).because(error),
            Trouble::Failure(failure) => failure,
            Trouble::CutShort => Failure::new(
                FailureKind::Unavailable,
                "a COMMIT was made to stop waiting for its standby, which may not have it",
            )
            .because(format!("while {what}")),
        }
    }

    /// Whether a COMMIT's answer is known: not if the connection itself may be gone, or the standby was not waited for.
    pub(super) fn is_answered(&self) -> bool {
        match self {
            Trouble::Sql(error) => error.as_db_error().is_some_and(|_| !is_leaving(error)),
            Trouble::Failure(_) => true,
            Trouble::CutShort => false,
        }
    }
}

/// The server says that it ends the session: whatever was asked last may have been done.
fn is_leaving(error: &Error) -> bool {
    error.code().is_some_and(|code| {
        [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW]
            .contains(code)
    })
}

/// Stands for "whichever task it was": the database does not say whose lock was lost.
const SOME_TASK: TaskId = TaskId::from_u128(0);

pub(super) fn kind_of(error: &Error) -> FailureKind {
    let Some(code) = error.code() else {
        // No word from the server: a broken connection, or a value that is not what we write.
        let is_ours = error.to_string().starts_with("error deserializing")
            || error.to_string().starts_with("error serializing");
        return if is_ours { FailureKind::Fatal } else { FailureKind::Unavailable };
    };
    let lost_race = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    if lost_race.contains(code) {
        return FailureKind::Conflict(SOME_TASK);
    }
    match &code.code()[..2] {
        "53" if *code == SqlState::DISK_FULL => FailureKind::Full,
        "22" | "23" | "54" => FailureKind::Invalid,
        // A schema that is not what we made, data that is damaged, an internal error.
        "42" | "3F" | "XX" => FailureKind::Fatal,
        _ => FailureKind::Unavailable,
    }
}

pub(super) fn no_connection(error: PoolError) -> Failure {
    Failure::new(FailureKind::Unavailable, "no connection to the database").because(error)
}

pub(super) fn conflict(id: TaskId) -> Failure {
    Failure::new(FailureKind::Conflict(id), "another writer changed the task first")
}

pub(super) fn invalid(what: &str) -> Failure {
    Failure::new(FailureKind::Invalid, what)
}
