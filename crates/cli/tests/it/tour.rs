//! The whole tour: it checks its own expectations, and these tests check that it does.

use crate::home::Home;

#[test]
fn the_tour_keeps_every_promise() {
    // S3-13, S3-20, S3-22, S3-25, S4-56, W-13: a killed worker loses its lease and its late report
    // is answered CANCELLED; one report is COMMITTED; an ignored cancel ends with CANCEL_TIMEOUT.
    let home = Home::new();
    let ran = home.run(&["tour", "--folder", "data"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let acts: Vec<&str> = ran.stdout.split("\n\n").collect();
    let act = |title: &str| *acts.iter().find(|act| act.contains(title)).expect(title);
    let first = act("A worker dies");
    assert_eq!(first.matches("COMMITTED").count(), 1, "{first}");
    assert_eq!(first.matches("CANCELLED").count(), 1, "{first}");
    assert!(first.contains("LOST") && first.contains("HEARTBEAT_TIMEOUT"), "{first}");
    assert!(act("A task fails").contains("the same schedule"));
    assert!(act("honoured").contains("cancelled"));
    assert!(act("ignored").contains("CANCEL_TIMEOUT"));
    let order = act("A durable order outlives its worker");
    assert_eq!(order.matches("executed   charge by alice").count(), 1, "{order}");
    assert_eq!(order.matches("executed   charge").count(), 1, "{order}");
    assert!(order.contains("approved by Ada"), "{order}");
    let payout = act("A payout asks two people");
    for part in
        ["checked the invoice", "already_voted", "the payout is APPROVED", "paid 50000 cents"]
    {
        assert!(payout.contains(part), "{part} in {payout}");
    }
    assert!(act("An agent may use 1000 tokens").contains("1200 of 1000 tokens were used"));
    assert!(act("A plan declares three steps").contains("draft, review, publish"));
    let agent = act("an agent works, and a schema");
    for part in ["FAIL, changed-something", "\"All of them are polite.\"", "greeting accepted"] {
        assert!(agent.contains(part), "{part} in {agent}");
    }
    let shop = act("A shop hears of an order");
    assert_eq!(shop.matches("signature verified").count(), 4, "{shop}");
    let places = ["killed     the server", "number 1", "number 2", "number 3", "number 4"];
    let places: Vec<usize> = places.iter().map(|part| shop.find(part).expect(part)).collect();
    assert!(places.is_sorted(), "in order, although the server was killed: {shop}");
    assert!(act("The store is verified").contains("no findings"));
    assert!(act("Now by hand").contains("KILL"));
    assert!(!ran.stdout.contains('\u{1b}'), "no colour but on a terminal");
    assert!(home.path().join("data/tenure.db").exists(), "the data stays");
}

#[test]
fn the_tour_leaves_no_process_and_no_profile_behind() {
    let home = Home::new();
    let ran = home.run(&["tour", "--json", "--folder", "data"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut steps =
        ran.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert_eq!(steps.next_back().unwrap()["step"], "verified");
    assert!(!home.profile().exists(), "the tour does not touch what `dev` remembered");
    let data = home.path().join("data/tenure.db");
    let ran = home.run(&["verify", "--store", data.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "nobody has the store open any more: {ran:?}");
}

#[test]
fn the_chapter_on_durable_runs_shows_one_order_from_its_first_step_to_its_replay() {
    // S2-86, W-6: a worker that is killed between two steps takes nothing with it, and the next one repeats no
    // recorded step. F82: changed code is found by a replay, and nothing is executed.
    let home = Home::new();
    let ran = home.run(&["tour", "durable", "--folder", "data"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let told = &ran.stdout;
    let places: Vec<usize> = [
        "executed   charge by alice",
        "killed     alice",
        "executed   pack by bob",
        "waiting    asleep until",
        "killed     bob",
        "signalled  approve",
        "executed   ship by carol",
        "each step was done once",
        "signal:approve#1",
        "the same code: same",
        "differs at operation 1, recorded pack#1, now wrap#1",
        "no findings",
        "Now by hand",
    ]
    .iter()
    .map(|line| told.find(line).unwrap_or_else(|| panic!("{line} in {told}")))
    .collect();
    assert!(places.is_sorted(), "{told}");
    assert_eq!(told.matches("executed   charge").count(), 1, "{told}");
    assert!(!told.contains("A worker dies"), "a chapter is about one subject: {told}");
}

#[test]
fn the_chapter_on_leases_is_about_leases() {
    let home = Home::new();
    let ran = home.run(&["tour", "leases", "--json", "--folder", "data"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("A cancel that is honoured") && !ran.stdout.contains("durable"));
    let ran = home.run(&["tour", "nothing"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("leases, durable, plan, budget, approval, prove"), "{ran:?}");
}

/// A chapter, whose lines come in this order.
fn chapter(name: &str, lines: &[&str]) -> String {
    let home = Home::new();
    let ran = home.run(&["tour", name, "--folder", "data"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let told = ran.stdout;
    let mut rest = told.as_str();
    for line in lines.iter().chain(&["no findings", "Now by hand", "More"]) {
        let place = rest.find(line).unwrap_or_else(|| panic!("{line} in its place in {told}"));
        rest = &rest[place + line.len()..];
    }
    assert!(!told.contains("A worker dies."), "a chapter is about one subject: {told}");
    told
}

#[test]
fn the_chapter_on_approvals_asks_people_and_refuses_what_it_must() {
    // A2-11: people decide, once each, about what they saw.
    let told = chapter(
        "approval",
        &[
            "executed   look-up by alice",
            "for 2 approvers: \"Pay 50000 cents to Ada\"",
            "killed     alice",
            "about 50001 cents: approval_digest_mismatch",
            "by ann, \"checked the invoice\": the vote is recorded, and one more is needed",
            "a second time: already_voted",
            "by bob: the payout is APPROVED",
            "executed   transfer by carol",
            "paid 50000 cents",
            "APPROVED by ann at",
            "APPROVED by bob at",
            "by bob, \"too dear\": the payout is REJECTED",
            "succeeded, output \"not paid: too dear\"",
        ],
    );
    assert_eq!(told.matches("executed   transfer").count(), 1, "{told}");
}

#[test]
fn the_chapter_on_budgets_halts_an_agent_and_keeps_its_steps() {
    let told = chapter(
        "budget",
        &[
            "executed   think by alice",
            "halted",
            "1200 of 1000 tokens",
            "think#1, think#2, think#3",
            "continued",
            "after 5 thoughts",
            "3 thoughts before, 2 after",
        ],
    );
    assert_eq!(told.matches("executed   think").count(), 5, "{told}");
}

#[test]
fn the_chapter_on_plans_repeats_only_the_step_whose_worker_died() {
    let told = chapter(
        "plan",
        &[
            "$from: draft",
            "checked",
            "executed   draft by alice",
            "killed     alice",
            "executed   review by bob",
            "executed   publish by bob",
            "draft, review, publish",
        ],
    );
    assert_eq!(told.matches("executed   draft").count(), 1, "{told}");
}

#[test]
fn the_chapter_on_provenance_proves_a_run_and_finds_a_forgery() {
    chapter(
        "prove",
        &[
            "executed   ship by alice",
            "deliver order 7",
            "proved",
            "without the store",
            "forged",
            "found",
        ],
    );
}

#[test]
fn the_chapter_on_topologies_plays_the_three_shipped_ones() {
    // S0-27, S1-13, S1-24, A0-11: a declared deployment needs no code, and survives its server.
    chapter(
        "topology",
        &[
            "applied    agent-review.yaml: 5 roles, and no code",
            "created    assignment/greeting requested",
            "plan-assignment: PASS",
            "build-assignment: FAIL, changed-something",
            "a person: \"Does the change do what was asked for?",
            "approved   \"All of them are polite.\"",
            "build-assignment: PASS",
            "ended      assignment/greeting accepted",
            "applied    execution.yaml",
            "approved   objective/T-1 TODO",
            "killed     the server",
            "PATCH_DIAZOTROPH: PASS",
            "applied    task-management.yaml",
            "requested",
            "TRIAGE_DIAZOTROPH: PASS",
            "MANIFEST_BUILDER_DIAZOTROPH: PASS",
            "ended      capture_buffer/milk PROCESSED",
        ],
    );
}
