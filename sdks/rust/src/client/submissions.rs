//! Submissions that wait go together: those of all tasks that share a [`Client`] ride in one call.
//!
//! A submission is sent at once while few calls are in flight. Others wait until one of them returns
//! and then share the next call, so nothing waits for a batch to fill. What a caller gets does not
//! depend on the company: a run that is refused inside a batch is submitted again alone, under the
//! same idempotency key, and its caller gets that answer.

use std::sync::Mutex;

use tokio::sync::oneshot;
use wire::answers::{RunAccepted, SubmitResult};
use wire::limits::BATCH_ITEMS_MAX;
use wire::requests::SubmitRun;

use super::{Client, generate_key};
use crate::Error;
use crate::worker::lease_state::locked;

/// One call is decided while the next is on its way; more would only make the batches smaller.
const CALLS_MAX: usize = 2;
/// Well below the coordinator's limit on a body, with room for one more run of any size.
pub(super) const BATCH_BYTES_MAX: usize = 512 * 1024;
/// The size of a run without its input and labels.
const ITEM_BYTES: usize = 512;

/// The submissions of a client and its clones that wait for a call.
#[derive(Debug, Default)]
pub(crate) struct Submissions(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Pending>,
    calls: usize,
}

/// A submission that waits for its answer.
#[derive(Debug)]
struct Pending {
    run: SubmitRun,
    reply: oneshot::Sender<Answer>,
}

type Answer = Result<RunAccepted, Error>;

impl Client {
    /// Submits a run, alone or together with others. Without a key one is generated, so that a
    /// repetition cannot submit the run twice.
    pub(crate) async fn send_submission(&self, mut run: SubmitRun) -> Result<RunAccepted, Error> {
        if run.idempotency_key.is_none() {
            run.idempotency_key = Some(generate_key()?);
        }
        match self.take_turn_or_wait(&run) {
            Ok(turn) => {
                let answer = self.submit_alone(&run).await;
                turn.pass_on();
                answer
            }
            Err(shared) => match shared.await {
                Ok(answer) => answer,
                // Refused in its batch, or the task that made the call is gone.
                Err(_) => self.submit_alone(&run).await,
            },
        }
    }

    /// The right to make a call now, or the answer of a call that the run will share.
    fn take_turn_or_wait(&self, run: &SubmitRun) -> Result<Turn, oneshot::Receiver<Answer>> {
        let mut queue = locked(&self.submissions.0);
        if queue.calls < CALLS_MAX {
            queue.calls += 1;
            return Ok(Turn { client: self.clone() });
        }
        let (reply, answer) = oneshot::channel();
        queue.waiting.push(Pending { run: run.clone(), reply });
        Err(answer)
    }

    /// A single run sends its key in the header; the member is for batches.
    async fn submit_alone(&self, run: &SubmitRun) -> Result<RunAccepted, Error> {
        let mut run = run.clone();
        let key = run.idempotency_key.take().map_or_else(generate_key, Ok)?;
        let call = self.post(&["v1", "runs"], &run)?.idempotency_key(&key)?;
        self.transport.call(&call).await
    }

    async fn submit_together(&self, mut batch: Vec<Pending>) {
        if let [_] = batch[..] {
            let Pending { run, reply } = batch.remove(0);
            // A caller that no longer waits needs no answer.
            let _ = reply.send(self.submit_alone(&run).await);
            return;
        }
        let answer = self.accept_all(batch.iter().map(|pending| &pending.run)).await;
        match answer {
            Ok(results) if results.len() == batch.len() => {
                for (pending, result) in batch.into_iter().zip(results) {
                    self.answer(pending, result);
                }
            }
            // Undecided as far as this client knows: each is submitted again alone.
            Ok(_) => drop(batch),
            Err(error) => {
                for pending in batch {
                    let _ = pending.reply.send(Err(error.duplicate()));
                }
            }
        }
    }

    /// A refusal is dropped here, which makes its caller submit the run alone.
    fn answer(&self, pending: Pending, result: SubmitResult) {
        if let Some(accepted) = result.accepted() {
            let _ = pending.reply.send(Ok(accepted));
        }
    }
}

/// The right to make one call at a time.
struct Turn {
    client: Client,
}

impl Turn {
    /// Uses the turn for what waits, on a separate task: the caller has its answer.
    fn pass_on(self) {
        if !locked(&self.client.submissions.0).waiting.is_empty() {
            tokio::spawn(self.submit_waiting());
        }
    }

    async fn submit_waiting(self) {
        while let Some(batch) = self.next_batch() {
            self.client.submit_together(batch).await;
        }
    }

    fn next_batch(&self) -> Option<Vec<Pending>> {
        let mut queue = locked(&self.client.submissions.0);
        let mut bytes = 0;
        let fits = |pending: &&Pending| {
            bytes += size(&pending.run);
            bytes <= BATCH_BYTES_MAX
        };
        let count = queue.waiting.iter().take(BATCH_ITEMS_MAX).take_while(fits).count();
        let count = count.max(1).min(queue.waiting.len());
        (count > 0).then(|| queue.waiting.drain(..count).collect())
    }
}

/// A turn can end at any time: its caller, or the runtime of its task, may be dropped. Submissions that
/// wait and have no other call to share are then made by their own callers.
impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = locked(&self.client.submissions.0);
        queue.calls -= 1;
        if queue.calls == 0 {
            queue.waiting.clear();
        }
    }
}

pub(super) fn size(run: &SubmitRun) -> usize {
    let labels = run.labels.iter().map(|(name, value)| name.len() + value.len());
    let goal = run.goal.as_ref().map_or(0, String::len);
    run.input.text().len() + goal + labels.sum::<usize>() + ITEM_BYTES
}
