//! The guides to webhooks and push, run as written: their receivers are the programs of the guides, at a free port.

use std::net::TcpListener;
use std::process::Command;

use crate::guides::{self, Reader};
use crate::home::{Home, Process, wait_until};

const WEBHOOKS: &str = include_str!("../../../../docs/guide/webhooks.md");
const PUSH: &str = include_str!("../../../../docs/guide/push.md");

/// A guide whose receiver listens at a port that is free here.
struct Guide {
    blocks: Vec<String>,
    receiver: Process,
}

impl Guide {
    fn start(home: &Home, guide: &'static str, port: &str) -> Guide {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let moved = |text: &str| text.replace(port, &free.to_string());
        std::fs::write(home.path().join("receiver.py"), moved(guides::fenced(guide, "python")[0]))
            .unwrap();
        let mut python = Command::new("python3");
        python.arg("receiver.py").current_dir(home.path());
        let receiver = Process::start(python);
        wait_until("the receiver", || std::net::TcpStream::connect(("127.0.0.1", free)).is_ok());
        let blocks = guides::blocks(guide).into_iter().map(moved).collect();
        Guide { blocks, receiver }
    }
}

fn effect_in(home: &Home, run: &str, state: &str) {
    wait_until(state, || {
        let found = home.json(&["effects", "--json", "--run", run, "--state", state]);
        !found.as_array().unwrap().is_empty()
    });
}

#[test]
fn the_guide_to_webhooks_is_true() {
    let home = Home::new();
    let _dev = guides::dev(&home);
    let worker = guides::terminals(WEBHOOKS);
    assert_eq!(worker, ["tenure dev", "tenure work --queue img --exec cat"]);
    let words: Vec<&str> = worker[1].split_whitespace().skip(1).collect();
    let _worker = Process::start(home.tenure(&words));
    let guide = Guide::start(&home, WEBHOOKS, "8098");
    let mut reader = Reader::new(&home);
    let mut blocks = guide.blocks.iter();
    let mut follow = |reader: &mut Reader| reader.follow(blocks.next().expect("one more block"));
    assert!(follow(&mut reader).contains("whsec_"));
    follow(&mut reader);
    let run = reader.variable("run");
    effect_in(&home, &run, "delivered");
    let shown = follow(&mut reader);
    for part in ["run.succeeded", "delivered", "1 run.succeeded"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    follow(&mut reader);
    let run = reader.variable("run");
    effect_in(&home, &run, "dead");
    assert!(follow(&mut reader).contains("tries_exhausted"));
    effect_in(&home, &run, "delivered");
    assert!(follow(&mut reader).contains("run.succeeded"));
    drop(guide.receiver);
}

#[test]
fn the_guide_to_push_is_true() {
    // S4-73: a function that lives only during the request.
    let home = Home::new();
    let _dev = guides::dev(&home);
    let guide = Guide::start(&home, PUSH, "8099");
    let mut reader = Reader::new(&home);
    let printed: String = guide.blocks.iter().map(|block| reader.follow(block)).collect();
    for part in ["whsec_", "succeeded", "\"hello\"", "Ada", "queues", "push:hello"] {
        assert!(printed.contains(part), "{part} in {printed}");
    }
    drop(guide.receiver);
}
