//! One state of a world of budgets: its tasks with their records, the messages between them, and the books of the ledger.

use verdict::run::{Message, Records};
use verdict::{Balance, Phase, Span, Subject, Task, TaskId, Time, Waiting};

use super::ledger::Ledger;
use super::property::EscrowBroken;
use crate::runs::{Issued, RunRow, normalise_closed, normalise_messages, normalise_subject};

pub(super) const START: Time = Time::from_millis(1_000);

/// The keys of the children in their parent.
pub(super) const CHILD_KEYS: [&str; 2] = ["a", "b"];

pub(super) const ROOT: usize = 0;

pub(super) fn id(at: usize) -> TaskId {
    TaskId::from_u128(at as u128 + 1)
}

pub(super) fn place(id: TaskId) -> usize {
    id.as_u128() as usize - 1
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EscrowWorld {
    pub now: Time,
    /// The run and its children, and after them the run that continues it and the children of that.
    pub tasks: Vec<RunRow>,
    /// Messages that were sent and not decided.
    pub saved: Vec<Message>,
    /// Messages that were decided.
    pub decided: Vec<Message>,
    pub issued: Vec<Issued>,
    pub ledger: Ledger,
    /// The properties that the last step broke. Exploration stops at such a state.
    pub broken: EscrowBroken,
}

impl EscrowWorld {
    pub(super) fn new(ledger: Ledger) -> Self {
        let row =
            RunRow { subject: Subject::Absent, closed: Vec::new(), records: Records::default() };
        Self {
            now: START,
            tasks: vec![row; ledger.len()],
            saved: Vec::new(),
            decided: Vec::new(),
            issued: Vec::new(),
            ledger,
            broken: EscrowBroken::default(),
        }
    }

    /// Merges states that no rule can tell apart.
    pub(super) fn normalise(&mut self) {
        for row in &mut self.tasks {
            normalise_subject(&mut row.subject);
            row.closed.iter_mut().for_each(normalise_closed);
            match &mut row.subject {
                Subject::Live(task) => normalise_waiting(task),
                Subject::Done(_) | Subject::Absent => {}
            }
            if let Some(balance) = balance_mut(&mut row.subject) {
                // Only the clocks of a budget read these, and no budget here has one.
                (balance.active, balance.gap) = (Span::ZERO, Span::ZERO);
            }
        }
        normalise_messages(&mut self.saved, &mut self.decided);
    }
}

/// Waits for people end long after the world does.
fn normalise_waiting(task: &mut Task) {
    if let Phase::Waiting(waiting) = &mut task.phase
        && let Waiting::For(wait) = &mut **waiting
    {
        wait.gives_up_at = Time::from_millis(i64::MAX);
    }
    for approval in task.run.iter_mut().flat_map(|run| &mut run.approvals.open) {
        approval.opened_at = START;
    }
}

fn balance_mut(subject: &mut Subject) -> Option<&mut Balance> {
    let run = match subject {
        Subject::Absent => return None,
        Subject::Live(task) => task.run.as_deref_mut(),
        Subject::Done(done) => done.run.as_deref_mut(),
    };
    run?.balance.as_deref_mut()
}

pub(super) fn balance_of(subject: &Subject) -> Option<&Balance> {
    match subject {
        Subject::Absent => None,
        Subject::Live(task) => task.balance(),
        Subject::Done(done) => done.run.as_ref()?.balance.as_deref(),
    }
}
