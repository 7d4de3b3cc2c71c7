//! What polls of many queues cost the database: the cost does not grow with their number, and they delay no other call.
//!
//! The server logs every statement it receives, so that they can be counted.

use pgserver::Server;
use store::postgres::{PostgresWriter, hot_statements};
use store::{Batch, Claimable, PolledQueues, PostgresStore, Store, Want, Writer};
use storetest::conformance::{Call, Submission, carry::carry};
use tokio_postgres::types::{ToSql, Type};
use verdict::{Name, Scope, TaskId};

use super::options;
use super::private::client;

/// How many statements one batch and the concurrent refills may send, whatever is polled: a batch is about ten
/// statements, a refill four, and a few refills run during a batch.
const STATEMENTS_MAX: usize = 60;

/// The polled queues.
struct Polls(Vec<(Scope, Name)>);

impl Polls {
    fn of(tenant: &str, count: usize) -> Self {
        let queue = |n| (Scope::new(tenant, "main"), Name::from(format!("queue {n}")));
        Self((0..count).map(queue).collect())
    }

    fn and(mut self, tenant: &str, queue: &str) -> Self {
        self.0.push((Scope::new(tenant, "main"), Name::from(queue)));
        self
    }
}

impl PolledQueues for Polls {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn contains(&self, scope: &Scope, queue: &Name) -> bool {
        self.0.iter().any(|(other, name)| other == scope && name == queue)
    }

    fn each(&self, see: &mut dyn FnMut(&Scope, &Name)) {
        self.0.iter().for_each(|(scope, queue)| see(scope, queue));
    }
}

/// A server that logs its statements.
struct Talkative {
    server: Server,
    read: usize,
}

impl Talkative {
    fn start() -> Self {
        // Otherwise test servers log only FATAL and above, and a logged statement has the level LOG.
        let server = Server::builder().without_fsync().set("log_min_messages", "log");
        let server = server.set("log_statement", "all").start().unwrap();
        Self { server, read: 0 }
    }

    async fn open(&self) -> (PostgresStore, PostgresWriter) {
        let address = self.server.conninfo("postgres");
        let store = PostgresStore::open(&address, options(None)).await.unwrap();
        let writer = store.writer().await.unwrap();
        (store, writer)
    }

    /// How many statements arrived since the last call.
    fn statements(&mut self) -> usize {
        let log = std::fs::read_to_string(self.server.folder().join("log")).unwrap();
        let lines = log.lines().skip(self.read);
        let is_one = |line: &&str| line.contains("  execute ") || line.contains("  statement: ");
        let count = lines.filter(is_one).count();
        self.read = log.lines().count();
        count
    }
}

async fn submit(writer: &mut PostgresWriter, scope: &Scope, queue: &str, id: u128) {
    let mut batch = writer.begin().await.unwrap();
    let task = Submission::new(TaskId::from_u128(id), scope, queue);
    carry(&mut batch, 1, Call::Submit(task)).await.unwrap();
    batch.commit().await.unwrap();
}

/// Searches for work as a coordinator does, and takes none. Returns the tasks found.
async fn work(writer: &mut PostgresWriter, polls: &Polls) -> Vec<u128> {
    let mut batch = writer.begin().await.unwrap();
    batch.backlogs(polls, Claimable::Likely).await.unwrap();
    let now = batch.moment().await.unwrap().now;
    let backlogs = batch.backlogs(polls, Claimable::By(now)).await.unwrap();
    let want = |backlog: store::Backlog| Want {
        scope: backlog.scope,
        queues: vec![backlog.queue],
        kinds: None,
        max: 1,
    };
    let wants: Vec<Want> = backlogs.into_iter().map(want).collect();
    let ready = batch.ready(&wants, now).await.unwrap();
    ready.iter().flatten().map(|ready| ready.task.id.as_u128()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_idle_queues_cost_a_batch_no_statement() {
    // S2-52, G6: 10,000 polls cost the store no more than the 1,000 queues they wait at.
    let mut talkative = Talkative::start();
    let (_store, mut writer) = talkative.open().await;
    let polls = Polls::of("acme", 1_000).and("acme", "images");
    assert!(talkative.statements() > 0, "opening a store takes statements");
    assert_eq!(work(&mut writer, &polls).await, []);
    let first = talkative.statements();
    assert!(first <= STATEMENTS_MAX, "{first} statements when all are new");
    submit(&mut writer, &Scope::new("acme", "main"), "images", 1).await;
    let mut batches = 0;
    while work(&mut writer, &polls).await != [1] {
        batches += 1;
        assert!(batches < 1_000, "what this process committed is never found");
    }
    let second = talkative.statements();
    assert!(second <= (batches + 2) * STATEMENTS_MAX, "{second} statements in {batches} batches");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_invented_names_make_no_other_tenant_wait() {
    // S2-52, G2: a peer submitted the task, so it must be searched for, and the first batch in which its queue is
    // polled finds it.
    let mut talkative = Talkative::start();
    let (_fellow, mut peer) = talkative.open().await;
    let (_store, mut writer) = talkative.open().await;
    let invented = Polls::of("mallory", 2_000);
    work(&mut writer, &invented).await;
    submit(&mut peer, &Scope::new("acme", "main"), "images", 1).await;
    let polls = invented.and("acme", "images");
    talkative.statements();
    assert_eq!(work(&mut writer, &polls).await, [1]);
    let statements = talkative.statements();
    assert!(statements <= STATEMENTS_MAX, "{statements} statements");
}

#[tokio::test]
async fn a_look_reads_each_buffer_by_the_index_of_its_queue() {
    // G6: independent of what else is queued, and of the planner's statistics of the table.
    let server = Server::builder().without_fsync().start().unwrap();
    let address = server.conninfo("postgres");
    let store = PostgresStore::open(&address, options(None)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let scope = Scope::new("acme", "main");
    for id in 1..=40 {
        submit(&mut writer, &scope, if id % 2 == 0 { "images" } else { "texts" }, id).await;
    }
    let (tenants, workspaces) = (vec!["acme"; 2], vec!["main"; 2]);
    let (queues, kinds) = (vec!["images", "none"], vec![None::<&str>; 2]);
    let (after, heads, limit) = (vec![Vec::<u8>::new(); 2], vec![true; 2], 8_i64);
    let parameters: [(&(dyn ToSql + Sync), Type); 7] = [
        (&tenants, Type::TEXT_ARRAY),
        (&workspaces, Type::TEXT_ARRAY),
        (&queues, Type::TEXT_ARRAY),
        (&kinds, Type::TEXT_ARRAY),
        (&after, Type::BYTEA_ARRAY),
        (&heads, Type::BOOL_ARRAY),
        (&limit, Type::INT8),
    ];
    let client = client(&server).await;
    client.batch_execute(hot_statements().begin).await.unwrap();
    client.query("SELECT set_config('tenure.scopes', '*', true)", &[]).await.unwrap();
    let explain = format!("EXPLAIN (ANALYZE, TIMING OFF) {}", hot_statements().refill);
    let rows = client.query_typed(&explain, &parameters).await.unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let reads = |index: &str| plan.iter().any(|line| line.contains(index));
    assert!(reads("using live_ready") && reads("using live_delayed"), "{}", plan.join("\n"));
    assert!(!reads("Seq Scan") && !reads("Sort"), "{}", plan.join("\n"));
}
