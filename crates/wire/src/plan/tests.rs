//! Plans that are wrong in every way, and what their authors are told.

use super::*;

fn plan(text: &str) -> Plan {
    serde_json::from_str(text).unwrap()
}

/// A plan with edges: each pair is a key and what it depends on.
fn graph(steps: &[(&str, &[&str])]) -> Plan {
    let step = |(key, upstreams): &(&str, &[&str])| PlanStep {
        key: (*key).to_owned(),
        kind: "k".to_owned(),
        queue: "q".to_owned(),
        depends_on: Some(upstreams.iter().map(|name| (*name).to_owned()).collect()),
        ..PlanStep::default()
    };
    Plan { steps: steps.iter().map(step).collect() }
}

fn problems(plan: &Plan) -> Vec<String> {
    let problems = plan.compile().unwrap_err();
    problems.iter().map(ToString::to_string).collect()
}

fn json(text: &str) -> Json {
    Json::from_text(text.to_owned()).unwrap()
}

#[test]
fn steps_without_edges_are_stages_and_one_edge_makes_them_tasks() {
    let text = r#"{"steps": [{"key": "a", "kind": "k", "queue": "q"}, {"key": "b", "kind": "k", "queue": "q"}]}"#;
    let compiled = plan(text).compile().unwrap();
    assert_eq!((compiled.form, compiled.order), (PlanForm::Stages, vec![0, 1]));
    let compiled = graph(&[("d", &["b", "c"]), ("b", &["a"]), ("c", &["a"]), ("a", &[])]).compile();
    let compiled = compiled.unwrap();
    assert_eq!((compiled.form, compiled.edges()), (PlanForm::Steps, 4));
    assert_eq!(compiled.order, [3, 1, 2, 0], "upstreams come first");
    assert_eq!(compiled.longest_path, 3);
}

#[test]
fn a_cycle_is_named_as_a_path() {
    let wrong = problems(&graph(&[("a", &["c"]), ("b", &["a"]), ("c", &["b"]), ("d", &["c"])]));
    assert_eq!(wrong, ["step `a`: `steps[0].dependsOn` leads back to the step: a → c → b → a"]);
    // Two cycles are two problems, and a step between them belongs to neither.
    let two =
        graph(&[("a", &["b"]), ("b", &["a"]), ("x", &["a", "y"]), ("y", &["z"]), ("z", &["y"])]);
    let wrong = problems(&two);
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].ends_with("a → b → a") && wrong[1].ends_with("y → z → y"), "{wrong:?}");
}

#[test]
fn a_long_cycle_is_cut_in_the_middle() {
    let keys: Vec<String> = (0..200).map(|place| format!("s{place}")).collect();
    let steps: Vec<(&str, Vec<&str>)> = (0..200)
        .map(|place| (keys[place].as_str(), vec![keys[(place + 1) % 200].as_str()]))
        .collect();
    let steps: Vec<(&str, &[&str])> = steps.iter().map(|(key, up)| (*key, up.as_slice())).collect();
    let wrong = problems(&graph(&steps));
    assert!(wrong[0].contains("s0 → s1 → s2 → s3 → s4 → … → s195"), "{wrong:?}");
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let text = r#"{"steps": [
        {"key": "a", "kind": "k", "queue": "q", "dependsOn": ["a", "nobody"]},
        {"key": "a", "kind": "a b", "queue": "q", "maxAttempts": 0},
        {"key": "c", "kind": "k", "queue": "q", "dependsOn": ["a", "a"], "onError": "abort", "retry": {"baseMs": 1}},
        {"key": "d", "kind": "k", "queue": "q", "input": {"x": [{"$from": "c"}, {"$from": "e"}, {"$from": "a", "where": 1}]}}
    ]}"#;
    let wrong = problems(&plan(text));
    let expected = [
        "step `a`: `steps[0].dependsOn[0]` names the step itself",
        "step `a`: `steps[0].dependsOn[1]` names `nobody`, which is no step",
        "step `a`: `steps[1].key` is the key of steps[0] too",
        "step `a`: `steps[1].kind` is not a valid name",
        "step `c`: `steps[2].retry` has no effect with `onError: abort`",
        "step `c`: `steps[2].dependsOn[1]` names `a` again",
        "step `d`: `steps[3].input/x/2` has the member `where` beside `$from`",
        "step `d`: `steps[3].input/x/0` refers to `c`, which may not have ended",
        "step `d`: `steps[3].input/x/1` refers to `e`, which is no step",
    ];
    assert_eq!(wrong.len(), expected.len(), "{wrong:#?}");
    for (wrong, expected) in wrong.iter().zip(expected) {
        assert!(wrong.starts_with(expected), "{wrong} does not begin with {expected}");
    }
}

#[test]
fn the_number_of_problems_is_bounded() {
    let steps: Vec<(&str, &[&str])> = (0..500).map(|_| ("same", &["nobody"] as &[&str])).collect();
    assert_eq!(graph(&steps).compile().unwrap_err().len(), PROBLEMS_MAX);
}

#[test]
fn sizes_are_limited_at_their_boundaries() {
    let chain = |length: usize| {
        let mut plan = graph(&vec![("x", &[] as &[&str]); length]);
        for place in 0..length {
            plan.steps[place].key = format!("s{place}");
            let upstream = place.checked_sub(1).map(|place| format!("s{place}"));
            plan.steps[place].depends_on = Some(upstream.into_iter().collect());
        }
        plan
    };
    assert!(chain(PATH_MAX).compile().is_ok());
    assert!(problems(&chain(PATH_MAX + 1))[0].contains("path of more than 1000 steps"));
    let stages = |count: usize| {
        let mut plan = chain(count);
        plan.steps.iter_mut().for_each(|step| step.depends_on = None);
        plan
    };
    assert!(stages(STAGES_MAX).compile().is_ok());
    assert!(problems(&stages(STAGES_MAX + 1))[0].contains("may have 100 without `dependsOn`"));
    let parallel = |count: usize| {
        let mut plan = chain(count);
        plan.steps.iter_mut().for_each(|step| step.depends_on = Some(Vec::new()));
        plan
    };
    assert!(parallel(STEPS_MAX).compile().is_ok());
    assert!(parallel(STEPS_MAX + 1).compile().is_err());
    let mut dense = parallel(330);
    let keys: Vec<String> = dense.steps.iter().map(|step| step.key.clone()).collect();
    dense.steps.iter_mut().for_each(|step| step.depends_on = Some(keys.clone()));
    assert!(problems(&dense)[0].contains("entries in `dependsOn`, and may have 10000"));
    assert!(problems(&Plan::default())[0].contains("is empty"));
}

#[test]
fn a_reference_names_a_step_that_has_ended_before() {
    let mut plan = graph(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("x", &[])]);
    plan.steps[2].input = json(r#"{"$from": "a", "path": "/deep/0"}"#);
    let compiled = plan.compile().unwrap();
    assert_eq!(compiled.references[2][0].path, "/deep/0", "an upstream of an upstream has ended");
    plan.steps[2].input = json(r#"{"$from": "x"}"#);
    assert!(problems(&plan)[0].contains("add it to `dependsOn`"));
    plan.steps[2].input = json(r#"{"$from": "c"}"#);
    assert!(plan.compile().is_err(), "a step cannot refer to itself");
    let stages = r#"{"steps": [{"key": "a", "kind": "k", "queue": "q", "input": {"$from": "b"}},
        {"key": "b", "kind": "k", "queue": "q"}]}"#;
    assert!(problems(&super::tests::plan(stages))[0].contains("refer to an earlier step"));
}

#[test]
fn what_looks_like_a_reference_is_one_or_is_refused() {
    for (input, expected) in [
        (r#"{"$from": 1}"#, "`$from` that is not the key of a step"),
        (r#"{"$from": "a", "path": "x"}"#, "not a JSON pointer"),
        (r#"{"$from": "a", "path": "/~2"}"#, "not a JSON pointer"),
        (r#"{"$from": "a", "path": 3}"#, "not a JSON pointer"),
        (r#"{"$from": "a", "$from": "a"}"#, "has a member twice"),
        (r#"{"$literal": 1, "b": 2}"#, "members beside `$literal`"),
    ] {
        let mut plan = graph(&[("a", &[]), ("b", &["a"])]);
        plan.steps[1].input = json(input);
        assert!(problems(&plan)[0].contains(expected), "{input}: {:?}", problems(&plan));
    }
    let mut plan = graph(&[("a", &[]), ("b", &["a"])]);
    plan.steps[1].input = json(r#"{"$literal": {"$from": "nobody"}}"#);
    assert_eq!(plan.compile().unwrap().references[1], []);
}

#[test]
fn references_are_replaced_and_everything_else_keeps_its_bytes() {
    let output = json(r#"{"body": [1.50, {"a/b": "x"}], "big": 12345678901234567890123}"#);
    let resolved = |input: &str| {
        let outputs = |step: &str| (step == "a").then_some(&output);
        resolve(&json(input), outputs)
    };
    for (input, expected) in [
        (r#"{"n":1.0,"v":{"$from":"a","path":"/body/0"}}"#, r#"{"n":1.0,"v":1.50}"#),
        (r#"[{"$from":"a","path":"/body/1/a~1b"}]"#, r#"["x"]"#),
        (r#"{"$from":"a","path":"/big"}"#, "12345678901234567890123"),
        (r#"{"$literal":{"$from":"a"}}"#, r#"{"$from":"a"}"#),
        (r#"{"$from":"b","default":null}"#, "null"),
        (r#"{"$from":"a","path":"/no","default":[1]}"#, "[1]"),
        (r#"{"price":"$5"}"#, r#"{"price":"$5"}"#),
    ] {
        assert_eq!(resolved(input).unwrap().text(), expected, "{input}");
    }
    for path in ["/body/01", "/body/-", "/body/2", "/big/x", "/nobody"] {
        let wrong = resolved(&format!(r#"{{"x":{{"$from":"a","path":"{path}"}}}}"#)).unwrap_err();
        assert!(matches!(&wrong, Unresolved::NoSuchPlace(it) if it.place == "/x"), "{wrong:?}");
        assert!(wrong.to_string().contains(path), "{wrong}");
    }
    assert!(matches!(resolved(r#"{"$from":"b"}"#), Err(Unresolved::NoOutput(_))));
}

#[test]
fn a_resolved_input_is_a_payload_like_any_other() {
    let large = json(&format!("\"{}\"", "x".repeat(200 * 1024)));
    let twice = json(r#"[{"$from":"a"},{"$from":"a"}]"#);
    assert!(matches!(resolve(&twice, |_| Some(&large)), Err(Unresolved::TooLarge)));
    let deep = json(&format!("{}{}", "[".repeat(32), "]".repeat(32)));
    assert!(matches!(resolve(&twice, |_| Some(&deep)), Err(Unresolved::TooDeep)));
}

#[test]
fn references_to_one_place_read_what_leads_to_it_once() {
    const LEVELS: usize = 28;
    let pad = "x".repeat(8 * 1024);
    let nested = (0..LEVELS).fold("1".to_owned(), |inner, _| format!(r#"[{inner},"{pad}"]"#));
    let (output, path) = (json(&nested), "/0".repeat(LEVELS));
    let many = |step: &str| format!(r#"{{"$from":"{step}","path":"{path}"}},"#).repeat(600);
    let one = json(&format!("[{}0]", many("a")));
    let resolved = resolve(&one, |_| Some(&output)).unwrap();
    assert_eq!(resolved.text(), format!("[{}0]", "1,".repeat(600)));
    // A second output like that is more than is read for one input.
    let other = output.clone();
    let both = json(&format!("[{}{}0]", many("a"), many("b")));
    let outputs = |step: &str| Some(if step == "a" { &output } else { &other });
    assert!(matches!(resolve(&both, outputs), Err(Unresolved::TooCostly)));
}

/// Kahn's algorithm accepted the plan: run it step by step, whatever fails, and see every step end.
fn every_step_ends(compiled: &Compiled) -> bool {
    let mut has_ended = vec![false; compiled.upstreams.len()];
    for place in &compiled.order {
        if !compiled.upstreams[*place].iter().all(|upstream| has_ended[*upstream]) {
            return false;
        }
        has_ended[*place] = true;
    }
    has_ended.into_iter().all(|ended| ended)
}

/// A generator whose draws follow from its seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
fn every_plan_that_is_accepted_can_end_and_every_other_has_a_cycle() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..2_000 {
        let mut draws = Draws(seed);
        let count = 1 + draws.below(8);
        let mut plan = graph(&vec![("x", &[] as &[&str]); count]);
        for place in 0..count {
            plan.steps[place].key = format!("s{place}");
            let upstreams: std::collections::BTreeSet<usize> = (0..draws.below(3))
                .map(|_| draws.below(count))
                .filter(|upstream| *upstream != place)
                .collect();
            let names = upstreams.iter().map(|upstream| format!("s{upstream}")).collect();
            plan.steps[place].depends_on = Some(names);
        }
        match plan.compile() {
            Ok(compiled) => {
                accepted += 1;
                assert!(every_step_ends(&compiled), "seed {seed}");
            }
            Err(problems) => {
                refused += 1;
                let is_cycle = |it: &PlanProblem| it.message.contains("leads back");
                assert!(problems.iter().all(is_cycle), "seed {seed}: {problems:?}");
            }
        }
    }
    assert!(accepted > 300 && refused > 300, "{accepted} accepted, {refused} refused");
}

#[test]
fn a_step_that_asks_people_has_nothing_that_is_for_workers() {
    let asking = r#"{"key": "ask", "approval": {"quorum": 2, "expiresInMs": 1000}}"#;
    let worker = r#"{"key": "a", "kind": "k", "queue": "q"}"#;
    let right = plan(&format!(r#"{{"steps": [{asking}, {worker}]}}"#));
    assert_eq!(right.compile().unwrap().form, PlanForm::Stages);
    let (ask, work) = (&right.steps[0], &right.steps[1]);
    assert_eq!((ask.kind(), right.queue_of(ask)), ("approval", "q"));
    assert_eq!((work.kind(), right.queue_of(work)), ("k", "q"));
    let alone = plan(&format!(r#"{{"steps": [{asking}]}}"#));
    assert_eq!(alone.queue_of(&alone.steps[0]), "approvals");
    assert!(alone.compile().is_ok());
    let wrong = plan(
        r#"{"steps": [{"key": "ask", "kind": "k", "leaseMs": 5000, "input": 1, "gate": true, "onError": "retry",
            "approval": {"quorum": 0}}, {"key": "b", "queue": "q"}]}"#,
    );
    let wrong = problems(&wrong);
    let fields = ["approval.quorum", "kind", "input", "onError", "leaseMs", "gate"];
    for field in fields {
        let named = format!("step `ask`: `steps[0].{field}`");
        assert!(wrong.iter().any(|problem| problem.starts_with(&named)), "{field}: {wrong:?}");
    }
    assert!(wrong[fields.len()].starts_with("step `b`: `steps[1].kind`"), "{wrong:?}");
    assert_eq!(wrong.len(), fields.len() + 1, "{wrong:?}");
}
