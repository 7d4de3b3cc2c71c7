//! How much may be recorded of one task, and what a task that has come so far may still do.
//!
//! Every decision is an entry of the history or a renewal, and both are counted in numbers that must never begin
//! again: the fence is made of one of them. So a task is given out only while a whole attempt fits, and ends
//! with `HISTORY_FULL` where none does. What has begun can always end: a worker may report, a client may cancel,
//! and time takes a lease back. Only renewals have an end; nobody loses a lease for an outage of ours.
//!
//! Versions 1 and 2 of the rules had no such bounds.

use crate::done::{Category, End, Fault, Reason};
use crate::event::Next;
use crate::rules::Rules;
use crate::task::{State, Task};
use crate::time::Time;

/// Entries of history that one task may have. An attempt makes three to five, so that this is some hundred
/// thousand attempts: no work has so many, and a reader still gets through the pages of such a history.
pub const ENTRIES_MAX: u32 = 2_000_000;

/// Decisions about one task, renewals among them. No counter of a task grows by more than one with a decision, so
/// that none of them passes this: the largest number that the narrowest column of a store holds.
pub const DECISIONS_MAX: u32 = i32::MAX as u32;

/// What an attempt that has begun may need until its end: its grant, its start, the request of a cancel and the word
/// of it to the worker, the end. The rest is reserve.
const ATTEMPT_ROOM: u32 = 16;

/// What is left for the end of a lease after which its time is given back.
const END_ROOM: u32 = 8;

/// Whether one more attempt fits.
pub fn has_room(task: &Task, rules: Rules) -> bool {
    match rules {
        Rules::V1 | Rules::V2 => true,
        Rules::V3 => {
            task.entries.saturating_add(ATTEMPT_ROOM) <= ENTRIES_MAX
                && has_decisions_left(task, ATTEMPT_ROOM)
        }
    }
}

/// Whether a lease may be renewed once more. Renewals make no entries.
pub(crate) fn may_renew(task: &Task, rules: Rules) -> bool {
    match rules {
        Rules::V1 | Rules::V2 => true,
        Rules::V3 => has_decisions_left(task, ATTEMPT_ROOM),
    }
}

/// Whether a lease may get time back. That is an entry, but there are never so many outages of ours that it mattered.
pub(crate) fn may_extend(task: &Task, rules: Rules) -> bool {
    match rules {
        Rules::V1 | Rules::V2 => true,
        Rules::V3 => has_decisions_left(task, END_ROOM),
    }
}

fn has_decisions_left(task: &Task, room: u32) -> bool {
    task.revision.max(task.claim_version).saturating_add(room) <= DECISIONS_MAX
}

/// Another attempt at that time, or the end where no attempt fits any more.
pub(crate) fn retry(task: &Task, due: Time, rules: Rules) -> Next {
    if has_room(task, rules) { Next::Retry { due } } else { Next::End(full_end()) }
}

/// How a task ends of which no more can be recorded.
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

/// The next number of a counter. The rules end a task long before any of its counters does.
pub(crate) fn next(count: u32) -> u32 {
    count.checked_add(1).expect("a task ends before its counters do")
}
