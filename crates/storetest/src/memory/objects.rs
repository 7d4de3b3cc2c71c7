//! Objects: the current ones and their log, committed or of one batch.

use std::collections::BTreeMap;

use store::objects::{LoadedObject, ObjectChange, ObjectFilter, ObjectLogFilter, UniqueKey};
use verdict::{Name, Object, ObjectKey, ObjectType, Scope, Time};

/// A batch has its own changes in one of these, over the committed ones.
#[derive(Clone, Default)]
pub(super) struct Objects {
    pub(super) current: BTreeMap<ObjectKey, Object>,
    pub(super) log: BTreeMap<(ObjectKey, u32), ObjectChange>,
    /// Who has each unique key, of the current ones.
    unique: BTreeMap<UniqueKey, ObjectKey>,
}

impl Objects {
    /// Grows with every change of an endpoint.
    pub(super) fn settings_version(&self) -> i64 {
        let is_endpoint = |object: &&Object| object.key.object_type == ObjectType::Endpoint;
        self.current.values().filter(is_endpoint).map(|object| i64::from(object.revision)).sum()
    }

    pub(super) fn write(&mut self, change: ObjectChange) {
        let key = change.after.key.clone();
        self.put(change.after.clone());
        let entry = self.log.insert((key, change.after.revision), change);
        assert!(entry.is_none(), "a revision is written once");
    }

    fn put(&mut self, object: Object) {
        let before = self.current.get(&object.key).and_then(unique_key);
        // Another object of the same commit may have taken it over.
        let mut own = before.into_iter().filter(|it| self.unique.get(it) == Some(&object.key));
        if let Some(unique) = own.next() {
            self.unique.remove(&unique);
        }
        let now = unique_key(&object).map(|unique| (unique, object.key.clone()));
        self.unique.extend(now);
        self.current.insert(object.key.clone(), object);
    }

    pub(super) fn absorb(&mut self, saved: Objects) {
        let bounded = saved.current.values().filter(|it| it.key.object_type.has_bounded_log());
        let bounded: Vec<(ObjectKey, u32)> = bounded
            .map(|it| (it.key.clone(), it.key.object_type.first_kept(it.revision)))
            .collect();
        saved.current.into_values().for_each(|object| self.put(object));
        self.log.extend(saved.log);
        for (key, first) in bounded {
            let old = self.log.range((key.clone(), 0)..(key, first));
            let old: Vec<(ObjectKey, u32)> = old.map(|(place, _)| place.clone()).collect();
            old.iter().for_each(|place| drop(self.log.remove(place)));
        }
    }

    pub(super) fn forget(&mut self, is_gone: impl Fn(&Object) -> bool) {
        self.current.retain(|_, object| !is_gone(object));
        self.unique.retain(|_, key| self.current.contains_key(key));
        self.log.retain(|_, change| !is_gone(&change.after));
    }

    /// Whether something is still to be done about an object of this parent.
    pub(super) fn has_pending(&self, scope: &Scope, parent: &Name) -> bool {
        let is_it = |object: &Object| {
            object.is_pending
                && object.key.scope == *scope
                && object.parent.as_ref() == Some(parent)
        };
        self.current.values().any(is_it)
    }

    pub(super) fn list(&self, filter: &ObjectFilter) -> Vec<Object> {
        let wanted = self.current.values().filter(|object| filter.wants(object));
        filter.page(wanted.cloned())
    }

    pub(super) fn read_log(&self, filter: &ObjectLogFilter) -> Vec<ObjectChange> {
        let is_wanted = |(place, _): &(&(ObjectKey, u32), &ObjectChange)| {
            filter.key.as_ref().is_none_or(|key| *key == place.0)
                && filter.after.as_ref().is_none_or(|after| *place > after)
        };
        let wanted = self.log.iter().filter(is_wanted).map(|(_, change)| change.clone());
        wanted.take(filter.limit).collect()
    }
}

fn unique_key(object: &Object) -> Option<UniqueKey> {
    let ObjectKey { scope, object_type, .. } = object.key.clone();
    Some(UniqueKey { scope, object_type, unique_key: object.unique_key.clone()? })
}

/// What a batch sees: its own changes before the committed ones.
pub(super) struct Seen<'a> {
    pub(super) committed: &'a Objects,
    pub(super) mine: &'a Objects,
}

impl Seen<'_> {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Object> {
        self.mine.current.get(key).or_else(|| self.committed.current.get(key))
    }

    fn all(&self) -> impl Iterator<Item = &Object> {
        let is_old = |object: &&Object| !self.mine.current.contains_key(&object.key);
        self.committed.current.values().filter(is_old).chain(self.mine.current.values())
    }

    pub(super) fn unique(&self, key: &UniqueKey) -> Option<&Object> {
        if let Some(mine) = self.mine.unique.get(key) {
            return self.mine.current.get(mine);
        }
        let committed = self.committed.unique.get(key)?;
        // What this batch has changed has another unique key now, or none.
        let is_mine = self.mine.current.contains_key(committed);
        self.committed.current.get(committed).filter(|_| !is_mine)
    }

    pub(super) fn due(&self, now: Time) -> Vec<Object> {
        let is_due = |object: &&Object| object.due.is_some_and(|due| due.has_come(now));
        let mut due: Vec<Object> = self.all().filter(is_due).cloned().collect();
        due.sort_by(|a, b| (a.due, &a.key).cmp(&(b.due, &b.key)));
        due
    }
}

pub(super) fn loaded(object: Option<Object>, is_locked: bool) -> LoadedObject {
    match object {
        None => LoadedObject::Absent,
        Some(_) if is_locked => LoadedObject::Locked,
        Some(object) => LoadedObject::Object(object),
    }
}
