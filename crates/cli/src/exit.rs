//! How the program ends: a meaningful exit code, and for every error one sentence and a remedy.
//!
//! A [`CliError`] is written for the person at the keyboard. It never carries a chain of causes:
//! what the person cannot act on belongs in a log.

use std::fmt;
use std::io;

use wire::State;

/// The exit codes. `EXIT_CODES` in `args` lists the same codes for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    Usage,
    NotFound,
    Conflict,
    Denied,
    Unreachable,
    /// A drain was cut short and work was left unfinished.
    DrainCut,
    RunFailed,
    RunHalted,
    RunCancelled,
    TimedOut,
    Interrupted,
    /// What the command of a step exited with, or a question came to.
    OfCommand(u8),
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NotFound => 3,
            Exit::Conflict => 4,
            Exit::Denied => 5,
            Exit::Unreachable => 6,
            Exit::DrainCut => 7,
            Exit::RunFailed => 10,
            Exit::RunHalted => 11,
            Exit::RunCancelled => 12,
            Exit::TimedOut => 124,
            Exit::Interrupted => 130,
            Exit::OfCommand(code) => code,
        }
    }

    /// The exit code of a command that waited for a run.
    pub(crate) const fn of_run(state: State) -> Exit {
        match state {
            State::Succeeded => Exit::Done,
            State::Failed => Exit::RunFailed,
            State::Halted => Exit::RunHalted,
            // A root is never skipped; a step that was did not do its work.
            State::Cancelled | State::Skipped => Exit::RunCancelled,
            State::Queued | State::Running | State::Retry | State::Waiting | State::Blocked => {
                Exit::TimedOut
            }
        }
    }

    /// The exit code for a call that the server refused with this HTTP status.
    pub(crate) const fn of_status(status: u16) -> Exit {
        match status {
            401 | 403 => Exit::Denied,
            404 => Exit::NotFound,
            409 | 410 | 412 | 422 => Exit::Conflict,
            400 | 413 | 414 | 415 => Exit::Usage,
            429 | 503 => Exit::Unreachable,
            _ => Exit::Failed,
        }
    }
}

/// An error message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CliError {
    pub(crate) exit: Exit,
    /// Stable, for scripts and for searching the documentation.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// What a command returns.
pub(crate) type CommandResult = Result<Exit, CliError>;

/// The reader of stdout has closed it (`tenure runs list | head`): exit without a message.
pub(crate) const OUTPUT_CLOSED: &str = "output_closed";

impl CliError {
    pub(crate) fn new(exit: Exit, code: &str, message: impl Into<String>) -> CliError {
        CliError { exit, code: code.to_owned(), message: message.into(), hint: None }
    }

    pub(crate) fn usage(code: &str, message: impl Into<String>) -> CliError {
        CliError::new(Exit::Usage, code, message)
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> CliError {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.message, self.code)
    }
}

impl std::error::Error for CliError {}

/// Only writes to stdout or stderr are converted this way; errors on files name the file where they
/// occur.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        CliError::new(Exit::Failed, OUTPUT_CLOSED, format!("cannot write the output: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_terminal_state_has_its_own_exit_code() {
        let codes: Vec<u8> = [State::Succeeded, State::Failed, State::Halted, State::Cancelled]
            .map(|state| Exit::of_run(state).code())
            .into();
        assert_eq!(codes, [0, 10, 11, 12]);
        assert_eq!(Exit::of_run(State::Running).code(), 124);
    }

    #[test]
    fn refusals_of_the_server_keep_their_meaning() {
        let codes =
            [401, 403, 404, 409, 410, 422, 400, 503, 500].map(|s| Exit::of_status(s).code());
        assert_eq!(codes, [5, 5, 3, 4, 4, 4, 2, 6, 1]);
    }
}
