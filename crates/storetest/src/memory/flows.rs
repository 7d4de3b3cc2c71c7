//! Flow keys, from the tasks and their histories and nothing else: what each key comes to, and which tasks do not fit.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use store::row::{Entry, FlowFilter, FlowKeyRow, FlowRef};
use verdict::flow::{Rate, RateUse, Starts, Terms, flow_of};
use verdict::{Event, FlowKey, KeyUse, Name, Subject, Task, TaskId, Time};

/// The grants of all tasks whose keys have a rate, by key.
#[derive(Default)]
pub(super) struct AllStarts(BTreeMap<FlowRef, Vec<Time>>);

impl AllStarts {
    /// Adds an entry of the history of a task.
    pub(super) fn add(&mut self, subject: &Subject, entry: &Entry) {
        let is_start = entry.events.iter().any(|event| matches!(event, Event::Granted { .. }));
        let rated = flow_of(subject).filter(|flow| is_start && flow.rate.is_some());
        if let (Some(flow), Some(scope)) = (rated, subject.scope()) {
            let flow = FlowRef { scope: scope.clone(), key: flow.name.clone() };
            self.0.entry(flow).or_default().push(entry.at);
        }
    }

    fn of(&self, flow: &FlowRef) -> Starts {
        self.0.get(flow).into_iter().flatten().copied().collect()
    }
}

/// Whether the key of a task has a rate.
pub(super) fn has_rate(task: &Task) -> bool {
    task.flow().is_some_and(|flow| flow.rate.is_some())
}

/// The terms of a key that count, of these tasks.
fn terms(tasks: &[&Task]) -> Option<Terms> {
    let all = || tasks.iter().filter_map(|task| task.flow()).map(FlowKey::terms);
    let rate: Option<Rate> = all().filter_map(|terms| terms.rate).max();
    Some(Terms { limit: all().map(|terms| terms.limit).min()?, rate })
}

/// How a key is used by these live tasks.
pub(super) fn in_use<'a>(
    live: impl Iterator<Item = &'a Task>,
    starts: &AllStarts,
    flow: &FlowRef,
    now: Time,
) -> Option<KeyUse> {
    let has_it = |task: &&Task| FlowRef::of(task).as_ref() == Some(flow);
    let tasks: Vec<&Task> = live.filter(has_it).collect();
    let Terms { limit, rate } = terms(&tasks)?;
    let held = tasks.iter().filter(|task| task.holds_slot()).count() as u32;
    let rate = rate.map(|rate| RateUse::of(rate, &starts.of(flow), now));
    Some(KeyUse { limit, held, rate })
}

/// When keys with claimable tasks open whose rate allows no start now.
pub(super) fn openings<'a>(
    live: impl Iterator<Item = &'a Task>,
    starts: &AllStarts,
    now: Time,
) -> Vec<Time> {
    let is_ready = |task: &&Task| task.claimable_at().is_some_and(|at| at.has_come(now));
    let tasks: Vec<&Task> = live.filter(is_ready).collect();
    let keys: BTreeSet<FlowRef> = tasks.iter().filter_map(|task| FlowRef::of(task)).collect();
    let opens_at = |flow: &FlowRef| {
        let has_it = |task: &&&Task| FlowRef::of(task).as_ref() == Some(flow);
        let own: Vec<&Task> = tasks.iter().filter(has_it).copied().collect();
        starts.of(flow).opens_at(terms(&own)?.rate?, now)
    };
    keys.iter().filter_map(opens_at).collect()
}

/// The claimable tasks that are parked: of each line (a kind of a queue), all but the first so many as slots are free.
pub(super) fn parked<'a>(
    live: impl Iterator<Item = &'a Task>,
    starts: &AllStarts,
    now: Time,
) -> BTreeSet<TaskId> {
    let tasks: Vec<&Task> = live.filter(|task| task.flow().is_some()).collect();
    let mut lines: BTreeMap<(FlowRef, Cow<'_, Name>, &Name), Vec<&Task>> = BTreeMap::new();
    for task in &tasks {
        let is_claimable = task.claimable_at().is_some_and(|at| at.has_come(now));
        let wants_slot = is_claimable && !task.holds_for_life();
        if let Some(flow) = FlowRef::of(task).filter(|_| wants_slot) {
            lines.entry((flow, task.offered_in(), &task.kind)).or_default().push(task);
        }
    }
    let mut parked = BTreeSet::new();
    for ((flow, ..), mut line) in lines {
        line.sort_by_key(|task| (std::cmp::Reverse(task.priority), task.id));
        let in_use = in_use(tasks.iter().copied(), starts, &flow, now);
        let free = in_use.expect("its tasks have the key").free() as usize;
        parked.extend(line.into_iter().skip(free).map(|task| task.id));
    }
    parked
}

pub(super) fn list<'a>(
    live: impl Iterator<Item = &'a Task>,
    starts: &AllStarts,
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
        let is_due = |task: &Task| task.claimable_at().is_some_and(|at| at.has_come(now));
        let is_ready = |task: &&&Task| is_due(task) && !task.holds_for_life();
        let held: Vec<TaskId> =
            tasks.iter().filter(|task| task.holds_slot()).map(|task| task.id).collect();
        let terms = terms(&tasks).unwrap_or(Terms { limit: 0, rate: None });
        let flow = FlowRef { scope: filter.scope.clone(), key: key.clone() };
        let row = FlowKeyRow {
            key,
            limit: terms.limit,
            held: held.len() as u64,
            ready: tasks.iter().filter(is_ready).count() as u64,
            live: tasks.len() as u64,
            holders: held.into_iter().take(filter.holders).collect(),
            rate: None,
            opens_at: None,
        };
        row.with_rate(terms.rate, &starts.of(&flow), now)
    };
    keys.into_iter().take(filter.limit).map(row).collect()
}
