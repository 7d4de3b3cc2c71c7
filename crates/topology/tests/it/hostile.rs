//! Files that nobody wrote in good faith: they are refused, or read, and nothing else.

use proptest::prelude::*;

use topology::predicate::Predicate;
use topology::work::Work;

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
    let problems = topology::read(&itself).unwrap_err();
    assert!(problems[0].message.contains("refers to itself for the same value"), "{problems:?}");
}

/// Definitions that each refer twice to the one before: two to the power of `levels` evaluations.
fn doubling(levels: usize) -> String {
    let definitions: Vec<String> = (1..=levels)
        .map(|n| {
            format!("a{n}: {{allOf: [{{$ref: '#/$defs/a{0}'}}, {{$ref: '#/$defs/a{0}'}}]}}", n - 1)
        })
        .collect();
    let definitions = definitions.join(", ");
    format!("{{$ref: '#/$defs/a{levels}', $defs: {{a0: {{type: object}}, {definitions}}}}}")
}

/// The same with a schema in place of those of artifacts, and of the first check of each gate.
fn with_schemas(schema: &str) -> String {
    let mut file: serde_json::Value =
        serde_json::to_value(compiled(EXECUTION).declaration()).unwrap();
    let schema: serde_json::Value = serde_saphyr::from_str(schema).unwrap();
    for artifact in file["artifacts"].as_object_mut().unwrap().values_mut() {
        artifact["schema"] = schema.clone();
    }
    for gate in file["gates"].as_object_mut().unwrap().values_mut() {
        gate["checks"] = serde_json::json!([{"name": "shape", "schema": schema}]);
    }
    file.to_string()
}

#[test]
fn a_schema_whose_work_doubles_is_refused_with_its_place() {
    let problems = topology::read(&with_schemas(&doubling(40))).unwrap_err();
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert!(paths.iter().any(|path| path.starts_with("artifacts.")), "{paths:?}");
    assert!(paths.iter().any(|path| path.starts_with("gates.")), "{paths:?}");
    assert!(problems.iter().all(|it| it.message.contains("costs too much")), "{problems:?}");
}

#[test]
fn a_schema_with_a_very_long_list_is_refused_wherever_the_list_stands() {
    let schema = |keyword: &str, count: usize| {
        serde_json::json!({"type": "object", keyword: (0..count).collect::<Vec<_>>()}).to_string()
    };
    assert!(topology::read(&with_schemas(&schema("examples", 2_000))).is_ok());
    for keyword in ["enum", "examples", "default", "x-note"] {
        let problems = topology::read(&with_schemas(&schema(keyword, 2_001))).unwrap_err();
        let said = &problems[0].message;
        assert!(said.contains("a list of more than 2000 entries"), "{keyword}: {said}");
    }
}

#[test]
fn a_stored_version_whose_schema_costs_too_much_is_readable_and_nothing_fits_it() {
    let stored = topology::read_stored(&with_schemas(&doubling(40))).unwrap();
    let fields = serde_json::json!({"title": "t"});
    let mut work = Work::of_check();
    let why = stored.check_fields("objective", fields, &mut work).unwrap_err();
    assert!(why.contains("costs too much"), "{why}");
    assert_eq!(work.spent(), 0);
}

#[test]
fn patterns_are_counted_over_all_schemas() {
    let names: Vec<String> = (0..150).map(|n| format!("p{n}: {{pattern: '\\w{{40}}'}}")).collect();
    let schema = format!("{{properties: {{{}}}}}", names.join(", "));
    let problems = topology::read(&with_schemas(&schema)).unwrap_err();
    assert!(problems.iter().any(|it| it.message.contains("at most 200 patterns")), "{problems:?}");
}

#[test]
fn a_value_that_costs_too_much_is_refused_before_it_is_tested() {
    let topology = topology::read(&with_schemas(&doubling(6))).unwrap();
    let list: Vec<u32> = (0..100_000).collect();
    let fields = serde_json::json!({"list": list});
    let mut work = Work::of_check();
    let why = topology.check_fields("objective", fields, &mut work).unwrap_err();
    assert!(why.contains("make the value smaller"), "{why}");
    assert_eq!(work.spent(), 0);
    let fields = serde_json::json!({"list": [1, 2, 3]});
    assert!(topology.check_fields("objective", fields, &mut work).is_ok());
    assert!(work.spent() > 0);
}

#[test]
fn a_value_that_does_not_fit_is_described_in_a_few_hundred_characters() {
    let topology = topology::read(&with_schemas("{type: object, maxProperties: 1}")).unwrap();
    let fields = serde_json::json!({"a": "x".repeat(5_000), "b": 1});
    let why = topology.check_fields("objective", fields, &mut Work::of_check()).unwrap_err();
    assert!(why.chars().count() < 400, "{} characters", why.chars().count());
}

#[test]
fn conditions_are_charged_for_what_they_look_through() {
    let list: Vec<u32> = (0..200_000).collect();
    let about = serde_json::json!({"ids": list, "known": list});
    let among = serde_json::json!({"path": "ids", "op": "among", "of": "known"});
    let condition: Predicate = serde_json::from_value(among.clone()).unwrap();
    let mut work = Work::of_check();
    assert_eq!(condition.test(&about, &mut work), Ok(()));
    assert!((400_000..500_000).contains(&work.spent()), "{}", work.spent());
    let many: Predicate =
        serde_json::from_value(serde_json::json!({"not": {"all": vec![among; 20]}})).unwrap();
    let why = many.test(&about, &mut work).unwrap_err();
    assert!(why.contains("at most 5000000 are taken"), "{why}");
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
    assert!(topology.check_fields("objective", fields, &mut Work::of_check()).is_err());
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
