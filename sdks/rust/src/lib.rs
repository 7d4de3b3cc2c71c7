//! Rust client and worker for Tenure.
//!
//! [`Client`] asks a coordinator over HTTP and answers with the typed shapes of [`wire`]. It repeats a
//! call only when nothing was decided: no answer at all, 429 or 503. A verdict is never a reason to
//! repeat.

mod client;
mod error;
mod transport;

pub use client::{Client, DEFAULT_URL, Force};
pub use error::Error;
pub use transport::Retries;
pub use wire;
