//! The durable order of the tour, and the worker that executes it and the tour's other work in a separate process.
//!
//! It prints one JSON line for each piece of work that it really does, so the tour can count what was done across
//! crashes. The command is hidden, because it is of no use without the tour.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{Client, Ctx, Failure, Flow, Worker};

use super::functions::{self, AGENT, PAYOUT, Payout, STEPS};
use crate::exit::{CommandResult, Exit};
use crate::{output, server};

/// The kind of the run.
pub(crate) const KIND: &str = "order";
/// The signal that a person sends.
pub(crate) const APPROVE: &str = "approve";
/// How long a customer may cancel the order: long enough to be seen asleep, and short for a demo.
pub(crate) const COOLING_OFF: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The queue to take from
    #[arg(long)]
    queue: String,
    /// The worker's name
    #[arg(long)]
    name: String,
    /// Come to this step, and do nothing of it until killed
    #[arg(long, value_name = "STEP")]
    hang_before: Option<String>,
    /// Be another version of the code, in which `pack` has another name
    #[arg(long)]
    changed: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) cents: u64,
}

/// The messages of the worker to the tour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OrderMessage {
    /// The work of a step was done.
    Executed { step: String, fence: u64 },
    /// The worker came to a step and hangs there.
    Reached { step: String },
}

/// What the steps of an order call.
pub(super) struct Services {
    hang_before: Option<String>,
    is_changed: bool,
}

impl Services {
    pub(super) async fn execute(
        &self,
        name: &str,
        fence: u64,
        result: String,
    ) -> Result<String, Failure> {
        if self.hang_before.as_deref() == Some(name) {
            print_message(&OrderMessage::Reached { step: name.to_owned() })?;
            return pending().await;
        }
        print_message(&OrderMessage::Executed { step: name.to_owned(), fence })?;
        Ok(result)
    }

    fn packing(&self) -> &'static str {
        if self.is_changed { "wrap" } else { "pack" }
    }
}

fn print_message(message: &OrderMessage) -> Result<(), Failure> {
    output::json_line(message).map_err(|_| Failure::permanent("the tour no longer listens"))
}

pub(crate) async fn run(client: Client, arguments: Arguments) -> CommandResult {
    let Arguments { queue, name, hang_before, changed } = arguments;
    let services = Arc::new(Services { hang_before, is_changed: changed });
    let worker = with_work(Worker::new(client).name(name).queue(queue), &services);
    worker.run().await.map_err(server::cli_error)?;
    Ok(Exit::Done)
}

/// Everything that a run of the tour can ask for.
fn with_work(worker: Worker, services: &Arc<Services>) -> Worker {
    let at = || Arc::clone(services);
    let (for_orders, for_payouts, for_agents) = (at(), at(), at());
    let worker = worker
        .durable(KIND, move |ctx: Flow, order: Order| {
            order_run(ctx, order, Arc::clone(&for_orders))
        })
        .durable(PAYOUT, move |ctx: Flow, asked: Payout| {
            functions::payout(ctx, asked, Arc::clone(&for_payouts))
        })
        .durable(AGENT, move |ctx: Flow, question: String| {
            functions::agent(ctx, question, Arc::clone(&for_agents))
        });
    STEPS.into_iter().fold(worker, |worker, kind| {
        let at = at();
        worker.handle(kind, move |ctx: Ctx, input: serde_json::Value| {
            functions::plan_step(ctx, kind, input, Arc::clone(&at))
        })
    })
}

/// Charged once, packed, kept for a while, approved by a person, shipped.
async fn order_run(ctx: Flow, order: Order, at: Arc<Services>) -> Result<String, Failure> {
    let receipt = format!("receipt for {} cents", order.cents);
    let receipt: String = ctx
        .step("charge", async |step| at.execute("charge", step.fence(), receipt.clone()).await)
        .input(&order.cents)
        .await?;
    let packing = at.packing();
    ctx.step(packing, async |step| at.execute(packing, step.fence(), "parcel".to_owned()).await)
        .await?;

    ctx.sleep(COOLING_OFF).await;
    let approver: String = ctx.signal(APPROVE).await?;

    let shipped = format!("order {}: {receipt}, approved by {approver}", order.id);
    ctx.step("ship", async |step| at.execute("ship", step.fence(), shipped.clone()).await).await
}
