//! Durable functions against the built server: they outlive their workers, sleep, take signals, join children, and stop
//! where their code is not the recorded code. Each story is told over SQLite and over PostgreSQL.

use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::future::pending;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pgserver::Server;
use serde_json::{Value, json};
use tenure::wire::answers::Checkpoint;
use tenure::{Client, Ctx, Error, Failure, Flow, Kind, Run, RunHandle, State, Worker};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::home::{Home, Process, wait_until};
use crate::operate_backup::client;

pub(crate) const QUEUE: &str = "orders";
/// A day: no test waits for it.
const LONG: Duration = Duration::from_secs(86_400);

/// Tells a test process to work instead: the file that its steps write to.
const EXECUTED: &str = "TENURE_TEST_EXECUTED";
/// Tells it to stop before the second step, until it is killed.
const STUCK: &str = "TENURE_TEST_STUCK";

/// A server over one of the engines.
pub(crate) struct World {
    pub(crate) home: Home,
    pub(crate) client: Client,
    _server: Process,
    _database: Option<Server>,
}

impl World {
    pub(crate) fn on_sqlite() -> World {
        let home = Home::new();
        let server = home.serve();
        World { client: client(&home), home, _server: server, _database: None }
    }

    pub(crate) fn on_postgres() -> World {
        let home = Home::new();
        let database = Server::builder().without_fsync().start().unwrap();
        database.sql("postgres", "CREATE DATABASE tenure").unwrap();
        let store = database.url("tenure");
        let listen = ["--listen", "127.0.0.1:0", "--write-profile", "--store", &store];
        let arguments: Vec<&str> = ["serve", "--json"].into_iter().chain(listen).collect();
        let mut server = Process::start(home.tenure(&arguments));
        server.line();
        World { client: client(&home), home, _server: server, _database: Some(database) }
    }

    pub(crate) fn work(&self, add: impl FnOnce(Worker) -> Worker) -> Working {
        let stop = CancellationToken::new();
        let worker = add(Worker::new(self.client.clone()).queue(QUEUE));
        let ended = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        Working { stop, ended }
    }

    pub(crate) async fn submit(&self, kind: &str, input: &Value) -> RunHandle {
        self.client.submit(kind, input).queue(QUEUE).await.unwrap()
    }
}

/// A worker beside the test.
pub(crate) struct Working {
    stop: CancellationToken,
    ended: JoinHandle<Result<(), Error>>,
}

impl Working {
    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.ended.await.unwrap().unwrap();
    }
}

/// Waits until a condition holds for a run.
async fn until(run: &RunHandle, what: &str, holds: impl Fn(&Run) -> bool) -> Run {
    let mut after = 0;
    loop {
        let seen = run.status().await.unwrap();
        if holds(&seen) {
            return seen;
        }
        let page = run.history().after(after).wait(Duration::from_secs(30)).await.unwrap();
        assert!(!page.entries.is_empty(), "never happened: {what}");
        after = page.next_after;
    }
}

pub(crate) async fn until_waiting(run: &RunHandle) -> Run {
    until(run, "the run waits", |seen| seen.state == State::Waiting).await
}

fn keys(steps: &[Checkpoint]) -> Vec<&str> {
    steps.iter().map(|step| step.key.as_str()).collect()
}

// An order that outlives its worker, in processes that can be killed.

fn note(file: &Path, what: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
    writeln!(file, "{what}").unwrap();
}

fn noted(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Works in this process until it is killed.
fn work_here(executed: PathBuf) {
    let is_stuck = std::env::var_os(STUCK).is_some();
    let worker = Worker::from_env().unwrap().queue(QUEUE);
    let worker = worker.durable("order", move |ctx: Flow, cents: u64| {
        let executed = executed.clone();
        async move {
            let receipt: String = ctx
                .step("charge", async |step| {
                    note(&executed, "charge");
                    Ok::<_, Failure>(format!("{cents} under {}", step.idempotency_key()))
                })
                .input(&cents)
                .await?;
            ctx.step("mail", async |_| {
                if is_stuck {
                    note(&executed, "stuck");
                    pending::<()>().await;
                }
                note(&executed, "mail");
                Ok::<_, Failure>(ctx.random_u64("stamp"))
            })
            .await?;
            Ok(receipt)
        }
    });
    let worker = worker.durable("busy", busy);
    tokio::runtime::Runtime::new().unwrap().block_on(worker.run()).unwrap();
}

/// Branches, random numbers, a map in random order, and a failure.
async fn busy(ctx: Flow, weights: HashMap<String, u64>) -> Result<u64, Failure> {
    let part = |name: &'static str| {
        ctx.branch(name, async move |ctx: Flow| {
            ctx.step("draw", async |_| Ok::<_, Failure>(ctx.random_u64("die") % 6)).await?;
            ctx.sleep(Duration::from_millis(ctx.random_u64("nap") % 10)).await;
            ctx.step("late", async |_| Ok::<_, Failure>(name.to_owned())).await
        })
    };
    let (left, right) = tokio::join!(part("left"), part("right"));
    let failed = ctx.step("fail", async |_| Err::<u64, _>(Failure::permanent("no"))).await;
    let sum = ctx.step("sum", async |_| Ok::<_, Failure>(weights.values().sum::<u64>()));
    let sum = sum.input(&weights).await?;
    ctx.step("last", async |_| Ok::<_, Failure>((left.is_ok(), right.is_ok(), failed.is_err())))
        .await?;
    Ok(sum)
}

/// This test again, in a process that only works.
fn worker_process(home: &Home, test: &str, executed: &Path) -> Command {
    let profile: Value = serde_json::from_slice(&std::fs::read(home.profile()).unwrap()).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(EXECUTED, executed);
    command.env("TENURE_URL", profile["url"].as_str().unwrap());
    command.env("TENURE_API_KEY", profile["apiKey"].as_str().unwrap());
    command
}

fn an_order_outlives_its_worker(world: fn() -> World, test: &str) {
    if let Some(executed) = std::env::var_os(EXECUTED) {
        return work_here(executed.into());
    }
    let world = world();
    let executed = world.home.path().join("executed");
    let first = Process::start({
        let mut command = worker_process(&world.home, test, &executed);
        command.env(STUCK, "1");
        command
    });
    let id =
        world.home.submit(&["order", "--queue", QUEUE, "--input", "500", "--lease-ms", "2000"]);
    wait_until("the second step", || noted(&executed).contains(&"stuck".to_owned()));
    first.signal("KILL");
    let _second = Process::start(worker_process(&world.home, test, &executed));
    let run = world.home.ended(&id);
    assert_eq!(run["state"], "succeeded", "{run}");
    let task_id = run["taskId"].as_str().unwrap();
    assert_eq!(run["output"], json!(format!("500 under {task_id}/charge#1")));
    // A run that makes progress has its lost workers forgiven.
    assert_eq!((&run["attempt"], &run["lost"]), (&json!(2), &json!(0)));
    assert_eq!(noted(&executed), ["charge", "stuck", "mail"]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let steps = runtime.block_on(world.client.run(id).steps()).unwrap();
    assert_eq!(keys(&steps), ["charge#1", "mail#1"]);
    assert_eq!(steps.iter().map(|step| step.attempt).collect::<Vec<_>>(), [Some(1), Some(2)]);
}

#[test]
fn an_order_outlives_its_killed_worker_over_sqlite() {
    // F79, F80, E2, E3, S2-86: each step is executed and recorded once, by two workers.
    let test = "durable::an_order_outlives_its_killed_worker_over_sqlite";
    an_order_outlives_its_worker(World::on_sqlite, test);
}

#[test]
fn an_order_outlives_its_killed_worker_over_postgresql() {
    // F79, F80, E2, E3, S2-86: as over a file.
    let test = "durable::an_order_outlives_its_killed_worker_over_postgresql";
    an_order_outlives_its_worker(World::on_postgres, test);
}

#[test]
fn processes_in_other_places_record_the_same_bytes() {
    // F83, E1, S2-63, S2-85: hash seeds, time zones and languages differ between the processes.
    let test = "durable::processes_in_other_places_record_the_same_bytes";
    if let Some(executed) = std::env::var_os(EXECUTED) {
        return work_here(executed.into());
    }
    let world = World::on_sqlite();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let weights: BTreeMap<String, u64> = (0..50).map(|n| (format!("n{n}"), n)).collect();
    let input = serde_json::to_string(&weights).unwrap();
    let places = [("Pacific/Kiritimati", "tr_TR.UTF-8"), ("America/St_Johns", "C")];
    let recorded = places.map(|(zone, language)| {
        let mut command = worker_process(&world.home, test, &world.home.path().join("executed"));
        command.envs([("TZ", zone), ("LANG", language), ("LC_ALL", language)]);
        let _worker = Process::start(command);
        let submission = ["busy", "--queue", QUEUE, "--seed", "42", "--input", &input];
        let id = world.home.submit(&submission);
        assert_eq!(world.home.ended(&id)["output"], 1225);
        let mut steps = runtime.block_on(world.client.run(id).steps()).unwrap();
        // Which branch was quicker is not part of what is recorded of each.
        steps.sort_by(|one, other| one.key.cmp(&other.key));
        let facts = |step: &Checkpoint| {
            json!([step.key, step.outcome, step.result, step.error, step.input_digest, step.wait])
        };
        // Which of two sleeps ended a wait depends on time.
        let is_fact = |step: &&Checkpoint| !step.key.starts_with("wait:");
        steps.iter().filter(is_fact).map(|step| facts(step).to_string()).collect::<Vec<_>>()
    });
    assert_eq!(recorded[0].len(), 7, "{recorded:?}");
    assert_eq!(recorded[0], recorded[1]);
}

// What a function waits for.

/// Waits for a signal, then with a limit for another one, then for a third.
async fn signals(ctx: Flow, limit_ms: u64) -> Result<Value, Failure> {
    let one: String = ctx.signal("go").await?;
    let two: Option<String> = ctx.signal("go").within(Duration::from_millis(limit_ms)).await?;
    let three: String = ctx.signal("go").await?;
    Ok(json!([one, two, three]))
}

async fn signals_are_taken_once_and_in_order(world: &World) {
    let run = world.submit("signals", &json!(1)).await;
    // Before anybody waits for it, and twice under one key.
    run.signal("go", "early").idempotency_key("k").await.unwrap();
    let again = run.signal("go", "early").idempotency_key("k").await.unwrap();
    assert_eq!(again.replayed, Some(true));
    let working = world.work(|worker| worker.durable("signals", signals));
    // After the limit of the second wait has passed: it stays for the third.
    let is_third = |seen: &Run| {
        let wait = seen.durable.as_ref().and_then(|durable| durable.waiting.as_ref());
        wait.and_then(|waiting| waiting.wait.as_ref())
            .is_some_and(|wait| wait.key == "wait:signal:go#3")
    };
    until(&run, "the third wait", is_third).await;
    run.signal("go", "late").await.unwrap();
    assert_eq!(run.output::<Value>().await.unwrap(), json!(["early", null, "late"]));

    // During the wait.
    let run = world.submit("signals", &json!(LONG.as_millis() as u64)).await;
    for word in ["one", "two", "three"] {
        until_waiting(&run).await;
        run.signal("go", word).await.unwrap();
    }
    assert_eq!(run.output::<Value>().await.unwrap(), json!(["one", "two", "three"]));
    let refused = run.signal("go", "after the end").await.unwrap_err();
    assert_eq!(refused.status(), Some(409), "{refused}");
    working.end().await;
}

async fn a_sleep_ends_by_itself_and_holds_no_worker(world: &World) {
    let working = world.work(|worker| {
        worker.concurrency(1).durable("nap", |ctx: Flow, ms: u64| async move {
            let before = ctx.now().await;
            ctx.sleep(Duration::from_millis(ms)).await;
            Ok(ctx.now().await.as_ms() - before.as_ms())
        })
    });
    let asleep = world.submit("nap", &json!(LONG.as_millis() as u64)).await;
    until_waiting(&asleep).await;
    let run = world.submit("nap", &json!(20)).await;
    assert!(run.output::<u64>().await.unwrap() >= 20);
    asleep.cancel().await.unwrap();
    assert_eq!(asleep.wait().await.unwrap().state, State::Cancelled);
    working.end().await;
}

const PART: Kind<u64, u64> = Kind::new("part").queue(QUEUE);
const AUDIT: Kind<usize, ()> = Kind::new("audit").queue(QUEUE);

async fn family(ctx: Flow, parts: Vec<u64>) -> Result<Value, Failure> {
    let mut results = Vec::new();
    for result in ctx.map(PART, &parts).max(2).await {
        results.push(match result {
            Ok(square) => json!(square),
            Err(failure) => json!(failure.message),
        });
    }
    ctx.call(AUDIT, &results.len()).detach().await?;
    Ok(json!(results))
}

async fn children_are_joined_in_order_and_their_failures_are_values(world: &World) {
    let executed: Arc<Mutex<BTreeMap<u64, u32>>> = Arc::default();
    let counts = Arc::clone(&executed);
    let working = world.work(|worker| {
        worker
            .durable("family", family)
            .handle("part", move |_: Ctx, n: u64| {
                *counts.lock().unwrap().entry(n).or_default() += 1;
                async move {
                    if n == 3 {
                        return Err(Failure::permanent("three is no part"));
                    }
                    Ok(n * n)
                }
            })
            .handle("audit", |_: Ctx, n: u64| async move { Ok(n) })
    });
    let run = world.submit("family", &json!([5, 3, 2, 4])).await;
    let output: Value = run.output().await.unwrap();
    assert_eq!(output, json!([25, "three is no part", 4, 16]));
    assert!(executed.lock().unwrap().values().all(|count| *count == 1));
    let children = run.children().await.unwrap();
    let seen: Vec<(&str, bool)> =
        children.iter().map(|child| (child.key.as_str(), child.detached)).collect();
    let parts = ["child:part#1", "child:part#2", "child:part#3", "child:part#4"];
    let expected: Vec<(&str, bool)> =
        parts.iter().map(|key| (*key, false)).chain([("child:audit#1", true)]).collect();
    assert_eq!(seen, expected);
    working.end().await;
}

// Code that changes, and runs that are cancelled.

async fn changed_code_is_stopped_and_the_old_code_continues(world: &World) {
    let code = |name: &'static str| {
        move |ctx: Flow, _: Value| async move {
            ctx.step(name, async |_| Ok::<_, Failure>(1)).await?;
            ctx.signal::<String>("go").await
        }
    };
    let run = world.submit("changing", &json!(null)).await;
    let old = world.work(|worker| worker.durable("changing", code("charge")));
    until_waiting(&run).await;
    old.end().await;
    run.signal("go", "on").await.unwrap();

    let new = world.work(|worker| worker.durable("changing", code("bill")));
    let diverged = |seen: &Run| {
        let waiting = seen.durable.as_ref()?.waiting.as_ref()?;
        waiting.diverged.clone()
    };
    let seen = until(&run, "the divergence", |seen| diverged(seen).is_some()).await;
    let told = diverged(&seen).unwrap();
    assert_eq!((told.branch.as_str(), told.index, told.recorded.as_str()), ("", 0, "charge#1"));
    assert!(told.actual.starts_with("bill#1 (") && told.actual.contains("durable.rs:"), "{told:?}");
    new.end().await;

    let old = world.work(|worker| worker.durable("changing", code("charge")));
    run.resume().await.unwrap();
    assert_eq!(run.output::<String>().await.unwrap(), "on");
    old.end().await;
}

async fn a_cancelled_run_drops_its_step(world: &World) {
    let (begun, mut begins) = tokio::sync::mpsc::channel(1);
    let working = world.work(|worker| {
        worker.durable("endless", move |ctx: Flow, _: Value| {
            let begun = begun.clone();
            async move {
                ctx.step("hang", async |_| {
                    begun.try_send(()).unwrap();
                    pending::<Result<(), Failure>>().await
                })
                .await
            }
        })
    });
    let run = world.client.submit("endless", &()).queue(QUEUE);
    let run = run.cancel_grace(Duration::from_secs(2)).await.unwrap();
    begins.recv().await.unwrap();
    run.cancel().reason("no longer wanted").await.unwrap();
    let ended = run.wait().await.unwrap();
    assert_eq!((ended.state, ended.attempt), (State::Cancelled, 1));
    working.end().await;
}

async fn every_story(world: &World) {
    signals_are_taken_once_and_in_order(world).await;
    a_sleep_ends_by_itself_and_holds_no_worker(world).await;
    children_are_joined_in_order_and_their_failures_are_values(world).await;
    changed_code_is_stopped_and_the_old_code_continues(world).await;
    a_cancelled_run_drops_its_step(world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_is_taken_whether_it_comes_before_during_or_after_the_wait() {
    // F85: nothing is lost, doubled or reordered.
    signals_are_taken_once_and_in_order(&World::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleeping_function_costs_no_worker() {
    a_sleep_ends_by_itself_and_holds_no_worker(&World::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_are_started_once_and_joined() {
    children_are_joined_in_order_and_their_failures_are_values(&World::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_code_stops_at_its_first_difference() {
    // F82, E4: nothing is executed, the difference is told, and the run can go on.
    changed_code_is_stopped_and_the_old_code_continues(&World::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_reaches_a_function_in_a_step() {
    a_cancelled_run_drops_its_step(&World::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_story_is_the_same_over_postgresql() {
    every_story(&World::on_postgres()).await;
}
