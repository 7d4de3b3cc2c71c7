//! The calls of durable runs, recorded like all others.

use historyck::durable::{Command, DurableCall, Recorded, Replay};
use historyck::event::{Answer, EventKind, Invoke, Operation, Return};
use tenure::Error;
use wire::CheckpointOutcome;
use wire::answers::{Checkpoint, CheckpointAck, CompletedAck, Envelope};
use wire::requests::{CheckpointCall, ChildRun, Completed, StepRecord};

use super::{RecordingClient, outcome, state, ulid_of};

impl RecordingClient {
    pub(crate) async fn checkpoint(
        &self,
        worker: &str,
        lease: &Envelope,
        body: &CheckpointCall,
    ) -> Result<CheckpointAck, Error> {
        let wait = body.wait.as_ref().map(|wait| wait.key.clone());
        let durable = DurableCall { wait, ..asked(&body.steps, &body.children) };
        let invoke =
            Invoke { durable: Some(durable), ..self.under(Operation::Checkpoint, worker, lease) };
        let call = self.client().checkpoint(&lease.task_id, &lease.task_token, body);
        self.call(invoke, call, |ack| Return {
            verdict: Some(ack.verdict.to_string()),
            state: Some(state(ack.state)),
            replayed: ack.replayed,
            expires: ack.lease_expires_at.map(wire::Time::as_ms),
            children: ack.children.iter().map(|child| ulid_of(&child.task_id)).collect(),
            ..Return::of(Answer::Ok)
        })
        .await
    }

    /// A report with the last steps of a durable run. A repeated one gets the first answer, which may be older than what
    /// others saw since.
    pub(crate) async fn completed_with_steps(
        &self,
        worker: &str,
        lease: &Envelope,
        body: &Completed,
    ) -> Result<CompletedAck, Error> {
        let invoke = Invoke {
            digest: body.output.as_ref().map(|output| output.text().to_owned()),
            outcome: Some(outcome(body.outcome)),
            durable: Some(asked(&body.steps, &body.children)),
            ..self.under(Operation::Report, worker, lease)
        };
        let call = self.client().completed(&lease.task_id, &lease.task_token, body);
        self.call(invoke, call, |ack| Return {
            verdict: Some(ack.verdict.to_string()),
            state: Some(state(ack.state)).filter(|_| !ack.replayed),
            replayed: ack.replayed,
            ..Return::of(Answer::Ok)
        })
        .await
    }

    /// What an attempt was shown, or a reader after the end.
    pub(crate) fn shown(&self, task: &str, attempt: Option<u32>, recorded: &[Checkpoint]) {
        let recorded = recorded.iter().map(record).collect();
        self.note(EventKind::Replay(Replay { task: ulid_of(task), attempt, recorded }));
    }
}

fn asked(steps: &[StepRecord], children: &[ChildRun]) -> DurableCall {
    let step = |step: &StepRecord| Command {
        key: step.key.clone(),
        input: None,
        result: step.result.as_ref().map(|result| result.text().to_owned()),
    };
    let child = |child: &ChildRun| Command {
        key: child.key.clone(),
        input: Some(child.input.text().to_owned()),
        result: None,
    };
    DurableCall {
        steps: steps.iter().map(step).collect(),
        children: children.iter().map(child).collect(),
        ..DurableCall::default()
    }
}

fn record(checkpoint: &Checkpoint) -> Recorded {
    let Checkpoint { number, key, outcome, result, error, task_id, wait, savepoint, .. } =
        checkpoint.clone();
    let result = result.map(wire::Json::into_text);
    Recorded {
        number,
        key,
        started: outcome == CheckpointOutcome::Started,
        result: Some(format!("{outcome} {result:?} {error:?} {task_id:?} {wait:?}")),
        savepoint,
    }
}
