//! What a batch did, in numbers: noted decision by decision, and added to the metrics in one go when
//! the batch is durable. A batch that is undone was never counted.

use verdict::{Answer, Closed, End, Event, Next, Reason, Refusal, Stamp};

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) submitted: u64,
    pub(crate) granted: u64,
    pub(crate) renewed: u64,
    pub(crate) cancel_signals: u64,
    pub(crate) cancel_timeouts: u64,
    /// Submissions refused because their tenant has too many unfinished runs.
    pub(crate) quota_refusals: u64,
    /// By outcome.
    pub(crate) attempts: Counts<&'static str>,
    /// By state.
    pub(crate) ended: Counts<&'static str>,
    /// By error category or LOST.
    pub(crate) retries: Counts<&'static str>,
    /// By verdict and code.
    pub(crate) verdicts: Counts<(&'static str, &'static str)>,
}

/// A number for each label. Labels are few, so that looking through them beats hashing.
#[derive(Debug)]
pub(crate) struct Counts<L>(Vec<(L, u64)>);

impl<L> Default for Counts<L> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<L: PartialEq + Copy> Counts<L> {
    fn note(&mut self, label: L) {
        match self.0.iter_mut().find(|(known, _)| *known == label) {
            Some((_, count)) => *count += 1,
            None => self.0.push((label, 1)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (L, u64)> {
        self.0.iter().copied()
    }
}

impl Tally {
    /// How many tasks ended.
    pub(crate) fn ends(&self) -> u64 {
        self.ended.iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn note_event(&mut self, event: &Event) {
        match event {
            Event::Submitted(_) => self.submitted += 1,
            Event::Granted { .. } => self.granted += 1,
            Event::Renewed { .. } => self.renewed += 1,
            Event::CancelSignalled => self.cancel_signals += 1,
            Event::AttemptClosed { closed, next } => self.note_closed(closed, next),
            Event::Ended(end) => self.note_end(end),
            Event::Started | Event::Extended { .. } | Event::CancelRequested { .. } => {}
        }
    }

    fn note_closed(&mut self, closed: &Closed, next: &Next) {
        self.attempts.note(closed.outcome.name());
        match next {
            Next::Retry { .. } => {
                let category = closed.fault.as_ref().map(|fault| fault.category.name());
                self.retries.note(category.unwrap_or(closed.outcome.name()));
            }
            Next::End(end) => self.note_end(end),
        }
    }

    fn note_end(&mut self, end: &End) {
        self.ended.note(end.state.name());
        self.cancel_timeouts += u64::from(end.reason == Some(Reason::CancelTimeout));
    }

    /// The word a worker got.
    pub(crate) fn note_answer(&mut self, answer: &Answer) {
        let label = match answer {
            Answer::Acknowledged | Answer::Alive { .. } => ("COMMITTED", "ok"),
            Answer::Committed { replayed: true, .. } => ("COMMITTED", "replayed"),
            Answer::Committed { .. } => ("COMMITTED", "ok"),
            Answer::Refused(Refusal::QuotaReached { .. }) => {
                self.quota_refusals += 1;
                return;
            }
            Answer::Refused(refusal) => (stamp_name(refusal.stamp()), refusal.name()),
            Answer::Accepted { .. }
            | Answer::Granted
            | Answer::CancelAccepted { .. }
            | Answer::Done
            | Answer::Nothing => return,
        };
        self.verdicts.note(label);
    }
}

fn stamp_name(stamp: Stamp) -> &'static str {
    match stamp {
        Stamp::Committed => "COMMITTED",
        Stamp::Cancelled => "CANCELLED",
        Stamp::Rejected => "REJECTED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_has_a_number_of_its_own() {
        let mut tally = Tally::default();
        tally.note_event(&Event::CancelSignalled);
        tally.note_answer(&Answer::Acknowledged);
        tally.note_answer(&Answer::Acknowledged);
        tally.note_answer(&Answer::Refused(Refusal::TaskNotFound));
        tally.note_answer(&Answer::Nothing);
        let verdicts: Vec<_> = tally.verdicts.iter().collect();
        let refusal = Refusal::TaskNotFound;
        let refused = (stamp_name(refusal.stamp()), refusal.name());
        assert_eq!(verdicts, [(("COMMITTED", "ok"), 2), (refused, 1)]);
        assert_eq!((tally.cancel_signals, tally.submitted), (1, 0));
    }
}
