//! A task whose history is too long for one commit: its decisions are replayed a page at a time.
//!
//! After each page the task has the state that those decisions produce; the last page gives it its current state.
//! The states in between are never visible: there is no store until the copy is complete.

use verdict::Subject;

use super::super::MoveFailure;
use super::super::summary::TaskSummary;
use super::{commit, load};
use crate::browse::{self, Browse};
use crate::failure::{Failure, FailureKind};
use crate::row::{Change, Entry, StoredTask, TaskRows};
use crate::runs::StoredStep;
use crate::seam::{Batch, Decided, Writer};

/// Copies a task and counts its rows.
pub(in crate::moving) async fn copy<B: Browse, W: Writer>(
    from: &B,
    writer: &mut W,
    found: &StoredTask,
) -> Result<TaskSummary, MoveFailure> {
    let (mut task_summary, mut reading) = (TaskSummary::new(), browse::row_pages(from, found));
    let mut copied = Copied { found, subject: Subject::Absent, entries: 0, steps: Vec::new() };
    while let Some(part) = reading.next().await.map_err(MoveFailure::Source)? {
        task_summary.add(&part);
        copied.write(writer, part).await.map_err(MoveFailure::Destination)?;
    }
    Ok(task_summary)
}

/// The state of the copy so far.
struct Copied<'f> {
    found: &'f StoredTask,
    subject: Subject,
    entries: u32,
    /// Steps of its plan that were read and not written: they are written with the submission.
    steps: Vec<StoredStep>,
}

impl Copied<'_> {
    async fn write<W: Writer>(
        &mut self,
        writer: &mut W,
        mut part: TaskRows,
    ) -> Result<(), Failure> {
        self.steps.append(&mut part.steps);
        if part == TaskRows::default() {
            return Ok(());
        }
        let mut batch = writer.begin().await?;
        load(&mut batch, &[self.found]).await?;
        // Checkpoints, children and signals follow from the history.
        let TaskRows { history, attempts, refused, .. } = part;
        let mut changes = Vec::new();
        if !history.is_empty() {
            let before = self.subject.live().map(|task| task.revision);
            self.decide(&history)?;
            changes.push(Change {
                before,
                after: self.subject.clone(),
                spec: before.is_none().then(|| self.found.spec.clone()),
                closed: attempts,
                entries: history,
                steps: std::mem::take(&mut self.steps),
            });
        }
        batch.save(Decided { changes, refused, ..Decided::default() }).await?;
        commit(batch).await
    }

    /// Applies these decisions to the task; the last page yields its current state.
    fn decide(&mut self, history: &[Entry]) -> Result<(), Failure> {
        for entry in history {
            self.entries += 1;
            if entry.n != self.entries || !follows(&self.subject, entry) {
                let what = format!("{} has a history with gaps", self.found.key().id);
                return Err(Failure::new(FailureKind::Invalid, what));
            }
            let mut subject = std::mem::replace(&mut self.subject, Subject::Absent);
            if let (Subject::Live(task), Some(loaded)) = (&mut subject, &entry.loaded) {
                loaded.restore(task);
            }
            self.subject = subject.settle(&entry.events, entry.at);
        }
        if self.entries == self.found.row_counts().0 {
            self.subject = self.found.subject.clone();
        }
        Ok(())
    }
}

/// Whether an entry can follow this state: the first one creates a live task, and nothing follows an end.
fn follows(subject: &Subject, entry: &Entry) -> bool {
    match subject {
        Subject::Absent => {
            matches!(
                entry.events.as_slice(),
                [verdict::Event::Submitted(_) | verdict::Event::Run(_), ..]
            )
        }
        Subject::Live(_) => true,
        Subject::Done(_) => false,
    }
}
