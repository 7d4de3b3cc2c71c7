//! A durable agent that thinks five times and says what each thought used. The example of the guide to budgets.
#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use tenure::{Client, Error, Failure, Flow, Kind, Spend, Worker};

const AGENT: Kind<String, String> = Kind::new("agent").queue("agents");

/// How many thoughts an answer takes, and how many tokens each uses.
const THOUGHTS: u32 = 5;
const TOKENS: u64 = 400;

async fn agent(ctx: Flow, question: String) -> Result<String, Failure> {
    for thought in 1..=THOUGHTS {
        ctx.step("think", async |step| {
            // What a model says that it used.
            step.spend(Spend { tokens: TOKENS, ..Spend::default() });
            println!("thought {thought} about {question}");
            Ok(format!("thought {thought}"))
        })
        .await?;
    }
    Ok(format!("an answer about {question}, after {THOUGHTS} thoughts"))
}

/// Executes agents.
pub fn worker(client: Client) -> Worker {
    Worker::new(client).durable(AGENT, agent)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    worker(Client::from_env()?).run().await
}
