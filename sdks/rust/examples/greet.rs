//! Submits work and waits for its result: the example of the first page, which `tenure bench` measures.
#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use tenure::{Client, Ctx, Error, Failure, Kind, Worker};

const HELLO: Kind<String, String> = Kind::new("hello");

async fn hello(_: Ctx, name: String) -> Result<String, Failure> {
    Ok(format!("Hello, {name}!"))
}

/// Serves greetings.
pub fn greeter(client: Client) -> Worker {
    Worker::new(client).handle(HELLO, hello)
}

/// Submits a run and waits for its result.
pub async fn greet(client: &Client, name: &str) -> Result<String, Error> {
    client.submit(HELLO, name).await?.result().await
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = Client::from_env()?;
    tokio::select! {
        // Usually in another process.
        ended = greeter(client.clone()).run() => ended,
        greeting = greet(&client, "Ada") => {
            println!("{}", greeting?);
            Ok(())
        }
    }
}
