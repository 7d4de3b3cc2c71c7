//! The items of a wait: a list that never changes, and what is asked of it at each arrival.
//!
//! Each of 10,000 children that end asks whether its parent waits for it. So the places of awaited children are sorted by
//! their keys, once for each list, when the first of them arrives. Copies share the list and its order.
//!
//! Two lists are equal if their items are. The order of the places follows from the items and is no part of the value.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::id::Name;
use crate::time::Time;

use super::wait::{Awaited, AwaitedEvent};

#[derive(Clone, Default)]
pub struct Items(Arc<List>);

#[derive(Default)]
struct List {
    items: Box<[Awaited]>,
    /// The first and the last of the awaited times.
    times: Option<(Time, Time)>,
    /// The places of awaited children, in the order of their keys.
    by_child: OnceLock<Box<[u32]>>,
}

impl Items {
    /// How many items wait for this child.
    pub(crate) fn awaiting(&self, child: &Name) -> usize {
        let by_child = self.0.by_child.get_or_init(|| self.sorted_places());
        let key = |place: &u32| child_of(&self[*place as usize]);
        let first = by_child.partition_point(|place| key(place) < Some(child));
        by_child[first..].iter().take_while(|place| key(place) == Some(child)).count()
    }

    pub(crate) fn first_time(&self) -> Option<Time> {
        self.0.times.map(|(first, _)| first)
    }

    pub(crate) fn last_time(&self) -> Option<Time> {
        self.0.times.map(|(_, last)| last)
    }

    fn sorted_places(&self) -> Box<[u32]> {
        let is_child = |place: &u32| child_of(&self[*place as usize]).is_some();
        let mut places: Vec<u32> = (0..self.len() as u32).filter(is_child).collect();
        places.sort_by_key(|place| child_of(&self[*place as usize]));
        places.into()
    }
}

fn child_of(item: &Awaited) -> Option<&Name> {
    match &item.event {
        AwaitedEvent::Child(key) => Some(key),
        _ => None,
    }
}

fn times_of(items: &[Awaited]) -> Option<(Time, Time)> {
    let times = items.iter().filter_map(|item| match item.event {
        AwaitedEvent::Time(time) => Some((time, time)),
        _ => None,
    });
    times.reduce(|(first, last), (time, _)| (first.min(time), last.max(time)))
}

impl From<Vec<Awaited>> for Items {
    fn from(items: Vec<Awaited>) -> Self {
        let (times, by_child) = (times_of(&items), OnceLock::new());
        Self(Arc::new(List { items: items.into(), times, by_child }))
    }
}

impl FromIterator<Awaited> for Items {
    fn from_iter<I: IntoIterator<Item = Awaited>>(items: I) -> Self {
        items.into_iter().collect::<Vec<Awaited>>().into()
    }
}

impl Deref for Items {
    type Target = [Awaited];

    fn deref(&self) -> &[Awaited] {
        &self.0.items
    }
}

impl PartialEq for Items {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl Eq for Items {}

impl Hash for Items {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Items {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(key: &str, child: &str) -> Awaited {
        Awaited { key: key.into(), event: AwaitedEvent::Child(child.into()) }
    }

    fn time(millis: i64) -> Awaited {
        Awaited { key: "t".into(), event: AwaitedEvent::Time(Time::from_millis(millis)) }
    }

    fn signal(name: &str) -> Awaited {
        Awaited { key: name.into(), event: AwaitedEvent::Signal(name.into()) }
    }

    #[test]
    fn each_child_is_counted_as_often_as_a_walk_over_the_list_finds_it() {
        let items: Items =
            ["c", "a", "b", "a"].iter().map(|key| child("k", key)).chain([signal("a")]).collect();
        let walk =
            |key: &str| items.iter().filter(|item| child_of(item) == Some(&key.into())).count();
        for key in ["", "a", "aa", "b", "c", "d"] {
            assert_eq!(items.awaiting(&key.into()), walk(key), "{key}");
        }
    }

    #[test]
    fn the_first_and_the_last_time_are_found_in_any_order() {
        let items: Items = [child("c", "c"), time(5), time(2), time(9)].into_iter().collect();
        assert_eq!(items.first_time(), Some(Time::from_millis(2)));
        assert_eq!(items.last_time(), Some(Time::from_millis(9)));
        assert_eq!(Items::from(vec![signal("s")]).first_time(), None);
    }

    #[test]
    fn lists_are_compared_by_their_items_alone() {
        let one: Items = [child("c", "c")].into_iter().collect();
        let same: Items = [child("c", "c")].into_iter().collect();
        one.awaiting(&"c".into());
        assert_eq!(one, same);
        assert_ne!(one, Items::default());
    }
}
