//! Marks: user code says what it does, with a plain HTTP call that is no part of the SDK.

use std::time::SystemTime;

use serde_json::{Value, json};
use tenure::{Ctx, Step};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) async fn mark(ctx: &Ctx, mark: &str) {
    send(json!({"task": ctx.task_id(), "mark": mark, "attempt": ctx.attempt(), "fence": ctx.fence()})).await;
}

/// A step knows its task by its idempotency key.
pub(crate) async fn mark_step(step: &Step, mark: &str) {
    let task = step.idempotency_key().split('/').next().unwrap_or_default();
    send(json!({"task": task, "mark": mark, "attempt": step.fence(), "fence": step.fence()})).await;
}

/// A mark that does not arrive is missed by the kit.
pub(crate) async fn send(mut said: Value) {
    said["at"] = json!(since_1970());
    let urls = std::env::var("TENURE_URL").unwrap_or_default();
    let Some(authority) = urls.split(',').next().and_then(|url| url.strip_prefix("http://")) else {
        return;
    };
    let Ok(mut stream) = TcpStream::connect(authority).await else { return };
    let body = said.to_string();
    let call = format!(
        "POST /conform/mark HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    if stream.write_all(call.as_bytes()).await.is_ok() {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
}

/// In milliseconds: when the code says it, whenever the call arrives.
fn since_1970() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
