//! The guide to durable functions, run as written: the worker is the example that the guide starts.

use std::process::{Command, Stdio};

use tokio_util::sync::CancellationToken;

use crate::home::{Home, Process};
use crate::operate_backup::client;

#[expect(unreachable_pub, reason = "the example stands for a module of a program")]
#[expect(dead_code, reason = "it is a program, and its `main` is not called here")]
#[path = "../../../../sdks/rust/examples/order.rs"]
pub(crate) mod order;

const GUIDE: &str = include_str!("../../../../docs/guide/durable.md");

/// Printed after each block, to separate what they print.
const END_OF_BLOCK: &str = "@@ end of block @@";

/// The shell blocks, in order.
fn blocks() -> Vec<&'static str> {
    let fenced = GUIDE.split("\n```sh\n").skip(1);
    fenced.map(|rest| rest.split_once("\n```").expect("a block has an end").0).collect()
}

/// The commands that go on until they are stopped: each has a separate terminal.
fn terminals() -> Vec<&'static str> {
    GUIDE.lines().filter_map(|line| line.strip_prefix("$ ")).collect()
}

/// Starts a coordinator as the guide says, on a free port.
fn dev(home: &Home) -> Process {
    let mut dev = Process::start(home.tenure(&["dev", "--port", "0"]));
    while !dev.text_line().contains("Ctrl-C") {}
    dev
}

/// Runs the blocks in one shell that finds the binary, and returns what each printed.
fn follow(home: &Home, blocks: &[&str]) -> Vec<String> {
    let mut script = String::new();
    for block in blocks {
        script.push_str(&format!("{block}\necho '{END_OF_BLOCK}'\n"));
    }
    // The environment of the binary in this home, for the shell.
    let binary = home.tenure(&[]);
    let folder = std::path::Path::new(binary.get_program()).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-eu", "-c", &script]).current_dir(home.path()).stdin(Stdio::null()).env_clear();
    shell.env("PATH", path);
    shell.envs(binary.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = shell.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let printed = String::from_utf8(ran.stdout).unwrap();
    printed.split(END_OF_BLOCK).take(blocks.len()).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_to_durable_functions_is_true() {
    // The worker is the file that the second command runs, built into this test.
    assert_eq!(terminals(), ["tenure dev", "cargo run -p tenure-sdk --example order"]);
    let home = Home::new();
    let _dev = dev(&home);
    let stop = CancellationToken::new();
    let worker = order::worker(client(&home)).run_until(stop.clone().cancelled_owned());
    let worker = tokio::spawn(worker);
    let blocks = blocks();
    let printed = tokio::task::block_in_place(|| follow(&home, &blocks));
    let [submitted, signalled, ended] = &printed[..] else {
        panic!("the guide has {} blocks: each has its own check here", blocks.len());
    };
    assert!(submitted.contains("order on orders"), "{submitted}");
    assert!(signalled.contains("has the signal approve"), "{signalled}");
    assert!(ended.contains("order 7: parcel with lamp, parcel with cable"), "{ended}");
    for key in ["charge#1", "sleep#1", "signal:approve#1", "child:pack#1", "mail#1"] {
        assert!(ended.contains(key), "{key} in {ended}");
    }
    stop.cancel();
    worker.await.unwrap().unwrap();
}
