//! The smallest worker: `tenure submit hello --queue default --input '"Ada"'` gives it work.

use tenure::{Ctx, Failure, Kind, Worker};

const HELLO: Kind<String, String> = Kind::new("hello");

async fn hello(_: Ctx, name: String) -> Result<String, Failure> {
    Ok(format!("Hello, {name}!"))
}

#[tokio::main]
async fn main() -> Result<(), tenure::Error> {
    Worker::from_env()?.handle(HELLO, hello).run().await
}
