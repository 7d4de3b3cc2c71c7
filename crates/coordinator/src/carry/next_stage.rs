//! Reports that ask for the next stage: what the carrier adds before the rules decide.
//!
//! The rules lease the next stage in the decision of the report, so everything that they need comes with the request: an id for
//! the lease, and the queues from which nothing is leased this way now. What becomes ready in the same batch is not seen:
//! it may be overtaken by one stage.

use std::collections::{BTreeMap, BTreeSet};

use store::{Batch, TaskKey};
use verdict::plan::{Advance, PlanAnswer, PlanRequest};
use verdict::run::{RunAnswer, RunRequest};
use verdict::{Answer, Moment, Name, Request, Scope, Task};

use super::batch::{Aborted, OpenBatch};
use super::working_set::WorkingSet;
use crate::ids::Ids;
use crate::item::Item;

/// The highest priority that is ready, by queue.
pub(super) type Urgency = BTreeMap<(Scope, Name), i32>;

impl<B: Batch> OpenBatch<'_, B> {
    /// Learns how urgent the tasks are that wait where reports could go on. Costs nothing while no report asks.
    pub(super) async fn load_urgency(&mut self, items: &[Item], at: Moment) -> Result<(), Aborted> {
        let asking = items.iter().filter_map(Item::about);
        let asking = asking.filter_map(|(key, request)| Some((key, advance_of(request)?)));
        let asking = asking.filter_map(|(key, advance)| Some((self.work.task(key)?, advance)));
        let queues: BTreeSet<(Scope, Name)> =
            asking.flat_map(|(task, advance)| later_queues(task, advance.next.until)).collect();
        if queues.is_empty() {
            return Ok(());
        }
        let queues: Vec<(Scope, Name)> = queues.into_iter().collect();
        let found = self.batch.most_urgent(&queues, at.now).await?;
        let urgency = queues.into_iter().zip(found);
        self.work.urgency = urgency.filter_map(|(queue, found)| Some((queue, found?))).collect();
        Ok(())
    }
}

/// The request as the rules decide it; `None` if it does not ask for the next stage.
pub(super) fn with_next_lease(
    work: &WorkingSet,
    ids: &mut Ids,
    key: &TaskKey,
    request: &Request,
    at: Moment,
) -> Option<Request> {
    let asked = advance_of(request)?;
    let mut asked = Advance { report: asked.report.clone(), next: asked.next.clone() };
    asked.next.lease = ids.lease(at.now);
    if let Some(task) = work.task(key) {
        let is_closed = |queue: &(Scope, Name)| {
            work.paused.contains(&queue.0, &queue.1)
                || work.urgency.get(queue).is_some_and(|priority| *priority > task.priority)
        };
        let closed = later_queues(task, asked.next.until).into_iter().filter(is_closed);
        asked.next.closed_queues = closed.map(|(_, queue)| queue).collect();
    }
    Some(Request::Run(Box::new(RunRequest::Plan(PlanRequest::Advance(asked)))))
}

/// The task with the lease of its next stage, if this answer gives one.
pub(super) fn leased_next(work: &WorkingSet, key: &TaskKey, answer: &Answer) -> Option<Box<Task>> {
    let Answer::Run(answer) = answer else { return None };
    let RunAnswer::Plan(PlanAnswer::Advanced { lease: Some(lease), .. }) = **answer else {
        return None;
    };
    let is_held = |task: &&Task| task.lease().is_some_and(|held| held.id == lease);
    work.task(key).filter(is_held).cloned().map(Box::new)
}

fn advance_of(request: &Request) -> Option<&Advance> {
    let Request::Run(request) = request else { return None };
    match &**request {
        RunRequest::Plan(PlanRequest::Advance(advance)) => Some(advance),
        _ => None,
    }
}

/// The queues of the stages that may follow, each once.
fn later_queues(task: &Task, until: u32) -> BTreeSet<(Scope, Name)> {
    let Some(stages) = task.stages() else { return BTreeSet::new() };
    let later = stages.stages.iter().take(until as usize + 1).skip(stages.current as usize + 1);
    later.map(|stage| (task.scope.clone(), stage.queue.clone())).collect()
}
