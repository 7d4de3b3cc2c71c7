//! Two coordinators end the children of one parent. Messages to a parent that the other one has locked are saved, the
//! parent is woken once, and a coordinator that dies leaves its messages to the other.

use std::collections::VecDeque;
use std::time::Duration;

use store::verify::verify;
use store::{
    Batch, Browse, Change, CommitFailure, Decided, Loaded, Lookup, MessageChanges, PostgresStore,
    RowsAfter, RunLookup, SavedMessage, Spec, Store, TaskKey, Want, Writer,
};
use storetest::Database;
use storetest::conformance::Submission;
use storetest::conformance::carry::change;
use storetest::conformance::driver::{caller, key_of};
use storetest::conformance::reports::{report, succeeded};
use tokio_postgres::NoTls;
use verdict::request::{Caller, Grant};
use verdict::run::{
    Awaited, AwaitedEvent, Body, CheckpointCall, ChildCall, Message, Recorded, RunRequest, Then,
    WaitCall, WaitMode,
};
use verdict::{
    Answer, Context, Digest, LeaseId, Moment, Name, Request, Scope, State, Subject, Task, TaskId,
};

use super::options;

const CHILDREN: u128 = 500;
/// How many children one coordinator leases and ends in one batch.
const AT_ONCE: usize = 10;
const PARENT: u128 = 1;
/// Far longer than the slowest machine needs for all children.
const PATIENCE: Duration = Duration::from_secs(120);

/// One batch, with the messages that follow from its decisions.
struct Carrier<'b, B> {
    batch: &'b mut B,
    at: Moment,
    saved: usize,
}

impl<'b, B: Batch> Carrier<'b, B> {
    async fn of(batch: &'b mut B) -> Self {
        let at = batch.moment().await.unwrap();
        Self { batch, at, saved: 0 }
    }

    /// Decides a request and its messages; a message to a task that is locked elsewhere is saved. `None` if the task of
    /// the request is.
    async fn carry(&mut self, key: &TaskKey, request: &Request) -> Option<Answer> {
        let mut messages = VecDeque::new();
        let answer = self.decide(key, request, None, &mut messages).await?;
        while let Some(message) = messages.pop_front() {
            let to = TaskKey { scope: key.scope.clone(), id: message.to };
            let (request, spec) = (about(&message), spec_of(&message, &to.scope));
            if self.decide(&to, &request, spec.clone(), &mut messages).await.is_none() {
                self.save(to.scope, message, spec).await;
            }
        }
        Some(answer)
    }

    async fn decide(
        &mut self,
        key: &TaskKey,
        request: &Request,
        spec: Option<Spec>,
        messages: &mut VecDeque<Message>,
    ) -> Option<Answer> {
        let lease = request.caller().map(|caller| (key.id, caller.lease));
        let runs: Vec<RunLookup> = RunLookup::of(key, request).into_iter().collect();
        let (tasks, leases) = (std::slice::from_ref(key), lease.as_slice());
        let lookup = Lookup { tasks, leases, runs: &runs, ..Lookup::default() };
        let mut found = self.batch.look_up(lookup).await.unwrap();
        let Some(Loaded::Subject(subject)) = found.tasks.pop() else { return None };
        let (closed, run) = (found.closed.pop().flatten(), found.runs.pop().unwrap_or_default());
        let context = Context { closed: closed.as_ref(), run: Some(&run), ..Context::default() };
        let (applied, change) = change(subject, context, request, self.at);
        messages.extend(applied.settled.into_iter().flat_map(|settled| settled.messages));
        if let Some(change) = change {
            let spec = spec.filter(|_| change.before.is_none());
            self.batch.save(Decided::changes(vec![Change { spec, ..change }])).await.unwrap();
        }
        Some(applied.answer)
    }

    async fn save(&mut self, scope: Scope, message: Message, spec: Option<Spec>) {
        self.saved += 1;
        let saved = vec![SavedMessage { scope, message, spec, due: self.at.now, parked: None }];
        let messages = MessageChanges { saved, ..MessageChanges::default() };
        self.batch.save(Decided { messages, ..Decided::default() }).await.unwrap();
    }

    /// Decides the saved messages that can be decided now.
    async fn deliver(&mut self) -> usize {
        let addressees = self.batch.addressees(self.at.now, AT_ONCE).await.unwrap();
        let lookup = Lookup { tasks: &addressees, messages: &addressees, ..Lookup::default() };
        let found = self.batch.look_up(lookup).await.unwrap().messages;
        let mut decided = Vec::new();
        for saved in found.into_iter().flatten() {
            let key = saved.key();
            if self.carry(&key.to, &about(&saved.message)).await.is_some() {
                decided.push(key);
            }
        }
        let count = decided.len();
        let messages = MessageChanges { decided, ..MessageChanges::default() };
        self.batch.save(Decided { messages, ..Decided::default() }).await.unwrap();
        count
    }

    async fn lease(&mut self, queue: &str, first: u128, max: usize) -> Vec<(TaskKey, Caller)> {
        let want = Want { scope: Scope::default(), queues: vec![queue.into()], kinds: None, max };
        let ready = self.batch.ready(&[want], self.at.now).await.unwrap();
        let mut leased = Vec::new();
        for (mut ready, number) in ready.into_iter().flatten().zip(first..) {
            let (owner, lease) = (Name::from("ann"), LeaseId::from_u128(number));
            let key = key_of(&ready);
            let grant = Request::Grant(Grant { lease, owner, poll: None, build: None });
            if self.carry(&key, &grant).await == Some(Answer::Granted) {
                ready.task = self.load(&key).await;
                leased.push((key, caller(&ready)));
            }
        }
        leased
    }

    async fn load(&mut self, key: &TaskKey) -> Task {
        let lookup = Lookup::tasks(std::slice::from_ref(key));
        match self.batch.look_up(lookup).await.unwrap().tasks.pop() {
            Some(Loaded::Subject(Subject::Live(task))) => task,
            loaded => panic!("{loaded:?}"),
        }
    }
}

fn about(message: &Message) -> Request {
    Request::Run(Box::new(RunRequest::Message(message.clone())))
}

fn spec_of(message: &Message, scope: &Scope) -> Option<Spec> {
    let is_spawn = matches!(message.body, Body::Spawn { .. });
    is_spawn.then(|| Submission::new(message.to, scope, "child").spec)
}

fn child_key(n: u128) -> Name {
    Name::from(format!("child {n:03}"))
}

/// A call that starts all children and waits for all of them.
fn fan_out(caller: Caller) -> Request {
    let child = |n: u128| ChildCall {
        key: child_key(n),
        is_detached: false,
        submit: Submission::new(TaskId::from_u128(1_000 + n), &Scope::default(), "child").submit,
    };
    let item = |n: u128| Awaited { key: child_key(n), event: AwaitedEvent::Child(child_key(n)) };
    let wait = WaitCall {
        key: "all of them".into(),
        digest: Digest::of(&[b"all of them"]),
        mode: WaitMode::All,
        items: (0..CHILDREN).map(item).collect(),
        approvals: Vec::new(),
        max: None,
    };
    Request::Run(Box::new(RunRequest::Checkpoint(CheckpointCall {
        caller,
        digest: Digest::of(&[b"fan out"]),
        steps: Vec::new(),
        children: (0..CHILDREN).map(child).collect(),
        then: Then::Wait(wait),
        asked_by: None,
    })))
}

fn parent() -> TaskKey {
    TaskKey { scope: Scope::default(), id: TaskId::from_u128(PARENT) }
}

/// Submits the parent, and lets its worker start the children.
async fn start(store: &PostgresStore) {
    let mut writer = store.writer().await.unwrap();
    let mut batch = writer.begin().await.unwrap();
    let mut carrier = Carrier::of(&mut batch).await;
    let submission = Submission::new(parent().id, &Scope::default(), "parent");
    let mut none = VecDeque::new();
    let submit = Request::Submit(submission.submit);
    carrier.decide(&parent(), &submit, Some(submission.spec), &mut none).await.unwrap();
    let (_, caller) = carrier.lease("parent", 1, 1).await.remove(0);
    let answer = carrier.carry(&parent(), &fan_out(caller)).await.unwrap();
    assert!(matches!(answer, Answer::Run(_)), "{answer:?}");
    assert_eq!(carrier.saved, 0);
    batch.commit().await.unwrap();
}

/// A conflict is carried again; everything else fails the test.
fn is_committed(result: Result<(), CommitFailure>) -> bool {
    match result {
        Ok(()) => true,
        Err(CommitFailure::RolledBack(_)) => false,
        Err(failure) => panic!("{failure:?}"),
    }
}

/// Leases children and ends them, until none is left; returns how many messages had to be saved.
async fn work(store: &PostgresStore, first_lease: u128) -> usize {
    let mut writer = store.writer().await.unwrap();
    let (mut saved, mut next) = (0, first_lease);
    loop {
        let mut batch = writer.begin().await.unwrap();
        let mut carrier = Carrier::of(&mut batch).await;
        let leased = carrier.lease("child", next, AT_ONCE).await;
        next += AT_ONCE as u128;
        if leased.is_empty() && is_idle(&mut carrier).await {
            return saved;
        }
        if !is_committed(batch.commit().await) {
            continue;
        }
        saved += end(&mut writer, leased).await;
    }
}

/// Whether every message was decided. Decides those that it finds.
async fn is_idle<B: Batch>(carrier: &mut Carrier<'_, B>) -> bool {
    carrier.deliver().await == 0
        && {
            let parent = carrier.batch.look_up(Lookup::tasks(&[parent()])).await.unwrap().tasks;
            matches!(&parent[..], [Loaded::Subject(Subject::Live(task))] if task.claimable_at().is_some())
        }
}

/// Reports these children in one batch, as often as it takes.
async fn end(writer: &mut impl Writer, mut leased: Vec<(TaskKey, Caller)>) -> usize {
    loop {
        let mut batch = writer.begin().await.unwrap();
        let mut carrier = Carrier::of(&mut batch).await;
        let mut locked = Vec::new();
        for (key, caller) in &leased {
            if carrier.carry(key, &report(caller, succeeded())).await.is_none() {
                locked.push((key.clone(), caller.clone()));
            }
        }
        let saved = carrier.saved;
        if is_committed(batch.commit().await) {
            if locked.is_empty() {
                return saved;
            }
            leased = locked;
        }
    }
}

/// What the parent must be at the end: ready, once, and with every child's end recorded once.
async fn check_the_parent(store: &PostgresStore, database: &Database) {
    let browse = store.browse();
    let found = browse.find(&parent()).await.unwrap().unwrap();
    let task = found.subject.live().expect("its function has not ended");
    let run = task.run.as_deref().expect("it is a durable run");
    assert_eq!((task.state(), run.live_children), (State::Waiting, 0));
    assert!(task.claimable_at().is_some(), "a worker may lease it");
    let (mut ended, mut woken, mut after) = (0, 0, 0);
    loop {
        let page = browse.rows(&parent(), RowsAfter::Checkpoint(after), 400).await.unwrap();
        let Some(last) = page.checkpoints.last() else { break };
        after = last.number;
        for checkpoint in &page.checkpoints {
            ended += u128::from(matches!(checkpoint.recorded, Recorded::Child(_)));
            woken += usize::from(matches!(checkpoint.recorded, Recorded::Wait(_)));
        }
    }
    assert_eq!((ended, woken), (CHILDREN, 1));
    assert_eq!(browse.saved_messages(None, 10).await.unwrap(), []);
    assert_eq!(verify(browse).await.unwrap().findings, []);
    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let items = client.query_one("SELECT count(*) FROM tenure.waits", &[]).await.unwrap();
    assert_eq!(items.get::<_, i64>(0), 0, "the items of a wait leave with it");
}

#[tokio::test(flavor = "multi_thread")]
async fn children_that_end_on_two_coordinators_wake_their_parent_once() {
    // E3: every end counts once, whichever coordinator decides it and whether or not its message was saved first.
    let database = Database::create();
    let a = PostgresStore::open(database.url(), options(None)).await.unwrap();
    let b = PostgresStore::open(database.url(), options(None)).await.unwrap();
    start(&a).await;
    let working = async { tokio::join!(work(&a, 10_000), work(&b, 20_000)) };
    tokio::time::timeout(PATIENCE, working).await.expect("all children end");
    check_the_parent(&a, &database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_dies_leaves_its_messages_to_the_other() {
    // S2-104: one coordinator ends children while the other one has their parent locked, and is gone afterwards.
    let database = Database::create();
    let b = PostgresStore::open(database.url(), options(None)).await.unwrap();
    start(&b).await;
    let mut holder = b.writer().await.unwrap();
    let mut holding = holder.begin().await.unwrap();
    let held = holding.look_up(Lookup::tasks(&[parent()])).await.unwrap().tasks;
    assert!(matches!(held[..], [Loaded::Subject(Subject::Live(_))]));
    let a = PostgresStore::open(database.url(), options(None)).await.unwrap();
    let mut writer = a.writer().await.unwrap();
    let mut batch = writer.begin().await.unwrap();
    let leased = Carrier::of(&mut batch).await.lease("child", 10_000, 2 * AT_ONCE).await;
    batch.commit().await.unwrap();
    let (reported, unreported) = leased.split_at(AT_ONCE);
    assert_eq!(end(&mut writer, reported.to_vec()).await, AT_ONCE, "no message could be decided");
    // The rest of its work is lost with it, in the middle of a batch.
    let mut lost = writer.begin().await.unwrap();
    let mut carrier = Carrier::of(&mut lost).await;
    for (key, caller) in unreported {
        carrier.carry(key, &report(caller, succeeded())).await.unwrap();
    }
    drop(lost);
    drop(writer);
    drop(a);
    drop(holding);
    assert_eq!(b.browse().saved_messages(None, 100).await.unwrap().len(), AT_ONCE);
    end(&mut holder, unreported.to_vec()).await;
    drop(holder);
    tokio::time::timeout(PATIENCE, work(&b, 20_000)).await.expect("all children end");
    check_the_parent(&b, &database).await;
}
