//! When the running steps of one attempt have taken too long.
//!
//! A step that has ended leaves with the call that records it, so there are at most as many timeouts as a function has
//! branches, and few more.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use workflow::StepRecord;

#[derive(Default)]
pub(super) struct Timeouts {
    /// By the key of the step: the number of the try, and when its time is over.
    running: BTreeMap<String, (u32, Instant)>,
}

impl Timeouts {
    pub(super) fn add(&mut self, key: String, number: u32, timeout: Option<Duration>) {
        let at = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.running.remove(&key);
        self.running.extend(at.map(|at| (key, (number, at))));
    }

    /// These steps have ended.
    pub(super) fn forget(&mut self, steps: &[StepRecord]) {
        for step in steps {
            self.running.remove(operation(&step.key));
        }
    }

    /// Waits for the next try whose time is over, without end if there is none.
    pub(super) async fn next(&mut self) -> (String, u32) {
        let first = self.running.iter().min_by_key(|(_, (_, at))| *at);
        let Some((key, (number, at))) = first.map(|(key, running)| (key.clone(), *running)) else {
            return pending().await;
        };
        sleep_until(at).await;
        self.running.remove(&key);
        (key, number)
    }
}

/// The key of the step that a record is about: `charge#1` of its failed try `charge#1.2`.
fn operation(key: &str) -> &str {
    let Some(count) = key.rfind('#') else { return key };
    key[count..].find('.').map_or(key, |part| &key[..count + part])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_try_belongs_to_its_step() {
        assert_eq!(operation("a.b/charge#1.2"), "a.b/charge#1");
        assert_eq!(operation("v1.2#3"), "v1.2#3");
        assert_eq!(operation("charge"), "charge");
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_try_that_has_not_ended_is_over_first() {
        let mut timeouts = Timeouts::default();
        timeouts.add("slow#1".into(), 1, Some(Duration::from_secs(9)));
        timeouts.add("quick#1".into(), 2, Some(Duration::from_secs(1)));
        timeouts.add("mid#1".into(), 1, Some(Duration::from_secs(5)));
        timeouts.add("endless#1".into(), 1, None);
        assert_eq!(timeouts.next().await, ("quick#1".to_owned(), 2));
        let ended = serde_json::json!([{"key": "mid#1.1", "outcome": "FAILED"}]);
        timeouts.forget(&serde_json::from_value::<Vec<StepRecord>>(ended).unwrap());
        assert_eq!(timeouts.next().await, ("slow#1".to_owned(), 1));
        let none = tokio::time::timeout(Duration::from_secs(3600), timeouts.next());
        assert!(none.await.is_err());
    }
}
