//! The smallest worker: `tenure submit hello --queue default --input '"Ada"'` gives it work.

use tenure::Worker;

#[tokio::main]
async fn main() -> Result<(), tenure::Error> {
    Worker::from_env()?
        .queue("default")
        .handle("hello", |_, name: String| async move { Ok(format!("Hello, {name}!")) })
        .run()
        .await
}
