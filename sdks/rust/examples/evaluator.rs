//! A worker that evaluates recovery candidates. The example of the guide to recovery.
#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use serde::{Deserialize, Serialize};
use tenure::{Client, Ctx, Error, Failure, Kind, Worker};

const EVALUATE: Kind<Evaluation, Verdict> = Kind::new("tenure.recovery").queue("tenure.recovery");

/// What an evaluation is about, as far as this one looks at it.
#[derive(Deserialize)]
struct Evaluation {
    candidate: Candidate,
    /// What the policy allows.
    actions: Vec<String>,
}

#[derive(Deserialize)]
struct Candidate {
    kind: String,
    /// The message of the failures, without what differs.
    pattern: String,
    /// How many runs failed so.
    count: u64,
}

#[derive(Serialize)]
struct Verdict {
    action: String,
    confidence: f64,
    comment: String,
}

/// Repeats what failed because of a template that is there again, and leaves the rest to people.
async fn evaluate(
    _: Ctx,
    Evaluation { candidate, actions }: Evaluation,
) -> Result<Verdict, Failure> {
    let Candidate { kind, pattern, count } = candidate;
    let is_mended = pattern.contains("no template") && template_is_there();
    let action = if is_mended { "retry" } else { "escalate" };
    println!("{count} of {kind} failed with {pattern:?}: {action}");
    let action = Some(action).filter(|it| actions.iter().any(|allowed| allowed == it));
    Ok(Verdict {
        action: action.unwrap_or("skip").to_owned(),
        confidence: 0.9,
        comment: "the template is there again".to_owned(),
    })
}

/// Whatever tells that the cause is gone.
fn template_is_there() -> bool {
    true
}

/// Evaluates candidates whose policy says `--evaluator workers`.
pub fn worker(client: Client) -> Worker {
    Worker::new(client).handle(EVALUATE, evaluate)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    worker(Client::from_env()?).run().await
}
