//! What is wrong with a file, with line and column.

use crate::{AGENT_REVIEW, EXECUTION, TASK_MANAGEMENT};

/// The problems of a file in which one text is replaced by another, each with its place.
fn problems(file: &str, from: &str, to: &str) -> Vec<String> {
    assert!(file.contains(from), "the file has no `{from}`");
    let changed = file.replacen(from, to, 1);
    let found = topology::read(&changed).err().unwrap_or_default();
    let lines: Vec<&str> = changed.lines().collect();
    for problem in &found {
        let place = problem.place.unwrap_or_else(|| panic!("no place: {problem}"));
        assert!(place.line as usize <= lines.len() && place.column > 0, "{problem}");
    }
    found.iter().map(ToString::to_string).collect()
}

/// One problem with this text, in the line that contains `line`.
fn finds(file: &str, (from, to): (&str, &str), line: &str, message: &str) {
    let found = problems(file, from, to);
    let changed = file.replacen(from, to, 1);
    let number = changed.lines().position(|it| it.contains(line)).expect("the line exists") + 1;
    let hit = found.iter().any(|it| it.starts_with(&format!("{number}:")) && it.contains(message));
    assert!(hit, "line {number}, {message}: {found:#?}");
}

#[test]
fn what_is_no_yaml_has_a_place() {
    for text in ["topology: [", "\"", "a: b: c", "topology: x\ntopology: y\n", "- 1", "&a [*a]"] {
        let found = topology::read(text).unwrap_err();
        assert_eq!(found.len(), 1, "{text}");
        assert!(!found[0].message.is_empty(), "{text}");
    }
    let found = topology::read("topology: x\nartifacts:\n\t- 1\n").unwrap_err();
    assert_eq!(found[0].place.map(|place| place.line), Some(3), "{}", found[0]);
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let text = format!("# {}", "x".repeat(topology::reading::FILE_BYTES_MAX));
    assert!(topology::read(&text).unwrap_err()[0].message.contains("at most 1048576 are read"));
}

#[test]
fn unknown_members_and_values_have_a_place() {
    finds(EXECUTION, ("    on: transition", "    onn: transition"), "onn:", "onn");
    finds(EXECUTION, ("uses: runner", "uses: magician"), "magician", "magician");
    finds(EXECUTION, ("{time: 15m}", "{time: 15 minutes}"), "15 minutes", "not a length of time");
    finds(EXECUTION, ("cycles: 3", "cycles: many"), "many", "");
}

#[test]
fn unknown_names_have_a_place() {
    finds(
        EXECUTION,
        ("emits: [TICKET_READY]", "emits: [TICKETS]"),
        "emits:",
        "no event is named `TICKETS`",
    );
    finds(
        EXECUTION,
        ("    status: TODO", "    status: TODOO"),
        "status: TODOO",
        "has no status `TODOO`; declared: NEW, TODO",
    );
    finds(EXECUTION, ("    gate: patch", "    gate: patsh"), "patsh", "no gate is named `patsh`");
    finds(
        EXECUTION,
        ("    workOrder: patch", "    workOrder: x"),
        "workOrder: x",
        "no template of work orders is named `x`",
    );
    finds(
        EXECUTION,
        ("by: \"role:gate\"", "by: \"role:gat\""),
        "role:gat\"",
        "no role is named `gat`",
    );
    finds(EXECUTION, ("by: person", "by: anybody"), "anybody", "is no authority");
    finds(TASK_MANAGEMENT, ("    track: A", "    track: Z"), "track: Z", "no track is named `Z`");
    finds(
        TASK_MANAGEMENT,
        ("queries: [pause_state]", "queries: [diary]"),
        "queries:",
        "not under `reads`",
    );
    finds(EXECUTION, ("topology: execution", "topology: 'a b'"), "a b", "is no name");
    finds(EXECUTION, ("topology: execution", "topology: a.b"), "a.b", "is no name");
}

#[test]
fn kinds_and_queues_are_those_that_workers_have_already() {
    let kind = "    kind: PATCH_DIAZOTROPH";
    for name in ["invoice.extract", "agents/draft", "v2:pay"] {
        assert_eq!(
            problems(EXECUTION, kind, &format!("    kind: {name}")),
            [] as [&str; 0],
            "{name}"
        );
    }
    for name in ["'a b'", "''", "tenure.topology.x", "tenure.recovery"] {
        assert!(!problems(EXECUTION, kind, &format!("    kind: {name}")).is_empty(), "{name}");
    }
}

#[test]
fn impossible_transitions_are_found() {
    let scheduler = "{from: TODO, to: IN_PROGRESS, by: \"role:scheduler\"}";
    finds(
        EXECUTION,
        (scheduler, "{from: TODO, to: IN_PROGRESS, by: person}"),
        "    to: IN_PROGRESS",
        "is made by person, not by role:scheduler",
    );
    finds(
        EXECUTION,
        ("final: [DONE]", "final: [DONE, TODO]"),
        "{from: TODO, to: NEW",
        "`TODO` is final",
    );
    finds(
        EXECUTION,
        ("by: approval}", "by: \"role:gate\"}"),
        "from: NEW",
        "impossible: role `gate` never makes NEW → TODO",
    );
    finds(
        EXECUTION,
        ("BLOCKED, DONE]", "BLOCKED, DONE, LOST]"),
        "statuses:",
        "no transition leads from `NEW` to `LOST`",
    );
    finds(
        EXECUTION,
        ("      to: DONE", "      to: NEW"),
        "      to: NEW",
        "has no transition IN_PROGRESS → NEW by person",
    );
    finds(
        EXECUTION,
        ("autoConfirm: false", "autoConfirm: true"),
        "      to: DONE",
        "is made by person, not by role:gate",
    );
    let twice = format!("{scheduler}\n      - {scheduler} # again");
    finds(EXECUTION, (scheduler, &twice), "# again", "stands here twice");
}

#[test]
fn tracks_in_a_circle_are_found() {
    finds(
        TASK_MANAGEMENT,
        ("A: {about: Triage., serial: workorders}", "A: {serial: workorders, after: [B]}"),
        "A: {serial",
        "wait for each other in a circle: A, B",
    );
    finds(
        TASK_MANAGEMENT,
        ("serial: workorders, after", "serial: others, after"),
        "B: {",
        "another `serial` key",
    );
    finds(
        TASK_MANAGEMENT,
        ("track: C\n", "track: A # here\n"),
        "# here",
        "a deadline monitor waits for nobody",
    );
}

#[test]
fn gates_that_never_end_are_found() {
    finds(AGENT_REVIEW, ("within: 7d", "within: 0s"), "within: 0s", "a gate must end");
    finds(AGENT_REVIEW, ("within: 15m", "within: 0s"), "within: 0s", "a gate must end");
    // Without `within` the file does not even have the shape.
    finds(AGENT_REVIEW, (", within: 7d}", "}"), "people:", "within");
    // A result that leads nowhere would keep its artifacts for ever.
    finds(
        EXECUTION,
        ("    fail:\n      to: TODO\n", "    fail:\n"),
        "    fail:",
        "would stay in IN_PROGRESS for ever",
    );
    finds(
        EXECUTION,
        ("workOrders: [patch]}\n  gate", "workOrders: []}\n  gate"),
        "runner: {",
        "needs `workOrders`",
    );
    // A gate that fails leads back, so the number of tries must be bounded.
    finds(EXECUTION, ("cycles: 3", "cycles: 0"), "cycles: 0", "from 1 to 100");
    finds(EXECUTION, ("cycles: 3", "cycles: 1000"), "cycles: 1000", "from 1 to 100");
}

#[test]
fn conditions_and_schemas_that_mean_nothing_are_found() {
    finds(EXECUTION, ("op: equals, value: true", "op: equals"), "applies_cleanly", "needs `value`");
    finds(
        EXECUTION,
        ("op: non-empty}\n      - name: names", "op: exists, value: 1}\n      - name: names"),
        "op: exists, value",
        "takes no `value`",
    );
    finds(
        TASK_MANAGEMENT,
        ("op: among, of: workOrder.artifacts", "op: among"),
        "capture_ids, op: among",
        "`of` belongs to `among`",
    );
    finds(
        EXECUTION,
        ("{type: string, minLength: 1}", "{type: strong}"),
        "    schema:",
        "no usable JSON Schema",
    );
    finds(
        EXECUTION,
        (
            "            title: {type: string}",
            "            title: {$ref: 'https://example.com/x.json'}",
        ),
        "        schema:",
        "leads nowhere",
    );
    let nested = format!("{}{{path: a, op: exists}}{}", "{not: ".repeat(20), "}".repeat(20));
    finds(
        EXECUTION,
        ("{path: output.content, op: non-empty}", &nested),
        "{not:",
        "at most 8 levels",
    );
}

#[test]
fn members_that_a_role_does_not_use_are_found() {
    finds(
        EXECUTION,
        ("{uses: runner,", "{uses: runner, track: A,"),
        "uses: runner",
        "takes no `track`",
    );
    finds(
        TASK_MANAGEMENT,
        ("collect: {atMost: 10}", "collect: {atMost: 1000}"),
        "atMost: 1000",
        "from 1 to 100",
    );
    finds(
        EXECUTION,
        (
            "      - Read the patch and confirm the ticket.",
            "      - a\n        - b\n        - c\n        - d",
        ),
        "      actions:",
        "1 to 3 next actions",
    );
    finds(
        EXECUTION,
        ("    blockers: {path: blocked_on, resolved: resolved}\n", ""),
        "  scheduler:",
        "belong together",
    );
    finds(
        EXECUTION,
        ("  readiness: {uses: readiness, emits: [TICKET_READY]}\n", ""),
        "  TICKET_READY:",
        "exactly one readiness role must emit",
    );
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_the_file() {
    let changed =
        EXECUTION.replace("emits: [TICKET_READY]", "emits: [X]").replace("gate: patch", "gate: y");
    let found = topology::read(&changed).unwrap_err();
    assert!(found.len() >= 3, "{found:#?}");
    assert!(found.is_sorted_by_key(|problem| problem.place), "{found:#?}");
}

#[test]
fn reviews_that_would_move_an_artifact_for_ever_are_refused() {
    let automatic = EXECUTION.replace("to: TODO, by: approval", "to: TODO, by: \"role:review\"");
    assert!(topology::read(&automatic).is_ok());
    finds(
        &automatic,
        ("{from: TODO, to: NEW, by: person}", "{from: TODO, to: NEW, by: \"role:review\"}"),
        "from: TODO, to: NEW",
        "nothing would ever stop them",
    );
}

#[test]
fn only_roles_that_decide_may_be_outside() {
    let outside = |logic: &str| format!("uses: {logic}, outside: true,");
    for logic in ["review", "readiness", "gate"] {
        let file = EXECUTION.replacen(&format!("uses: {logic},"), &outside(logic), 1);
        assert!(topology::read(&file).is_ok(), "{logic}");
    }
    finds(EXECUTION, ("uses: runner,", &outside("runner")), "uses: runner", "outside already");
    finds(
        TASK_MANAGEMENT,
        ("    uses: deadline-monitor\n", "    uses: deadline-monitor\n    outside: true\n"),
        "outside: true",
        "server's clock",
    );
    let scheduled = EXECUTION.replace(
        "    on: transition\n    artifact: objective\n    status: TODO",
        "    on: schedule\n    every: 1h",
    );
    finds(&scheduled, ("uses: readiness,", &outside("readiness")), "uses: readiness", "interval");
    let lease = "uses: gate, outside: true, lease: 10s,";
    assert!(topology::read(&EXECUTION.replacen("uses: gate,", lease, 1)).is_ok());
    finds(
        EXECUTION,
        ("uses: gate,", "uses: gate, outside: true, lease: 1s,"),
        "uses: gate",
        "from 2s to 1d",
    );
    finds(EXECUTION, ("uses: gate,", "uses: gate, lease: 10s,"), "uses: gate", "outside: true");
}

#[test]
fn a_role_that_goes_outside_is_another_version() {
    let inside = topology::read(EXECUTION).unwrap();
    let said = EXECUTION.replacen("uses: gate,", "uses: gate, outside: false,", 1);
    assert_eq!(topology::read(&said).unwrap().digest(), inside.digest());
    let outside = EXECUTION.replacen("uses: gate,", "uses: gate, outside: true,", 1);
    assert_ne!(topology::read(&outside).unwrap().digest(), inside.digest());
}
