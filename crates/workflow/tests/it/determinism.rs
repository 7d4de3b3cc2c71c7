//! The same seed and the same record give the same bytes, in every process.

use std::collections::HashMap;
use std::process::Command;

use serde_json::{Value, json};
use workflow::testing::FlowTest;
use workflow::{Flow, function};

use super::crashes::world;
use super::program::ops;

/// Set in the process that only prints.
const PRINTS: &str = "TENURE_WORKFLOW_PRINTS_HISTORY";
const FIRST: &str = "history begins";
const LAST: &str = "history ends";

fn busy() -> Vec<super::program::Op> {
    ops(json!([
        {"branches": {
            "zeta": [{"step": {"name": "a", "input": {"z": 1, "a": [1.5, "ä"]}, "returns": {"b": 1, "a": 2}}}, {"sleep": 3}],
            "alpha": [{"random": "x"}, {"children": {"name": "c", "inputs": [3, 1, 2], "max": 2}}],
            "mid": [{"step": {"name": "s", "fails": ["one", "two"], "tries": 4}}, {"signal": {"name": "go"}}, "now"]
        }},
        {"random": "coupon"},
        {"step": {"name": "last"}}
    ]))
}

/// A function whose own work uses a map in random order: only what is recorded may differ.
fn history() -> String {
    let ended = world(busy()).seed(42).run().unwrap();
    let code = function(async |ctx: Flow, names: HashMap<String, u32>| {
        let total = ctx.step("sum", async |_| Ok(names.values().sum::<u32>()));
        let total = total.input(&names).await?;
        ctx.step("mail", async |step| Ok(step.idempotency_key().to_owned())).await?;
        Ok(total)
    });
    let names: Value = (0..50).map(|n| (format!("n{n}"), json!(n))).collect();
    let map = FlowTest::of(code, &names).with_transcript().run().unwrap();
    let transcripts = [ended.transcript.join("\n"), map.transcript.join("\n")];
    [ended.history_text(), map.history_text(), transcripts.concat()].concat()
}

#[test]
fn two_processes_with_other_hash_seeds_time_zones_and_languages_record_the_same_bytes() {
    // F83, E1, S2-46, S2-85: hidden non-determinism would differ between two processes.
    if std::env::var_os(PRINTS).is_some() {
        println!("{FIRST}\n{}\n{LAST}", history());
        return;
    }
    let here = history();
    for (zone, language) in [("Pacific/Kiritimati", "tr_TR.UTF-8"), ("America/St_Johns", "C")] {
        let name = "determinism::two_processes_with_other_hash_seeds_time_zones_and_languages_record_the_same_bytes";
        let other = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(PRINTS, "1")
            .envs([("TZ", zone), ("LANG", language), ("LC_ALL", language)])
            .output()
            .unwrap();
        let text = String::from_utf8(other.stdout).unwrap();
        let (_, text) = text.split_once(&format!("{FIRST}\n")).expect(&text);
        let (there, _) = text.split_once(&format!("\n{LAST}")).expect(text);
        assert_eq!(there, here);
    }
}

#[test]
fn another_seed_gives_other_numbers() {
    let run = |seed| world(busy()).seed(seed).run().unwrap().output::<Value>();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
