//! `tenure conform`: proves an SDK with the kit of crate `conform`, which prints its own findings.

use conform::{Arguments, Failure, Verdict};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::Format;

pub(crate) async fn run(format: Format, arguments: &Arguments) -> CommandResult {
    let format = match format {
        Format::Json => conform::Format::Json,
        Format::People => conform::Format::People,
    };
    match conform::run(arguments, format).await {
        Ok(Verdict::Good) => Ok(Exit::Done),
        Ok(Verdict::Bad(why)) => Err(CliError::new(Exit::Failed, "conformance_failed", why)
            .hint("print the calls of a failed case with --only NAME --log")),
        Err(failure) => Err(failed(failure)),
    }
}

fn failed(failure: Failure) -> CliError {
    let hint = failure.hint();
    let cause = std::error::Error::source(&failure).map(|source| format!(": {source}"));
    let message = format!("{failure}{}", cause.unwrap_or_default());
    let error = match failure {
        Failure::Case(_) => CliError::usage("case_invalid", message),
        Failure::NoCase(_) => CliError::new(Exit::NotFound, "no_such_case", message),
        Failure::NoCommand => CliError::usage("subject_missing", message),
        Failure::NoFault(_) => CliError::usage("no_such_fault", message),
        Failure::NoSubject { .. } => CliError::usage("program_not_found", message),
        Failure::UnknownNames { .. } => CliError::usage("known_failing_unknown", message),
        Failure::Unreadable { .. } | Failure::Unwritable { .. } => {
            CliError::new(Exit::Failed, "file_unusable", message)
        }
        Failure::Live(_) => CliError::new(Exit::Failed, "failed", message),
        Failure::Output(error) => CliError::from(error),
    };
    error.hint(hint)
}
