//! Files that nobody wrote in good faith: they are refused, or read, and nothing else.

use proptest::prelude::*;

use crate::{AGENT_REVIEW, EXECUTION, FILES, TASK_MANAGEMENT, compiled};

#[test]
fn deep_wide_and_repeated_values_are_refused() {
    let bomb: String =
        (1..40).map(|n| format!("x{n}: &a{n} [*a{0}, *a{0}, *a{0}, *a{0}]\n", n - 1)).collect();
    let texts = [
        format!("artifacts: {}", "[".repeat(200_000)),
        format!("artifacts: {}1{}", "{a: ".repeat(50_000), "}".repeat(50_000)),
        format!("topology: x\nx0: &a0 [1]\n{bomb}"),
        "a: *b".to_owned(),
        "&a [*a]".to_owned(),
        "\u{0}".to_owned(),
        "!!binary x".to_owned(),
    ];
    for text in texts {
        assert!(topology::read(&text).is_err());
    }
    let deep = format!("            title: {}true{}", "{not: ".repeat(5_000), "}".repeat(5_000));
    let changed = EXECUTION.replacen("            title: {type: string}", &deep, 1);
    assert!(topology::read(&changed).is_err(), "a schema as deep as that");
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let itself = EXECUTION.replacen(
        "        metadata: {type: object}",
        "        metadata: {$ref: '#/properties/metadata'}",
        1,
    );
    assert_ne!(itself, EXECUTION);
    if let Ok(topology) = topology::read(&itself) {
        let fields = serde_json::json!({"title": "t", "metadata": {}});
        assert!(topology.test_fields("objective", &fields).is_err());
    }
}

#[test]
fn a_pattern_that_would_run_away_is_linear() {
    let changed = EXECUTION.replacen(
        "title: {type: string, minLength: 1}",
        "title: {type: string, pattern: '^(a+)+$'}",
        1,
    );
    let topology = compiled(&changed);
    let fields = serde_json::json!({"title": format!("{}!", "a".repeat(50_000))});
    assert!(topology.test_fields("objective", &fields).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = topology::read(&text);
    }

    /// Whatever is done to the lines of a shipped file, each problem names a place in it.
    #[test]
    fn a_damaged_file_is_refused_with_places(
        file in 0_usize..3,
        line in any::<prop::sample::Index>(),
        other in any::<prop::sample::Index>(),
        damage in 0_u8..4,
    ) {
        let mut lines: Vec<&str> = FILES[file].1.lines().collect();
        let (line, other) = (line.index(lines.len()), other.index(lines.len()));
        match damage {
            0 => { lines.remove(line); }
            1 => lines.swap(line, other),
            2 => lines[line] = lines[other],
            _ => lines.truncate(line),
        }
        let text = lines.join("\n");
        for problem in topology::read(&text).err().unwrap_or_default() {
            prop_assert!(problem.place.is_some() || text.trim().is_empty() || problem.path.is_empty(), "{problem}");
            prop_assert!(problem.place.is_none_or(|place| place.line as usize <= lines.len() + 1), "{problem}");
        }
    }

    /// A word for a word: whatever passes the check can be simulated without a panic.
    #[test]
    fn what_passes_the_check_can_run(file in 0_usize..3, from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>()) {
        let text = [EXECUTION, TASK_MANAGEMENT, AGENT_REVIEW][file];
        let words: Vec<&str> = text.split([' ', ',', '{', '}', '[', ']', '\n']).filter(|word| word.len() > 2).collect();
        let changed = text.replacen(words[from.index(words.len())], words[to.index(words.len())], 1);
        if let Ok(topology) = topology::read(&changed) {
            let script = topology::simulate::Script::read("until: 1h", &topology).unwrap();
            let _ = topology::simulate::run(&topology, &script);
        }
    }
}
