//! How much may be recorded about one task, and what a task that reaches the bound may still do.
//!
//! Every decision is a history entry or a renewal, and both are counted in numbers that must never
//! wrap: one of them is part of the fence. So a task is granted only while a whole attempt fits,
//! and ends with `HISTORY_FULL` when none does. What has begun can always end: a worker may report,
//! a client may cancel, and leases expire. Only renewals run out; no lease is lost because of an
//! outage of ours.

use crate::decide::sweep;
use crate::done::{Category, End, Fault, Reason};
use crate::event::Next;
use crate::policy::UNDELIVERED_MAX;
use crate::task::{State, Task};
use crate::time::Time;

/// Maximum history entries of one task. An attempt makes three to five, so this is some hundred
/// thousand attempts: more than real work needs, and few enough to page through.
pub const ENTRIES_MAX: u32 = 2_000_000;

/// Maximum decisions about one task, renewals included. No counter of a task grows by more than one
/// per decision, so none exceeds this value: the largest number that the narrowest column of a
/// store holds.
pub const DECISIONS_MAX: u32 = i32::MAX as u32;

/// What an attempt in progress may need until its end: its grant, its start, the cancel request,
/// the cancel signal to the worker and the end. The rest is reserve.
const ATTEMPT_ROOM: u32 = 16;

/// Decisions reserved for the end of a lease that is extended.
const END_ROOM: u32 = 8;

/// Whether one more attempt fits.
pub fn has_room(task: &Task) -> bool {
    let room = ATTEMPT_ROOM.saturating_add(children_room(task.live_children()));
    task.entries.saturating_add(room) <= ENTRIES_MAX && has_decisions_left(task, ATTEMPT_ROOM)
}

/// Whether the task had all the attempts that it may have, so that the next sweep ends it: no further attempt fits into its
/// history, or no grant in a row reached a worker.
pub(crate) fn is_spent(task: &Task) -> bool {
    let is_undeliverable = task.undelivered >= UNDELIVERED_MAX;
    task.attempt > 0 && (is_undeliverable || !has_room(task))
}

/// How a spent task ends.
pub(crate) fn spent_end(task: &Task) -> End {
    if task.undelivered >= UNDELIVERED_MAX { sweep::unanswered_end() } else { full_end() }
}

/// Whether a warning about a stall fits besides what the attempt in progress may need until its end.
pub(crate) fn has_room_for_warning(task: &Task) -> bool {
    let room = ATTEMPT_ROOM.saturating_add(children_room(task.live_children()));
    task.entries.saturating_add(room) <= ENTRIES_MAX && has_decisions_left(task, room)
}

/// Whether a lease may be renewed once more. Renewals make no entries.
pub(crate) fn may_renew(task: &Task) -> bool {
    has_decisions_left(task, ATTEMPT_ROOM)
}

/// Whether a lease may be extended. An extension is an entry, but outages of ours are too few to
/// matter.
pub(crate) fn may_extend(task: &Task) -> bool {
    has_decisions_left(task, END_ROOM)
}

/// Whether a checkpoint call fits, with what so many new children need until their ends.
pub(crate) fn has_room_for_call(task: &Task, children: u32) -> bool {
    let live = task.live_children().saturating_add(children);
    let room = ATTEMPT_ROOM.saturating_add(children_room(live));
    task.entries.saturating_add(room) <= ENTRIES_MAX && has_decisions_left(task, room)
}

/// Each child of a run is one entry of its parent when it ends, and has a share in one when it is cancelled.
fn children_room(children: u32) -> u32 {
    children.saturating_mul(2)
}

fn has_decisions_left(task: &Task, room: u32) -> bool {
    task.revision.max(task.claim_version).saturating_add(room) <= DECISIONS_MAX
}

/// A retry at that time, or the end if no further attempt fits.
pub(crate) fn retry(task: &Task, due: Time) -> Next {
    if has_room(task) { Next::Retry { due } } else { Next::End(full_end()) }
}

/// How a task ends when its history is full.
pub(crate) fn full_end() -> End {
    let fault = Fault {
        category: Category::Infrastructure,
        message: "the task has as many decisions behind it as one task may have".into(),
        stack_trace: None,
        retryable: Some(false),
    };
    End {
        state: State::Failed,
        reason: Some(Reason::HistoryFull),
        output: None,
        fault: Some(fault),
    }
}

/// The next value of a counter. The rules end a task long before any of its counters overflows.
pub(crate) fn next(count: u32) -> u32 {
    count.checked_add(1).expect("a task ends before its counters do")
}
