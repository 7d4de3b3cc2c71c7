//! What PostgreSQL's errors mean to a store.

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};
use verdict::TaskId;

use super::connection::connect_errors;
use super::connection::connections::PoolError;
use crate::failure::{Failure, FailureKind};

/// The failure of a step, before the name of the step is added.
#[derive(Debug)]
pub(super) enum StepError {
    Sql(Error),
    Failure(Failure),
    /// COMMIT was answered, but did not wait for its standby: the commit may still be lost with this server.
    StandbyWaitCancelled,
}

impl From<Error> for StepError {
    fn from(error: Error) -> Self {
        StepError::Sql(error)
    }
}

impl From<Failure> for StepError {
    fn from(failure: Failure) -> Self {
        StepError::Failure(failure)
    }
}

impl StepError {
    pub(super) fn while_doing(self, what: &'static str) -> Failure {
        match self {
            StepError::Sql(error) => Failure::new(kind_of(&error), what).because(error),
            StepError::Failure(failure) => failure,
            StepError::StandbyWaitCancelled => Failure::new(
                FailureKind::Unavailable,
                "a COMMIT was cancelled while it waited for its standby, which may not have it",
            )
            .because(format!("while {what}")),
        }
    }

    /// The failure of a step while a store is opened. A store that this user may not read was created by another
    /// user.
    pub(super) fn while_opening(self, what: &'static str) -> Failure {
        match self {
            StepError::Sql(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                Failure::new(FailureKind::Closed, OWNED_BY_ANOTHER_USER).because(error)
            }
            other => other.while_doing(what),
        }
    }

    /// Whether a statement's guard failed.
    pub(super) fn is_guard_failure(&self) -> bool {
        matches!(self, StepError::Sql(error) if is_guard_failure(error))
    }

    /// Whether a COMMIT's outcome is known: not if the connection may be gone, or the wait for the standby was
    /// cancelled.
    pub(super) fn is_definite(&self) -> bool {
        match self {
            StepError::Sql(error) => error.as_db_error().is_some_and(|_| !is_shutting_down(error)),
            StepError::Failure(_) => true,
            StepError::StandbyWaitCancelled => false,
        }
    }
}

const OWNED_BY_ANOTHER_USER: &str = "the store in this database belongs to another user; use the address with the user that \
    created it and owns the schema tenure";

/// Whether a guard failed: the row was not what was loaded, and the statement divided by zero, the one error that
/// every engine raises ([`super::batch::writes`]); or the new task or object already exists.
fn is_guard_failure(error: &Error) -> bool {
    let constraint = || error.as_db_error().and_then(DbError::constraint);
    let is_taken =
        || constraint().is_some_and(|name| name == "inputs_pkey" || name.starts_with("objects_"));
    match error.code() {
        Some(code) if *code == SqlState::UNIQUE_VIOLATION => is_taken(),
        code => code == Some(&SqlState::DIVISION_BY_ZERO),
    }
}

/// The server reports that it ends the session: the last statement may have been executed.
fn is_shutting_down(error: &Error) -> bool {
    error.code().is_some_and(|code| {
        [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW]
            .contains(code)
    })
}

/// Stands for an unknown task: the database does not say which lock was lost.
const SOME_TASK: TaskId = TaskId::from_u128(0);

pub(super) fn kind_of(error: &Error) -> FailureKind {
    let Some(code) = error.code() else {
        // The error is not from the server: a broken connection, or a value of an unexpected type.
        let is_ours = error.to_string().starts_with("error deserializing")
            || error.to_string().starts_with("error serializing");
        return if is_ours { FailureKind::Fatal } else { FailureKind::Unavailable };
    };
    let lost_race = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    if lost_race.contains(code) || is_guard_failure(error) {
        return FailureKind::Conflict(SOME_TASK);
    }
    match &code.code()[..2] {
        "53" if *code == SqlState::DISK_FULL => FailureKind::Full,
        "22" | "23" | "54" => FailureKind::Invalid,
        // The schema is not the expected one, data is damaged, or the server reports an internal error.
        "42" | "3F" | "XX" => FailureKind::Fatal,
        _ => FailureKind::Unavailable,
    }
}

pub(super) fn no_connection(error: PoolError) -> Failure {
    let what = connect_errors::explain(&error).unwrap_or("no connection to the database");
    Failure::new(FailureKind::Unavailable, what).because(error)
}

pub(super) fn conflict(id: TaskId) -> Failure {
    Failure::new(FailureKind::Conflict(id), "another writer changed the task first")
}

pub(super) fn invalid(what: &str) -> Failure {
    Failure::new(FailureKind::Invalid, what)
}
