//! What the store holds of durable runs once everything has ended: whole families, and no message left.

use std::collections::BTreeMap;

use store::{Browse, RecordsOf, RunRecord, Store, StoredTask, TaskKey};
use storetest::MemoryStore;
use verdict::run::Lineage;
use verdict::{Done, Subject, TaskId};

use crate::actor_context::ActorContext;

/// More rows than any simulated task has.
const ALL: usize = 100_000;

/// The children of each task, by the key under which it asked for them.
type Families<'a> = BTreeMap<TaskId, BTreeMap<&'a str, Vec<&'a Done>>>;

pub(crate) async fn check(ctx: &ActorContext, store: &MemoryStore, found: &[&StoredTask]) {
    let ended: Vec<&Done> = found
        .iter()
        .filter_map(|found| match &found.subject {
            Subject::Done(done) => Some(done),
            Subject::Live(_) | Subject::Absent => None,
        })
        .collect();
    let families = families(&ended);
    for done in ended.iter().filter(|done| done.run.is_some()) {
        check_records(ctx, store, done, &families).await;
    }
    check_order(ctx, &ended);
    let left = store.browse().saved_messages(None, ALL).await.expect("memory can be read");
    if let Some(message) = left.first() {
        let (count, to) = (left.len(), message.message.to);
        ctx.log.violate("messages", format_args!("{count} are left, the first one to {to}"));
    }
}

fn families<'a>(ended: &[&'a Done]) -> Families<'a> {
    let mut families = Families::new();
    for done in ended {
        let (parent, key) = match done.run.as_ref().and_then(|run| run.lineage.as_ref()) {
            Some(Lineage::Child { parent, key, .. }) => (*parent, key),
            Some(Lineage::Detached { cause, key }) => (*cause, key),
            None => continue,
        };
        families.entry(parent).or_default().entry(key.as_str()).or_default().push(*done);
    }
    families
}

/// The records of a task are numbered without gaps, and every child that it asked for exists once.
async fn check_records(
    ctx: &ActorContext,
    store: &MemoryStore,
    done: &Done,
    families: &Families<'_>,
) {
    let key = TaskKey { scope: done.scope.clone(), id: done.id };
    let records = store.browse().records(&key, RecordsOf::After(0), ALL).await;
    let records = records.expect("memory can be read");
    let numbers: Vec<u32> = records.iter().map(RunRecord::number).collect();
    if !numbers.iter().copied().eq(1..=numbers.len() as u32) {
        ctx.log.violate("E2", format_args!("the records of {} are {numbers:?}", done.id));
    }
    let started: BTreeMap<&str, TaskId> = records
        .iter()
        .filter_map(|record| match record {
            RunRecord::Started(started) => Some((started.child.key.as_str(), started.child.id)),
            RunRecord::Checkpoint { .. } => None,
        })
        .collect();
    let made = families.get(&done.id).cloned().unwrap_or_default();
    // A continuation names the children of the run that it continues, and starts none of them.
    let before = done.run.as_ref().and_then(|run| families.get(&run.forked_from?));
    let is_taken_over = |child: &str, id: TaskId| {
        let known = before.and_then(|family| family.get(child)).into_iter().flatten();
        !made.contains_key(child) && known.map(|done| done.id).eq([id])
    };
    for (child, id) in started.iter().filter(|(child, id)| !is_taken_over(child, **id)) {
        let ids: Vec<TaskId> = made.get(child).into_iter().flatten().map(|done| done.id).collect();
        if ids != [*id] {
            let told = format_args!("{} asked for {child} as {id}, and got {ids:?}", done.id);
            ctx.log.violate("E3", told);
        }
    }
    if let Some(child) = made.keys().find(|child| !started.contains_key(*child)) {
        ctx.log.violate("E3", format_args!("{} never asked for {child}", done.id));
    }
}

/// No task ends before its children.
fn check_order(ctx: &ActorContext, ended: &[&Done]) {
    let ends: BTreeMap<TaskId, &Done> = ended.iter().map(|done| (done.id, *done)).collect();
    for child in ended {
        let lineage = child.run.as_ref().and_then(|run| run.lineage.as_ref());
        let Some((parent, _)) = lineage.and_then(Lineage::parent) else { continue };
        let parent = ends.get(&parent);
        if let Some(parent) = parent.filter(|parent| parent.completed_at < child.completed_at) {
            let told = format_args!("{} ended before its child {}", parent.id, child.id);
            ctx.log.violate("closing", told);
        }
    }
}
