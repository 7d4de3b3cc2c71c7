//! The other work of the tour: a payout that asks people, an agent with a budget, and the steps of a plan.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenure::{Ctx, Failure, Flow, Spend};

use super::order::Services;

/// The kind of a run that asks people.
pub(crate) const PAYOUT: &str = "payout";
/// The kind of a run that uses tokens.
pub(crate) const AGENT: &str = "agent";
/// The kinds of a plan's steps, in their order.
pub(crate) const STEPS: [&str; 3] = ["draft", "review", "publish"];
/// What one thought of the agent uses, and how many it needs.
pub(crate) const TOKENS_PER_THOUGHT: u64 = 400;
pub(crate) const THOUGHTS: u32 = 5;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Payout {
    pub(crate) to: String,
    pub(crate) cents: u64,
}

impl Payout {
    pub(crate) fn subject(&self) -> String {
        format!("Pay {} cents to {}", self.cents, self.to)
    }
}

/// Looked up, approved by two people, transferred once.
pub(super) async fn payout(
    ctx: Flow,
    payout: Payout,
    at: Arc<Services>,
) -> Result<String, Failure> {
    let account = format!("account of {}", payout.to);
    let account: String = ctx
        .step("look-up", async |step| at.execute("look-up", step.fence(), account.clone()).await)
        .await?;
    let approval = ctx.approval("pay").quorum(2).subject(payout.subject()).about(&payout).await?;
    if !approval.is_approved() {
        return Ok(format!("not paid: {}", approval.reason().unwrap_or("no reason was given")));
    }
    let paid = format!("paid {} cents to the {account}", payout.cents);
    ctx.step("transfer", async |step| at.execute("transfer", step.fence(), paid.clone()).await)
        .await
}

/// Thinks, and says what each thought used.
pub(super) async fn agent(
    ctx: Flow,
    question: String,
    at: Arc<Services>,
) -> Result<String, Failure> {
    for thought in 1..=THOUGHTS {
        let thought = format!("thought {thought} about {question}");
        ctx.step("think", async |step| {
            step.spend(Spend { tokens: TOKENS_PER_THOUGHT, ..Spend::default() });
            at.execute("think", step.fence(), thought.clone()).await
        })
        .await?;
    }
    Ok(format!("an answer about {question}, after {THOUGHTS} thoughts"))
}

/// A step of a plan: knows its input, and nothing of the plan.
pub(super) async fn plan_step(
    ctx: Ctx,
    kind: &'static str,
    input: serde_json::Value,
    at: Arc<Services>,
) -> Result<serde_json::Value, Failure> {
    let text = input["text"].as_str().unwrap_or_default();
    let text = format!("{text}{}{kind}", if text.is_empty() { "" } else { ", " });
    let text = at.execute(kind, ctx.fence(), text).await;
    let text = text.map_err(|failure| tenure::Failure::permanent(failure.message))?;
    Ok(serde_json::json!({ "text": text }))
}
