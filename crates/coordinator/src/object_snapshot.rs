//! All objects of one type in memory, as they were at one time: what a batch asks of them costs no read.
//!
//! A carrier notes what it saves before its callers are answered. Changes through other coordinators come with a read of
//! the whole type. Such a read takes a while, and what is noted meanwhile is newer: a read during which something was
//! noted replaces nothing and is repeated.
//!
//! Invariant: what was noted is never replaced by what was read before it.

use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use store::{Browse, DynBrowse, Failure, ObjectFilter};
use verdict::{Object, ObjectType};

/// Objects read at once.
const PAGE: usize = 500;

/// How often objects are read because something was noted meanwhile. They change rarely: twice is already a coincidence,
/// and the next read is never far.
const READS_MAX: usize = 4;

/// Shared by all that ask; cheap to clone.
#[derive(Debug, Default)]
pub(crate) struct ObjectSnapshot<T>(Arc<RwLock<Known<T>>>);

impl<T> Clone for ObjectSnapshot<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[derive(Debug, Default)]
struct Known<T> {
    objects: Arc<T>,
    /// How often something was noted. What was read before the last time is out of date.
    notes: u64,
}

impl<T: Clone + Default> ObjectSnapshot<T> {
    pub(crate) fn get(&self) -> Arc<T> {
        self.read().objects.clone()
    }

    /// Notes objects that were saved. Call it once they are durable.
    pub(crate) fn note(&self, change: impl FnOnce(&mut T)) {
        let mut known = self.write();
        known.notes += 1;
        change(Arc::make_mut(&mut known.objects));
    }

    /// Reads again. `accept` sees what was known and what was read in the moment in which the one replaces the other. It
    /// sees nothing if something was noted during each of [`READS_MAX`] reads.
    pub(crate) async fn reload<E, R: Future<Output = Result<T, E>>>(
        &self,
        read: impl Fn() -> R,
        accept: impl FnOnce(&T, &T),
    ) -> Result<(), E> {
        for _ in 0..READS_MAX {
            let notes = self.read().notes;
            let found = read().await?;
            let mut known = self.write();
            if known.notes == notes {
                accept(&known.objects, &found);
                known.objects = Arc::new(found);
                break;
            }
        }
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, Known<T>> {
        self.0.read().expect("no code panics while it holds the objects")
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known<T>> {
        self.0.write().expect("no code panics while it holds the objects")
    }
}

/// Everything of the type that is pending, put together by `put`.
pub(crate) async fn read_all<T: Default>(
    browse: &DynBrowse,
    object_type: ObjectType,
    put: impl Fn(&mut T, &Object),
) -> Result<T, Failure> {
    let (mut found, mut after) = (T::default(), None);
    loop {
        let filter = ObjectFilter {
            object_type: Some(object_type),
            is_pending: true,
            after,
            limit: PAGE,
            ..ObjectFilter::default()
        };
        let page = browse.objects(&filter).await?;
        page.iter().for_each(|object| put(&mut found, object));
        after = page.last().map(|last| last.key.clone());
        if page.len() < PAGE {
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Names = std::collections::BTreeSet<&'static str>;

    /// Reads of a store that holds what `stored` says for each read, during which something may be noted.
    async fn reload(
        snapshot: &ObjectSnapshot<Names>,
        during: impl Fn(usize),
        stored: &[&[&'static str]],
    ) {
        let reads = std::sync::atomic::AtomicUsize::new(0);
        let read = || {
            let nth = reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let found = stored[nth.min(stored.len() - 1)].iter().copied().collect();
            during(nth);
            std::future::ready(Ok::<Names, ()>(found))
        };
        snapshot.reload(read, |_, _| ()).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_noted_during_a_read_is_not_lost() {
        let snapshot = ObjectSnapshot::<Names>::default();
        let note = |nth| {
            if nth == 0 {
                snapshot.note(|known| assert!(known.insert("new")));
            }
        };
        reload(&snapshot, note, &[&["old"], &["old", "new"]]).await;
        assert_eq!(*snapshot.get(), Names::from(["new", "old"]));
    }

    #[tokio::test]
    async fn notes_without_end_stop_no_reload() {
        let snapshot = ObjectSnapshot::<Names>::default();
        reload(&snapshot, |_| snapshot.note(|known| known.extend(["new"])), &[&["old"]]).await;
        assert_eq!(*snapshot.get(), Names::from(["new"]));
    }

    #[tokio::test]
    async fn what_another_coordinator_deleted_is_forgotten() {
        let snapshot = ObjectSnapshot::<Names>::default();
        snapshot.note(|known| known.extend(["old"]));
        reload(&snapshot, |_| (), &[&["other"]]).await;
        assert_eq!(*snapshot.get(), Names::from(["other"]));
    }
}
