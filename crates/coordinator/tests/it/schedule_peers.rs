//! Schedules over one database: two coordinators fire the same ones, one of them dies, and every instant is one run.

use std::collections::BTreeMap;
use std::time::Duration;

use coordinator::item::{ScheduleCall, ScheduleRequest, ScheduleTarget};
use coordinator::{Coordinator, Options};
use store::browse::{Browse, ScanDepth};
use store::{PostgresStore, postgres};
use storetest::Database;
use verdict::schedule::{
    CatchUp, Overlap, Recurrence, RunSize, ScheduleAnswer, Template, Terms, WINDOW_DEFAULT,
};
use verdict::{Answer, Json, Name, Scope, Span};

use crate::harness::PATIENCE;

const SCHEDULES: usize = 20;
/// The shortest interval that there is.
const EVERY_MS: i64 = 1_000;
/// How many instants of each schedule both coordinators see, and how many the one that is left.
const TOGETHER: u64 = 2;
const ALONE: u64 = 2;

async fn start(database: &Database) -> Coordinator {
    let store = PostgresStore::open(database.url(), postgres::Options::new("test")).await;
    Coordinator::start(store.expect("the database opens"), Options::default())
        .await
        .expect("it starts")
}

async fn create(coordinator: &Coordinator, number: usize) -> Name {
    let every = Span::from_millis(EVERY_MS as u64);
    let terms = Terms {
        recurrence: Recurrence::Every { every, anchor: coordinator.now() },
        overlap: Overlap::Allow,
        catch_up: CatchUp::All,
        window: WINDOW_DEFAULT,
    };
    let run = Json::from(r#"{"kind":"k","queue":"q","input":null}"#);
    let template = Template { run, size: RunSize::ONE };
    let name = Name::from(format!("s{number}"));
    let call = ScheduleCall::Create { name, terms, is_paused: false, template };
    let item =
        ScheduleRequest { scope: Scope::default(), target: ScheduleTarget::New, call, by: None };
    answer(coordinator, item).await.id
}

async fn answer(coordinator: &Coordinator, item: ScheduleRequest) -> ScheduleAnswer {
    let reply = coordinator.schedule(item).await.expect("the store works");
    match reply.answer {
        Answer::Schedule(answer) => *answer,
        other => panic!("refused: {other:?}"),
    }
}

/// How often each schedule has fired.
async fn fired(coordinator: &Coordinator) -> BTreeMap<Name, u64> {
    let filter = store::objects::ObjectFilter {
        scope: Some(Scope::default()),
        object_type: Some(verdict::ObjectType::Schedule),
        limit: 2 * SCHEDULES,
        ..store::objects::ObjectFilter::default()
    };
    let found = coordinator.browse().objects(&filter).await.expect("they can be read");
    let counted = |object: &verdict::Object| {
        let schedule = store::objects::schedule_of(object).expect("a schedule");
        (object.key.id.clone(), schedule.counts.fired)
    };
    found.iter().map(counted).collect()
}

/// Waits until every schedule has fired so often.
async fn until_fired(coordinator: &Coordinator, times: u64) {
    let all = async {
        while !fired(coordinator).await.values().all(|count| *count >= times) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(2 * PATIENCE, all).await.expect("they fire in time");
}

/// The instants of all runs, by schedule.
async fn instants(coordinator: &Coordinator) -> BTreeMap<String, Vec<i64>> {
    let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let runs = coordinator.browse().scan(None, 10_000, ScanDepth::Task).await;
    for run in runs.expect("they can be read") {
        let key = run.task.spec.key.expect("a scheduled run has a key").to_string();
        let mut parts = key.split('/').skip(1);
        let (id, instant) = (parts.next().expect("an id"), parts.next().expect("an instant"));
        found.entry(id.to_owned()).or_default().push(instant.parse().expect("a number"));
    }
    found.values_mut().for_each(|instants| instants.sort_unstable());
    found
}

#[test]
fn every_instant_is_one_run_while_a_coordinator_dies() {
    // S2-52, F65, B8: whoever finds an instant due, it becomes one run; none is lost with a coordinator.
    let database = Database::create();
    let dying = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let living = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let other = dying.block_on(start(&database));
    living.block_on(async {
        let one = start(&database).await;
        for number in 0..SCHEDULES {
            create(if number % 2 == 0 { &one } else { &other }, number).await;
        }
        until_fired(&one, TOGETHER).await;
        // In the middle of whatever it does.
        dying.shutdown_background();
        drop(other);
        until_fired(&one, TOGETHER + ALONE).await;
        let (runs, counts) = (instants(&one).await, fired(&one).await);
        assert_eq!(runs.len(), SCHEDULES);
        for (id, instants) in &runs {
            let gaps = instants.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(gaps.clone().all(|gap| gap == EVERY_MS), "{id}: {instants:?}");
            // The list may be read a moment before the counts.
            assert!(instants.len() as u64 <= counts[&Name::from(id.as_str())], "{id}");
        }
        one.stop().await;
    });
}
