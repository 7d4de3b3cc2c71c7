//! `tenure verify`: checks that the stored state is what was decided. Works on a file that no
//! server uses, or on a database at any time.

pub(crate) mod private_copy;

use std::path::Path;
use std::sync::Arc;

use coordinator::admit::Keyring;
use coordinator::admit::seal::{self, SealReport};
use serde_json::json;
use store::sqlite::{Options, SqliteStore};
use store::verify::{Finding, FlawCode, Report};
use store::{Browse, ClockAhead, FailureKind, Store, SystemClock};
use wire::admin::{AuditFinding, AuditVerified};

use crate::exit::{CliError, CommandResult, Exit};
use crate::open_store::{self, ConfigArgument, StoreAddress};
use crate::output::{self, BAD, Format, GOOD};
use crate::{backup, lost_store, serve};
use private_copy::PrivateCopy;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The store to check [default: the one `tenure dev` and `tenure serve` use]
    #[arg(long, value_name = "sqlite:PATH|postgres://…")]
    store: Option<String>,
    #[command(flatten)]
    config: ConfigArgument,
}

pub(crate) async fn run(format: Format, arguments: Arguments) -> CommandResult {
    let address = arguments.config.store_address(arguments.store.as_deref())?;
    let ((report, seals), place) = match &address {
        StoreAddress::Sqlite(path) => (check_file(path).await?, path.display().to_string()),
        StoreAddress::Postgres(url) => {
            (check_database(url).await?, open_store::redact_password(url))
        }
    };
    match format {
        Format::Json => output::json(&members(&report, &seals))?,
        Format::People => print(&place, &report, &seals)?,
    }
    Ok(if report.findings.is_empty() { Exit::Done } else { Exit::Failed })
}

async fn check_file(path: &Path) -> Result<(Report, SealReport), CliError> {
    if !path.exists() && !lost_store::has_anchor(path) {
        return Err(backup::missing(path));
    }
    match lost_store::findings(path)? {
        Some(seals) => Ok((lost_report(&seals), seals)),
        None => check(path).await,
    }
}

/// Nothing of the store is left but what its anchor says.
fn lost_report(seals: &SealReport) -> Report {
    let mut report = Report::default();
    report.findings.extend(audit_findings(seals));
    report
}

/// Returns the audit's findings together with the others.
async fn check(path: &Path) -> Result<(Report, SealReport), CliError> {
    // Nothing is decided here, so a clock that was once wrong does not prevent the check.
    let options = Options::new(Arc::new(SystemClock::start())).with_ahead(ClockAhead::Accept);
    // Dropped after the store, which has it open.
    let copy = PrivateCopy::of_read_only(path)?;
    let opened = copy.as_ref().map_or(path, PrivateCopy::path);
    let store = SqliteStore::open(opened, options).map_err(|failure| unopened(path, &failure))?;
    let trouble = |failure: store::Failure| serve::store_error(&failure);
    let mut report = store::verify::verify(store.browse()).await.map_err(trouble)?;
    let key_path = path.with_extension("key");
    let Some(keyring) = keyring(&key_path)? else { return Ok((report, SealReport::default())) };
    let seals = check_seals(store.browse(), &keyring, &key_path, &mut report).await;
    Ok((report, seals.map_err(trouble)?))
}

/// A store that a server uses cannot be opened a second time, but a backup of it can be verified.
fn unopened(path: &Path, failure: &store::Failure) -> CliError {
    let error = serve::store_error(failure);
    if failure.kind != FailureKind::InUse {
        return error;
    }
    let store = path.display();
    error.hint(format!(
        "verify a backup while the server runs: `tenure backup copy.db --store sqlite:{store}`, then \
         `tenure verify --store sqlite:copy.db`; or stop the server"
    ))
}

async fn check_database(url: &str) -> Result<(Report, SealReport), CliError> {
    let store = open_store::open_read_only(url).await?;
    let trouble = |failure: store::Failure| open_store::database_error(&failure);
    let mut report = store::verify::verify(store.browse()).await.map_err(trouble)?;
    let key_path = open_store::shared_signing_key(&store).await?;
    let Some(keyring) = shared_keyring(&store, &key_path).await? else {
        return Ok((report, SealReport::default()));
    };
    let seals = check_seals(store.browse(), &keyring, &key_path, &mut report).await;
    Ok((report, seals.map_err(trouble)?))
}

/// Adds the findings about the audit to those about tasks.
async fn check_seals<B: Browse>(
    browse: &B,
    keyring: &Keyring,
    key_path: &Path,
    report: &mut Report,
) -> Result<SealReport, store::Failure> {
    let anchor = seal::read_anchor(&seal::anchor_path(key_path)).unwrap_or_else(|error| {
        let what = format!("the anchor of the audit cannot be read: {error}");
        report.findings.push(Finding { task: None, code: FlawCode::AuditDiffers, what });
        None
    });
    let seals = seal::verify(browse, keyring, anchor).await?;
    report.findings.extend(audit_findings(&seals));
    Ok(seals)
}

fn audit_findings(seals: &SealReport) -> impl Iterator<Item = Finding> {
    let wrong = seals.findings.iter().map(|finding| format!("the audit: {}", finding.what));
    wrong.map(|what| Finding { task: None, code: FlawCode::AuditDiffers, what })
}

/// The keys that coordinators share, if this machine has the file that decrypts them.
async fn shared_keyring(
    store: &store::PostgresStore,
    path: &Path,
) -> Result<Option<Keyring>, CliError> {
    let opened = Keyring::look(store.browse(), path).await;
    let keyring = opened.map_err(serve::keyring_error)?;
    if keyring.is_none() {
        output::note(format_args!("without {} the audit's seals are not checked", path.display()));
    }
    Ok(keyring)
}

/// Checks only the audit of a store of either kind. `None` without the key file.
pub(crate) async fn audit_of(address: &StoreAddress) -> Result<Option<AuditVerified>, CliError> {
    let key_path = match address {
        StoreAddress::Sqlite(path) => path.with_extension("key"),
        StoreAddress::Postgres(url) => {
            open_store::shared_signing_key(&open_store::open_read_only(url).await?).await?
        }
    };
    let anchored = seal::anchor_path(&key_path).exists();
    if !key_path.exists() && !anchored {
        return Ok(None);
    }
    let (_, seals) = match address {
        StoreAddress::Sqlite(path) => check_file(path).await?,
        StoreAddress::Postgres(url) => check_database(url).await?,
    };
    let SealReport { entries, sealed, findings } = seals;
    let findings = findings.into_iter().map(|it| AuditFinding { n: it.n, message: it.what });
    Ok(Some(AuditVerified { entries, sealed, anchored, findings: findings.collect() }))
}

/// The key file beside the store. A copy of a store without it is checked as far as possible.
fn keyring(path: &Path) -> Result<Option<Keyring>, CliError> {
    if !path.exists() {
        output::note(format_args!("without {} the audit's seals are not checked", path.display()));
        return Ok(None);
    }
    let opened = Keyring::open(path);
    opened.map(Some).map_err(serve::keyring_error)
}

fn members(report: &Report, seals: &SealReport) -> serde_json::Value {
    let findings: Vec<serde_json::Value> = report.findings.iter().map(finding_members).collect();
    json!({
        "tasks": report.tasks,
        "entries": report.entries,
        "attempts": report.attempts,
        "auditEntries": seals.entries,
        "auditSealed": seals.sealed,
        "findings": findings,
    })
}

fn finding_members(finding: &Finding) -> serde_json::Value {
    let task = finding.task.map(|id| id.to_string());
    json!({ "taskId": task, "code": finding.code.name(), "message": finding.what })
}

fn print(place: &str, report: &Report, seals: &SealReport) -> Result<(), CliError> {
    for finding in &report.findings {
        output::line(format_args!("{BAD}finding{BAD:#} {finding}"))?;
    }
    let (style, found) = match report.findings.len() {
        0 => (GOOD, "no findings".to_owned()),
        n => (BAD, output::count(n as u64, "finding")),
    };
    output::line(format_args!(
        "{style}{found}{style:#} in {}, {}, {} and {} of {}",
        output::count(report.tasks, "task"),
        output::count(report.attempts, "attempt"),
        output::count(report.entries, "decision"),
        output::count(seals.sealed, "sealed record"),
        place
    ))
}
