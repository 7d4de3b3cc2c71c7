//! A durable invoice: the customer's system is told, and a letter is sent if it cannot be reached.
//!
//! What is sent goes to the endpoint `billing`, by its name. See the guide to webhooks.
#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use serde::{Deserialize, Serialize};
use tenure::{Client, Effect, Error, Failure, Flow, Kind, Worker};

const INVOICE: Kind<Invoice, String> = Kind::new("invoice").queue("invoices");

#[derive(Serialize, Deserialize)]
struct Invoice {
    customer: String,
    cents: u64,
}

async fn invoice(ctx: Flow, invoice: Invoice) -> Result<String, Failure> {
    let number: u64 = ctx.step("number", async |_| Ok(invoice.cents % 1_000)).await?;

    // Recorded once, and delivered in the order of the customer's invoices. Nobody works while it is on its way.
    let told = Effect::to("billing", "invoice.issued", &invoice)?.aggregate(&invoice.customer);
    let delivery = ctx.effect("tell", told).delivered().await?;
    if delivery.is_delivered() {
        return Ok(format!("invoice {number} was delivered"));
    }

    let why = delivery.reason.unwrap_or_else(|| "nobody knows whether it arrived".to_owned());
    let customer = &invoice.customer;
    ctx.step("letter", async |_| send_letter(customer, number).await).input(customer).await?;
    Ok(format!("invoice {number} was sent by letter: {why}"))
}

/// A service of others.
async fn send_letter(customer: &str, number: u64) -> Result<(), Failure> {
    println!("printing invoice {number} for {customer}");
    Ok(())
}

/// Executes invoices.
pub fn worker(client: Client) -> Worker {
    Worker::new(client).durable(INVOICE, invoice)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    worker(Client::from_env()?).run().await
}
