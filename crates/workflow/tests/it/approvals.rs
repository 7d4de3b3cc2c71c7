//! Approvals: what people say reaches the function as a value, the same in every replay.

use std::time::Duration;

use futures_util::join;
use serde_json::{Value, json};
use workflow::testing::{Ended, FlowTest};
use workflow::{
    Approval, ApprovalDecision, ApprovalOutcome, Failure, Flow, Function, Stop, function,
};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Asks two people about a number of cents, for a day.
fn payout() -> Function<'static> {
    function(async |ctx: Flow, cents: u64| {
        let call = ctx.approval("pay").quorum(2).subject(format!("Pay {cents} cents"));
        let approval = call.within_or(DAY, ApprovalDecision::Rejected).about(&cents).await?;
        Ok(told(&approval))
    })
}

fn told(approval: &Approval) -> Value {
    let votes = approval.votes.iter();
    let votes: Vec<Value> = votes.map(|vote| json!([vote.key, vote.decision])).collect();
    json!({"outcome": approval.outcome, "reason": approval.reason(), "votes": votes})
}

fn ended(run: FlowTest<'static>) -> Ended {
    let mut run = run;
    run.run().unwrap()
}

#[test]
fn a_quorum_approves_and_the_votes_say_who_and_why() {
    let run = FlowTest::of(payout(), &500).approve("pay", "ann");
    let said = Some("checked the invoice");
    let run = run.decide_after(HOUR, "pay", "bob", ApprovalDecision::Approved, said);
    let ended = ended(run);
    let votes = json!([["ann", "APPROVED"], ["bob", "APPROVED"]]);
    let expected = json!({"outcome": "APPROVED", "reason": "checked the invoice", "votes": votes});
    assert_eq!(ended.output::<Value>(), expected);
    assert_eq!((ended.keys(), ended.attempts), (vec!["approval:pay#1"], 2));
}

#[test]
fn a_rejection_is_a_value_and_one_is_enough() {
    let run = FlowTest::of(payout(), &500).approve("pay", "ann").reject("pay", "bob", "too dear");
    let output: Value = ended(run).output();
    assert_eq!((&output["outcome"], &output["reason"]), (&json!("REJECTED"), &json!("too dear")));
}

#[test]
fn nobody_votes_twice_and_the_expiry_takes_the_default() {
    let run = FlowTest::of(payout(), &500).approve("pay", "ann").approve("pay", "ann");
    let late = ApprovalDecision::Approved;
    let ended = ended(run.decide_after(2 * DAY, "pay", "bob", late, None));
    let output: Value = ended.output();
    assert_eq!(output["outcome"], "REJECTED");
    assert_eq!(output["votes"], json!([["ann", "APPROVED"]]));
}

#[test]
fn without_a_default_the_expiry_is_an_outcome_of_its_own() {
    let code = function(async |ctx: Flow, _: Value| {
        let approval = ctx.approval("pay").within(DAY).await?;
        Ok((approval.outcome, approval.is_approved(), ctx.now().await))
    });
    let (outcome, is_approved, now): (ApprovalOutcome, bool, String) =
        ended(FlowTest::of(code, &())).output();
    assert_eq!((outcome, is_approved), (ApprovalOutcome::Expired, false));
    assert_eq!(now, "2026-01-02T00:00:00.000Z");
}

#[test]
fn branches_ask_different_people_and_both_words_are_kept() {
    // The first decision wakes the function while the second approval is open.
    let code = function(async |ctx: Flow, _: Value| {
        let ask = |name: &'static str| {
            ctx.branch(name, async move |ctx: Flow| ctx.approval("ok").keys([name]).await)
        };
        let (legal, money) = join!(ask("legal"), ask("money"));
        Ok((told(&legal?), told(&money?)))
    });
    let run = FlowTest::of(code, &()).approve("ok", "ann");
    let said = ApprovalDecision::Rejected;
    let ended = ended(run.decide_after(HOUR, "ok", "bob", said, Some("no money")));
    let (legal, money): (Value, Value) = ended.output();
    assert_eq!((&legal["outcome"], &money["reason"]), (&json!("APPROVED"), &json!("no money")));
    assert_eq!(ended.keys(), ["legal/approval:ok#1", "money/approval:ok#1"]);
}

#[test]
fn code_that_asks_about_something_else_is_stopped() {
    // F82: what was approved is not what would be done now.
    let ended = ended(FlowTest::of(payout(), &500).approve("pay", "ann").approve("pay", "bob"));
    let replayed = FlowTest::of(payout(), &501).recorded(ended.history.clone()).run();
    let stopped = replayed.unwrap_err().to_string();
    assert!(stopped.contains("approval:pay#1") && stopped.contains("input"), "{stopped}");
    let again = FlowTest::of(payout(), &500).recorded(ended.history).run().unwrap();
    assert_eq!((again.commands, again.attempts), (1, 1));
}

#[test]
fn an_approval_without_a_name_or_with_an_unreadable_word_is_told() {
    let code = function(async |ctx: Flow, name: String| {
        ctx.approval(name).await.map(|approval| approval.outcome)
    });
    let stopped = FlowTest::of(code.clone(), "a/b").run().unwrap_err();
    assert!(matches!(stopped, workflow::testing::TestError::Stopped(Stop::Misused(_))));
    let mut ended = ended(FlowTest::of(code.clone(), "pay").approve("pay", "ann"));
    ended.history[0].result = Some(workflow::Json::null());
    let broken = FlowTest::of(code, "pay").recorded(ended.history).run().unwrap();
    let failure: &Failure = broken.error().unwrap();
    assert!(failure.message.contains("approval:pay#1"), "{failure}");
}
