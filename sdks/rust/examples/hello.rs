//! The smallest worker: `tenure submit hello --queue default --input '"Ada"'` gives it work.

use tenure::{Ctx, Worker};

#[tokio::main]
async fn main() -> Result<(), tenure::Error> {
    Worker::from_env()?
        .queue("default")
        .task("hello", |_: Ctx, name: String| async move { Ok(format!("Hello, {name}!")) })
        .run()
        .await
}
