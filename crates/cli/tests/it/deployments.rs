//! `tenure topology apply`, `tenure artifacts`, `tenure inbox` and `tenure claims`, with executors that are programs.

use serde_json::Value;

use crate::home::{Home, Process, wait_until};

/// An executor that makes a real patch in a real repository: it reads the snapshot and prints what the gate wants to see.
const PATCHER: &str = r#"#!/bin/sh
set -eu
snapshot=$(cat)
title=$(printf '%s' "$snapshot" | sed 's/.*"title":"\([^"]*\)".*/\1/')
work=$(mktemp -d)
git clone -q "$REPOSITORY" "$work/clone" >&2
cd "$work/clone"
git checkout -q -b azolla/work
printf '%s\n' "$title" >> CHANGES
git add CHANGES
git -c user.name=patcher -c user.email=p@example.com commit -q -m "$title"
sha=$(git rev-parse HEAD)
content=$(git show --format= HEAD | tr '\n' '~' | sed 's/"/ /g; s/\\/ /g')
printf '{"title": "%s", "content": "%s", "metadata": {"applies_cleanly": true, "branch_name": "azolla/work", "commit_sha": "%s", "pr_description_draft": "%s"}}' "$title" "$content" "$sha" "$title"
rm -rf "$work"
"#;

fn shipped(name: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    folder.join(name).to_str().unwrap().to_owned()
}

fn shell(home: &Home, script: &str) {
    let mut command = std::process::Command::new("sh");
    let done = command.args(["-euc", script]).current_dir(home.path()).status().unwrap();
    assert!(done.success(), "{script}");
}

const TICKET: &str = r#"{"title": "say hello", "acceptance_criteria": ["it says hello"], "objective_type": "TICKET", "importance": 1, "urgency": 2}"#;

fn artifact(home: &Home, id: &str) -> Value {
    home.json(&["artifacts", "show", "execution", "objective", id, "--json"])
}

#[test]
fn a_ticket_becomes_a_patch_made_by_a_program_and_confirmed_by_a_person() {
    // S0-20, S1-18: the work order goes to the program that polls its kind and queue.
    let home = Home::new();
    let _server = home.serve();
    shell(
        &home,
        "git init -q repo && cd repo && git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m begin",
    );
    let program = home.path().join("patcher.sh");
    std::fs::write(&program, PATCHER).unwrap();
    shell(&home, "chmod +x patcher.sh");
    let said = home.run(&["topology", "plan", &shipped("execution.yaml")]);
    assert!(said.stdout.contains("does not exist yet"), "{}", said.stdout);
    let said = home.run(&["topology", "apply", &shipped("execution.yaml")]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert!(said.stdout.contains("execution is active"), "{}", said.stdout);
    let mut worker =
        home.tenure(&["work", "--queue", "patch", "--exec", program.to_str().unwrap()]);
    worker.env("REPOSITORY", home.path().join("repo"));
    let _worker = Process::start(worker);
    let create = ["artifacts", "create", "execution", "objective", "T-1", "--fields", TICKET];
    let said = home.run(&create);
    assert!(said.stdout.contains("objective/T-1  NEW"), "{} {}", said.stdout, said.stderr);
    let early = home.run(&["artifacts", "move", "execution", "objective", "T-1", "TODO"]);
    assert!(early.stderr.contains("is an approval"), "{}", early.stderr);
    let said = home.run(&["artifacts", "approve", "execution", "objective", "T-1", "TODO"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    wait_until("the patch passes its gate", || artifact(&home, "T-1")["passed"].is_string());
    let said = home.run(&["inbox"]);
    assert!(said.stdout.contains("Read the patch and confirm the ticket."), "{}", said.stdout);
    let said = home.run(&["artifacts", "move", "execution", "objective", "T-1", "DONE"]);
    assert!(said.stdout.contains("DONE"), "{} {}", said.stdout, said.stderr);
    let inbox = home.json(&["inbox", "--json"]);
    let id = inbox["pauseStates"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(home.run(&["inbox", "close", "execution", &id]).code, 0);
    assert!(home.run(&["inbox"]).stderr.contains("nothing waits for a person"));
    let said = home.run(&["topology", "show", "execution"]);
    assert!(said.stdout.contains("1 work order passed"), "{}", said.stdout);
    assert!(said.stdout.contains("NEW → TODO  by approval"), "{}", said.stdout);
    assert!(home.run(&["topology", "list"]).stdout.contains("execution"));
    assert_eq!(home.run(&["topology", "pause", "execution"]).code, 0);
    assert_eq!(home.run(&["topology", "resume", "execution"]).code, 0);
    assert_eq!(home.run(&["topology", "delete", "execution"]).code, 0);
    assert!(
        home.run(&["artifacts", "list", "execution", "objective"])
            .stderr
            .contains("tenure topology list")
    );
}

#[test]
fn a_claim_is_shown_with_its_six_fields() {
    // S0-30, S0-31, S0-32, S0-33, S0-34, S0-35, R-39
    let home = Home::new();
    let _server = home.serve();
    assert_eq!(home.run(&["topology", "apply", &shipped("execution.yaml")]).code, 0);
    let create = ["artifacts", "create", "execution", "objective", "T", "--fields", TICKET];
    assert_eq!(home.run(&create).code, 0);
    let approve = ["artifacts", "approve", "execution", "objective", "T", "TODO"];
    assert_eq!(home.run(&approve).code, 0);
    let _worker =
        Process::start(home.tenure(&["work", "--queue", "patch", "--exec", "sleep", "--", "600"]));
    let claims = || home.json(&["claims", "--json"]);
    wait_until("the runner has its claim", || {
        claims()[0]["resource_id"] == "wo/TICKET_READY/objective/T/2"
    });
    let claim = &claims()[0];
    assert_eq!(
        (&claim["resource_type"], &claim["deployment"]),
        (&"WORKORDER".into(), &"execution".into())
    );
    for member in ["owner_id", "lease_expires_at", "heartbeat_at"] {
        assert!(claim[member].is_string(), "{member}: {claim}");
    }
    assert!(claim["claim_version"].as_u64().unwrap() >= 1, "{claim}");
    let table = home.run(&["claims"]);
    assert!(table.stdout.contains("WORKORDER"), "{}", table.stdout);
}

/// A program with this text in the home.
fn program(home: &Home, name: &str, text: &str) -> String {
    let path = home.path().join(name);
    std::fs::write(&path, text).unwrap();
    shell(home, &format!("chmod +x {name}"));
    path.to_str().unwrap().to_owned()
}

fn apply_with_outside_scheduler(home: &Home) {
    let text = std::fs::read_to_string(shipped("execution.yaml")).unwrap();
    let uses = "    uses: scheduler\n";
    let outside = text.replace(uses, &format!("{uses}    outside: true\n    lease: 2s\n"));
    std::fs::write(home.path().join("execution.yaml"), outside).unwrap();
    let applied = home.run(&["topology", "apply", "execution.yaml"]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
}

#[test]
fn a_process_for_a_role_says_what_is_wrong() {
    let home = Home::new();
    let _server = home.serve();
    apply_with_outside_scheduler(&home);
    let role = |deployment: &str, role: &str, more: &[&str]| {
        home.run(&[&["topology", "role", deployment, role], more].concat())
    };
    let said = role("nowhere", "scheduler", &[]);
    assert!(said.code != 0 && said.stderr.contains("tenure topology list"), "{}", said.stderr);
    let said = role("execution", "nobody", &[]);
    assert!(said.code != 0 && said.stderr.contains("nobody"), "{}", said.stderr);
    let said = role("execution", "gate", &[]);
    assert!(said.code != 0 && said.stderr.contains("outside: true"), "{}", said.stderr);
    let said = role("execution", "scheduler", &["--exec", "./missing"]);
    assert!(said.code != 0 && said.stderr.contains("missing"), "{}", said.stderr);
    let said = role("execution", "scheduler", &["--within", "soon"]);
    assert!(said.code != 0 && said.stderr.contains("10s"), "{}", said.stderr);
}

#[test]
fn a_program_that_decides_nothing_gives_its_turn_back_and_says_why() {
    // A0-11: a turn is not held for ever by a program that never returns.
    let home = Home::new();
    let _server = home.serve();
    apply_with_outside_scheduler(&home);
    let create = ["artifacts", "create", "execution", "objective", "T", "--fields", TICKET];
    assert_eq!(home.run(&create).code, 0);
    let approve = ["artifacts", "approve", "execution", "objective", "T", "TODO"];
    assert_eq!(home.run(&approve).code, 0);
    let runs = home.json(&["runs", "list", "--kind", "TICKET_READY", "--json"]);
    let run = runs[0]["runId"].as_str().unwrap().to_owned();
    let programs = [
        ("garbage.sh", "#!/bin/sh\necho maybe\n", "the program printed no decision"),
        ("silent.sh", "#!/bin/sh\nexec sleep 600\n", "the program did not decide within 1 s"),
    ];
    for (name, text, why) in programs {
        let exec = program(&home, name, text);
        let arguments =
            ["topology", "role", "execution", "scheduler", "--exec", &exec, "--within", "1s"];
        let mut process = Process::start(home.tenure(&arguments));
        wait_until(why, || home.run(&["runs", "history", &run, "--json"]).stdout.contains(why));
        process.signal("TERM");
        assert_eq!(process.exit_code(), 0);
    }
}
