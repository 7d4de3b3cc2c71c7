//! Flow keys, from the live tasks and nothing else: what each key comes to, and which tasks do not fit.

use std::collections::{BTreeMap, BTreeSet};

use store::row::{FlowFilter, FlowKeyRow, FlowRef};
use verdict::{KeyUse, Name, Task, TaskId, Time};

/// How a key is used by these live tasks.
pub(super) fn in_use<'a>(live: impl Iterator<Item = &'a Task>, flow: &FlowRef) -> Option<KeyUse> {
    let has_it = |task: &&Task| FlowRef::of(task).as_ref() == Some(flow);
    let tasks: Vec<&Task> = live.filter(has_it).collect();
    let limit = tasks.iter().filter_map(|task| task.flow()).map(|flow| flow.limit).min()?;
    let held = tasks.iter().filter(|task| task.lease().is_some()).count() as u32;
    Some(KeyUse { limit, held })
}

/// The claimable tasks that are parked: of each line (a kind of a queue), all but the first so many as slots are free.
pub(super) fn parked<'a>(live: impl Iterator<Item = &'a Task>, now: Time) -> BTreeSet<TaskId> {
    let tasks: Vec<&Task> = live.filter(|task| task.flow().is_some()).collect();
    let mut lines: BTreeMap<(FlowRef, &Name, &Name), Vec<&Task>> = BTreeMap::new();
    for task in &tasks {
        let is_claimable = task.claimable_at().is_some_and(|at| at.has_come(now));
        if let Some(flow) = FlowRef::of(task).filter(|_| is_claimable) {
            lines.entry((flow, &task.queue, &task.kind)).or_default().push(task);
        }
    }
    let mut parked = BTreeSet::new();
    for ((flow, ..), mut line) in lines {
        line.sort_by_key(|task| (std::cmp::Reverse(task.priority), task.id));
        let in_use = in_use(tasks.iter().copied(), &flow).expect("its tasks have the key");
        let free = in_use.limit.saturating_sub(in_use.held) as usize;
        parked.extend(line.into_iter().skip(free).map(|task| task.id));
    }
    parked
}

pub(super) fn list<'a>(
    live: impl Iterator<Item = &'a Task>,
    filter: &FlowFilter,
    now: Time,
) -> Vec<FlowKeyRow> {
    let is_listed = |flow: &FlowRef| {
        flow.scope == filter.scope
            && filter.key.as_ref().is_none_or(|key| *key == flow.key)
            && filter.after.as_ref().is_none_or(|after| flow.key > *after)
    };
    let mut keys: BTreeMap<Name, Vec<&Task>> = BTreeMap::new();
    for task in live {
        if let Some(flow) = FlowRef::of(task).filter(is_listed) {
            keys.entry(flow.key).or_default().push(task);
        }
    }
    let row = |(key, tasks): (Name, Vec<&Task>)| {
        let is_ready = |task: &&&Task| task.claimable_at().is_some_and(|at| at.has_come(now));
        let held: Vec<TaskId> =
            tasks.iter().filter(|task| task.lease().is_some()).map(|task| task.id).collect();
        FlowKeyRow {
            key,
            limit: tasks
                .iter()
                .filter_map(|task| task.flow())
                .map(|it| it.limit)
                .min()
                .unwrap_or(0),
            held: held.len() as u64,
            ready: tasks.iter().filter(is_ready).count() as u64,
            live: tasks.len() as u64,
            holders: held.into_iter().take(filter.holders).collect(),
        }
    };
    keys.into_iter().take(filter.limit).map(row).collect()
}
