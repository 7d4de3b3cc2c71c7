//! Durable functions that ask people, through the binary: each story is told over SQLite and over PostgreSQL.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::{ApprovalDecision, Failure, Flow};

use crate::durable::{World, until_waiting};
use crate::home::CommandOutput;

/// A day: no test waits for it.
const LONG: u64 = 86_400_000;

/// Asks two people about an amount, and returns what they said.
async fn payout(ctx: Flow, (cents, within_ms): (u64, u64)) -> Result<Value, Failure> {
    let within = Duration::from_millis(within_ms);
    let asked = ctx.approval("pay").roles(["approver"]).quorum(2).content(&json!({"cents": cents}));
    let asked = asked.subject(format!("Pay {cents} cents"));
    let approval = asked.within_or(within, ApprovalDecision::Rejected).await?;
    let votes = approval.votes.iter();
    let votes: Vec<Value> = votes.map(|vote| json!([vote.key, vote.comment])).collect();
    Ok(json!({"outcome": approval.outcome, "reason": approval.reason(), "votes": votes}))
}

/// Asks two departments at the same time.
async fn contract(ctx: Flow, _: Value) -> Result<Value, Failure> {
    let ask = |name: &'static str| {
        ctx.branch(name, async move |ctx: Flow| ctx.approval("sign").subject(name).quorum(2).await)
    };
    let (legal, money) = tokio::join!(ask("legal"), ask("money"));
    Ok(json!([legal?.votes.len(), money?.votes.len()]))
}

/// Somebody with an API key.
struct Person<'w> {
    world: &'w World,
    id: String,
    secret: String,
}

impl World {
    fn person(&self, name: &str, roles: &[&str]) -> Person<'_> {
        let roles = roles.iter().flat_map(|role| ["--role", role]);
        let create: Vec<&str> =
            ["keys", "create", "--json", "--name", name].into_iter().chain(roles).collect();
        let made = self.home.json(&create);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Person { world: self, id: text(&made["key"]["keyId"]), secret: text(&made["secret"]) }
    }
}

impl Person<'_> {
    fn run(&self, arguments: &[&str]) -> CommandOutput {
        let all: Vec<&str> =
            ["--key", &self.secret].into_iter().chain(arguments.to_vec()).collect();
        self.world.home.run(&all)
    }

    /// The pending approvals that this person sees.
    fn pending(&self) -> Vec<Value> {
        let ran = self.run(&["approvals", "--json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        serde_json::from_str(&ran.stdout).unwrap()
    }

    fn decide(&self, verb: &str, approval: &Value, comment: &str) -> CommandOutput {
        let id = approval["approvalId"].as_str().unwrap();
        let mut word = vec!["approvals", verb, id, "--comment", comment];
        if let Some(digest) = approval["digest"].as_str() {
            word.extend(["--digest", digest]);
        }
        self.run(&word)
    }
}

async fn two_people_approve_and_the_function_goes_on(world: &World) {
    let (ann, bob) = (world.person("ann", &["approver"]), world.person("bob", &["approver"]));
    let run = world.submit("payout", &json!([500, LONG])).await;
    let working = world.work(|worker| worker.durable("payout", payout));
    until_waiting(&run).await;
    // No worker is needed to decide.
    working.end().await;
    let pending = ann.pending();
    let [asked] = &pending[..] else { panic!("{pending:?}") };
    assert_eq!((&asked["subject"], &asked["quorum"]), (&json!("Pay 500 cents"), &json!(2)));
    let shown = world.home.run(&["runs", "show", run.id()]);
    assert!(shown.stdout.contains("approval pay#1"), "{shown:?}");
    let id = asked["approvalId"].as_str().unwrap();
    let read = world.home.run(&["approvals", "show", id]).stdout;
    assert!(read.contains(r#"{"cents":500}"#), "{read}");
    let digest = asked["digest"].as_str().unwrap();
    assert!(read.contains(&format!("tenure approvals approve {id} --digest {digest}")), "{read}");
    let blind = json!({"approvalId": asked["approvalId"]});
    ann.decide("approve", &blind, "unseen").assert_error(
        4,
        "approval_digest_mismatch",
        "not what you saw",
        "approvals show",
    );
    // What the inbox says to type is what works.
    let inbox = world.home.run(&["inbox"]).stdout;
    let typed = inbox.lines().find(|line| line.contains("tenure approvals approve")).expect(&inbox);
    let typed: Vec<&str> = typed.split("tenure ").nth(1).unwrap().split(' ').collect();
    let said = ann.run(&[&typed[..], &["--comment", "checked the invoice"]].concat());
    assert!(said.stdout.contains("needs more of them"), "{said:?}");
    assert_eq!(ann.decide("approve", asked, "again").code, 4);
    let said = bob.decide("approve", asked, "me too");
    assert!(said.stdout.contains("is APPROVED"), "{said:?}");

    let working = world.work(|worker| worker.durable("payout", payout));
    let output = run.output::<Value>().await.unwrap();
    let votes = json!([[ann.id, "checked the invoice"], [bob.id, "me too"]]);
    assert_eq!(output["votes"], votes);
    assert_eq!(output["outcome"], "APPROVED");
    let shown = world.home.run(&["runs", "show", run.id()]);
    assert!(shown.stdout.contains(&format!("APPROVED by {} and {}", ann.id, bob.id)), "{shown:?}");
    working.end().await;
}

async fn a_rejection_is_a_value_and_time_takes_the_default(world: &World) {
    let ann = world.person("ann", &["approver"]);
    let working = world.work(|worker| worker.durable("payout", payout));
    let run = world.submit("payout", &json!([900, LONG])).await;
    until_waiting(&run).await;
    let said = ann.decide("reject", &ann.pending()[0], "too dear");
    assert!(said.stdout.contains("is REJECTED"), "{said:?}");
    let output = run.output::<Value>().await.unwrap();
    assert_eq!((&output["outcome"], &output["reason"]), (&json!("REJECTED"), &json!("too dear")));

    let run = world.submit("payout", &json!([900, 20])).await;
    let output = run.output::<Value>().await.unwrap();
    assert_eq!((&output["outcome"], &output["votes"]), (&json!("REJECTED"), &json!([])));
    let closed = ann.run(&["approvals", "list", "--closed"]);
    assert_eq!(closed.stdout.matches("REJECTED").count(), 2, "{closed:?}");
    working.end().await;
}

async fn a_vote_in_one_branch_outlives_the_decision_in_another(world: &World) {
    let (ann, bob) = (world.person("ann", &["approver"]), world.person("bob", &["approver"]));
    let working = world.work(|worker| worker.durable("contract", contract));
    let run = world.submit("contract", &json!(null)).await;
    until_waiting(&run).await;
    let pending = ann.pending();
    let about = |name: &str| pending.iter().find(|it| it["subject"] == name).unwrap();
    let (legal, money) = (about("legal"), about("money"));
    assert_eq!(ann.decide("approve", money, "").code, 0);
    for person in [&ann, &bob] {
        assert_eq!(person.decide("approve", legal, "").code, 0);
    }
    // The function has gone on and asks for the other approval again: it is the same one, with its vote.
    let said = bob.decide("approve", money, "");
    assert!(said.stdout.contains("is APPROVED"), "{said:?}");
    assert_eq!(run.output::<Value>().await.unwrap(), json!([2, 2]));
    working.end().await;
}

async fn every_story(world: &World) {
    two_people_approve_and_the_function_goes_on(world).await;
    a_rejection_is_a_value_and_time_takes_the_default(world).await;
    a_vote_in_one_branch_outlives_the_decision_in_another(world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_decide_what_a_durable_function_asks() {
    // A2-11: who decided what and why is the value that the function gets.
    two_people_approve_and_the_function_goes_on(&World::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejection_and_an_expiry_are_values_of_the_function() {
    a_rejection_is_a_value_and_time_takes_the_default(&World::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approvals_of_branches_keep_their_votes() {
    a_vote_in_one_branch_outlives_the_decision_in_another(&World::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approvals_are_the_same_over_postgresql() {
    every_story(&World::on_postgres()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_of_an_approval_may_be_any_role_of_a_key() {
    let world = World::on_sqlite();
    let (plain, reader) =
        (world.person("ann", &["approver"]), world.person("bob", &["approver", "reader"]));
    let working = world.work(|worker| {
        worker.durable("read", |ctx: Flow, _: Value| async move {
            Ok(ctx.approval("read").roles(["reader"]).await?.votes.len())
        })
    });
    let run = world.submit("read", &json!(null)).await;
    until_waiting(&run).await;
    let asked = plain.pending().remove(0);
    plain.decide("approve", &asked, "").assert_error(
        5,
        "approval_forbidden",
        "names neither this key nor a role",
        "another key",
    );
    assert_eq!(reader.decide("approve", &asked, "").code, 0);
    assert_eq!(run.output::<u32>().await.unwrap(), 1);
    working.end().await;
}
