//! Replays `protocol/scenarios/durable`: what an engine in any language answers to which checkpoints.

use std::path::{Path, PathBuf};
use std::task::{Context, Poll, Waker};

use serde::Deserialize;
use serde_json::{Value, json};
use workflow::testing::FlowTest;
use workflow::{Answer, Command, Digest, Divergence, Flow, Json, Run, Seen, Start, Stop, function};

use super::program::{Op, Releases, held_program};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    #[expect(dead_code, reason = "for people")]
    about: String,
    function: Vec<Op>,
    start: Start,
    turns: Vec<Turn>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Turn {
    /// The next command.
    Command(Value),
    /// There is no command.
    Idle,
    /// The run stops with a divergence.
    Diverged(Value),
    /// The answer to the last call.
    Recorded(Answer),
    /// The work of a step that holds ends.
    Finish(String),
    /// The time of a try is over.
    TimeOut {
        key: String,
        #[serde(rename = "try")]
        number: u32,
    },
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocol/scenarios/durable")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

#[test]
fn every_durable_scenario_of_the_protocol_holds() {
    // E1, E6: the commands are those that are written down.
    let entries = std::fs::read_dir(folder().join("turns")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 12, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        play(serde_json::from_str(&text).unwrap(), &file);
    }
}

fn play(vector: Vector, file: &Path) {
    let releases = Releases::default();
    let mut run = Run::new(vector.start, held_program(vector.function, releases.clone()));
    for (number, turn) in vector.turns.into_iter().enumerate() {
        let place = format!("{}, turn {}", file.display(), number + 1);
        match turn {
            Turn::Recorded(answer) => run.recorded(answer),
            Turn::Finish(key) => releases.release(&key),
            Turn::TimeOut { key, number } => run.time_out(&key, number),
            Turn::Command(expected) => assert_eq!(told(poll(&mut run)), expected, "{place}"),
            Turn::Diverged(expected) => {
                let diverged = json!({"diverged": expected});
                assert_eq!(told(poll(&mut run)), diverged, "{place}");
            }
            Turn::Idle => assert_eq!(told(poll(&mut run)), json!("idle"), "{place}"),
        }
    }
}

fn poll(run: &mut Run<'_>) -> Poll<Result<Command, Stop>> {
    run.poll(&mut Context::from_waker(Waker::noop()))
}

fn told(turn: Poll<Result<Command, Stop>>) -> Value {
    match turn {
        Poll::Pending => json!("idle"),
        Poll::Ready(Ok(command)) => serde_json::to_value(command).unwrap(),
        Poll::Ready(Err(Stop::Diverged(divergence))) => {
            json!({"diverged": difference(&divergence)})
        }
        Poll::Ready(Err(stop)) => panic!("{stop}"),
    }
}

/// Without the source line, which differs between languages.
fn difference(divergence: &Divergence) -> Value {
    let key = |seen: &Option<Seen>| seen.as_ref().map(|seen| seen.key.clone());
    json!({
        "branch": divergence.branch,
        "index": divergence.index,
        "recorded": key(&divergence.recorded),
        "actual": key(&divergence.actual),
    })
}

#[derive(Deserialize)]
struct DigestVector {
    json: Box<serde_json::value::RawValue>,
    digest: Digest,
}

#[derive(Deserialize)]
struct DrawVector {
    seed: u64,
    branch: String,
    label: String,
    count: u64,
    number: String,
    unit: f64,
    uuid: String,
}

#[test]
fn digests_and_numbers_are_those_that_are_written_down() {
    // S2-85, E6: other languages and later releases compute the same.
    let digests: Vec<DigestVector> = serde_json::from_str(&read("digests.json")).unwrap();
    assert!(digests.len() >= 6);
    for DigestVector { json, digest } in digests {
        let text = json.get().to_owned();
        assert_eq!(Digest::of_json(&Json::from_text(text.clone()).unwrap()), digest, "{text}");
    }
    let draws: Vec<DrawVector> = serde_json::from_str(&read("numbers.json")).unwrap();
    assert!(draws.len() >= 4);
    for draw in draws {
        assert_eq!(drawn(&draw), draw.number, "{} {}", draw.label, draw.count);
        if draw.branch.is_empty() {
            assert_eq!(drawn_forms(&draw), (draw.unit, draw.uuid.clone()), "{}", draw.label);
        }
    }
}

/// The same draw as a number in [0, 1) and as a UUID.
fn drawn_forms(draw: &DrawVector) -> (f64, String) {
    let nth = |is_uuid: bool| {
        let (label, count) = (draw.label.clone(), draw.count);
        let code = function(move |flow: Flow, _: Value| {
            for _ in 1..count {
                flow.random_u64(&label);
            }
            let (unit, uuid) = if is_uuid {
                (0.0, flow.uuid(&label))
            } else {
                (flow.random(&label), String::new())
            };
            async move { Ok((unit, uuid)) }
        });
        let ended = FlowTest::of(code, &Value::Null).seed(draw.seed).run().unwrap();
        ended.output::<(f64, String)>()
    };
    (nth(false).0, nth(true).1)
}

/// The number that a function draws.
fn drawn(draw: &DrawVector) -> String {
    let random = json!(vec![json!({"random": draw.label}); usize::try_from(draw.count).unwrap()]);
    let path = draw.branch.rsplit('/').filter(|name| !name.is_empty());
    let program = path.fold(random, |inner, name| json!([{"branches": {name: inner}}]));
    let ops = serde_json::from_value(program).unwrap();
    let function = held_program(ops, Releases::default());
    let mut run = FlowTest::of(function, &Value::Null).seed(draw.seed);
    let mut output: Value = run.run().unwrap().output();
    while let Some(last) = output.as_array().and_then(|items| items.last()) {
        output = last.clone();
    }
    output.as_str().unwrap().to_owned()
}
