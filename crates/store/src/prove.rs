//! Proves one run: rebuilds it and its descendants from their histories, recomputes every digest, and compares the
//! records with their seals.
//!
//! Each task is checked as [`crate::verify`] checks it: its history is decided again, its rows and its record follow from
//! it. In addition, a parent's record must contain the record of each ended child, and each record must be in a seal
//! with the digest that it has now ([`seals`]). Everything is read through [`Browse`], one task at a time.
//!
//! This module has no key: the caller judges the code of a seal. It changes nothing.

mod descendants;
pub mod seals;
mod story;
mod view;

use std::collections::HashMap;

use verdict::run::{Child, Recorded};
use verdict::{Digest, Name, Subject, TaskId, Time};

pub use self::descendants::Descendants;
pub use self::seals::{AnchoredSeal, Evidence, SealCheck, SealProof, check_seals, find_sealed};
pub use self::story::TaskStory;
pub use self::view::{AttemptLine, CheckpointLine, TaskView};
use crate::browse::{self, Browse, ScanDepth};
use crate::failure::Failure;
use crate::record_seals::leaf_digest;
use crate::row::{StoredTask, TaskBundle, TaskKey, TaskRows};
use crate::verify::{self, FlawCode};

/// How many tasks are looked at together.
const PAGE: usize = 100;

/// A run with this many findings needs a backup, not a longer list.
const FINDINGS_MAX: usize = 1_000;

/// What was proved of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    pub tasks: u64,
    pub decisions: u64,
    pub attempts: u64,
    pub checkpoints: u64,
    /// Tasks of the run that have not ended, and so have no record.
    pub live: u64,
    /// The records, to be compared with seals.
    pub records: Vec<ProvedRecord>,
    pub findings: Vec<ProofFinding>,
}

/// The record of an ended task as its rows have it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProvedRecord {
    pub task: TaskId,
    pub completed_at: Time,
    /// What a seal says of it.
    pub leaf: Digest,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofFinding {
    /// Stable.
    pub code: &'static str,
    pub task: Option<TaskId>,
    /// A sentence for people that names the row.
    pub what: String,
}

impl ProofFinding {
    fn of(code: &'static str, task: TaskId, what: impl Into<String>) -> Self {
        Self { code, task: Some(task), what: what.into() }
    }
}

/// The id that a person wrote: that of a run, or of its task.
pub fn parse_id(text: &str) -> Option<TaskId> {
    TaskId::parse(text)
}

/// The run of a store that holds one run: the first task without a parent.
pub async fn only_run<B: Browse>(browse: &B) -> Result<Option<StoredTask>, Failure> {
    let mut after = None;
    loop {
        let page = browse.scan(after, PAGE, ScanDepth::Task).await?;
        let Some(last) = page.last() else { return Ok(None) };
        after = Some(last.task.key().id);
        if let Some(root) = page.into_iter().find(|it| !it.task.subject.is_child()) {
            return Ok(Some(root.task));
        }
    }
}

/// The task with this id, of whatever scope. `None` if it is not stored, or not as a task that lives or has ended.
pub async fn find_task<B: Browse>(browse: &B, id: TaskId) -> Result<Option<StoredTask>, Failure> {
    let before = id.as_u128().checked_sub(1).map(TaskId::from_u128);
    let next = browse.scan(before, 1, ScanDepth::Task).await?;
    Ok(next.into_iter().map(|bundle| bundle.task).find(|task| task.key().id == id))
}

/// Checks a task of a run and all its descendants, and tells the story of each, parents before children.
pub async fn prove<B: Browse>(
    browse: &B,
    root: StoredTask,
    tell: &mut (dyn FnMut(&TaskStory) + Send),
) -> Result<Proof, Failure> {
    let mut walk = Walk { proof: Proof::default(), absorbed: HashMap::new(), waiting: Vec::new() };
    walk.waiting.push(Place { key: root.key(), depth: 0, name: None });
    while let Some(place) = walk.waiting.pop() {
        if walk.proof.findings.len() >= FINDINGS_MAX {
            break;
        }
        walk.visit(browse, place, tell).await?;
    }
    Ok(walk.proof)
}

/// A task to visit.
struct Place {
    key: TaskKey,
    depth: usize,
    /// Its key in its parent.
    name: Option<Name>,
}

struct Walk {
    proof: Proof,
    /// The records of ended children, as their parents recorded them.
    absorbed: HashMap<TaskId, Digest>,
    waiting: Vec<Place>,
}

impl Walk {
    async fn visit<B: Browse>(
        &mut self,
        browse: &B,
        place: Place,
        tell: &mut (dyn FnMut(&TaskStory) + Send),
    ) -> Result<(), Failure> {
        let id = place.key.id;
        let (story, children) = match self.examine(browse, &place).await {
            Ok(Some(examined)) => examined,
            // Its parent's examination names a child that is missing.
            Ok(None) => return Ok(()),
            Err(failure) => {
                let what = verify::unreadable(failure)?;
                let code = FlawCode::Unreadable.name();
                self.proof.findings.push(ProofFinding::of(code, id, what));
                return Ok(());
            }
        };
        self.check_record(&story);
        tell(&story);
        let depth = place.depth + 1;
        let of_run = children.into_iter().filter(|child| !child.is_detached);
        let places = of_run.map(|child| {
            let key = TaskKey { scope: place.key.scope.clone(), id: child.id };
            Place { key, depth, name: Some(child.key) }
        });
        // The last one is visited first.
        let mut places: Vec<Place> = places.collect();
        places.reverse();
        self.waiting.extend(places);
        Ok(())
    }

    /// Checks the rows of one task. `None` if it does not exist.
    async fn examine<B: Browse>(
        &mut self,
        browse: &B,
        place: &Place,
    ) -> Result<Option<(TaskStory, Vec<Child>)>, Failure> {
        let Some(found) = browse.find(&place.key).await? else { return Ok(None) };
        let bundle = browse::bundle(browse, found).await?;
        let TaskBundle { task, .. } = &bundle;
        let mut story = TaskStory::new(task.clone(), place.depth, place.name.clone());
        let absorbed = &mut self.absorbed;
        let mut see = |rows: &TaskRows| {
            story.see(rows);
            note_ended_children(absorbed, rows);
        };
        let examined = verify::examine(browse, &bundle, &mut see).await?;
        let proof = &mut self.proof;
        proof.tasks += 1;
        proof.decisions += examined.entries;
        proof.attempts += examined.attempts;
        proof.checkpoints += story.checkpoints;
        let id = place.key.id;
        let flaws = examined.wrong.into_iter();
        proof.findings.extend(flaws.map(|flaw| ProofFinding::of(flaw.code.name(), id, flaw.what)));
        Ok(Some((story, examined.children)))
    }

    /// Compares an ended task with what its parent recorded of it, and notes its record.
    fn check_record(&mut self, story: &TaskStory) {
        let Subject::Done(done) = &story.task.subject else {
            self.proof.live += 1;
            return;
        };
        if let Some(absorbed) = self.absorbed.remove(&done.id)
            && absorbed != done.record
        {
            let what = format!(
                "its record has digest {}, and its parent recorded {absorbed} at its end",
                done.record
            );
            self.proof.findings.push(ProofFinding::of("child_record_differs", done.id, what));
        }
        let leaf = leaf_digest(&done.record, &story.task.spec);
        let completed_at = done.completed_at;
        self.proof.records.push(ProvedRecord { task: done.id, completed_at, leaf });
    }
}

fn note_ended_children(absorbed: &mut HashMap<TaskId, Digest>, rows: &TaskRows) {
    for checkpoint in &rows.checkpoints {
        if let Recorded::Child(end) = &checkpoint.recorded {
            absorbed.insert(end.child, end.record);
        }
    }
}
