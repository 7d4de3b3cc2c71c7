//! The ids of messages that a receiver has handled: a retry of ours, or a recorded message sent again, is recognised.
//!
//! The memory is bounded and forgets what is older than a message can be. It is lost with the process: a receiver whose
//! effect must not happen twice keeps the id in the same transaction as the effect.

use std::collections::{BTreeSet, VecDeque};

use crate::verify::TOLERANCE_SECONDS;

/// Maximum ids that are remembered: at ten messages a second more than an hour.
pub const RECENT_MAX: usize = 50_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    First,
    Repeated,
}

#[derive(Debug, Default)]
pub struct RecentIds {
    known: BTreeSet<String>,
    order: VecDeque<(i64, String)>,
}

impl RecentIds {
    /// Remembers a verified message's id, and says whether it was known.
    pub fn note(&mut self, id: &str, now: i64) -> Seen {
        self.forget(now);
        if !self.known.insert(id.to_owned()) {
            return Seen::Repeated;
        }
        self.order.push_back((now, id.to_owned()));
        Seen::First
    }

    /// The handling failed: the next delivery of the message is the first again.
    pub fn forget_id(&mut self, id: &str) {
        self.known.remove(id);
        self.order.retain(|(_, known)| known != id);
    }

    fn forget(&mut self, now: i64) {
        // A message may be as much older, and as much newer, as the tolerance says.
        let horizon = now.saturating_sub(2 * TOLERANCE_SECONDS);
        while let Some((noted, _)) = self.order.front() {
            if *noted >= horizon && self.order.len() < RECENT_MAX {
                break;
            }
            let (_, id) = self.order.pop_front().expect("the front was seen");
            self.known.remove(&id);
        }
    }
}
