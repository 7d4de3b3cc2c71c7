//! A gate in a process of its own. The example of the guide to topologies.

use serde::Deserialize;
use tenure::roles::{GateDecision, OrderTurn, RoleProcess};
use tenure::{Client, Error, Failure};

/// What this gate reads of a patch.
#[derive(Deserialize)]
struct Patch {
    content: String,
}

/// Refuses what touches the licence, and is as strict as the declared checks otherwise.
async fn judge(turn: OrderTurn) -> Result<GateDecision, Failure> {
    // The server passes nothing that a declared check refuses, and says why.
    if let Some(refusal) = turn.refusal {
        return Ok(GateDecision::fail("declared-checks", refusal));
    }
    let patch: Patch = match turn.output() {
        Ok(patch) => patch,
        Err(why) => return Ok(GateDecision::fail("shape", why.message)),
    };
    if patch.content.contains("LICENSE") {
        return Ok(GateDecision::fail("licence", "a lawyer has to see this"));
    }
    Ok(GateDecision::pass())
}

/// Decides the turns of the role `gate` of the deployment `execution`.
pub fn process(client: Client) -> RoleProcess {
    RoleProcess::new(client, "execution").gate("gate", judge)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    process(Client::from_env()?).run().await
}
