//! A signal to a run: recorded in any state that has not ended, and kept until the run takes it.

use super::run::{answered, event, loaded};
use super::waiting;
use crate::bounds;
use crate::event::Subject;
use crate::id::Name;
use crate::run::limits::{RESULT_MAX, SIGNAL_BYTES_MAX, SIGNALS_MAX};
use crate::run::{RunAnswer, RunEvent, RunRefusal, Signal, SignalCall, SignalCounts};
use crate::task::{State, Task};
use crate::time::Moment;
use crate::verdict::{ReadSet, Refusal, Verdict};

/// `key` identifies the signal: the same key again is the same signal.
pub(super) fn decide(
    read_set: ReadSet<'_>,
    call: &SignalCall,
    key: Option<&Name>,
    at: Moment,
) -> Verdict {
    let (id, state) = match read_set.subject {
        Subject::Absent => return Verdict::refuse(Refusal::TaskNotFound),
        Subject::Live(task) => (task.id, task.state()),
        Subject::Done(done) => (done.id, done.end.state),
    };
    let recorded = read_set.context.run.and_then(|loaded| loaded.same_key.as_ref());
    if let Some(recorded) = recorded.filter(|_| key.is_some()) {
        return match recorded.digest == call.digest {
            true => Verdict::new(answered(RunAnswer::Signalled { state, replayed: true }), vec![]),
            false => Verdict::refuse(Refusal::KeyReused { holder: id }),
        };
    }
    match admit(read_set.subject, call) {
        Err(refusal) => Verdict::refuse(refusal),
        Ok((task, counts)) => receive(read_set, task, counts, call, key, at),
    }
}

/// A task whose end is decided takes no more signals.
fn admit<'a>(subject: &'a Subject, call: &SignalCall) -> Result<(&'a Task, SignalCounts), Refusal> {
    let task = match subject {
        Subject::Absent => return Err(Refusal::TaskNotFound),
        Subject::Done(done) => return Err(ended(done.end.state)),
        Subject::Live(task) => task,
    };
    if let Some(closing) = task.closing() {
        return Err(ended(closing.end.state));
    }
    if !bounds::has_room(task) {
        return Err(Refusal::HistoryFull { state: task.state() });
    }
    let counts = task.run.as_ref().map_or_else(SignalCounts::default, |run| run.signals);
    check_size(call, counts).map_err(Refusal::Run)?;
    Ok((task, counts))
}

fn ended(state: State) -> Refusal {
    Refusal::RunAlreadyTerminal { state }
}

fn check_size(call: &SignalCall, counts: SignalCounts) -> Result<(), RunRefusal> {
    let bytes = call.payload.as_ref().map_or(0, |payload| payload.as_str().len());
    if bytes > RESULT_MAX {
        let key = call.name.clone();
        return Err(RunRefusal::ResultTooLarge {
            key,
            bytes: bytes as u64,
            max: RESULT_MAX as u64,
        });
    }
    let total = counts.pending_bytes as usize + bytes + call.name.as_str().len();
    if counts.pending >= SIGNALS_MAX || total > SIGNAL_BYTES_MAX as usize {
        let (max, max_bytes) = (SIGNALS_MAX.into(), SIGNAL_BYTES_MAX.into());
        return Err(RunRefusal::SignalsFull { max, max_bytes });
    }
    Ok(())
}

fn receive(
    read_set: ReadSet<'_>,
    task: &Task,
    counts: SignalCounts,
    call: &SignalCall,
    key: Option<&Name>,
    at: Moment,
) -> Verdict {
    let signal = Signal {
        number: bounds::next(counts.received),
        name: call.name.clone(),
        key: key.cloned(),
        payload: call.payload.clone(),
        digest: call.digest,
    };
    let mut events = vec![event(RunEvent::SignalReceived(Box::new(signal.clone())))];
    if waiting::open_wait(task).is_some() {
        let mut signals = loaded(read_set).signals.clone();
        signals.push(signal);
        events.extend(waiting::after_signal(task, &signals, at.now));
    }
    Verdict::new(answered(RunAnswer::Signalled { state: task.state(), replayed: false }), events)
}
