//! The meaning of SQLite's errors for a store.

use rusqlite::{Error, ErrorCode};

use crate::failure::{Failure, FailureKind};

/// A failure while doing `what`, before any commit: definite, whatever the error.
pub(super) fn while_doing(what: &'static str) -> impl FnOnce(Error) -> Failure {
    move |error| Failure::new(kind_of(&error), what).because(error)
}

fn kind_of(error: &Error) -> FailureKind {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => FailureKind::Full,
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => FailureKind::Invalid,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => FailureKind::Fatal,
        Some(_) => FailureKind::Unavailable,
        // Not an error of SQLite: a row that cannot be understood.
        None => FailureKind::Fatal,
    }
}

/// Whether a failed COMMIT certainly left nothing behind.
///
/// A full disk shows while frames are written, before the frame that would make them count, and a busy
/// database even earlier. Any other error may come from the sync, after which the content of the disk is
/// unknown.
pub(super) fn commit_left_nothing(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::ConstraintViolation
        )
    )
}
