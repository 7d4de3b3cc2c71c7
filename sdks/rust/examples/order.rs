//! A durable order: charged once, approved by a person, shipped in parts. The example of the guide "Your first durable
//! function".
#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use std::time::Duration;

use serde::Deserialize;
use tenure::{Client, Ctx, Error, Failure, Flow, Kind, Retry, Worker};

/// How long a customer may cancel the order.
const COOLING_OFF: Duration = Duration::from_secs(2);
/// How long a person may take to approve it.
const APPROVAL: Duration = Duration::from_secs(7 * 86_400);

const ORDER: Kind<Order, String> = Kind::new("order").queue("orders");
const PACK: Kind<String, String> = Kind::new("pack").queue("orders");

#[derive(Deserialize)]
struct Order {
    id: u64,
    cents: u64,
    items: Vec<String>,
}

async fn order(ctx: Flow, order: Order) -> Result<String, Failure> {
    let receipt = ctx
        .step("charge", async |step| charge(step.idempotency_key(), order.cents).await)
        .input(&order.cents)
        .retry(Retry::tries(5))
        .await?;

    ctx.sleep(COOLING_OFF).await;

    let approved: Option<bool> = ctx.signal("approve").within(APPROVAL).await?;
    if approved != Some(true) {
        ctx.step("refund", async |step| refund(step.idempotency_key(), &receipt).await).await?;
        return Ok(format!("order {} was refunded", order.id));
    }

    let packed = ctx.map(PACK, &order.items).all().await?;
    ctx.step("mail", async |_| mail(order.id, &packed).await).await
}

async fn pack(_: Ctx, item: String) -> Result<String, Failure> {
    println!("packing {item}");
    Ok(format!("parcel with {item}"))
}

// Services of others. Each recognises a repeated request by its key.

async fn charge(key: &str, cents: u64) -> Result<String, Failure> {
    println!("charging {cents} cents under {key}");
    Ok(format!("receipt for {cents} cents"))
}

async fn refund(key: &str, receipt: &str) -> Result<(), Failure> {
    println!("refunding {receipt} under {key}");
    Ok(())
}

async fn mail(id: u64, parcels: &[String]) -> Result<String, Failure> {
    println!("mailing order {id}");
    Ok(format!("order {id}: {}", parcels.join(", ")))
}

/// Executes orders and packs their parcels.
pub fn worker(client: Client) -> Worker {
    Worker::new(client).durable(ORDER, order).handle(PACK, pack)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    worker(Client::from_env()?).run().await
}
