//! Which attempt an entry of a history belongs to.
//!
//! A grant does not contain its number: it is the count of grants so far. That needs no count from the
//! beginning. Most entries name their attempt, and between two grants there is always one that does, so the
//! number of grants before a page follows from the first such entry, or from the task.

use store::{Browse, Entry, Failure, RowsAfter, TaskKey};
use verdict::{Event, Subject};

/// How many entries are read at once to find one that names its attempt.
const PAGE: usize = 64;

/// How many attempts an entry grants: one, or none.
pub(super) fn of(entry: &Entry) -> u32 {
    entry.events.iter().filter(|event| matches!(event, Event::Granted { .. })).count() as u32
}

/// How many attempts were granted before these entries, which follow each other.
pub(super) async fn before<B: Browse>(
    browse: &B,
    key: &TaskKey,
    entries: &[Entry],
) -> Result<u32, Failure> {
    if let Some(before) = granted_before(entries) {
        return Ok(before);
    }
    let mut granted: u32 = entries.iter().map(of).sum();
    let mut last = entries.last().map_or(0, |entry| entry.n);
    loop {
        let page = browse.rows(key, RowsAfter::Entry(last), PAGE).await?.history;
        if let Some(before) = granted_before(&page) {
            return Ok(before.saturating_sub(granted));
        }
        granted += page.iter().map(of).sum::<u32>();
        match page.last() {
            Some(entry) => last = entry.n,
            None => match browse.find(key).await? {
                // The task changed between the two reads.
                Some(found) if found.row_counts().0 > last => {}
                Some(found) => return Ok(attempts(&found.subject).saturating_sub(granted)),
                None => return Ok(0),
            },
        }
    }
}

/// The same, as far as these entries show.
fn granted_before(entries: &[Entry]) -> Option<u32> {
    let mut granted = 0;
    entries.iter().find_map(|entry| {
        granted += of(entry);
        named(entry).map(|attempt| attempt.saturating_sub(granted))
    })
}

/// The attempt that an entry names: the one that it closed, or the one whose worker made the call.
fn named(entry: &Entry) -> Option<u32> {
    let closed = entry.events.iter().find_map(|event| match event {
        Event::AttemptClosed { closed, .. } => Some(closed.attempt),
        _ => None,
    });
    closed.or_else(|| Some(entry.request.caller()?.attempt))
}

fn attempts(subject: &Subject) -> u32 {
    match subject {
        Subject::Absent => 0,
        Subject::Live(task) => task.attempt,
        Subject::Done(done) => done.attempt,
    }
}
