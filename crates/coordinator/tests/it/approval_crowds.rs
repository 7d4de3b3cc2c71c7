//! Many approvals at once, and many people who decide the same one at several coordinators.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::collections::BTreeMap;

use coordinator::{Coordinator, Poll, Submission};
use futures_util::future::join_all;
use serde_json::json;
use store::objects::{APPROVAL_PENDING, ApprovalBody, ObjectFilter};
use store::postgres::Notify;
use store::{Browse, TaskKey};
use storetest::Database;
use verdict::approval::{DecideCall, Decision, Outcome, VoteRefusal, approval_id};
use verdict::run::RunAnswer;
use verdict::{
    Answer, Name, ObjectKey, ObjectType, Policy, Refusal, RunRefusal, Scope, State, TaskId,
};

use crate::durable_peers::{checkpoint, start};
use crate::harness::{accepted, key, patient, submission, world};
use crate::retention::{counted, idle};

/// How many are granted by one poll here.
const GRANTS: usize = 250;

/// Tasks that wait, each for an approval.
async fn asked(
    coordinator: &Coordinator,
    queue: &str,
    (count, quorum): (usize, u32),
) -> Vec<TaskId> {
    let (queue, policy) = (Name::from(queue), Policy::default());
    let unhurried = Submission { queue: queue.clone(), policy, ..submission("k") };
    let mut tasks = Vec::new();
    while tasks.len() < count {
        let many = GRANTS.min(count - tasks.len());
        for reply in coordinator.submit(vec![unhurried.clone(); many]).await {
            accepted(&reply);
        }
        let poll = Poll { max: many, queues: vec![queue.clone()], ..patient("w") };
        let granted = coordinator.lease(poll).await.unwrap();
        let waits = granted.iter().map(|granted| async move {
            let terms = json!({"key": "ship#1", "approval": {"quorum": quorum}});
            let wait = json!({"wait": {"key": "w#1", "mode": "all", "for": [terms]}});
            assert_eq!(checkpoint(coordinator, granted, wait).await, State::Waiting);
            granted.task.id
        });
        tasks.extend(join_all(waits).await);
    }
    tasks
}

fn vote(person: usize, decision: Decision) -> DecideCall {
    let (key, roles) = (Name::from(format!("person-{person}")), vec!["approver".into()]);
    DecideCall { number: 1, key, roles, decision, digest: None, comment: None }
}

/// What came of votes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    recorded: usize,
    decided: Vec<Outcome>,
    refused: BTreeMap<&'static str, usize>,
}

/// All of them decide at the same time, each at both coordinators.
async fn decide_at_once(
    coordinators: [&Coordinator; 2],
    task: TaskId,
    votes: impl Iterator<Item = DecideCall>,
) -> Tally {
    let calls = votes.flat_map(|call| coordinators.map(|it| (it.clone(), call.clone())));
    let said = calls.map(|(coordinator, call)| {
        tokio::spawn(async move { coordinator.decide(key(task), call).await.unwrap().answer })
    });
    let mut tally = Tally::default();
    for answer in join_all(said.collect::<Vec<_>>()).await {
        match answer.unwrap() {
            Answer::Run(answer) => match *answer {
                RunAnswer::Voted { outcome } => {
                    tally.recorded += 1;
                    tally.decided.extend(outcome);
                }
                other => panic!("{other:?}"),
            },
            Answer::Refused(Refusal::Run(RunRefusal::Approval(why))) => {
                assert!(matches!(why, VoteRefusal::Closed | VoteRefusal::AlreadyVoted), "{why:?}");
                *tally.refused.entry(why.name()).or_default() += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    tally
}

async fn recorded(coordinator: &Coordinator, task: TaskId) -> (u32, ApprovalBody) {
    let (scope, object_type) = (Scope::default(), ObjectType::Approval);
    let key = ObjectKey { scope, object_type, id: approval_id(task, 1) };
    let found = coordinator.browse().objects(&ObjectFilter::one(&key)).await.unwrap().remove(0);
    (found.revision, ApprovalBody::of(&found).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn coordinators_that_race_count_every_vote_once_and_the_quorum_exactly() {
    // A2-11, C1: each key votes once, however many coordinators it asks.
    const PEOPLE: usize = 12;
    const QUORUM: u32 = 5;
    const ROUNDS: usize = 12;
    let database = Database::create();
    let (one, two) = (start(&database, Notify::On).await, start(&database, Notify::On).await);
    for task in asked(&one, "agree", (ROUNDS, QUORUM)).await {
        let votes = (0..PEOPLE).map(|person| vote(person, Decision::Approved));
        let tally = decide_at_once([&one, &two], task, votes).await;
        assert_eq!(tally.recorded, QUORUM as usize, "{tally:?}");
        assert_eq!(tally.decided, [Outcome::Approved], "{tally:?}");
        assert_eq!(tally.refused.values().sum::<usize>(), 2 * PEOPLE - QUORUM as usize);
        let (revision, body) = recorded(&two, task).await;
        let mut voters: Vec<Name> =
            body.approval.votes.iter().map(|vote| vote.key.clone()).collect();
        voters.sort();
        voters.dedup();
        assert_eq!((voters.len(), revision), (QUORUM as usize, QUORUM + 1));
        assert_eq!(body.outcome, Some(Outcome::Approved));
    }
    // Who rejects and who approves race: one of them decides.
    for task in asked(&one, "differ", (ROUNDS, 1)).await {
        let words = [Decision::Approved, Decision::Rejected].into_iter().cycle();
        let votes = (0..PEOPLE).zip(words).map(|(person, word)| vote(person, word));
        let tally = decide_at_once([&one, &two], task, votes).await;
        assert_eq!((tally.recorded, tally.decided.len()), (1, 1), "{tally:?}");
        let (_, body) = recorded(&one, task).await;
        assert_eq!(body.outcome, Some(tally.decided[0]));
    }
    let report = store::verify::verify(one.browse()).await.unwrap();
    assert_eq!(report.findings, []);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_pending_approvals_cost_an_idle_coordinator_no_commit() {
    const COUNT: usize = 10_000;
    let world = world().await;
    let tasks = asked(&world.coordinator, "q", (COUNT, 1)).await;
    world.round().await;
    let before = counted(&world, "tenure_batch_items_count");
    for _ in 0..30 {
        idle().await;
    }
    assert_eq!(counted(&world, "tenure_batch_items_count"), before, "an hour without a commit");

    // Pages are complete, in order, and no larger than they were asked to be.
    let mut page = ObjectFilter {
        scope: Some(Scope::default()),
        object_type: Some(ObjectType::Approval),
        status: Some(APPROVAL_PENDING.into()),
        limit: 1_000,
        ..ObjectFilter::default()
    };
    let mut seen = Vec::new();
    loop {
        let found = world.coordinator.browse().objects(&page).await.unwrap();
        assert!(found.len() <= page.limit);
        page.after = found.last().map(|last| last.key.clone());
        seen.extend(found.into_iter().map(|found| found.key.id));
        if page.after.is_none() {
            break;
        }
    }
    let mut expected: Vec<Name> = tasks.iter().map(|task| approval_id(*task, 1)).collect();
    expected.sort();
    assert_eq!(seen, expected);
    // One of them is decided, as if it were alone.
    let last = TaskKey { scope: Scope::default(), id: tasks[COUNT - 1] };
    let said = world.coordinator.decide(last, vote(1, Decision::Approved)).await.unwrap();
    assert!(matches!(said.answer, Answer::Run(_)), "{:?}", said.answer);
}
