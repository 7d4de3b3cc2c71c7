//! From columns to the values of durable runs. Lists name their tables by one letter: `checkpoints c`, `children k`,
//! `signals s`, `messages m`.

use verdict::plan::{PlanStep, StepRow};
use verdict::run::{Checkpoint, Child, Message, MessageNumber, Signal};
use verdict::{Name, Scope};

use crate::columns::{Columns, Row};
use crate::runs::{SavedMessage, StoredChild, StoredSignal, StoredStep};
use crate::tables::{
    CheckpointColumns, CheckpointRow, ChildColumns, ChildRow, MessageColumns, MessageKeyColumns,
    MessageKeyRow, MessageRow, SignalColumns, SignalRow, StepColumns, StepColumnsRow, select,
    with_result,
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

/// A step with its counts; tables `steps p` and `missing_upstreams m`.
pub(crate) const STEP: [&str; 2] = [select!("p", StepColumns), "m.missing, m.blame"];

/// [`STEP`] without the upstreams, which no rule reads once a step is spawned, and without what its task is created with.
pub(crate) fn step_without_payload() -> String {
    STEP.join(", ").replace("p.upstreams", "NULL AS upstreams").replace("p.spec", "NULL AS spec")
}

pub(crate) fn step<R: Row>(columns: &mut Columns<'_, R>) -> Result<StoredStep, R::Error> {
    let StepColumnsRow { place, key, step, upstreams, spec } = StepColumns::read(columns)?;
    debug_assert_eq!(key, step.child.key, "a step is stored under its key");
    let (missing, blame) = (columns.column::<Option<u32>>("missing")?, columns.column("blame")?);
    let step = PlanStep { upstreams: upstreams.into(), ..step };
    Ok(StoredStep { place, step, spec, missing: missing.unwrap_or(0), blame })
}

/// A step as the rules know it, from [`step_without_payload`].
pub(crate) fn step_row<R: Row>(
    columns: &mut Columns<'_, R>,
    spawned: u32,
) -> Result<StepRow, R::Error> {
    let place: u32 = columns.column("place")?;
    let _key: Name = columns.column("key")?;
    let step = columns.column("step")?;
    columns.skip(2);
    let (missing, blame) = (columns.column::<Option<u32>>("missing")?, columns.column("blame")?);
    Ok(StepRow { step, is_spawned: place < spawned, missing: missing.unwrap_or(0), blame })
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
