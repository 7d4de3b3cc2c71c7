//! What people set, in memory: all objects of one type as they were at one time. What a batch asks of them costs no read,
//! and a store without any pays nothing.
//!
//! A carrier notes what it saves before its callers are answered. Changes through other coordinators are noticed in two
//! ways. Each second everything is read again ([`crate::server`]). Where a second is too late, a batch asks for the objects
//! at the version of the settings that its commit will be held to: if another one is known here, they are read again before
//! it decides ([`Directory::at`]).
//!
//! A read takes a while, and what is noted meanwhile is newer: a read during which something was noted replaces nothing and
//! is repeated.
//!
//! Invariants: what was noted is never replaced by what was read before it. What is known is at least as new as its version;
//! it may be newer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use store::{Browse, DynBrowse, Failure, ObjectFilter};
use verdict::{Name, Object, ObjectKey, ObjectType, Scope};

/// Objects read at once.
const PAGE: usize = 500;

/// How often objects are read because something was noted meanwhile. They change rarely: twice is already a coincidence,
/// and the next read is never far.
const READS_MAX: usize = 4;

/// A type of object that is kept in memory.
pub(crate) trait Listed {
    const TYPE: ObjectType;
    type Listing: Clone + Default + PartialEq;

    /// Notes one object as it is now. One that is gone leaves the listing.
    fn put(listing: &mut Self::Listing, object: &Object);
}

/// The objects of each scope by name. A scope without any has no entry.
pub(crate) type ByName<T> = BTreeMap<Scope, BTreeMap<Name, T>>;

/// Notes one object, `None` if it is gone.
pub(crate) fn put_by_name<T>(listing: &mut ByName<T>, key: &ObjectKey, found: Option<T>) {
    match found {
        Some(found) => {
            listing.entry(key.scope.clone()).or_default().insert(key.id.clone(), found);
        }
        None => {
            if let Some(of_scope) = listing.get_mut(&key.scope) {
                of_scope.remove(&key.id);
                if of_scope.is_empty() {
                    listing.remove(&key.scope);
                }
            }
        }
    }
}

/// Shared by all that ask; cheap to clone.
pub(crate) struct Directory<T: Listed>(Arc<Inner<T::Listing>>);

#[derive(Default)]
struct Inner<L> {
    known: RwLock<Known<L>>,
    /// Changes only while `known` is locked.
    is_any: AtomicBool,
}

#[derive(Default)]
struct Known<L> {
    listing: Arc<L>,
    /// The version of the settings that it belongs to, or an older one.
    version: i64,
    /// How often it has changed. What was read before the last time is out of date.
    changes: u64,
}

impl<T: Listed> Clone for Directory<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Listed> Default for Directory<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Listed> fmt::Debug for Directory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Directory").field(&T::TYPE).finish()
    }
}

impl<T: Listed> Directory<T> {
    pub(crate) fn snapshot(&self) -> Arc<T::Listing> {
        self.read().listing.clone()
    }

    /// Costs one load of an atomic, so that a feature without any use costs a batch nothing more.
    pub(crate) fn is_empty(&self) -> bool {
        !self.0.is_any.load(Ordering::Acquire)
    }

    /// The listing for a batch that was given this version, at least as new as it.
    pub(crate) async fn at(
        &self,
        browse: &DynBrowse,
        version: i64,
    ) -> Result<Arc<T::Listing>, Failure> {
        let known = {
            let known = self.read();
            (known.version == version).then(|| known.listing.clone())
        };
        match known {
            Some(listing) => Ok(listing),
            None => self.replace(Some(version), || read_all::<T>(browse, |_| ())).await,
        }
    }

    /// Reads everything again, and shows each object to `seen`. Whether something is different from what was known.
    pub(crate) async fn reload(
        &self,
        browse: &DynBrowse,
        seen: impl Fn(&Object),
    ) -> Result<bool, Failure> {
        let before = self.snapshot();
        Ok(self.replace(None, || read_all::<T>(browse, &seen)).await? != before)
    }

    /// Notes what was saved, if it is of this type; whether something was. Call it once it is durable.
    pub(crate) fn note<'a>(&self, saved: impl IntoIterator<Item = &'a Object>) -> bool {
        let mut saved =
            saved.into_iter().filter(|object| object.key.object_type == T::TYPE).peekable();
        let is_any = saved.peek().is_some();
        if is_any {
            self.change(|listing| saved.for_each(|object| T::put(listing, object)));
        }
        is_any
    }

    fn change(&self, change: impl FnOnce(&mut T::Listing)) {
        let mut known = self.write();
        known.changes += 1;
        change(Arc::make_mut(&mut known.listing));
        self.count(&known);
    }

    /// Replaces what is known by what was read, which is at least as new as a version that a batch was given; not if
    /// something was noted during each of [`READS_MAX`] reads. Returns what was read last.
    async fn replace<E, R: Future<Output = Result<T::Listing, E>>>(
        &self,
        version: Option<i64>,
        read: impl Fn() -> R,
    ) -> Result<Arc<T::Listing>, E> {
        let mut listing = Arc::default();
        for _ in 0..READS_MAX {
            let before = self.read().changes;
            listing = Arc::new(read().await?);
            let mut known = self.write();
            if known.changes == before {
                let version = version.unwrap_or(known.version);
                *known = Known { listing: Arc::clone(&listing), version, changes: before + 1 };
                self.count(&known);
                break;
            }
        }
        Ok(listing)
    }

    fn count(&self, known: &Known<T::Listing>) {
        self.0.is_any.store(*known.listing != T::Listing::default(), Ordering::Release);
    }

    fn read(&self) -> RwLockReadGuard<'_, Known<T::Listing>> {
        self.0.known.read().expect("no code panics while it holds the listing")
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known<T::Listing>> {
        self.0.known.write().expect("no code panics while it holds the listing")
    }

    /// Notes something by hand, and holds the listing meanwhile.
    #[cfg(test)]
    pub(crate) fn changing(&self, change: impl FnOnce(&mut T::Listing)) {
        self.change(change);
    }
}

/// Everything of the type that is pending. Each object is shown to `seen`.
async fn read_all<T: Listed>(
    browse: &DynBrowse,
    seen: impl Fn(&Object),
) -> Result<T::Listing, Failure> {
    let (mut listing, mut after) = (T::Listing::default(), None);
    loop {
        let filter = ObjectFilter {
            object_type: Some(T::TYPE),
            is_pending: true,
            after,
            limit: PAGE,
            ..ObjectFilter::default()
        };
        let page = browse.objects(&filter).await?;
        for object in &page {
            seen(object);
            T::put(&mut listing, object);
        }
        after = page.last().map(|last| last.key.clone());
        if page.len() < PAGE {
            return Ok(listing);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Names instead of objects.
    struct Named;

    type Names = BTreeSet<&'static str>;

    impl Listed for Named {
        const TYPE: ObjectType = ObjectType::Endpoint;
        type Listing = Names;

        fn put(_: &mut Names, _: &Object) {}
    }

    /// Reads of a store that holds what `stored` says for each read, during which something may be noted.
    async fn replace(
        directory: &Directory<Named>,
        version: Option<i64>,
        during: impl Fn(usize),
        stored: &[&[&'static str]],
    ) -> Arc<Names> {
        let reads = AtomicUsize::new(0);
        let read = || {
            let nth = reads.fetch_add(1, Ordering::Relaxed);
            let found = stored[nth.min(stored.len() - 1)].iter().copied().collect();
            during(nth);
            std::future::ready(Ok::<Names, ()>(found))
        };
        directory.replace(version, read).await.unwrap()
    }

    #[tokio::test]
    async fn what_is_noted_during_a_read_is_not_lost() {
        let directory = Directory::<Named>::default();
        let note = |nth| {
            if nth == 0 {
                directory.change(|known| assert!(known.insert("new")));
            }
        };
        replace(&directory, None, note, &[&["old"], &["old", "new"]]).await;
        assert_eq!(*directory.snapshot(), Names::from(["new", "old"]));
    }

    #[tokio::test]
    async fn notes_without_end_stop_no_reload() {
        let directory = Directory::<Named>::default();
        let note = |_| directory.change(|known| known.extend(["new"]));
        let read = replace(&directory, Some(7), note, &[&["old"]]).await;
        assert_eq!(*read, Names::from(["old"]), "the batch goes on with what it read");
        assert_eq!(*directory.snapshot(), Names::from(["new"]));
        assert_eq!(directory.read().version, 0, "what is known may be older than the version");
    }

    #[tokio::test]
    async fn what_another_coordinator_deleted_is_forgotten() {
        let directory = Directory::<Named>::default();
        directory.change(|known| known.extend(["old"]));
        replace(&directory, None, |_| (), &[&["other"]]).await;
        assert_eq!(*directory.snapshot(), Names::from(["other"]));
        assert!(!directory.is_empty());
        replace(&directory, None, |_| (), &[&[]]).await;
        assert!(directory.is_empty());
    }

    #[tokio::test]
    async fn what_is_known_keeps_the_version_that_a_batch_was_given() {
        let directory = Directory::<Named>::default();
        replace(&directory, Some(7), |_| (), &[&["one"]]).await;
        assert_eq!(directory.read().version, 7);
        // A read without a version may be newer, and is not older.
        replace(&directory, None, |_| (), &[&["two"]]).await;
        assert_eq!(directory.read().version, 7);
    }

    #[test]
    fn a_scope_without_any_has_no_entry() {
        let (mut listing, scope) = (ByName::<u8>::new(), Scope::default());
        let key = |id: &str| ObjectKey {
            object_type: ObjectType::Endpoint,
            scope: scope.clone(),
            id: Name::from(id),
        };
        put_by_name(&mut listing, &key("one"), Some(1));
        put_by_name(&mut listing, &key("two"), Some(2));
        put_by_name(&mut listing, &key("one"), None);
        put_by_name(&mut listing, &key("never"), None);
        assert_eq!(listing[&scope].len(), 1);
        put_by_name(&mut listing, &key("two"), None);
        assert!(listing.is_empty());
    }
}
