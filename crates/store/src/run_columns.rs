//! From columns to the values of durable runs. Lists name their tables by one letter: `checkpoints c`, `children k`,
//! `signals s`, `messages m`.

use verdict::Scope;
use verdict::run::{Checkpoint, Child, Message, MessageNumber, Signal};

use crate::columns::{Columns, Row};
use crate::runs::{SavedMessage, StoredChild, StoredSignal};
use crate::tables::{
    CheckpointColumns, CheckpointRow, ChildColumns, ChildRow, MessageColumns, MessageKeyColumns,
    MessageKeyRow, MessageRow, SignalColumns, SignalRow, select, with_result,
};

pub(crate) const CHECKPOINT: &str = select!("c", CheckpointColumns);

/// [`CHECKPOINT`] without the result of a step, which no rule reads.
pub(crate) fn checkpoint_without_result() -> String {
    CHECKPOINT.replace("c.result", "NULL AS result")
}

pub(crate) fn checkpoint<R: Row>(columns: &mut Columns<'_, R>) -> Result<Checkpoint, R::Error> {
    let CheckpointRow { number, key, digest, attempt, at, recorded, result } =
        CheckpointColumns::read(columns)?;
    let recorded = with_result(recorded, result);
    Ok(Checkpoint { number, key, digest, attempt, at, recorded })
}

pub(crate) const CHILD: &str = select!("k", ChildColumns);

pub(crate) fn child<R: Row>(columns: &mut Columns<'_, R>) -> Result<StoredChild, R::Error> {
    let ChildRow { number, key, child, digest, detached, at, ended } = ChildColumns::read(columns)?;
    let child = Child { key, id: child, digest, is_detached: detached, end: ended };
    Ok(StoredChild { number, at, child })
}

pub(crate) const SIGNAL: &str = select!("s", SignalColumns);

pub(crate) fn signal<R: Row>(columns: &mut Columns<'_, R>) -> Result<StoredSignal, R::Error> {
    let SignalRow { number, name, key, payload, digest, taken } = SignalColumns::read(columns)?;
    let signal = Signal { number, name, key, payload, digest };
    Ok(StoredSignal { signal, is_taken: taken })
}

pub(crate) const MESSAGE: [&str; 2] =
    [select!("m", MessageKeyColumns), select!("m", MessageColumns)];

pub(crate) fn message<R: Row>(columns: &mut Columns<'_, R>) -> Result<SavedMessage, R::Error> {
    let MessageKeyRow { addressee, sender, entry, place, tenant, workspace } =
        MessageKeyColumns::read(columns)?;
    let MessageRow { body, spec, due, parked } = MessageColumns::read(columns)?;
    let number = MessageNumber { entry, index: place };
    let message = Message { from: sender, number, to: addressee, body };
    Ok(SavedMessage { scope: Scope { tenant, workspace }, message, spec, due, parked })
}
