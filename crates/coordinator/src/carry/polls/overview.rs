//! Who waits for what: the polls of a scope, by worker. For people; no decision reads it.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use verdict::Name;

use super::{Polls, Seat};
use crate::intake::ListPolls;
use crate::item::{Poll, WaitingPolls, WaitingWorker};

type ByFilter = BTreeMap<(Vec<Name>, Option<Vec<Name>>), WaitingPolls>;

impl Polls {
    /// Answers which workers of a scope wait; the caller may be gone. Visits the seats of one tenant.
    pub(in crate::carry) fn answer_list(&self, asked: ListPolls) {
        let ListPolls { scope, queues, after, limit, reply } = asked;
        let mut workers: BTreeMap<Name, ByFilter> = BTreeMap::new();
        let seats = self.tenants.get(&scope.tenant).into_iter().flat_map(|tenant| &tenant.seats);
        for Seat { waiting, .. } in seats.filter_map(|id| self.seats.get(id)) {
            let shown = shown_queues(&waiting.poll, queues.as_deref());
            if waiting.poll.scope == scope && !waiting.reply.is_closed() && !shown.is_empty() {
                add(workers.entry(waiting.poll.worker.clone()).or_default(), &waiting.poll, shown);
            }
        }
        let from = after.as_ref().map_or(Unbounded, Excluded);
        let page = workers.range::<Name, _>((from, Unbounded)).take(limit);
        let view = |(worker, polls): (&Name, &ByFilter)| WaitingWorker {
            worker: worker.clone(),
            polls: polls.values().cloned().collect(),
        };
        let _ = reply.send(page.map(view).collect());
    }
}

/// The queues of a poll, as far as they may be shown.
fn shown_queues(poll: &Poll, queues: Option<&[Name]>) -> Vec<Name> {
    let may_show = |queue: &&Name| queues.is_none_or(|queues| queues.contains(queue));
    poll.queues.iter().filter(may_show).cloned().collect()
}

fn add(known: &mut ByFilter, poll: &Poll, shown: Vec<Name>) {
    let filter = (shown.clone(), poll.kinds.clone());
    let polls = known.entry(filter).or_insert_with(|| WaitingPolls {
        queues: shown,
        kinds: poll.kinds.clone(),
        count: 0,
        max: 0,
    });
    polls.count += 1;
    polls.max += poll.max;
}
