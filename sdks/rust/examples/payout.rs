//! A durable payout that two people must approve, within a day. The example of the guide to approvals.
#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{ApprovalDecision, Client, Error, Failure, Flow, Kind, Worker};

const PAYOUT: Kind<Payout, String> = Kind::new("payout").queue("payouts");

/// How long people may take. After that the payout is rejected.
const DAY: Duration = Duration::from_secs(86_400);

#[derive(Serialize, Deserialize)]
struct Payout {
    to: String,
    cents: u64,
}

async fn payout(ctx: Flow, payout: Payout) -> Result<String, Failure> {
    let account: String =
        ctx.step("look-up", async |_| look_up(&payout.to).await).input(&payout.to).await?;

    let approval = ctx
        .approval("pay")
        .quorum(2)
        .within_or(DAY, ApprovalDecision::Rejected)
        .subject(format!("Pay {} cents to {}", payout.cents, payout.to))
        .content(&payout)
        .await?;
    if !approval.is_approved() {
        return Ok(format!("not paid: {}", approval.reason().unwrap_or("no reason was given")));
    }

    let who: Vec<&str> = approval.votes.iter().map(|vote| vote.key.as_str()).collect();
    println!("approved by {}", who.join(" and "));
    ctx.step("transfer", async |step| {
        transfer(step.idempotency_key(), &account, payout.cents).await
    })
    .input(&payout)
    .await
}

// Services of others. Each recognises a repeated request by its key.

async fn look_up(name: &str) -> Result<String, Failure> {
    println!("looking up the account of {name}");
    Ok(format!("account of {name}"))
}

async fn transfer(key: &str, account: &str, cents: u64) -> Result<String, Failure> {
    println!("transferring {cents} cents to {account} under {key}");
    Ok(format!("paid {cents} cents to the {account}"))
}

/// Executes payouts.
pub fn worker(client: Client) -> Worker {
    Worker::new(client).durable(PAYOUT, payout)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    worker(Client::from_env()?).run().await
}
