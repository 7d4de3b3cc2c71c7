//! Which runs a key that is limited to queues may see and act on: those of which every task is in its queues.
//!
//! A run is its root with everything that belongs to it: the stages and steps of its plan, its children and theirs. Its view, its
//! records and its output are about all of them, and so is a cancel. So a run with a task elsewhere does not exist for the key,
//! and neither does a part of one. A detached run is a run of its own.
//!
//! A key without a limit costs nothing here; for others, one read for each run that has more than one task.

use store::{Browse, Failure, Filter, Listed, Listing, PageStop, TaskKey};
use verdict::plan::PlanState;
use verdict::{Name, RunState, Scope, Subject, TaskId};

use crate::admit::principals::Principal;

/// Runs with several tasks that one page looks at. The next page goes on behind them.
const FAMILIES_PER_PAGE: usize = 100;

/// What a key may see.
#[derive(Clone, Copy)]
pub(super) struct Sight<'a> {
    /// `None` for every queue of the workspace.
    queues: Option<&'a [Name]>,
}

/// A page of a list, and how many runs were looked at for it.
pub(super) struct SeenPage {
    pub(super) listing: Listing,
    pub(super) looked_at: Option<u64>,
}

impl<'a> Sight<'a> {
    pub(super) fn of<P: Principal>(principal: &'a P) -> Self {
        Self { queues: principal.queues() }
    }

    pub(super) const fn is_whole(self) -> bool {
        self.queues.is_none()
    }

    /// Whether the task belongs to a run of these queues alone.
    pub(super) async fn sees<B: Browse>(
        self,
        browse: &B,
        subject: &Subject,
    ) -> Result<bool, Failure> {
        let Some(queues) = self.queues else { return Ok(true) };
        let (Some(task), true) = (key_of(subject), is_within(subject, queues)) else {
            return Ok(false);
        };
        let Some(run) = run_of(subject) else { return Ok(true) };
        let root = run.lineage.as_ref().and_then(|lineage| lineage.run());
        let root = TaskKey { id: root.unwrap_or(task.id), ..task.clone() };
        if root != task {
            let found = browse.find(&root).await?;
            if !found.is_some_and(|found| is_within(&found.subject, queues)) {
                return Ok(false);
            }
        }
        Ok(!browse.leaves_queues(&root, queues).await?)
    }

    /// A page of the runs that may be seen. It ends early where it would have to look at too many.
    pub(super) async fn list<B: Browse>(
        self,
        browse: &B,
        scope: &Scope,
        mut filter: Filter,
    ) -> Result<SeenPage, Failure> {
        if self.is_whole() {
            let listing = browse.list(scope, &filter).await?;
            return Ok(SeenPage { listing, looked_at: None });
        }
        let (limit, mut seen) = (filter.limit, Vec::new());
        let (mut looked_at, mut families) = (0, 0);
        loop {
            let Listing { tasks, next, stopped } = browse.list(scope, &filter).await?;
            for listed in tasks {
                (looked_at, families) = (looked_at + 1, families + usize::from(is_family(&listed)));
                let subject = &listed.task.subject;
                let last = key_of(subject).map(|key| key.id);
                if self.sees(browse, subject).await? {
                    seen.push(listed);
                }
                if families >= FAMILIES_PER_PAGE {
                    return Ok(SeenPage::stopped(seen, last, looked_at));
                }
            }
            filter.limit = limit - seen.len();
            if next.is_none() || stopped.is_some() || filter.limit == 0 {
                let listing = Listing { tasks: seen, next, stopped };
                return Ok(SeenPage { listing, looked_at: None });
            }
            filter.before = next;
        }
    }
}

impl SeenPage {
    fn stopped(tasks: Vec<Listed>, last: Option<TaskId>, looked_at: u64) -> Self {
        let listing = Listing { tasks, next: last, stopped: Some(PageStop::Scan) };
        Self { listing, looked_at: Some(looked_at) }
    }
}

fn is_family(listed: &Listed) -> bool {
    run_of(&listed.task.subject).is_some()
}

/// Whether a task, and the stages that it passes through, are in these queues.
fn is_within(subject: &Subject, queues: &[Name]) -> bool {
    let stages = match run_of(subject).and_then(|run| run.plan.as_deref()) {
        Some(PlanState::Stages(stages)) => &stages.stages[..],
        Some(PlanState::Root(_) | PlanState::Step(_)) | None => &[],
    };
    let of_stages = stages.iter().map(|stage| &stage.queue);
    let mut all = subject.queue().into_iter().chain(of_stages);
    subject.queue().is_some() && all.all(|queue| queues.contains(queue))
}

fn run_of(subject: &Subject) -> Option<&RunState> {
    match subject {
        Subject::Absent => None,
        Subject::Live(task) => task.run.as_deref(),
        Subject::Done(done) => done.run.as_deref(),
    }
}

fn key_of(subject: &Subject) -> Option<TaskKey> {
    let id = match subject {
        Subject::Absent => return None,
        Subject::Live(task) => task.id,
        Subject::Done(done) => done.id,
    };
    Some(TaskKey { scope: subject.scope()?.clone(), id })
}
