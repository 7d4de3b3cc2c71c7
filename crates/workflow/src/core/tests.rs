//! A loop of a million steps: what the engine keeps, and what a resume replays.

use std::task::{Context, Poll};

use super::*;
use crate::{Answer, Flow, Function, Run, State, function};

const STEPS: u64 = 1_000_000;
const CHUNK: u64 = 1000;
const NOW: Time = Time::from_ms(1_767_225_600_000);

impl Core {
    /// The length of everything that can grow.
    fn length(&self) -> usize {
        let branches = self.branches.values();
        let counts: usize = branches.map(|it| it.counts.len() + it.patches.len()).sum();
        let queues = self.finished.len() + self.children.len() + self.commands.len();
        let open = self.wants.len() + self.running.len() + self.wakers.len();
        self.branches.len() + counts + queues + open + self.history.len()
    }
}

/// Takes a million steps, and starts over after every thousand.
fn long_loop() -> Function<'static> {
    function(async |ctx: Flow, (): ()| {
        let mut next: u64 = ctx.resumed()?.unwrap_or(0);
        for _ in 0..CHUNK {
            if next == STEPS {
                return Ok(next);
            }
            next = ctx.step("add", async |_| Ok(next + 1)).await?;
        }
        ctx.savepoint(&next).await
    })
}

fn start(checkpoints: Vec<Checkpoint>) -> Start {
    let (task_id, input) = ("task_1".to_owned(), Json::null());
    Start { task_id, origin: None, fence: 1, seed: 1, created_at: NOW, input, checkpoints }
}

/// Drives a run to its end. Returns how many steps were started, and what an envelope would bring then.
fn drive(checkpoints: Vec<Checkpoint>) -> (u64, Vec<Checkpoint>) {
    let mut run = Run::new(start(checkpoints), long_loop());
    let (mut started, mut since, mut longest) = (0, Vec::new(), 0);
    while let Poll::Ready(command) = run.poll(&mut Context::from_waker(Waker::noop())) {
        match command.expect("the function is the recorded one") {
            Command::Execute { .. } => started += 1,
            Command::Checkpoint(call) => {
                if call.steps.iter().any(|step| step.savepoint) {
                    since.clear();
                }
                since.extend(call.steps.into_iter().map(|step| step.recorded_at(NOW)));
                let (state, results) = (State::Running, Vec::new());
                run.recorded(Answer { state, recorded_at: NOW, results, should_cancel: false });
                longest = longest.max(run.shared.with(|core| core.length()));
            }
            Command::Complete(report) => {
                assert_eq!(report.output.map(Json::into_text), Some(STEPS.to_string()));
                assert!(longest <= 8, "the engine keeps {longest} things");
                return (started, since);
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("the run has no command and no end")
}

#[test]
fn a_million_steps_with_savepoints_take_constant_memory_and_are_not_replayed() {
    // E5, F71: what the engine keeps does not grow, and a resume begins at the last savepoint.
    let (started, since) = drive(Vec::new());
    assert_eq!(started, STEPS);
    assert!(since.len() <= 2, "{}", since.len());
    let (started, _) = drive(since);
    assert_eq!(started, 0);
}

#[test]
fn a_continued_run_gives_its_steps_the_keys_that_they_had() {
    let key_of = |origin: Option<&str>| {
        let seen = std::sync::Mutex::new(String::new());
        let code = function(async |ctx: Flow, (): ()| {
            ctx.step("pay", async |step| {
                step.idempotency_key().clone_into(&mut seen.lock().unwrap());
                Ok(())
            })
            .await
        });
        let begun = Start { origin: origin.map(str::to_owned), ..start(Vec::new()) };
        let mut run = Run::new(begun, code);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..2 {
            let _ = run.poll(&mut context);
        }
        drop(run);
        seen.into_inner().unwrap()
    };
    assert_eq!(key_of(None), "task_1/pay#1");
    assert_eq!(key_of(Some("task_0")), "task_0/pay#1");
}
