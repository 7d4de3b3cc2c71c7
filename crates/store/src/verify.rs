//! Checks that what is stored is what was decided, through the store's read interface alone.
//!
//! For each task it folds the history and compares the result with the stored task. It repeats every decision that was
//! made by a known version of the rules, with that version. It computes the record's digest from the attempts and the
//! end, and it checks the invariants that no decision may break. Renewals since the last entry have no entries, so what
//! they changed is not compared. The records of a durable run are folded too and compared with their rows, and what one
//! task asked of another must be saved or done. The log of each object must end in the object. No flow key has more leases
//! than its limit.
//!
//! It changes nothing and may run beside a busy writer: a task that changed while it was being read is read again, and
//! tasks that were submitted after the beginning are left for the next run, so that the check ends.

mod family;
mod flaw;
mod flows;
mod fold;
mod invariants;
mod logs;
mod objects;
mod row_cells;
mod run_check;

use std::fmt;

use verdict::TaskId;
use verdict::run::Child;

pub use self::flaw::{Flaw, FlawCode};

use crate::browse::{self, Browse, ScanDepth};
use crate::failure::{Failure, FailureKind};
use crate::row::{StoredTask, TaskBundle, TaskRows};

/// How many tasks are read at once, with all their rows.
const PAGE: usize = 100;

/// A store with this many findings needs a backup, not a longer list.
const FINDINGS_MAX: usize = 1_000;

/// How often a task that keeps changing is read again before its findings count.
const READINGS_MAX: usize = 5;

/// What was checked, and what was found wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub tasks: u64,
    pub entries: u64,
    pub attempts: u64,
    pub findings: Vec<Finding>,
}

/// One violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `None` when it concerns the store as a whole.
    pub task: Option<TaskId>,
    pub code: FlawCode,
    /// A sentence for people.
    pub what: String,
}

impl Finding {
    fn of(task: Option<TaskId>, Flaw { code, what }: Flaw) -> Self {
        Self { task, code, what }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            Some(task) => write!(f, "{task}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// Checks the whole store, up to the tasks that exist when the check begins.
pub async fn verify<B: Browse>(browse: &B) -> Result<Report, Failure> {
    let mut report = Report::default();
    for line in browse.integrity().await? {
        let what = format!("the integrity check of the database says: {line}");
        report.findings.push(Finding { task: None, code: FlawCode::DatabaseDamaged, what });
    }
    objects::check(browse, &mut report).await?;
    logs::check(browse, &mut report).await?;
    let horizon = match browse.latest().await {
        Ok(Some(horizon)) => horizon,
        Ok(None) => return Ok(report),
        Err(failure) => return Ok(report.with(None, unreadable(failure)?)),
    };
    let mut keys = flows::SeenKeys::default();
    check_tasks(browse, horizon, &mut report, &mut keys).await?;
    keys.check(browse, &mut report).await?;
    Ok(report)
}

/// Checks all tasks up to the horizon.
async fn check_tasks<B: Browse>(
    browse: &B,
    horizon: TaskId,
    report: &mut Report,
    keys: &mut flows::SeenKeys,
) -> Result<(), Failure> {
    let mut after = None;
    loop {
        let page = match read_page(browse, after).await {
            Ok(page) => page,
            Err(failure) => {
                let (code, what) = (FlawCode::Unreadable, unreadable(failure)?);
                report.findings.push(Finding { task: None, code, what });
                return Ok(());
            }
        };
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        for (task, bundle) in page {
            if task > horizon {
                return Ok(());
            }
            if let Ok(bundle) = &bundle {
                keys.see(&bundle.task);
            }
            check_task(browse, task, bundle, report).await?;
            if report.findings.len() >= FINDINGS_MAX {
                return Ok(());
            }
        }
    }
}

type Page = Vec<(TaskId, Result<TaskBundle, Failure>)>;

/// Reads a page in one call. If a bad row makes that fail, each task is read separately, so that only
/// unreadable tasks are missing.
async fn read_page<B: Browse>(browse: &B, after: Option<TaskId>) -> Result<Page, Failure> {
    match browse.scan(after, PAGE, ScanDepth::AllRows).await {
        Ok(page) => Ok(page.into_iter().map(|it| (it.task.key().id, Ok(it))).collect()),
        Err(failure) => {
            unreadable(failure)?;
            let mut page = Vec::new();
            for TaskBundle { task, .. } in browse.scan(after, PAGE, ScanDepth::Task).await? {
                page.push((task.key().id, browse::bundle(browse, task).await));
            }
            Ok(page)
        }
    }
}

async fn check_task<B: Browse>(
    browse: &B,
    task: TaskId,
    bundle: Result<TaskBundle, Failure>,
    report: &mut Report,
) -> Result<(), Failure> {
    report.tasks += 1;
    let settled = match bundle {
        Ok(bundle) => check_until_stable(browse, bundle).await,
        Err(failure) => Err(failure),
    };
    let task = Some(task);
    match settled {
        Ok(examined) => {
            report.entries += examined.entries;
            report.attempts += examined.attempts;
            report.findings.extend(examined.wrong.into_iter().map(|flaw| Finding::of(task, flaw)));
        }
        Err(failure) => {
            let what = unreadable(failure)?;
            report.findings.push(Finding { task, code: FlawCode::Unreadable, what });
        }
    }
    Ok(())
}

/// What was checked of one task, and what is wrong with it.
pub(crate) struct Examined {
    pub(crate) entries: u64,
    pub(crate) attempts: u64,
    pub(crate) wrong: Vec<Flaw>,
    /// The children that its history names.
    pub(crate) children: Vec<Child>,
}

/// Checks a task, and reads it again if it changed between the reads.
async fn check_until_stable<B: Browse>(browse: &B, first: TaskBundle) -> Result<Examined, Failure> {
    let mut bundle = first;
    let mut examined = examine(browse, &bundle, &mut |_| ()).await?;
    for _ in 1..READINGS_MAX {
        if examined.wrong.is_empty() {
            break;
        }
        match browse.find(&bundle.task.key()).await? {
            Some(found) if found.subject != bundle.task.subject => {
                bundle = browse::bundle(browse, found).await?;
                examined = examine(browse, &bundle, &mut |_| ()).await?;
            }
            None if !is_listed(browse, &bundle.task).await? => examined.wrong.clear(),
            Some(_) | None => break,
        }
    }
    Ok(examined)
}

/// Checks all rows of a task, a page at a time if there are many. `see` is called with each page.
pub(crate) async fn examine<B: Browse>(
    browse: &B,
    bundle: &TaskBundle,
    see: &mut (dyn FnMut(&TaskRows) + Send),
) -> Result<Examined, Failure> {
    let mut examination = Examination::new();
    match &bundle.rows {
        Some(whole) => {
            examination.look(whole);
            see(whole);
        }
        None => {
            let mut reading = browse::row_pages(browse, &bundle.task);
            while let Some(part) = reading.next().await? {
                examination.look(&part);
                see(&part);
            }
        }
    }
    let family = family::check(browse, &bundle.task, &examination.replay).await?;
    let mut examined = examination.end(&bundle.task);
    examined.wrong.extend(family);
    Ok(examined)
}

/// The check of one task, part by part.
struct Examination {
    seen: invariants::InvariantCheck,
    replay: fold::Replay,
    entries: u64,
    attempts: u64,
}

impl Examination {
    fn new() -> Self {
        let (seen, replay) = (invariants::InvariantCheck::new(), fold::Replay::new());
        Self { seen, replay, entries: 0, attempts: 0 }
    }

    fn look(&mut self, part: &TaskRows) {
        self.entries += part.history.len() as u64;
        self.attempts += part.attempts.len() as u64;
        self.replay.steps(part);
        for entry in &part.history {
            self.seen.entry(entry);
            self.replay.entry(entry);
        }
        for attempt in &part.attempts {
            self.seen.attempt(attempt);
            self.replay.attempt(attempt);
        }
        self.replay.run_rows(part);
    }

    fn end(self, found: &StoredTask) -> Examined {
        let mut wrong = self.seen.check(found);
        let children = self.replay.family().cloned().collect();
        wrong.extend(self.replay.compare(&found.subject));
        Examined { entries: self.entries, attempts: self.attempts, wrong, children }
    }
}

/// Whether a task that was not found is still listed: else it was deleted while it was being read.
async fn is_listed<B: Browse>(browse: &B, found: &StoredTask) -> Result<bool, Failure> {
    let id = found.key().id;
    let before = id.as_u128().checked_sub(1).map(TaskId::from_u128);
    let next = browse.scan(before, 1, ScanDepth::Task).await?;
    Ok(next.first().map(|found| found.task.key().id) == Some(id))
}

/// Unreadable rows are a finding; a store that does not answer is a failure.
pub(crate) fn unreadable(failure: Failure) -> Result<String, Failure> {
    match (failure.kind, &failure.source) {
        (FailureKind::Fatal, Some(source)) => Ok(format!("{failure} stopped: {source}")),
        (FailureKind::Fatal, None) => Ok(failure.to_string()),
        _ => Err(failure),
    }
}

impl Report {
    fn with(mut self, task: Option<TaskId>, what: String) -> Self {
        self.findings.push(Finding { task, code: FlawCode::Unreadable, what });
        self
    }
}
