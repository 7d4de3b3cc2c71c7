//! `prove` names what was edited, deleted, inserted, reordered or truncated behind the rules, in every table that a record
//! depends on, on both engines.

use std::sync::Arc;

use rusqlite::Connection;
use store::prove::{self, AnchoredSeal, Evidence, Proof, ProofFinding, SealCheck, SealProof};
use store::record_seals::root_of;
use store::sqlite::{Options, SqliteStore};
use store::{
    Administration, Browse, EndedRecord, EndedRecords, PostgresStore, RecordSeal, Seal, Store,
    TaskKey, Writer,
};
use storetest::ManualClock;
use storetest::conformance::driver::caller;
use storetest::conformance::reports::{report, succeeded};
use storetest::conformance::runs::family::{
    Delivery, Family, call, child, finish, lease, running, signal, step, wait, with_children,
};
use storetest::conformance::{Between, Driver, Fixture};
use tokio_postgres::NoTls;
use verdict::request::Outcome;
use verdict::run::{AwaitedEvent, WaitMode};
use verdict::{Category, Digest, Fault, Scope, Span, TaskId, Time};

use crate::conformance::Sqlite;
use crate::postgres::{Postgres, options};

/// The child of the run.
const LEFT: u128 = 1 << 64;

/// A durable run with a step, a signal and a child; and a plain run with a goal that failed once.
struct Scene {
    flow: TaskKey,
    plain: TaskKey,
}

async fn scene<F: Fixture>(driver: &mut Driver<F>) -> Scene {
    let flow = durable_run(driver).await;
    let plain = plain_run(driver).await;
    seal_everything(driver).await;
    Scene { flow, plain }
}

async fn durable_run<F: Fixture>(driver: &mut Driver<F>) -> TaskKey {
    let mut family = Family::new(Delivery::AtOnce);
    let (flow, worker) = running(driver, "flow").await;
    let steps = vec![step("first", "1"), step("second", "2")];
    let events = [AwaitedEvent::Child("left".into()), AwaitedEvent::Signal("go".into())];
    let asked = call(&worker, steps, wait("both", WaitMode::All, events.to_vec()));
    family.ask(driver, &flow, with_children(asked, vec![child("left", LEFT)])).await;
    family.ask(driver, &flow, signal("go", None, "{\"by\":\"ann\"}")).await;
    let worker = lease(driver, "left").await;
    let left = TaskKey { scope: flow.scope.clone(), id: TaskId::from_u128(LEFT) };
    family.ask(driver, &left, finish(&worker)).await;
    let worker = lease(driver, "flow").await;
    family.ask(driver, &flow, finish(&worker)).await;
    flow
}

async fn plain_run<F: Fixture>(driver: &mut Driver<F>) -> TaskKey {
    let scope = Scope::default();
    let mut submission = driver.submission(&scope, "plain");
    submission.spec.goal = Some("ship the order".into());
    let key = submission.task_key();
    driver.submit(submission).await;
    for _ in 0..2 {
        let leased = driver.lease(&scope, "plain", 1).await;
        // Long enough that the history goes on in rows of its own.
        let trace = "at the end of the world\n".repeat(400);
        let fault = Fault {
            category: Category::Infrastructure,
            message: "disk full".into(),
            stack_trace: Some(trace.into()),
            retryable: None,
        };
        driver.about(&key, report(&caller(&leased[0]), Outcome::Failed(fault))).await;
        driver.wait(Span::from_secs(600));
    }
    let leased = driver.lease(&scope, "plain", 1).await;
    driver.about(&key, report(&caller(&leased[0]), succeeded())).await;
    key
}

/// One seal for each record, in the order of their ends, as a sealer with a key makes them.
async fn seal_everything<F: Fixture>(driver: &mut Driver<F>) {
    let of = EndedRecords::Since { from: Time::from_millis(i64::MIN), after: None, limit: 9 };
    let mut ended = driver.browse().ended_records(&of).await.expect("browsing works");
    ended.sort_by_key(|record| (record.completed_at, record.leaf.task));
    let mut before: Option<RecordSeal> = None;
    for record in ended {
        let seal = sealed(before.as_ref(), &record);
        let record_seals = vec![seal.clone()];
        let act = Administration { record_seals, ..Administration::default() };
        driver.writer().administer(&act).await.expect("the seal is written");
        before = Some(seal);
    }
}

fn sealed(before: Option<&RecordSeal>, record: &EndedRecord) -> RecordSeal {
    let mut seal = RecordSeal {
        tenant: record.tenant.clone(),
        n: before.map_or(1, |before| before.n + 1),
        at: record.completed_at,
        complete_to: record.completed_at,
        first_end: record.completed_at,
        last_end: record.completed_at,
        count: 1,
        root: root_of(&[record.leaf]),
        chain: Digest::of(&[]),
        seal: Seal([0; Seal::BYTES]),
        leaves: vec![record.leaf],
    };
    seal.chain = seal.chain_after(before.map(|before| &before.chain));
    seal.seal = code(&seal);
    seal
}

/// Stands for a code that only the holder of a key can make.
fn code(seal: &RecordSeal) -> Seal {
    let mut code = [0; Seal::BYTES];
    code[8..].copy_from_slice(Digest::of(&[b"the key", seal.chain.bytes()]).bytes());
    Seal(code)
}

fn judge(seal: &RecordSeal) -> SealCheck {
    if seal.seal == code(seal) { SealCheck::Valid } else { SealCheck::Forged }
}

/// Proves a task. `None` if it is not stored.
async fn proved<B: Browse>(
    browse: &B,
    key: &TaskKey,
    anchor: Option<&AnchoredSeal>,
) -> Option<(Proof, SealProof)> {
    let root = prove::find_task(browse, key.id).await.expect("the store can be read")?;
    let mut tasks = 0;
    let proof = prove::prove(browse, root, &mut |_| tasks += 1).await.expect("it can be read");
    assert_eq!(tasks, proof.tasks);
    let tenant = &key.scope.tenant;
    let evidence = Evidence { judge: &judge, anchor, lists_all: true };
    let seals = prove::check_seals(browse, tenant, &proof.records, &evidence).await;
    Some((proof, seals.expect("seals can be read")))
}

async fn anchor<B: Browse>(browse: &B, key: &TaskKey) -> AnchoredSeal {
    let (_, seals) = proved(browse, key, None).await.expect("it is stored");
    let (n, _, chain) = seals.newest.expect("there are seals");
    AnchoredSeal { n, chain }
}

async fn check_intact<B: Browse>(browse: &B, scene: &Scene) {
    let (proof, seals) = proved(browse, &scene.flow, None).await.expect("it is stored");
    assert_eq!((proof.findings, seals.findings), (Vec::new(), Vec::new()));
    assert_eq!((proof.tasks, proof.records.len(), proof.live), (2, 2, 0));
    assert_eq!((seals.seals, seals.keyed, seals.sealed, seals.tail), (3, 3, 2, 0));
    let (proof, seals) = proved(browse, &scene.plain, None).await.expect("it is stored");
    assert_eq!((proof.findings, seals.findings), (Vec::new(), Vec::new()));
    assert_eq!((proof.tasks, proof.attempts, seals.sealed), (1, 3, 1));
}

/// Whose rows are changed, and whose run is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Flow,
    Left,
    Plain,
    /// No task: the chain of seals.
    Seals,
}

use Who::{Flow, Left, Plain, Seals};

/// A change behind the rules: whose rows, the statements, the code of the finding, and words that name the row.
///
/// `{t}` is the schema, `{done}` selects the row of a task in `done`, `{id}` in `inputs`, and `{of}` its rows elsewhere.
const TAMPERINGS: [(Who, &str, &str, &str); 44] = [
    (Flow, "UPDATE {t}done SET output = '2' WHERE {done}", "task_differs", "output"),
    (Flow, "UPDATE {t}done SET state = 'failed' WHERE {done}", "task_differs", "state"),
    (Flow, "UPDATE {t}done SET record = {zeros} WHERE {done}", "task_differs", "record"),
    (Flow, "UPDATE {t}done SET completed_at = completed_at + 1 WHERE {done}", "task_differs", "completed_at"),
    (Flow, "UPDATE {t}done SET tale = NULL WHERE {done}", "history_broken", ""),
    (Left, "UPDATE {t}done SET output = '2' WHERE {done}", "task_differs", "output"),
    (Left, "UPDATE {t}done SET record = {zeros} WHERE {done}", "child_record_differs", "its parent recorded"),
    (Left, "DELETE FROM {t}done WHERE {done}", "child_missing", "its child left"),
    (Left, "DELETE FROM {t}inputs WHERE {id}", "child_missing", "its child left"),
    (Flow, "UPDATE {t}inputs SET input = '2' WHERE {id}", "input_differs", "input"),
    (Plain, "UPDATE {t}inputs SET goal = 'sink it' WHERE {id}", "sealed_record_differs", "seal 3"),
    (Plain, "UPDATE {t}inputs SET goal = NULL WHERE {id}", "sealed_record_differs", "seal 3"),
    (Left, "UPDATE {t}inputs SET task_key = 'x' WHERE {id}", "sealed_record_differs", "seal 2"),
    (Plain, "UPDATE {t}attempts SET owner = 'mallory' WHERE {of} AND attempt = 2", "attempt_differs", "attempt 2 differs"),
    (Plain, "UPDATE {t}attempts SET claims = '{}' WHERE {of} AND attempt = 1", "attempt_differs", "attempt 1 differs"),
    (Plain, "UPDATE {t}attempts SET closed_at = closed_at + 1 WHERE {of} AND attempt = 3", "record_differs", ""),
    (Plain, "DELETE FROM {t}attempts WHERE {of} AND attempt = 2", "attempt_differs", "attempt 3 is in the place of attempt 2"),
    (Plain, "DELETE FROM {t}attempts WHERE {of} AND attempt = 3", "attempt_differs", "its row is missing"),
    (Plain, "DELETE FROM {t}attempts WHERE {of}", "attempt_differs", "attempt 1 is in its history"),
    (
        Plain,
        "CREATE TEMP TABLE extra AS SELECT * FROM {t}attempts WHERE {of} AND attempt = 3;
         UPDATE extra SET attempt = 4; INSERT INTO {t}attempts SELECT * FROM extra",
        "attempt_differs",
        "attempt 4",
    ),
    (
        Plain,
        "UPDATE {t}attempts SET attempt = 9 WHERE {of} AND attempt = 1;
         UPDATE {t}attempts SET attempt = 1 WHERE {of} AND attempt = 2;
         UPDATE {t}attempts SET attempt = 2 WHERE {of} AND attempt = 9",
        "attempt_differs",
        "attempt 1 differs",
    ),
    (Plain, "UPDATE {t}history SET at = at - 5000000 WHERE {of} AND n = {last}", "history_broken", "older"),
    (Plain, "UPDATE {t}history SET events = 'gibberish' WHERE {of} AND n = {last}", "unreadable", ""),
    (Plain, "UPDATE {t}history SET events = '[\"started\"]' WHERE {of} AND n = {last}", "decision_differs", ""),
    (Plain, "DELETE FROM {t}history WHERE {of} AND n = {last}", "task_differs", "history says"),
    (Plain, "DELETE FROM {t}history WHERE {of} AND n = {first}", "history_broken", "in the place of"),
    (Plain, "DELETE FROM {t}history WHERE {of}", "task_differs", "history says"),
    (
        Plain,
        "CREATE TEMP TABLE extra AS SELECT * FROM {t}history WHERE {of} AND n = {last};
         UPDATE extra SET n = n + 1; INSERT INTO {t}history SELECT * FROM extra",
        "history_broken",
        "does not fit",
    ),
    (
        Plain,
        "UPDATE {t}history SET n = 99 WHERE {of} AND n = {first};
         UPDATE {t}history SET n = n - 1 WHERE {of} AND n = {first};
         UPDATE {t}history SET n = {first} + 1 WHERE {of} AND n = 99",
        "history_broken",
        "",
    ),
    (Flow, "UPDATE {t}checkpoints SET result = '7' WHERE {of} AND key = 'first'", "step_differs", "checkpoint 1"),
    (Flow, "UPDATE {t}checkpoints SET digest = {zeros} WHERE {of} AND key = 'second'", "step_differs", "checkpoint 2"),
    (Flow, "DELETE FROM {t}checkpoints WHERE {of} AND key = 'second'", "step_differs", "checkpoints"),
    (Flow, "DELETE FROM {t}checkpoints WHERE {of}", "step_differs", "0 are stored"),
    (
        Flow,
        "UPDATE {t}checkpoints SET number = 99 WHERE {of} AND key = 'first';
         UPDATE {t}checkpoints SET number = 1 WHERE {of} AND key = 'second';
         UPDATE {t}checkpoints SET number = 2 WHERE {of} AND key = 'first'",
        "step_differs",
        "checkpoint 1",
    ),
    (
        Flow,
        "CREATE TEMP TABLE extra AS SELECT * FROM {t}checkpoints WHERE {of} AND key = 'first';
         UPDATE extra SET key = 'third', number = 50; INSERT INTO {t}checkpoints SELECT * FROM extra",
        "step_differs",
        "checkpoint 50",
    ),
    (Flow, "UPDATE {t}children SET ended = 'failed' WHERE {of}", "step_differs", "child left"),
    (Flow, "DELETE FROM {t}children WHERE {of}", "step_differs", "1 children and 0 are stored"),
    (Flow, "UPDATE {t}signals SET payload = '1' WHERE {of}", "step_differs", "signal 1"),
    (Flow, "DELETE FROM {t}signals WHERE {of}", "step_differs", "1 signals and 0 are stored"),
    (Seals, "UPDATE {t}record_seals SET at = at + 1 WHERE n = 2", "seal_differs", "seal 2 was changed"),
    (Seals, "UPDATE {t}record_seals SET leaves = {zeros} WHERE n = 2", "seal_differs", "seal 2"),
    (Seals, "DELETE FROM {t}record_seals WHERE n = 2", "seal_missing", "seal 2 is missing"),
    (Seals, "DELETE FROM {t}record_seals WHERE n = 3", "seals_truncated", "seals 3 to 3"),
    (
        Seals,
        "CREATE TEMP TABLE extra AS SELECT * FROM {t}record_seals WHERE n = 3;
         UPDATE extra SET n = 4; INSERT INTO {t}record_seals SELECT * FROM extra",
        "seal_differs",
        "seal 4 was changed",
    ),
];

/// Swaps two seals: a primary key forbids to do it in one step.
const REORDERED: &str = "UPDATE {t}record_seals SET n = 9 WHERE n = 1;
    UPDATE {t}record_seals SET n = 1 WHERE n = 2; UPDATE {t}record_seals SET n = 2 WHERE n = 9";

/// The dialect of an engine.
struct Dialect {
    schema: &'static str,
    zeros: &'static str,
    of_done: fn(&str) -> String,
    of_rows: fn(&str) -> String,
    id: fn(&str) -> String,
}

const SQLITE: Dialect = Dialect {
    schema: "",
    zeros: "zeroblob(32)",
    of_done: |id| format!("row = (SELECT row FROM inputs WHERE id = x'{id}')"),
    of_rows: |id| format!("task = (SELECT row FROM inputs WHERE id = x'{id}')"),
    id: |id| format!("id = x'{id}'"),
};

const POSTGRES: Dialect = Dialect {
    schema: "tenure.",
    zeros: "decode(repeat('00', 32), 'hex')",
    of_done: |id| format!("id = '\\x{id}'"),
    of_rows: |id| format!("task = '\\x{id}'"),
    id: |id| format!("id = '\\x{id}'"),
};

impl Dialect {
    fn write(&self, sql: &str, task: &TaskKey) -> String {
        let id = format!("{:032x}", task.id.as_u128());
        let of = (self.of_rows)(&id);
        let n = |which: &str| format!("(SELECT {which}(n) FROM {}history WHERE {of})", self.schema);
        sql.replace("{last}", &n("max"))
            .replace("{first}", &n("min"))
            .replace("{t}", self.schema)
            .replace("{zeros}", self.zeros)
            .replace("{done}", &(self.of_done)(&id))
            .replace("{of}", &of)
            .replace("{id}", &(self.id)(&id))
    }
}

impl Scene {
    fn task(&self, who: Who) -> TaskKey {
        match who {
            Flow | Seals => self.flow.clone(),
            Left => TaskKey { id: TaskId::from_u128(LEFT), ..self.flow.clone() },
            Plain => self.plain.clone(),
        }
    }

    /// The run that shows what is wrong.
    fn run(&self, who: Who) -> &TaskKey {
        if who == Plain { &self.plain } else { &self.flow }
    }

    /// What was found instead, if the change was not found and named.
    async fn missed<B: Browse>(
        &self,
        browse: &B,
        anchor: &AnchoredSeal,
        (who, sql, code, words): (Who, &str, &str, &str),
    ) -> Option<String> {
        let found = proved(browse, self.run(who), Some(anchor)).await;
        let (proof, seals) = found.expect("the run is stored");
        let findings: Vec<ProofFinding> =
            proof.findings.into_iter().chain(seals.findings).collect();
        // What is wrong with a child that is missing is known to its parent alone.
        let named = match who {
            Seals => None,
            Left if code == "child_missing" => Some(self.flow.id),
            who => Some(self.task(who).id),
        };
        let is_it = |finding: &ProofFinding| {
            finding.code == code && finding.task == named && finding.what.contains(words)
        };
        let found =
            || findings.iter().map(|it| format!("\n  {:?} {} {}", it.task, it.code, it.what));
        (!findings.iter().any(is_it)).then(|| format!("{sql}:{}", found().collect::<String>()))
    }
}

fn tampered(path: &std::path::Path, sql: &str) {
    let raw = Connection::open(path).expect("the copy opens");
    // The copy lives for one check: nothing is lost if it is not on the disk.
    raw.pragma_update(None, "synchronous", "OFF").expect("a setting");
    let mut statement =
        raw.prepare("SELECT name FROM sqlite_master WHERE type = 'trigger'").expect("a statement");
    let triggers: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .expect("a query")
        .map(|name| name.expect("a name"))
        .collect();
    for name in triggers {
        raw.execute_batch(&format!("DROP TRIGGER {name}")).expect("a trigger of the store");
    }
    raw.execute_batch(sql).expect("rows can be changed");
}

fn opened(path: &std::path::Path) -> SqliteStore {
    let options = Options::new(Arc::new(ManualClock::default())).without_sync();
    SqliteStore::open(path, options.with_ahead(store::ClockAhead::Accept)).expect("the copy opens")
}

#[tokio::test]
async fn every_change_behind_the_rules_is_named_on_sqlite() {
    // S2-111, S2-114, W-4: a record and everything it stands on cannot be changed unnoticed.
    let fixture = Sqlite::new();
    let original = fixture.path();
    let mut driver = Driver::start(fixture, Between::Nothing).await;
    let scene = scene(&mut driver).await;
    check_intact(driver.browse(), &scene).await;
    let anchor = anchor(driver.browse(), &scene.flow).await;
    let folder = tempfile::tempdir().unwrap();
    let copied = |name: String| {
        let path = folder.path().join(name);
        let source = Connection::open(&original).unwrap();
        source.execute("VACUUM INTO ?1", [path.to_str().unwrap()]).unwrap();
        path
    };
    let mut missed = Vec::new();
    for (n, (who, sql, code, words)) in TAMPERINGS.into_iter().enumerate() {
        let path = copied(format!("{n}.db"));
        tampered(&path, &SQLITE.write(sql, &scene.task(who)));
        let store = opened(&path);
        missed.extend(scene.missed(store.browse(), &anchor, (who, sql, code, words)).await);
    }
    let path = copied("reordered.db".to_owned());
    tampered(&path, &SQLITE.write(REORDERED, &scene.flow));
    let named = (Seals, REORDERED, "seal_differs", "seal 1");
    missed.extend(scene.missed(opened(&path).browse(), &anchor, named).await);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    let path = copied("gone.db".to_owned());
    tampered(&path, &SQLITE.write("DELETE FROM {t}done WHERE {done}", &scene.plain));
    check_gone(opened(&path).browse(), &scene).await;
}

/// A run whose end was deleted is named by its seal.
async fn check_gone<B: Browse>(browse: &B, scene: &Scene) {
    assert_eq!(proved(browse, &scene.plain, None).await, None);
    let (seal, leaf) =
        prove::find_sealed(browse, scene.plain.id).await.expect("readable").expect("sealed");
    assert_eq!((seal.n, leaf.task), (3, scene.plain.id));
}

const TABLES: [&str; 9] = [
    "inputs",
    "done",
    "attempts",
    "history",
    "checkpoints",
    "children",
    "signals",
    "messages",
    "record_seals",
];

#[tokio::test]
async fn every_change_behind_the_rules_is_named_on_postgres() {
    // S2-111, S2-114, W-4: the same on the other engine.
    let fixture = Postgres::new();
    let url = fixture.url().to_owned();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut driver = Driver::start(fixture, Between::Nothing).await;
    let scene = scene(&mut driver).await;
    check_intact(driver.browse(), &scene).await;
    let anchor = anchor(driver.browse(), &scene.flow).await;
    // Triggers do not fire in such a session: an attacker who owns the database can do that.
    client.batch_execute("SET session_replication_role = replica").await.unwrap();
    for table in TABLES {
        let sql = format!("CREATE TABLE public.kept_{table} AS TABLE tenure.{table}");
        client.batch_execute(&sql).await.unwrap();
    }
    let restore = async || {
        client.batch_execute("DROP TABLE IF EXISTS pg_temp.extra").await.unwrap();
        for table in TABLES {
            let sql = format!(
                "DELETE FROM tenure.{table}; INSERT INTO tenure.{table} SELECT * FROM public.kept_{table}"
            );
            client.batch_execute(&sql).await.unwrap();
        }
    };
    let mut missed = Vec::new();
    for (who, sql, code, words) in TAMPERINGS {
        client.batch_execute(&POSTGRES.write(sql, &scene.task(who))).await.unwrap();
        missed.extend(scene.missed(driver.browse(), &anchor, (who, sql, code, words)).await);
        restore().await;
    }
    client.batch_execute(&POSTGRES.write(REORDERED, &scene.flow)).await.unwrap();
    let named = (Seals, REORDERED, "seal_differs", "seal 1");
    missed.extend(scene.missed(driver.browse(), &anchor, named).await);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    restore().await;
    check_intact(driver.browse(), &scene).await;
    let sql = POSTGRES.write("DELETE FROM {t}done WHERE {done}", &scene.plain);
    client.batch_execute(&sql).await.unwrap();
    let opened = PostgresStore::open(&url, options(None)).await.unwrap();
    check_gone(opened.browse(), &scene).await;
}
