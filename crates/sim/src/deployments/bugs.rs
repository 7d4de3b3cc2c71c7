//! Bugs of deployments, planted between the coordinator and its store. Each is a way in which one of the commits of a deployment could
//! be torn or repeated.

use store::{Decided, ObjectChange};
use verdict::topology::KEY_PREFIX;
use verdict::{ObjectKey, ObjectType};

/// Every second batch is torn, so that some of everything happens.
fn is_torn(batch: u64) -> bool {
    batch.is_multiple_of(2)
}

fn is_new(change: &ObjectChange, object_type: ObjectType) -> bool {
    change.after.key.object_type == object_type && change.after.revision == 1
}

/// The run of a work order is saved without the key that names its event.
pub(crate) fn drop_keys(decided: &mut Decided) {
    let orders = format!("{KEY_PREFIX}workshop~1/wo/");
    for spec in decided.changes.iter_mut().filter_map(|change| change.spec.as_mut()) {
        spec.key.take_if(|key| key.as_str().starts_with(&orders));
    }
}

/// The end of an event is saved without the work order that it made.
pub(crate) fn lose_orders(decided: &mut Decided, batch: u64) {
    if is_torn(batch) {
        decided.objects.retain(|change| !is_new(change, ObjectType::WorkOrder));
    }
}

/// A pause state is written under another id, too.
pub(crate) fn double_pauses(decided: &mut Decided, batch: u64) {
    if !is_torn(batch) {
        return;
    }
    let pauses = decided.objects.iter().filter(|it| is_new(it, ObjectType::PauseState));
    let again = |change: &ObjectChange| {
        let mut again = change.clone();
        let id = format!("{}0", change.after.key.id);
        again.after.key = ObjectKey { id: id.into(), ..change.after.key.clone() };
        again
    };
    let again: Vec<ObjectChange> = pauses.map(again).collect();
    decided.objects.extend(again);
}

/// The answer of a gate is saved with its pause state and without its run record, which follows with the next poll.
pub(crate) fn lose_records(decided: &mut Decided, batch: u64) {
    if is_torn(batch) {
        let is_record = |change: &ObjectChange| {
            change.after.key.object_type == ObjectType::WorkOrder && !change.after.is_pending
        };
        decided.objects.retain(|change| !is_record(change));
    }
}

/// The end of an event that no role decided leaves no note.
pub(crate) fn lose_notes(decided: &mut Decided) {
    decided.objects.retain(|change| !is_new(change, ObjectType::UnprocessedEvent));
}
