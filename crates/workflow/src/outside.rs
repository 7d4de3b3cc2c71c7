//! Waits for something outside that nothing records: the next word of a program that runs beside the function.
//!
//! A replay cannot repeat such a wait. It is sound only where what comes from outside does not need to be repeated, because
//! the program is itself run again from its beginning and asks for the same operations: what it asks for is compared with
//! the record like every operation of the code. A function in Rust has no use for it.
//!
//! Invariant: while such a wait is open, nothing new starts and nothing counts as unreached.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use crate::alarm::WorkWaker;
use crate::shared::Shared;

/// Awaits it with a waker that the engine expects.
pub(crate) async fn wait<F: Future>(shared: Arc<Shared>, awaited: F) -> F::Output {
    let _open = Open::new(Arc::clone(&shared));
    let mut awaited = pin!(awaited);
    poll_fn(|cx| {
        let waker = WorkWaker { alarm: shared.alarm.clone(), outer: cx.waker().clone() };
        awaited.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(waker))))
    })
    .await
}

/// Counts a wait while it is open.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: Arc<Shared>) -> Open {
        shared.with(|core| core.outside += 1);
        Open(shared)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.with(|core| core.outside -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::task::Poll;

    use wire::{Json, Time};

    use crate::{Answer, Checkpoint, Command, Flow, Run, Start, State, Stop, function};

    use super::*;

    const NOW: Time = Time::from_ms(1_767_225_600_000);

    /// What the program says: names of steps, and in the end nothing.
    #[derive(Default)]
    struct Program(Mutex<(VecDeque<Option<&'static str>>, Option<Waker>)>);

    impl Program {
        fn say(&self, word: Option<&'static str>) {
            let mut said = self.0.lock().unwrap();
            said.0.push_back(word);
            let waker = said.1.take();
            drop(said);
            waker.into_iter().for_each(Waker::wake);
        }

        async fn next(&self) -> Option<&'static str> {
            poll_fn(|cx| {
                let mut said = self.0.lock().unwrap();
                said.1 = Some(cx.waker().clone());
                said.0.pop_front().map_or(Poll::Pending, Poll::Ready)
            })
            .await
        }
    }

    fn run<'f>(program: &'f Program, checkpoints: Vec<Checkpoint>) -> Run<'f> {
        let code = async move |flow: Flow, (): ()| {
            while let Some(name) = flow.outside(program.next()).await {
                flow.step(name, async |_| Ok(1)).await?;
                flow.now().await;
            }
            Ok(())
        };
        let (task_id, input) = ("task_1".to_owned(), Json::null());
        let start =
            Start { task_id, origin: None, fence: 1, seed: 1, created_at: NOW, input, checkpoints };
        Run::new(start, function(code))
    }

    fn poll(run: &mut Run<'_>) -> Poll<Result<Command, Stop>> {
        run.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// The keys of the steps that are recorded until the program is silent.
    fn record(run: &mut Run<'_>) -> Vec<Checkpoint> {
        let mut recorded = Vec::new();
        while let Poll::Ready(command) = poll(run) {
            match command.expect("the program asks for what is recorded") {
                Command::Execute { .. } => {}
                Command::Checkpoint(call) => {
                    recorded.extend(call.steps.into_iter().map(|step| step.recorded_at(NOW)));
                    let (state, results) = (State::Running, Vec::new());
                    run.recorded(Answer { state, recorded_at: NOW, results, should_cancel: false });
                }
                other => panic!("{other:?}"),
            }
        }
        recorded
    }

    #[test]
    fn the_function_waits_for_a_program_and_records_what_it_asks_for_at_once() {
        let program = Program::default();
        let mut run = run(&program, Vec::new());
        assert!(poll(&mut run).is_pending(), "a wait outside is no misuse");
        program.say(Some("charge"));
        let keys: Vec<String> = record(&mut run).into_iter().map(|it| it.key).collect();
        assert_eq!(keys, ["charge#1"]);
        program.say(None);
        assert!(matches!(poll(&mut run), Poll::Ready(Ok(Command::Complete(_)))));
    }

    #[test]
    fn what_is_recorded_is_unreached_only_when_the_program_has_ended() {
        let program = Program::default();
        program.say(Some("charge"));
        let recorded = record(&mut run(&program, Vec::new()));
        let mut again = run(&program, recorded.clone());
        assert!(poll(&mut again).is_pending(), "the program may still ask for it");
        program.say(None);
        let Poll::Ready(Err(stop)) = poll(&mut again) else { panic!("it never asked") };
        assert!(stop.to_string().contains("charge#1"), "{stop}");
        let mut other = run(&program, recorded);
        program.say(Some("refund"));
        let Poll::Ready(Err(stop)) = poll(&mut other) else { panic!("it asked for another step") };
        assert!(stop.to_string().contains("refund"), "{stop}");
    }
}
