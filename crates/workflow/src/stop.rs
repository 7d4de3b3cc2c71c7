//! Why a run cannot go on: the code and the record differ, or the code does what no replay can repeat.
//!
//! Both are defects of the function, found before anything is executed or recorded that the record does not allow. The
//! record stays as it is, so another build of the function can continue the run.

use std::fmt;
use std::panic::Location;

use crate::Digest;

/// A line of the function's source.
pub type SourceLine = &'static Location<'static>;

/// The run stops here; nothing more is executed or recorded in this attempt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    #[error(transparent)]
    Diverged(Box<Divergence>),
    #[error(transparent)]
    Misused(#[from] Misuse),
}

impl From<Divergence> for Stop {
    fn from(divergence: Divergence) -> Stop {
        Stop::Diverged(Box::new(divergence))
    }
}

/// An operation, as recorded or as the code asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub key: String,
    pub input_digest: Option<Digest>,
}

/// What is not equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The record has another operation at this place.
    Operation,
    /// The operation is the recorded one, with another input.
    Input,
    /// The code does not come to a recorded operation.
    Unreached,
    /// The recorded result cannot be read as the type that the code wants.
    Unreadable(String),
}

/// The first place at which the code and the record differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    pub difference: Difference,
    /// Empty for the function's own branch.
    pub branch: String,
    /// How many operations of the branch, since the last savepoint, were as recorded.
    pub index: u64,
    pub recorded: Option<Seen>,
    pub actual: Option<Seen>,
    /// Where the code asks for the actual operation.
    pub at: Option<SourceLine>,
}

impl std::error::Error for Divergence {}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Divergence { difference, branch, index, recorded, actual, at } = self;
        let branch = if branch.is_empty() { "the function's own branch" } else { branch };
        write!(
            f,
            "the function is not the one that was recorded: in {branch}, operation {index}: "
        )?;
        match difference {
            Difference::Operation => {
                write!(f, "recorded {}, now {}", Told(recorded), Told(actual))?
            }
            Difference::Input => {
                write!(f, "the input of {} is {}, ", Told(recorded), InputOf(recorded))?;
                write!(f, "now it is {}", InputOf(actual))?;
            }
            Difference::Unreached => {
                write!(f, "recorded {}, which the code never reaches", Told(recorded))?;
            }
            Difference::Unreadable(problem) => {
                write!(f, "the recorded result of {} cannot be read: {problem}", Told(recorded))?;
            }
        }
        if let Some(at) = at {
            write!(f, " ({at})")?;
        }
        f.write_str(
            ". Nothing was executed. Deploy the code that recorded the run, or keep the old path \
             under `patched` beside the new one",
        )
    }
}

struct Told<'s>(&'s Option<Seen>);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(seen) => write!(f, "`{}`", seen.key),
            None => f.write_str("nothing"),
        }
    }
}

struct InputOf<'s>(&'s Option<Seen>);

impl fmt::Display for InputOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_ref().and_then(|seen| seen.input_digest) {
            Some(digest) => write!(f, "{digest}"),
            None => f.write_str("absent"),
        }
    }
}

/// What a durable function must not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    #[error(
        "the function awaits something that is not `flow`, outside of a step: a replay could not \
         repeat it. Put it inside `flow.step`, or use `flow.sleep`, `flow.signal` or `flow.call`. \
         Last operation: {last}"
    )]
    ForeignAwait { last: LastOperation },
    #[error(
        "`{second}` ({at}) begins while `{first}` is not over: operations of one branch follow \
         each other. Give parallel work to `flow.all`"
    )]
    TwoAtOnce { first: String, second: String, at: SourceLine },
    #[error(
        "`{key}` ({at}) was dropped before its end, as `select!` and `try_join!` do: which one is \
         dropped depends on time, so a replay could differ. Use `flow.all` to wait for all of \
         them, `flow.any` to wait for the first, or `within` for a limit"
    )]
    Dropped { key: String, at: SourceLine },
    #[error(
        "the function returned, but `{operation}` ({at}) never began: an operation does nothing until it is awaited. \
         Await it, or give it to `flow.all` or `flow.any`"
    )]
    NotAwaited { operation: String, at: SourceLine },
    #[error("`any` ({at}) has no members, so none of them can be the first: give it at least one")]
    AnyOfNothing { at: SourceLine },
    #[error("branch `{branch}` ({at}) is open already: parallel branches need different names")]
    OpenTwice { branch: String, at: SourceLine },
    #[error("branch `{branch}` is over, but its context is used ({at}): use the outer context")]
    BranchOver { branch: String, at: SourceLine },
    #[error(
        "`{name}` ({at}) is no name here: use letters, digits, `.`, `_` and `-`, up to 128 bytes \
         with the names of the branches around it, and none of `sleep` and `savepoint`"
    )]
    BadName { name: String, at: SourceLine },
    #[error(
        "a savepoint in branch `{branch}` ({at}): only the function's own branch can start over, \
         after its branches have ended"
    )]
    SavepointInBranch { branch: String, at: SourceLine },
    #[error("{count} {what} ({at}), the limit is {max}: split the work among child runs")]
    TooMany { what: &'static str, count: usize, max: usize, at: SourceLine },
    #[error(
        "the coordinator's answer to a wait brings nothing that was awaited and does not suspend \
         the run: SDK and coordinator do not understand each other. Update the older one"
    )]
    EmptyAnswer,
}

/// The last operation that the function began, which is where to look for a mistake after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastOperation(pub Option<(String, SourceLine)>);

impl fmt::Display for LastOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some((key, at)) => write!(f, "`{key}` ({at})"),
            None => f.write_str("none"),
        }
    }
}
