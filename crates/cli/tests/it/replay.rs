//! Exported runs, replayed with workers in processes of their own: the same code, changed code, and no code at all.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crashlab::waits;
use serde_json::{Value, json};
use tenure::{Client, Ctx, Failure, Flow, Kind, RunHandle, State, Worker};
use tokio_util::sync::CancellationToken;

use crate::durable_guide::{invoice, order, payout};
use crate::home::{CommandOutput, Home};
use crate::operate_backup::client;

/// Tells a test process to work instead, and with which code.
const CODE: &str = "TENURE_TEST_REPLAY_CODE";
const QUEUE: &str = "parcels";
/// The key that signs files here.
const KEY: (&str, &str) = ("TENURE_EXPORT_KEY", "a key of this test");

/// Says what is executed, where the replay shows it.
fn tell(what: &str) {
    std::io::stderr().write_all(format!("executing {what}\n").as_bytes()).unwrap();
}

const PACK: Kind<u64, u64> = Kind::new("pack").queue(QUEUE);

/// One function in several versions.
async fn parcel(ctx: Flow, cents: u64, code: &str) -> Result<Value, Failure> {
    let (step, paid) = match code {
        "renamed" => ("bill", "paid"),
        "otherwise" => ("charge", "paid twice"),
        _ => ("charge", "paid"),
    };
    let receipt: String = ctx
        .step(step, async |_| {
            tell(step);
            Ok::<_, Failure>(format!("{paid} {cents}"))
        })
        .await?;
    let before = ctx.now().await;
    ctx.sleep(Duration::from_millis(5)).await;
    let who: String = ctx.signal("approve").await?;
    let part = |name: &'static str| {
        ctx.branch(name, async move |ctx: Flow| {
            ctx.step("weigh", async |_| Ok::<_, Failure>(ctx.random_u64("grams") % 100)).await
        })
    };
    let (left, right) = tokio::join!(part("left"), part("right"));
    let packed = ctx.map(PACK, [1, 2]).all().await?;
    if code == "longer" {
        let thank = async |_| {
            tell("thank");
            Ok::<_, Failure>(())
        };
        ctx.step("thank", thank).await?;
    }
    let asleep = ctx.now().await.as_ms() - before.as_ms();
    Ok(json!([receipt, who, left?, right?, packed, asleep, ctx.random_u64("stamp")]))
}

fn worker(client: Client, code: String) -> Worker {
    match code.as_str() {
        "order" => return order::worker(client),
        "payout" => return payout::worker(client),
        "invoice" => return invoice::worker(client),
        _ => {}
    }
    let kind = if code == "elsewhere" { "letter" } else { "parcel" };
    Worker::new(client)
        .queue(QUEUE)
        .durable(kind, move |ctx: Flow, cents: u64| {
            let code = code.clone();
            async move { parcel(ctx, cents, &code).await }
        })
        .handle("pack", |_: Ctx, n: u64| async move { Ok(n * n) })
}

/// Works in this process, if it was started to.
fn works() -> bool {
    let Ok(code) = std::env::var(CODE) else { return false };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(worker(Client::from_env().unwrap(), code).run()).unwrap();
    true
}

/// `tenure replay`, with a worker of this code: the named test in another process.
fn replay_command(home: &Home, test: &str, code: &str, arguments: &[&str]) -> Command {
    let exe = std::env::current_exe().unwrap();
    let worker = ["--", exe.to_str().unwrap(), "--exact", test, "--nocapture"];
    let all: Vec<&str> = ["replay"].iter().chain(arguments).chain(&worker).copied().collect();
    let mut command = home.tenure(&all);
    command.env(CODE, code).env_remove(KEY.0);
    command
}

fn replay(home: &Home, test: &str, code: &str, arguments: &[&str]) -> CommandOutput {
    CommandOutput::of(waits::run(&mut replay_command(home, test, code, arguments)).unwrap())
}

/// Commands that see the key.
fn with_key(home: &Home, key: &str, arguments: &[&str]) -> CommandOutput {
    CommandOutput::of(waits::run(home.tenure(arguments).env(KEY.0, key)).unwrap())
}

/// A run of the function, up to its end or to its wait for the signal.
async fn recorded(home: &Home, is_approved: bool) -> String {
    let client = client(home);
    let stop = CancellationToken::new();
    let working =
        worker(client.clone(), "same".to_owned()).run_until(stop.clone().cancelled_owned());
    let working = tokio::spawn(working);
    let run = client.submit("parcel", &500).queue(QUEUE).await.unwrap();
    if is_approved {
        run.signal("approve", "Ada").await.unwrap();
        run.output::<Value>().await.unwrap();
    } else {
        until_waits_for_signal(&run).await;
    }
    stop.cancel();
    working.await.unwrap().unwrap();
    run.id().to_owned()
}

async fn until_waits_for_signal(run: &RunHandle) {
    let mut after = 0;
    loop {
        let seen = run.status().await.unwrap();
        let waiting = seen.durable.and_then(|durable| durable.waiting).and_then(|it| it.wait);
        if seen.state == State::Waiting && waiting.is_some_and(|it| it.key.contains("approve")) {
            return;
        }
        after = run.history().after(after).wait(Duration::from_secs(30)).await.unwrap().next_after;
    }
}

/// A golden file of a run.
fn exported(home: &Home, is_approved: bool) -> PathBuf {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let run = runtime.block_on(recorded(home, is_approved));
    let file = home.path().join(format!("{is_approved}.jsonl"));
    let ran = home.run(&["export", &run, "--output", file.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o077, 0, "what a run recorded is as private as the run");
    file
}

fn path(file: &Path) -> &str {
    file.to_str().unwrap()
}

#[test]
fn a_run_is_exported_and_replayed_and_changed_code_is_caught() {
    // S2-85, S2-86, S2-87, S2-88.
    let test = "replay::a_run_is_exported_and_replayed_and_changed_code_is_caught";
    if works() {
        return;
    }
    let home = Home::new();
    let server = home.serve();
    let file = exported(&home, true);
    // A replay needs no server.
    drop(server);

    let same = replay(&home, test, "same", &[path(&file)]);
    assert_eq!(same.code, 0, "{same:?}");
    assert!(same.stdout.starts_with("same     parcel  run_"), "{same:?}");
    assert!(same.stderr.contains("is not signed"), "{same:?}");
    assert!(!same.stderr.contains("executing"), "{same:?}");

    let renamed = replay(&home, test, "renamed", &[path(&file)]);
    assert_eq!(renamed.code, 1, "{renamed:?}");
    for part in ["differs", "the function's own", "index  0", "charge#1", "bill#1 (", "replay.rs:"]
    {
        assert!(renamed.stdout.contains(part), "{part} in {renamed:?}");
    }
    assert!(renamed.stderr.contains("[replay_differs]"), "{renamed:?}");
    assert!(!renamed.stderr.contains("executing"), "{renamed:?}");

    let longer = replay(&home, test, "longer", &["--json", path(&file)]);
    let told: Value = serde_json::from_str(&longer.stdout).unwrap();
    assert_eq!((longer.code, &told["same"]), (1, &json!(false)), "{longer:?}");
    assert_eq!(told["difference"]["finding"], "unrecorded", "{told}");
    assert_eq!(told["difference"]["key"], "thank#1", "{told}");

    // Only the result of a step differs: a replay cannot see it, an execution does.
    assert_eq!(replay(&home, test, "otherwise", &[path(&file)]).code, 0);
    let otherwise = replay(&home, test, "otherwise", &["--execute", path(&file)]);
    assert_eq!(otherwise.code, 1, "{otherwise:?}");
    for part in ["charge#1 is not what was recorded", "paid 500", "paid twice 500"] {
        assert!(otherwise.stdout.contains(part), "{part} in {otherwise:?}");
    }
    let executed = replay(&home, test, "same", &["--execute", path(&file)]);
    assert_eq!(executed.code, 0, "{executed:?}");
    assert!(executed.stderr.contains("executing charge"), "{executed:?}");
}

#[test]
fn several_files_are_replayed_at_once_and_a_waiting_run_as_far_as_it_went() {
    // S2-87: before a deploy, the runs that are under way.
    let test = "replay::several_files_are_replayed_at_once_and_a_waiting_run_as_far_as_it_went";
    if works() {
        return;
    }
    let home = Home::new();
    let _server = home.serve();
    let (waiting, ended) = (exported(&home, false), exported(&home, true));
    let files = [path(&waiting), path(&ended), path(&ended)];
    let same = replay(&home, test, "same", &files);
    assert_eq!((same.code, same.stdout.lines().count()), (0, 3), "{same:?}");
    assert!(same.stdout.lines().all(|line| line.starts_with("same ")), "{same:?}");

    // Code that is longer only after the record's end fits a run that has not come so far.
    let longer = replay(&home, test, "longer", &files);
    assert_eq!(longer.code, 1, "{longer:?}");
    assert!(longer.stderr.contains("2 of 3 runs did not replay"), "{longer:?}");
    let renamed = replay(&home, test, "renamed", &files);
    assert!(renamed.stderr.contains("3 of 3 runs did not replay"), "{renamed:?}");

    let executed = replay(&home, test, "same", &["--execute", path(&waiting)]);
    assert_eq!(executed.code, 2, "{executed:?}");
    assert!(executed.stderr.contains("[no_recorded_end]"), "{executed:?}");
}

#[test]
fn the_golden_files_of_our_examples_replay() {
    // S2-87: those of every release.
    let test = "replay::the_golden_files_of_our_examples_replay";
    if works() {
        return;
    }
    let home = Home::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocol/golden");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    assert!(files.len() >= 6, "{files:?}");
    let mut replayed = 0;
    for code in ["order", "payout", "invoice"] {
        let is_its = |file: &&PathBuf| {
            file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(code))
        };
        let files: Vec<&str> = files.iter().filter(is_its).map(|file| path(file)).collect();
        let ran = replay(&home, test, code, &files);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(ran.stdout.lines().count(), files.len(), "{ran:?}");
        let executed: Vec<&str> = ["--execute"].iter().chain(&files).copied().collect();
        let ran = replay(&home, test, code, &executed);
        assert_eq!(ran.code, 0, "{ran:?}");
        replayed += files.len();
    }
    assert_eq!(replayed, files.len(), "the name of a file begins with its example: {files:?}");
}

#[test]
fn a_worker_that_does_not_replay_is_told_what_is_wrong() {
    let test = "replay::a_worker_that_does_not_replay_is_told_what_is_wrong";
    if works() {
        return;
    }
    let home = Home::new();
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocol/golden/order-approved.jsonl");
    let golden = path(&golden);
    let elsewhere = replay(&home, test, "elsewhere", &[golden]);
    assert_eq!(elsewhere.code, 1, "{elsewhere:?}");
    for part in ["[kind_not_taken]", "does not ask for order on orders", "on parcels"] {
        assert!(elsewhere.stderr.contains(part), "{part} in {elsewhere:?}");
    }
    let exits = home.run(&["replay", golden, "--", "sh", "-c", "echo sorry; exit 3"]);
    assert_eq!(exits.code, 1, "{exits:?}");
    for part in ["sorry", "exit code 3", "[worker_exited]"] {
        assert!(exits.stderr.contains(part), "{part} in {exits:?}");
    }
    let hangs = home.run(&["replay", "--timeout", "100ms", golden, "--", "sleep", "600"]);
    assert_eq!(hangs.code, 1, "{hangs:?}");
    assert!(hangs.stderr.contains("[worker_silent]"), "{hangs:?}");
    let missing = home.run(&["replay", golden, "--", "./no-such-worker"]);
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(missing.stderr.contains("[program_not_found]"), "{missing:?}");
}

#[test]
fn files_are_signed_and_changed_ones_refused() {
    // W-12.
    let home = Home::new();
    let _server = home.serve();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let run = runtime.block_on(recorded(&home, true));
    let export = ["export", &run, "--output", "run.jsonl"];
    for empty in ["", "  \n"] {
        let refused = with_key(&home, empty, &export);
        refused.assert_error(2, "export_key_empty", "TENURE_EXPORT_KEY", "openssl rand");
    }
    assert_eq!(with_key(&home, KEY.1, &export).code, 0);
    with_key(&home, KEY.1, &export).assert_error(4, "file_exists", "run.jsonl", "--force");
    std::fs::write(home.path().join("empty"), "\n").unwrap();
    let replay = ["replay", "run.jsonl", "--", "true"];
    let refused = home.run(&["replay", "run.jsonl", "--key-file", "empty", "--", "true"]);
    refused.assert_error(2, "export_key_empty", "empty", "openssl rand");

    let signed = with_key(&home, KEY.1, &replay);
    assert!(!signed.stderr.contains("warning"), "{signed:?}");
    assert!(home.run(&replay).stderr.contains("is not checked"));
    let other = with_key(&home, "another key", &replay);
    other.assert_error(4, "golden_changed", "run.jsonl", "the key that signed it");

    let file = home.path().join("run.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write(&text.replacen("500", "501", 1));
    home.run(&replay).assert_error(4, "golden_changed", "run.jsonl", "restore the file");
    let last = text.trim_end().rfind('\n').unwrap() + 1;
    write(&text[..last]);
    home.run(&replay).assert_error(4, "golden_cut", "run.jsonl", "copy the file again");
    write(&text.replacen("\"format\":1", "\"format\":9", 1));
    home.run(&replay).assert_error(4, "golden_format", "format 9", "newer Tenure");
    write("# a text\n");
    home.run(&replay).assert_error(2, "golden_invalid", "not a golden file", "tenure export");
    assert_eq!(home.run(&["export", &run, "--output", "run.jsonl", "--force"]).code, 0);
    let unsigned = with_key(&home, KEY.1, &replay);
    unsigned.assert_error(4, "golden_unsigned", "not signed", "without one");
}

#[test]
fn a_run_that_recorded_nothing_is_not_exported() {
    let home = Home::new();
    let _server = home.serve();
    let run = home.submit(&["plain", "--queue", "q"]);
    home.run(&["export", &run]).assert_error(4, "nothing_recorded", &run, "durable function");
}
