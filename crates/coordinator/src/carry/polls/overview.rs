//! Who waits for what: the polls of a scope, by worker. For people; no decision reads it.
//!
//! The carrier answers it between two batches, so it visits the seats of one tenant and lists a bounded number of names.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use verdict::Name;

use super::lines::LineId;
use super::{Polls, Seat};
use crate::intake::ListPolls;
use crate::item::{Poll, WaitingPage, WaitingPolls, WaitingWorker};

/// Queues and kinds that one answer names, but at least one poll: fifty of the largest ones, a millisecond. A page ends there,
/// and of a worker with more polls the others are left out.
const NAMES_LISTED_MAX: usize = 16_384;

/// The polls of one worker in one line: the first of them, how many, and how many tasks they take.
type InLine<'a> = (&'a Poll, usize, usize);

impl Polls {
    /// Answers which workers of a scope wait; the caller may be gone.
    pub(in crate::carry) fn answer_list(&self, asked: ListPolls) {
        let mut workers: BTreeMap<&Name, HashMap<LineId, InLine<'_>>> = BTreeMap::new();
        let seats = self.tenants.get(&asked.scope.tenant).into_iter().flat_map(|it| &it.seats);
        for Seat { waiting, line } in seats.filter_map(|id| self.seats.get(id)) {
            let poll = &waiting.poll;
            let is_behind = asked.after.as_ref().is_none_or(|after| poll.worker > *after);
            if is_behind && poll.scope == asked.scope && !waiting.reply.is_closed() {
                let lines = workers.entry(&poll.worker).or_default();
                let (_, count, max) = lines.entry(*line).or_insert((poll, 0, 0));
                (*count, *max) = (*count + 1, *max + poll.max);
            }
        }
        let mut left = NAMES_LISTED_MAX;
        let mut page = WaitingPage::default();
        let queues = asked.queues.as_ref().map(|queues| queues.iter().collect());
        for (worker, lines) in workers {
            if page.workers.len() == asked.limit {
                break;
            }
            if left == 0 && !page.workers.is_empty() {
                page.is_cut = true;
                break;
            }
            let polls = shown(lines, queues.as_ref(), &mut left);
            if !polls.is_empty() {
                page.workers.push(WaitingWorker { worker: worker.clone(), polls });
            }
        }
        let _ = asked.reply.send(page);
    }
}

/// What a worker waits for, as far as it may be shown and names are left; polls that look the same together.
fn shown(
    lines: HashMap<LineId, InLine<'_>>,
    queues: Option<&BTreeSet<&Name>>,
    left: &mut usize,
) -> Vec<WaitingPolls> {
    let mut in_order: Vec<(LineId, InLine<'_>)> = lines.into_iter().collect();
    in_order.sort_unstable_by_key(|(line, _)| *line);
    let mut shown: BTreeMap<(Vec<Name>, Option<Vec<Name>>), WaitingPolls> = BTreeMap::new();
    for (_, (poll, count, max)) in in_order {
        if *left == 0 && !shown.is_empty() {
            break;
        }
        let kinds = poll.kinds.clone();
        *left = left.saturating_sub(poll.queues.len() + kinds.as_ref().map_or(0, Vec::len));
        let may_show = |queue: &&Name| queues.is_none_or(|queues| queues.contains(queue));
        let at: Vec<Name> = poll.queues.iter().filter(may_show).cloned().collect();
        if at.is_empty() {
            continue;
        }
        let polls = shown.entry((at.clone(), kinds.clone())).or_insert_with(|| WaitingPolls {
            queues: at,
            kinds,
            count: 0,
            max: 0,
        });
        polls.count += count;
        polls.max += max;
    }
    shown.into_values().collect()
}
