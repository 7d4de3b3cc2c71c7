//! What a durable function must not do, and how it is told.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{join, try_join};
use serde_json::Value;
use workflow::testing::{FlowTest, MemoryCoordinator, TestError};
use workflow::{
    Answer, Command, Failure, Flow, Function, Json, Misuse, Run, State, Stop, function,
};

/// A future that ends when somebody outside says so.
#[derive(Clone, Default)]
struct Outside(Arc<Mutex<(bool, Option<Waker>)>>);

impl Outside {
    fn fire(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        let waker = state.1.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Future for Outside {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap();
        state.1 = Some(cx.waker().clone());
        if state.0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn misuse(code: Function<'_>) -> Misuse {
    match FlowTest::of(code, &Value::Null).run().unwrap_err() {
        TestError::Stopped(Stop::Misused(misuse)) => misuse,
        other => panic!("{other}"),
    }
}

fn first_run(code: Function<'_>) -> Run<'_> {
    Run::new(MemoryCoordinator::new(Json::null()).start(1), code)
}

fn poll(run: &mut Run<'_>) -> Poll<Result<Command, Stop>> {
    run.poll(&mut Context::from_waker(Waker::noop()))
}

async fn ok(_: workflow::Step) -> Result<u32, Failure> {
    Ok(1)
}

#[test]
fn awaiting_something_foreign_is_noticed_and_named() {
    // S2-88: nothing but `ctx` may be awaited outside of a step.
    let code = function(async |ctx: Flow, _: Value| {
        ctx.step("before", ok).await?;
        Outside::default().await;
        Ok(())
    });
    let told = misuse(code).to_string();
    assert!(told.contains("awaits something that is not `flow`"), "{told}");
    assert!(told.contains("`before#1` (crates/workflow/tests/it/misuse.rs:"), "{told}");
}

#[test]
fn a_foreign_wake_is_noticed_although_a_step_runs() {
    // S2-88: a race between a step and a foreign timer would end differently in a replay.
    let (timer, work) = (Outside::default(), Outside::default());
    let code = function(async |ctx: Flow, _: Value| {
        let step = ctx.step("slow", async |_| {
            work.clone().await;
            Ok(1)
        });
        join!(step.into_future(), timer.clone()).0
    });
    let mut run = first_run(code);
    assert!(matches!(poll(&mut run), Poll::Ready(Ok(Command::Execute { .. }))));
    assert!(poll(&mut run).is_pending());
    timer.fire();
    let Poll::Ready(Err(Stop::Misused(Misuse::ForeignAwait { last }))) = poll(&mut run) else {
        panic!("the timer was not noticed")
    };
    assert!(last.to_string().contains("slow#1"));
}

#[test]
fn the_work_of_a_step_may_await_anything() {
    let work = Outside::default();
    let code = function(async |ctx: Flow, _: Value| {
        ctx.step("slow", async |_| {
            work.clone().await;
            Ok(1)
        })
        .await
    });
    let mut run = first_run(code);
    assert!(matches!(poll(&mut run), Poll::Ready(Ok(Command::Execute { .. }))));
    assert!(poll(&mut run).is_pending());
    work.fire();
    assert!(matches!(poll(&mut run), Poll::Ready(Ok(Command::Complete(_)))));
}

#[test]
fn branches_may_pass_values_to_each_other() {
    // A channel between branches wakes the code from inside: that is a function of the record.
    let code = function(async |ctx: Flow, _: Value| {
        let gate = Outside::default();
        let (taken, given) = join!(
            ctx.branch("takes", async |ctx| {
                gate.clone().await;
                ctx.step("s", ok).await
            }),
            ctx.branch("gives", async |ctx| {
                ctx.step("s", ok).await?;
                ctx.step("t", ok).await?;
                gate.fire();
                Ok::<_, Failure>(())
            }),
        );
        given?;
        taken
    });
    assert_eq!(FlowTest::of(code, &Value::Null).run().unwrap().output::<u32>(), 1);
}

#[test]
fn two_operations_of_one_branch_at_once_are_refused() {
    // S2-28: one after the other, unless branches say otherwise.
    let code = function(async |ctx: Flow, _: Value| {
        let (one, two) =
            join!(ctx.step("one", ok).into_future(), ctx.sleep(Duration::ZERO).into_future());
        let () = two;
        one
    });
    let told = misuse(code).to_string();
    assert!(told.starts_with("`sleep` (crates/workflow/tests/it/misuse.rs:"), "{told}");
    assert!(told.contains("begins while `one` is not over"), "{told}");
}

#[test]
fn a_branch_waits_for_the_branches_inside_it() {
    let code = function(async |ctx: Flow, _: Value| {
        let inner = ctx.branch("inner", async |ctx: Flow| ctx.step("s", ok).await);
        join!(inner, ctx.step("beside", ok).into_future()).0
    });
    assert!(matches!(misuse(code), Misuse::TwoAtOnce { second, .. } if second == "beside"));
}

#[test]
fn an_operation_that_is_dropped_before_its_end_is_noticed() {
    let selects = function(async |ctx: Flow, _: Value| {
        let left = Box::pin(ctx.branch("left", async |ctx: Flow| ctx.step("s", ok).await));
        let right = Box::pin(ctx.branch("right", async |ctx: Flow| {
            ctx.sleep(Duration::from_secs(9)).await;
        }));
        match select(left, right).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Ok(0),
        }
    });
    let told = misuse(selects).to_string();
    assert!(told.contains("was dropped before its end, as `select!` and `try_join!` do"), "{told}");
    let races = function(async |ctx: Flow, _: Value| {
        let sleep = ctx.sleep(Duration::from_secs(9)).into_future();
        select(sleep, std::future::ready(())).await;
        Ok(())
    });
    assert!(matches!(misuse(races), Misuse::Dropped { key, .. } if key == "sleep#1"));
    let tries = function(async |ctx: Flow, _: Value| {
        let left = ctx.branch("left", async |ctx: Flow| {
            ctx.step("s", async |_| Err::<u32, _>(Failure::permanent("no"))).await
        });
        let right = ctx.branch("right", async |ctx: Flow| ctx.signal::<u32>("never").await);
        try_join!(left, right).map(|(left, _)| left)
    });
    assert!(matches!(misuse(tries), Misuse::Dropped { .. }));
}

#[test]
fn names_and_branches_are_checked() {
    let bad_step = function(async |ctx: Flow, _: Value| ctx.step("a/b", ok).await);
    assert!(matches!(misuse(bad_step), Misuse::BadName { name, .. } if name == "a/b"));
    let long = "x".repeat(120);
    let long = function(async |ctx: Flow, _: Value| ctx.step(long.as_str(), ok).await);
    assert!(matches!(misuse(long), Misuse::BadName { .. }));
    let bad_label = function(async |ctx: Flow, _: Value| Ok(ctx.random_u64("é")));
    assert!(matches!(misuse(bad_label), Misuse::BadName { .. }));
    let bad_branch = function(async |ctx: Flow, _: Value| {
        ctx.branch("a#1", async |ctx: Flow| ctx.step("s", ok).await).await
    });
    assert!(matches!(misuse(bad_branch), Misuse::BadName { .. }));
    let twice = function(async |ctx: Flow, _: Value| {
        let same = || ctx.branch("same", async |ctx: Flow| ctx.step("s", ok).await);
        join!(same(), same()).0
    });
    assert!(matches!(misuse(twice), Misuse::OpenTwice { branch, .. } if branch == "same"));
    let over = function(async |ctx: Flow, _: Value| {
        let inner = ctx.branch("inner", async |ctx: Flow| ctx).await;
        inner.step("late", ok).await
    });
    assert!(matches!(misuse(over), Misuse::BranchOver { branch, .. } if branch == "inner"));
}

#[test]
fn a_savepoint_belongs_to_the_function_itself() {
    let code = function(async |ctx: Flow, _: Value| {
        ctx.branch("b", async |ctx: Flow| ctx.savepoint::<_, u32>(&1).await).await
    });
    assert!(matches!(misuse(code), Misuse::SavepointInBranch { branch, .. } if branch == "b"));
}

#[test]
fn children_and_branches_are_bounded() {
    let children = function(async |ctx: Flow, _: Value| Ok(ctx.map("c", 0..10_001).await.len()));
    let told = misuse(children).to_string();
    assert!(told.starts_with("10001 children ("), "{told}");
    assert!(told.contains("the limit is 10000"), "{told}");
    let branches = function(async |ctx: Flow, _: Value| {
        let open = (0..1001)
            .map(|n| ctx.branch(&format!("b{n}"), async |ctx: Flow| ctx.step("s", ok).await));
        Ok(futures_util::future::join_all(open).await.len())
    });
    assert!(matches!(misuse(branches), Misuse::TooMany { what: "open branches", .. }));
}

#[test]
fn an_answer_that_brings_nothing_stops_the_run_instead_of_asking_for_ever() {
    let code = function(async |ctx: Flow, _: Value| {
        ctx.sleep(Duration::from_secs(1)).await;
        Ok(())
    });
    let mut run = first_run(code);
    assert!(matches!(poll(&mut run), Poll::Ready(Ok(Command::Checkpoint(_)))));
    let recorded_at = "2026-01-01T00:00:00.000Z".parse().unwrap();
    let answer =
        Answer { state: State::Running, recorded_at, results: Vec::new(), should_cancel: false };
    run.recorded(answer);
    assert!(matches!(poll(&mut run), Poll::Ready(Err(Stop::Misused(Misuse::EmptyAnswer)))));
}

#[test]
fn the_coordinator_can_cancel_and_halt_between_steps() {
    // S2-89: what the coordinator decides between two steps holds: the next step does not start.
    for (state, should_cancel, last) in
        [(State::Running, true, Command::Cancel), (State::Halted, false, Command::Halt)]
    {
        let code = function(async |ctx: Flow, _: Value| {
            ctx.step("one", ok).await?;
            ctx.step("two", ok).await
        });
        let mut run = first_run(code);
        assert!(matches!(poll(&mut run), Poll::Ready(Ok(Command::Execute { .. }))));
        assert!(matches!(poll(&mut run), Poll::Ready(Ok(Command::Checkpoint(_)))));
        let recorded_at = "2026-01-01T00:00:00.000Z".parse().unwrap();
        run.recorded(Answer { state, recorded_at, results: Vec::new(), should_cancel });
        let Poll::Ready(Ok(command)) = poll(&mut run) else { panic!("the run goes on") };
        assert_eq!(command, last);
    }
}

#[test]
fn a_program_with_a_bad_name_tells_where() {
    let code = function(async |ctx: Flow, _: Value| ctx.step("", ok).await);
    let told = misuse(code).to_string();
    assert!(told.contains("misuse.rs:"), "{told}");
    assert!(told.contains("use letters, digits"), "{told}");
}

#[test]
fn an_operation_that_never_began_stops_the_run_by_its_name() {
    // S2-88: what the code says is done or the run stops; a value that only looks like it happened does neither.
    let forgets = function(async |ctx: Flow, _: Value| {
        drop(ctx.step("mail", ok));
        ctx.step("done", ok).await
    });
    let told = misuse(forgets).to_string();
    assert!(told.contains("but `mail` (crates/workflow/tests/it/misuse.rs:"), "{told}");
    let forgets = function(async |ctx: Flow, _: Value| {
        drop(ctx.any([("go", ctx.signal::<u32>("go"))]));
        Ok(())
    });
    assert!(matches!(misuse(forgets), Misuse::NotAwaited { operation, .. } if operation == "any"));
    let forgets = function(async |ctx: Flow, _: Value| {
        drop(ctx.call("pack", &1).detach());
        Ok(())
    });
    let misuse = misuse(forgets);
    assert!(matches!(misuse, Misuse::NotAwaited { operation, .. } if operation == "child:pack"));
}

#[test]
fn a_function_that_fails_may_leave_operations_alone() {
    let fails = function(async |ctx: Flow, _: Value| {
        let later = ctx.step("later", ok);
        ctx.step("now", async |_| Err::<u32, _>(Failure::permanent("no"))).await?;
        later.await
    });
    let ended = FlowTest::of(fails, &Value::Null).run().unwrap();
    assert_eq!(ended.error().unwrap().message, "no");
}

#[test]
fn members_of_any_are_checked_before_anything_is_asked_for() {
    let nothing = function(async |ctx: Flow, _: Value| {
        ctx.any(Vec::<(&str, workflow::SleepCall)>::new()).await.map(|_| ())
    });
    assert!(matches!(misuse(nothing), Misuse::AnyOfNothing { .. }));
    let bad = function(async |ctx: Flow, _: Value| {
        ctx.any([("a/b", ctx.sleep(Duration::ZERO))]).await.map(|_| ())
    });
    assert!(matches!(misuse(bad), Misuse::BadName { name, .. } if name == "a/b"));
    let twice = function(async |ctx: Flow, _: Value| {
        ctx.any([("a", ctx.sleep(Duration::ZERO)), ("a", ctx.sleep(Duration::ZERO))]).await?;
        Ok(())
    });
    assert!(matches!(misuse(twice), Misuse::OpenTwice { branch, .. } if branch == "a"));
}
