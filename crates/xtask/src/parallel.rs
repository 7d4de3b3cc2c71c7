//! Parallel work: the same function on many items, one thread per processor, or one long step beside others.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;

/// Applies the function to every item and returns the results in the order of the items. After the first error no
/// further item is started.
pub(crate) fn for_each<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let waiting: Mutex<VecDeque<(usize, T)>> = Mutex::new(items.into_iter().enumerate().collect());
    let results: Mutex<Vec<(usize, Result<R>)>> = Mutex::default();
    let next = || lock(&waiting).pop_front();
    let worker = || {
        while let Some((place, item)) = next() {
            let result = work(item);
            if result.is_err() {
                lock(&waiting).clear();
            }
            lock(&results).push((place, result));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Runs `waiting`, a step that mostly waits, in parallel with `working`. Both run to completion.
pub(crate) fn beside<R: Send>(
    waiting: impl FnOnce() -> Result<R> + Send,
    working: impl FnOnce() -> Result<()>,
) -> Result<R> {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(waiting);
        let worked = working();
        let waited = waiting.join().expect("a step returns its errors and does not panic");
        worked.and(waited)
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let doubled = for_each(0..100, |number| Ok(number * 2)).unwrap();
        assert_eq!(doubled, (0..100).map(|number| number * 2).collect::<Vec<i32>>());
    }

    #[test]
    fn either_of_two_steps_can_fail() {
        let fails = || -> Result<()> { anyhow::bail!("broken") };
        assert_eq!(beside(|| Ok(7), || Ok(())).unwrap(), 7);
        assert!(beside(fails, || Ok(())).is_err());
        assert!(beside(|| Ok(7), fails).is_err());
    }

    #[test]
    fn an_error_ends_the_work() {
        let begun = Mutex::new(0);
        let failed = for_each(0..1_000, |_| -> Result<()> {
            *lock(&begun) += 1;
            anyhow::bail!("broken")
        });
        assert!(failed.is_err());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        assert!(*lock(&begun) <= threads, "no item is begun after an error");
    }
}
