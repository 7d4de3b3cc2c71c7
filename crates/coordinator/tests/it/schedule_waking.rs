//! Schedules and time alone: each fires at its instant without a call, and those that are not due cost nothing.

use std::sync::Arc;
use std::time::Duration;

use coordinator::Coordinator;
use coordinator::item::{ScheduleCall, ScheduleRequest, ScheduleTarget};
use store::FailureKind;
use storetest::MemoryStore;
use tokio::time::Instant;
use verdict::schedule::{
    CatchUp, Overlap, Recurrence, RunSize, Schedule, ScheduleAnswer, Template, Terms,
    WINDOW_DEFAULT,
};
use verdict::{Answer, Json, Name, Scope, Span};

use crate::faulty::FaultyStore;
use crate::harness::start;
use crate::waking::Virtual;

fn item(target: ScheduleTarget, call: ScheduleCall) -> ScheduleRequest {
    ScheduleRequest { scope: Scope::default(), target, call, by: None }
}

async fn say(coordinator: &Coordinator, item: ScheduleRequest) -> ScheduleAnswer {
    match coordinator.schedule(item).await.expect("the store works").answer {
        Answer::Schedule(answer) => *answer,
        other => panic!("refused: {other:?}"),
    }
}

async fn create(coordinator: &Coordinator, name: &str, recurrence: Recurrence) -> Schedule {
    let (overlap, catch_up) = (Overlap::Allow, CatchUp::One);
    let terms = Terms { recurrence, overlap, catch_up, window: WINDOW_DEFAULT };
    let run = Json::from(r#"{"kind":"k","queue":"q","input":null}"#);
    let template = Template { run, size: RunSize::ONE };
    let call = ScheduleCall::Create { name: name.into(), terms, is_paused: false, template };
    say(coordinator, item(ScheduleTarget::New, call)).await.schedule
}

#[tokio::test(start_paused = true)]
async fn an_instant_fires_when_it_comes_and_nobody_asks_for_it() {
    let store = MemoryStore::new(Arc::new(Virtual { start: Instant::now() }));
    let coordinator = start(store).await;
    let every = Span::from_secs(10);
    let recurrence = Recurrence::Every { every, anchor: coordinator.now() };
    let created = create(&coordinator, "s", recurrence).await;
    // Virtual time: it passes when nothing is left to do.
    tokio::time::sleep(Duration::from_secs(36)).await;
    let asked = item(ScheduleTarget::Name("s".into()), ScheduleCall::Pause);
    let schedule = say(&coordinator, asked).await.schedule;
    let last = schedule.last.expect("it has fired");
    assert_eq!(schedule.counts.fired, 3);
    assert_eq!(last.instant.since(created.created_at), Span::from_secs(30));
    assert!(last.at.since(last.instant) <= Span::from_millis(2), "{last:?}");
}

/// How many calls the store gets in a day in which nothing is asked and nothing is due.
async fn calls_of_a_day(schedules: usize) -> usize {
    let clock = Arc::new(Virtual { start: Instant::now() });
    let store = FaultyStore::over(MemoryStore::new(clock));
    let coordinator = start(store.clone()).await;
    for number in 0..schedules {
        let (expression, zone) = ("0 0 1 1 *".into(), Name::from("Europe/Berlin"));
        let name = format!("s{number}");
        create(&coordinator, &name, Recurrence::Cron { expression, zone }).await;
    }
    store.faults.fail_call(usize::MAX, FailureKind::Unavailable);
    tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
    store.faults.calls().0
}

#[tokio::test(start_paused = true)]
async fn a_thousand_schedules_cost_an_idle_server_as_much_as_none() {
    let none = calls_of_a_day(0).await;
    let many = calls_of_a_day(1_000).await;
    assert!(many <= none + none / 100, "{many} calls of the store, and {none} without schedules");
}
