//! Checks that what is stored is what was decided, with nothing but the store's own reading.
//!
//! For each task the history is folded again and compared with the stored task; every decision made
//! by these rules is made again; the record's digest is computed from the attempts and the end; and
//! the invariants that no decision may break are looked at by themselves. Renewals since the last
//! entry have none of their own, so what they changed is not compared.
//!
//! It changes nothing and may run beside a busy writer: a task that moved while it was being read is
//! read again.

mod fold;
mod invariants;

use std::fmt;

use verdict::{Closed, Subject, TaskId};

use crate::browse::Browse;
use crate::failure::{Failure, FailureKind};
use crate::row::{Entry, Found, TaskKey};

/// How many tasks and entries are read at once.
const PAGE: usize = 500;

/// A store with this many findings needs a backup, not a longer list.
const FINDINGS_MAX: usize = 1_000;

/// How often a task that keeps moving is read again before its findings are believed.
const READINGS_MAX: usize = 5;

/// What was looked at, and what was found wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub tasks: u64,
    pub entries: u64,
    pub attempts: u64,
    pub findings: Vec<Finding>,
}

/// One thing that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `None` when it concerns the store as a whole.
    pub task: Option<TaskId>,
    /// A sentence for people.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            Some(task) => write!(f, "{task}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// Everything stored about one task.
struct Dossier {
    found: Found,
    history: Vec<Entry>,
    attempts: Vec<Closed>,
}

/// Looks at the whole store.
pub async fn verify<B: Browse>(browse: &B) -> Result<Report, Failure> {
    let mut report = Report::default();
    for line in browse.integrity().await? {
        let what = format!("the database's own check says: {line}");
        report.findings.push(Finding { task: None, what });
    }
    let mut after = None;
    loop {
        let page = match browse.everything(after, PAGE).await {
            Ok(page) => page,
            Err(failure) => return Ok(report.with(None, unreadable(failure)?)),
        };
        let Some(last) = page.last() else { return Ok(report) };
        after = id_of(&last.subject);
        for found in page {
            check_task(browse, found, &mut report).await?;
            if report.findings.len() >= FINDINGS_MAX {
                return Ok(report);
            }
        }
    }
}

async fn check_task<B: Browse>(
    browse: &B,
    found: Found,
    report: &mut Report,
) -> Result<(), Failure> {
    let task = id_of(&found.subject);
    report.tasks += 1;
    match settled(browse, found).await {
        Ok((dossier, wrong)) => {
            report.entries += dossier.history.len() as u64;
            report.attempts += dossier.attempts.len() as u64;
            report.findings.extend(wrong.into_iter().map(|what| Finding { task, what }));
        }
        Err(failure) => {
            let what = unreadable(failure)?;
            report.findings.push(Finding { task, what });
        }
    }
    Ok(())
}

/// A task with what is wrong about it, read again if it only moved between the readings.
async fn settled<B: Browse>(browse: &B, found: Found) -> Result<(Dossier, Vec<String>), Failure> {
    let mut dossier = read(browse, found).await?;
    let mut wrong = check(&dossier);
    for _ in 1..READINGS_MAX {
        if wrong.is_empty() {
            break;
        }
        match browse.find(&key_of(&dossier.found)).await? {
            Some(found) if found.subject != dossier.found.subject => {
                dossier = read(browse, found).await?;
                wrong = check(&dossier);
            }
            None if !is_listed(browse, &dossier.found).await? => wrong.clear(),
            Some(_) | None => break,
        }
    }
    Ok((dossier, wrong))
}

/// Whether a task that is not found is still there: else it was forgotten while it was being read.
async fn is_listed<B: Browse>(browse: &B, found: &Found) -> Result<bool, Failure> {
    let id = id_of(&found.subject).expect("what was found has an id");
    let before = id.as_u128().checked_sub(1).map(TaskId::from_u128);
    let next = browse.everything(before, 1).await?;
    Ok(next.first().and_then(|found| id_of(&found.subject)) == Some(id))
}

/// Rows that cannot be understood are a finding; a store that does not answer is a failure.
fn unreadable(failure: Failure) -> Result<String, Failure> {
    match (failure.kind, &failure.source) {
        (FailureKind::Fatal, Some(source)) => Ok(format!("{failure} stopped: {source}")),
        (FailureKind::Fatal, None) => Ok(failure.to_string()),
        _ => Err(failure),
    }
}

impl Report {
    fn with(mut self, task: Option<TaskId>, what: String) -> Self {
        self.findings.push(Finding { task, what });
        self
    }
}

async fn read<B: Browse>(browse: &B, found: Found) -> Result<Dossier, Failure> {
    let key = key_of(&found);
    let mut history = Vec::new();
    loop {
        let after = history.last().map_or(0, |entry: &Entry| entry.n);
        let page = browse.history(&key, after, PAGE).await?;
        let is_last = page.len() < PAGE;
        history.extend(page);
        if is_last {
            break;
        }
    }
    let attempts = browse.attempts(&key).await?;
    Ok(Dossier { found, history, attempts })
}

/// Everything that is wrong with one task, in sentences.
fn check(dossier: &Dossier) -> Vec<String> {
    let mut wrong = invariants::check(dossier);
    match fold::replay(dossier) {
        Ok(replayed) => wrong.extend(fold::compare(dossier, &replayed)),
        Err(broken) => wrong.push(broken),
    }
    wrong
}

fn id_of(subject: &Subject) -> Option<TaskId> {
    match subject {
        Subject::Absent => None,
        Subject::Live(task) => Some(task.id),
        Subject::Done(done) => Some(done.id),
    }
}

fn key_of(found: &Found) -> TaskKey {
    let scope = found.subject.scope().expect("what was found has a scope").clone();
    TaskKey { scope, id: id_of(&found.subject).expect("what was found has an id") }
}
