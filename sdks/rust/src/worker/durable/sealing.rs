//! What a durable function records, as the codec of its worker stores it: the engine has plain values alone.
//!
//! A value is sealed once, before the call that carries it is first sent, so that a repeated call has the same bytes.

use workflow::{Call, Checkpoint, ChildRecord, Failure, Report, StepRecord};

use super::Ended;
use crate::codec::Sealer;

/// Recorded results in plain form. One that this worker cannot read may be readable for another.
pub(super) fn opened(codec: &Sealer, recorded: Vec<Checkpoint>) -> Result<Vec<Checkpoint>, Ended> {
    let open = |mut checkpoint: Checkpoint| {
        checkpoint.result =
            checkpoint.result.map(|it| codec.open(it)).transpose().map_err(|why| {
                let message = format!("what is recorded as `{}` {why}", checkpoint.key);
                Ended::Failed(Failure::config(message))
            })?;
        Ok(checkpoint)
    };
    recorded.into_iter().map(open).collect()
}

pub(super) fn sealed_call(codec: &Sealer, call: Call) -> Result<Call, Ended> {
    if !codec.is_set() {
        return Ok(call);
    }
    let Call { steps, children, wait } = call;
    Ok(Call { steps: sealed_steps(codec, steps)?, children: sealed_runs(codec, children)?, wait })
}

pub(super) fn sealed_report(codec: &Sealer, mut report: Report) -> Result<Report, Ended> {
    if !codec.is_set() {
        return Ok(report);
    }
    let too_large = |why| Ended::Failed(Failure::permanent(format!("the output {why}")));
    report.output = report.output.map(|it| codec.seal(it)).transpose().map_err(too_large)?;
    report.steps = sealed_steps(codec, report.steps)?;
    report.children = sealed_runs(codec, report.children)?;
    Ok(report)
}

fn sealed_steps(codec: &Sealer, steps: Vec<StepRecord>) -> Result<Vec<StepRecord>, Ended> {
    let seal = |mut step: StepRecord| {
        step.result = step.result.map(|it| codec.seal(it)).transpose().map_err(|why| {
            let message = format!("the result of `{}` {why}", step.key);
            Ended::Failed(Failure::permanent(message))
        })?;
        Ok(step)
    };
    steps.into_iter().map(seal).collect()
}

fn sealed_runs(codec: &Sealer, children: Vec<ChildRecord>) -> Result<Vec<ChildRecord>, Ended> {
    let seal = |child: ChildRecord| {
        let ChildRecord { key, input_digest, detached, run } = child;
        let run = codec.seal_run(run).map_err(|why| {
            Ended::Failed(Failure::permanent(format!("of the call `{key}`, {why}")))
        })?;
        Ok(ChildRecord { key, input_digest, detached, run })
    };
    children.into_iter().map(seal).collect()
}
