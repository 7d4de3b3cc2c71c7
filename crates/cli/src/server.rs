//! Access to a server: a client for the chosen connection, and its errors as messages for people.

use std::path::Path;
use std::time::Duration;

use tenure::{Client, Error, Retries};
use wire::Code;
use wire::answers::Problem;

use crate::args::GlobalArgs;
use crate::exit::{CliError, Exit};
use crate::profile::Connection;

/// A person waits at the keyboard: survive a short interruption and no more.
const RETRIES: Retries =
    Retries::new(2).backoff(Duration::from_millis(100), Duration::from_secs(1));

/// A command that waits for a run also waits for a server that restarts.
const LONG_RETRIES: Retries = Retries::new(10);

/// The same client, for commands that wait anyway.
pub(crate) fn with_long_retries(client: Client) -> Client {
    client.with_retries(LONG_RETRIES)
}

pub(crate) fn connect(global_args: &GlobalArgs) -> Result<Client, CliError> {
    let connection = Connection::choose(global_args.url.as_deref(), global_args.key.as_deref())?;
    client(&connection, global_args.ca_file.as_deref())
}

/// A file names certificate authorities other than those of the system.
pub(crate) fn client(
    connection: &Connection,
    authorities: Option<&Path>,
) -> Result<Client, CliError> {
    let client = Client::new(&connection.url, &connection.key).map_err(cli_error)?;
    let client = match authorities {
        Some(file) => client.with_root_certificates_file(file).map_err(cli_error)?,
        None => client,
    };
    Ok(client.with_retries(RETRIES))
}

/// How a TLS port of a Tenure server answers plain HTTP.
const SPEAKS_TLS: &str = "This port speaks TLS";

/// How the TLS library reports an answer that is not TLS.
const NOT_TLS: &str = "InvalidContentType";

/// Translates a failed call into a message for the person who made it.
pub(crate) fn cli_error(error: Error) -> CliError {
    match error {
        Error::Refused(problem) => refused(&problem),
        Error::Unreachable { url, source, .. } => unreachable_server(&url, &source),
        Error::UnknownOutcome(problem) => CliError::new(
            Exit::Failed,
            &problem.error,
            "it is unknown whether the call took effect",
        )
        .hint("check with `tenure runs list`; with --idempotency-key it is safe to repeat"),
        Error::Protocol { url, why, .. } if why.contains(SPEAKS_TLS) => {
            // The address of the call, without its path.
            let url = url.splitn(4, '/').take(3).collect::<Vec<&str>>().join("/");
            let message = format!("{SPEAKS_TLS}: {url} was called without it");
            CliError::new(Exit::Unreachable, "speaks_tls", message)
                .hint(format!("use {}", url.replacen("http:", "https:", 1)))
        }
        Error::Protocol { url, status, .. } => {
            let message = format!("{url} answered {status}, but not as a Tenure server does");
            CliError::new(Exit::Failed, "not_tenure", message)
                .hint("check --url; another program may be listening there")
        }
        Error::Setup(what) => CliError::usage("unusable_setting", what),
        other => CliError::new(Exit::Failed, "failed", other.to_string()),
    }
}

fn unreachable_server(url: &str, source: &dyn std::error::Error) -> CliError {
    let mut cause = source;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    if url.starts_with("https:") && cause.to_string().contains("certificate") {
        let said = cause.to_string();
        let message = format!("the server at {url} is not trusted: {said}");
        return CliError::new(Exit::Unreachable, "not_trusted", message).hint(trust_remedy(&said));
    }
    if url.starts_with("https:") && cause.to_string().contains(NOT_TLS) {
        let message = format!("This port speaks plain HTTP: {url} was called with TLS");
        return CliError::new(Exit::Unreachable, "speaks_plain_http", message).hint(format!(
            "use {}, or start the server with --tls-cert and --tls-key",
            url.replacen("https:", "http:", 1)
        ));
    }
    let message = format!("no server answers at {url}: {cause}");
    CliError::new(Exit::Unreachable, "unreachable", message)
        .hint("start one with `tenure dev`, or give its address with --url")
}

/// What to do about a certificate. The TLS library tells its reasons apart only in its message.
fn trust_remedy(said: &str) -> &'static str {
    if said.contains("not valid for name") {
        return "call the server by a name that is in its certificate, or give it a certificate for this one";
    }
    if said.contains("expired") || said.contains("not valid yet") {
        return "renew the certificate of the server, and check the clocks of both machines";
    }
    "name the authority that signed its certificate with --ca-file or TENURE_CA_FILE"
}

fn refused(problem: &Problem) -> CliError {
    let cli_error = CliError::new(exit_of(problem), &problem.error, message_of(problem));
    match problem.code().and_then(remedy) {
        Some(remedy) => cli_error.hint(remedy),
        None => cli_error,
    }
}

/// Most messages name the member that is wrong; the others get its name in front.
fn message_of(problem: &Problem) -> String {
    match &problem.field {
        Some(field) if !problem.message.contains(&format!("`{field}`")) => {
            format!("`{field}`: {}", problem.message)
        }
        _ => problem.message.clone(),
    }
}

/// A quota is a decision of the server, although its status also says "try again".
fn exit_of(problem: &Problem) -> Exit {
    match problem.code() {
        Some(Code::QuotaReached) => Exit::Conflict,
        _ => Exit::of_status(problem.status),
    }
}

fn remedy(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::Unauthenticated => {
            "give a valid key with --key or TENURE_API_KEY: `tenure keys create` makes one, and `tenure dev` saves one"
        }
        Code::Forbidden => {
            "use a key that may do this; an administrator makes one with `tenure keys create`"
        }
        Code::RunNotFound | Code::TaskNotFound => "`tenure runs list` shows the existing runs",
        Code::KeyNotFound => "`tenure keys list` shows the existing keys",
        Code::QuotaReached => {
            "`tenure queues` shows what waits; `tenure limits list` shows the limit"
        }
        Code::FlowLimitConflict => "`tenure flow list` shows the limit in force",
        Code::DebounceForbidden => "use another flow key, or a key that may use both queues",
        Code::BudgetSpent => "`tenure budgets list` shows what is used and when it begins anew",
        Code::LastAdminKey => {
            "create another with `tenure keys create --role admin`, or rotate this one with --overlap 0s"
        }
        Code::IdempotencyKeyReused => "use another --idempotency-key, or submit the same run again",
        Code::RunAlreadyTerminal => "`tenure runs show` shows how it ended",
        Code::EndpointNotFound | Code::EndpointExists => "`tenure endpoints` lists them",
        Code::EffectNotFound | Code::EffectStateMismatch => {
            "`tenure effects` lists them with their states"
        }
        Code::ApprovalNotFound => "`tenure approvals` lists the pending ones",
        Code::ApprovalClosed | Code::AlreadyVoted => "`tenure approvals show` says who decided",
        Code::ApprovalDigestMismatch => {
            "`tenure approvals show` shows its digest; look at that content and give --digest"
        }
        Code::ApprovalForbidden => {
            "use another key; an administrator makes one with `tenure keys create --role approver`"
        }
        Code::RecoveryNotFound => {
            "`tenure recovery list` and `tenure recovery policies` show the existing ones"
        }
        Code::RecoveryClosed => "`tenure recovery history` shows who decided",
        Code::RecoveryOutOfScope => "`tenure recovery policies` shows what is allowed",
        Code::DeploymentNotFound => "`tenure topology list` shows the existing ones",
        Code::DeploymentConflict => "`tenure topology plan` shows what stands in the way",
        Code::ArtifactNotFound => "`tenure artifacts list DEPLOYMENT TYPE` shows the existing ones",
        Code::ArtifactExists => "look at it with `tenure artifacts show`, or choose another id",
        Code::ArtifactChanged => "look at it again with `tenure artifacts show`",
        Code::TransitionNotAllowed => "`tenure topology show DEPLOYMENT` shows who may move what",
        Code::RoleNotFound => "`tenure topology show DEPLOYMENT --json` shows its roles",
        Code::RoleNotOutside => {
            "add `outside: true` to the role, and put the file in force with `tenure topology apply`"
        }
        Code::ScheduleNotFound => "`tenure schedules list` shows the existing ones",
        Code::ScheduleExists => "change it with `tenure schedules update`, or choose another name",
        Code::NotDiverged | Code::NotPinned => "`tenure explain` says what it waits for",
        Code::SignalsFull => "`tenure runs show` says how many signals it has not taken",
        Code::RunNotRetryable => "`tenure runs show` shows its state and its deadline",
        Code::RunHasRecords => {
            "`tenure runs continue` goes on from what is recorded; `tenure runs retry --from-scratch` does it all again"
        }
        Code::RunNotForkable => "`tenure runs show` shows its state and its steps",
        Code::TooManyRequests | Code::Overloaded | Code::ShuttingDown => "try again in a moment",
        Code::Unavailable => {
            "try again in a moment; if it stays so, `tenure doctor` on the server and its log say why"
        }
        Code::NotFound | Code::MethodNotAllowed => "the server may have another version",
        _ => return None,
    })
}
