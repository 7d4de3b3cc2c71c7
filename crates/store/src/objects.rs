//! Objects in a store: what a batch looks up and saves, and how they are listed. See [`verdict::object`].
//!
//! A store keeps them without understanding them. How to use this seam:
//! - look one up by its key or by its unique key ([`crate::Lookup::objects`], [`crate::Lookup::unique_objects`]): it is
//!   loaded and locked, after the tasks of the same lookup;
//! - select those that are due ([`crate::Batch::due_objects`]);
//! - save an [`ObjectChange`] with the decision that made it ([`crate::Decided::objects`]): the revision is guarded, and
//!   the change becomes an entry of the log;
//! - read them beside the writers, page by page: [`crate::Browse::objects`], [`crate::Browse::object_log`].

pub use verdict::UniqueKey;
use verdict::approval::{Approval, ApprovalChange, Outcome};
use verdict::schedule::Schedule;
pub use verdict::schedule::template_key;
use verdict::{Json, Name, Object, ObjectKey, ObjectType, Scope, TaskId, Time};

use crate::codec::Stored;

/// One change of an object, and the entry of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectChange {
    /// The object from now on. Its revision is one more than the one it replaces, and 1 if it is new.
    pub after: Object,
    pub at: Time,
    /// The API key of the caller who made it; `None` if no caller did.
    pub by: Option<Name>,
}

impl ObjectChange {
    /// The revision that the stored object must have; `None` if there must be none.
    pub fn before(&self) -> Option<u32> {
        self.after.revision.checked_sub(1).filter(|before| *before > 0)
    }

    /// Whether the change follows the stored revision. An object whose log is bounded may begin with a later revision,
    /// where its store was copied.
    pub fn follows(&self, stored: Option<u32>) -> bool {
        stored == self.before()
            || (stored.is_none() && self.after.key.object_type.has_bounded_log())
    }

    /// All entries of the object's log before this revision leave with the change.
    pub fn forgets_before(&self) -> Option<u32> {
        self.after.key.object_type.forgets_before(self.after.revision)
    }
}

/// An object as it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadedObject {
    Absent,
    Object(Object),
    /// Another writer has it locked: load it again in a later batch.
    Locked,
}

/// How many objects of a type have a status, of those about which something is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingObjects {
    pub object_type: ObjectType,
    pub status: Name,
    pub count: u64,
}

impl From<((ObjectType, Name), u64)> for PendingObjects {
    fn from(((object_type, status), count): ((ObjectType, Name), u64)) -> Self {
        Self { object_type, status, count }
    }
}

/// Which objects to list, in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectFilter {
    /// All scopes without it: for checking and copying a store.
    pub scope: Option<Scope>,
    pub object_type: Option<ObjectType>,
    pub id: Option<Name>,
    /// Only those with one of these ids; any without it.
    pub ids: Option<Vec<Name>>,
    pub status: Option<Name>,
    pub parent: Option<Name>,
    pub unique_key: Option<Name>,
    /// Only those about which something is to be done.
    pub is_pending: bool,
    pub after: Option<ObjectKey>,
    pub limit: usize,
    /// The size of a page in bytes: no object follows the one that reaches it. Without it only their number is limited, which is
    /// for objects that are small by what they are.
    pub bytes: Option<usize>,
}

/// Names, numbers and times of one object.
pub(crate) const OBJECT_ROW_BYTES: usize = 256;

/// What is left of the bytes of a page.
pub(crate) struct PageRoom(usize);

impl PageRoom {
    pub(crate) fn of(filter: &ObjectFilter) -> Self {
        Self(filter.bytes.unwrap_or(usize::MAX))
    }

    /// Adds an object, and says whether another one may follow it.
    pub(crate) fn has_room_after(&mut self, object: &Object) -> bool {
        self.0 = self.0.saturating_sub(OBJECT_ROW_BYTES + object.body.as_str().len());
        self.0 > 0
    }
}

impl ObjectFilter {
    /// Whether nothing follows a page that was read with this filter.
    pub fn is_last(&self, page: &[Object]) -> bool {
        let mut room = PageRoom::of(self);
        page.len() < self.limit && page.iter().all(|object| room.has_room_after(object))
    }

    /// The one object with this key.
    pub fn one(key: &ObjectKey) -> Self {
        Self {
            scope: Some(key.scope.clone()),
            object_type: Some(key.object_type),
            id: Some(key.id.clone()),
            limit: 1,
            ..Self::default()
        }
    }

    /// The leading objects that make a page.
    pub fn page(&self, objects: impl IntoIterator<Item = Object>) -> Vec<Object> {
        let (mut page, mut room) = (Vec::new(), PageRoom::of(self));
        for object in objects.into_iter().take(self.limit) {
            let is_open = room.has_room_after(&object);
            page.push(object);
            if !is_open {
                break;
            }
        }
        page
    }

    /// Whether an object is wanted, whatever the limit.
    pub fn wants(&self, object: &Object) -> bool {
        let ObjectKey { scope, object_type, id } = &object.key;
        self.scope.as_ref().is_none_or(|it| it == scope)
            && self.object_type.is_none_or(|it| it == *object_type)
            && self.id.as_ref().is_none_or(|it| it == id)
            && self.ids.as_ref().is_none_or(|it| it.contains(id))
            && self.status.as_ref().is_none_or(|it| *it == object.status)
            && self.parent.as_ref().is_none_or(|it| Some(it) == object.parent.as_ref())
            && self.unique_key.as_ref().is_none_or(|it| Some(it) == object.unique_key.as_ref())
            && (!self.is_pending || object.is_pending)
            && self.after.as_ref().is_none_or(|after| object.key > *after)
    }

    /// The condition of a statement that reads a page, with its parameters. Each wanted column is compared with a parameter, so
    /// that an index is used.
    pub(crate) fn condition(&self, dialect: &Dialect) -> (String, Vec<String>) {
        let Dialect { sign, pending, is_among } = dialect;
        let mut conditions = vec!["true".to_owned()];
        let mut values: Vec<String> = Vec::new();
        let mut compare = |column: &str, value: Option<&str>| {
            if let Some(value) = value {
                values.push(value.to_owned());
                conditions.push(format!("o.{column} = {sign}{}", values.len()));
            }
        };
        compare("tenant", self.scope.as_ref().map(|scope| scope.tenant.as_str()));
        compare("workspace", self.scope.as_ref().map(|scope| scope.workspace.as_str()));
        compare("object_type", self.object_type.map(|it| it.name()));
        compare("id", self.id.as_ref().map(Name::as_str));
        compare("status", self.status.as_ref().map(Name::as_str));
        compare("parent", self.parent.as_ref().map(Name::as_str));
        compare("unique_key", self.unique_key.as_ref().map(Name::as_str));
        if let Some(ids) = &self.ids {
            let ids: Vec<&str> = ids.iter().map(Name::as_str).collect();
            values.push(serde_json::to_string(&ids).expect("names are text"));
            conditions.push(format!("o.id {}", is_among.replace('#', &values.len().to_string())));
        }
        if self.is_pending {
            conditions.push((*pending).to_owned());
        }
        if let Some(after) = &self.after {
            values.extend(names(after).map(str::to_owned));
            let [a, b, c, d] = [3, 2, 1, 0].map(|back| format!("{sign}{}", values.len() - back));
            conditions.push(format!(
                "(o.tenant, o.workspace, o.object_type, o.id) > ({a}, {b}, {c}, {d})"
            ));
            // The same for one scope and type, so that the order of an index can be followed.
            if self.scope.is_some() && self.object_type == Some(after.object_type) {
                conditions.push(format!("o.id > {d}"));
            }
        }
        (conditions.join(" AND "), values)
    }
}

/// What differs between the engines in the condition of a list.
pub(crate) struct Dialect {
    /// Begins a parameter.
    pub(crate) sign: char,
    /// The test of the pending column.
    pub(crate) pending: &'static str,
    /// Whether a text is in the JSON array that is parameter `#`.
    pub(crate) is_among: &'static str,
}

/// The names of a key, as a statement compares them.
pub(crate) fn names(key: &ObjectKey) -> [&str; 4] {
    let ObjectKey { scope, object_type, id } = key;
    [scope.tenant.as_str(), scope.workspace.as_str(), object_type.name(), id.as_str()]
}

/// Which entries of the log to read, in the order of keys and revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectLogFilter {
    /// All objects of all scopes without it.
    pub key: Option<ObjectKey>,
    pub after: Option<(ObjectKey, u32)>,
    pub limit: usize,
}

/// The body of an object of type approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalBody {
    pub task: TaskId,
    pub run: TaskId,
    pub approval: Approval,
    pub outcome: Option<Outcome>,
}

/// The status of an approval that is open.
pub const APPROVAL_PENDING: &str = "pending";

/// The status of one that is closed.
pub const APPROVAL_CLOSED: &str = "closed";

impl ApprovalBody {
    /// `None` for an object of another type, or one that cannot be read.
    pub fn of(object: &Object) -> Option<Self> {
        let is_it = object.key.object_type == ObjectType::Approval;
        is_it.then(|| Self::read(object.body.as_str()).ok()).flatten()
    }
}

/// The status of the link between a run and its fork.
pub const FORK_LINKED: &str = "linked";

/// The same for a run that repeats another one.
pub const RETRY_LINKED: &str = "retry";

/// The link from a run that has ended to a run that was forked from it. It is written once and forgotten with the old run; the new
/// one knows where it comes from.
pub fn fork_change(scope: &Scope, from: TaskId, fork: TaskId, at: Time) -> ObjectChange {
    link_change(scope, from, fork, FORK_LINKED, at)
}

/// The link from a run that has ended to a run that repeats it.
pub fn retry_change(scope: &Scope, from: TaskId, retry: TaskId, at: Time) -> ObjectChange {
    link_change(scope, from, retry, RETRY_LINKED, at)
}

fn link_change(scope: &Scope, from: TaskId, fork: TaskId, how: &str, at: Time) -> ObjectChange {
    let after = Object {
        key: ObjectKey {
            scope: scope.clone(),
            object_type: ObjectType::Fork,
            id: fork.run_name().into(),
        },
        revision: 1,
        status: how.into(),
        due: None,
        unique_key: None,
        parent: Some(from.run_name().into()),
        is_pending: false,
        body: "{}".into(),
    };
    ObjectChange { after, at, by: None }
}

/// The index of an approval after a decision about its task. Its expiry wakes the task, so the object is never due.
pub fn approval_change(
    scope: &Scope,
    task: TaskId,
    run: TaskId,
    change: ApprovalChange,
    at: Time,
) -> ObjectChange {
    let ApprovalChange { approval, outcome, revision, by } = change;
    let (object_type, id) = (ObjectType::Approval, approval.id(task));
    let status = if outcome.is_some() { APPROVAL_CLOSED } else { APPROVAL_PENDING };
    let body = ApprovalBody { task, run, approval, outcome };
    let after = Object {
        key: ObjectKey { scope: scope.clone(), object_type, id },
        revision,
        status: status.into(),
        due: None,
        unique_key: None,
        parent: Some(run.run_name().into()),
        is_pending: outcome.is_none(),
        body: body.write().into(),
    };
    ObjectChange { after, at, by }
}

/// A schedule of an object; `None` for an object of another type, or one that cannot be read.
pub fn schedule_of(object: &Object) -> Option<Schedule> {
    let is_it = object.key.object_type == ObjectType::Schedule;
    is_it.then(|| Schedule::read(object.body.as_str()).ok()).flatten()
}

/// The object of a schedule after a change. A deleted one gives its name back.
pub fn schedule_change(
    key: ObjectKey,
    revision: u32,
    schedule: &Schedule,
    at: Time,
    by: Option<Name>,
) -> ObjectChange {
    let after = Object {
        key,
        revision,
        status: schedule.status().into(),
        due: schedule.due(),
        unique_key: Some(schedule.name.clone()).filter(|_| !schedule.is_deleted),
        parent: None,
        is_pending: false,
        body: schedule.write().into(),
    };
    ObjectChange { after, at, by }
}

/// The object of a template after a change.
pub fn template_change(
    key: &ObjectKey,
    revision: u32,
    template: Json,
    at: Time,
    by: Option<Name>,
) -> ObjectChange {
    let after = Object {
        key: template_key(key),
        revision,
        status: "template".into(),
        due: None,
        unique_key: None,
        parent: Some(key.id.clone()),
        is_pending: false,
        body: template,
    };
    ObjectChange { after, at, by }
}
