//! Waiting for signals, with or without an end.
//!
//! Of a signal and the timer beside it, the one that the coordinator committed first counts, in every replay.

use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use serde::de::DeserializeOwned;
use wire::ErrorCategory;

use crate::Failure;
use crate::command::{Awaited, Checkpoint, Mode};
use crate::flow::Flow;
use crate::key::{Kind, TIMEOUT};
use crate::operation::{Operation, later};
use crate::stop::SourceLine;

/// A signal that is awaited.
#[must_use = "a signal is taken when it is awaited"]
pub struct SignalCall<T> {
    ctx: Flow,
    name: String,
    at: SourceLine,
    reads: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> SignalCall<T> {
    pub(crate) fn new(ctx: Flow, name: String, at: SourceLine) -> SignalCall<T> {
        SignalCall { ctx, name, at, reads: PhantomData }
    }

    /// Waits no longer than this; `None` when no signal has come by then. A signal that comes later stays for the next
    /// one that awaits it.
    pub async fn within(self, span: Duration) -> Result<Option<T>, Failure> {
        self.wait(Some(span)).await.map(read).transpose()
    }

    async fn wait(self, within: Option<Duration>) -> Option<Checkpoint> {
        let mut operation = Operation::begin(&self.ctx, Kind::Signal, &self.name, self.at).await;
        let (key, _) = operation.enter(None).await;
        let timer = format!("{key}.{TIMEOUT}");
        let is_here = operation.shared.with(|core| core.has(&key) || core.has(&timer));
        if !is_here {
            let mut items = vec![Awaited::Signal { key: key.clone(), signal: self.name }];
            if let Some(span) = within {
                let until = later(operation.record().await, span);
                items.push(Awaited::Timer { key: timer.clone(), until });
            }
            operation.arrival(Mode::Any, items).await;
        }
        let first = |core: &mut crate::core::Core| {
            core.take_first(&operation.branch, &[key.as_str(), timer.as_str()])
        };
        let first = operation.shared.with(first).expect("one of them has arrived");
        operation.shared.with(|core| core.forget_parts(&key));
        operation.end();
        (first.key == key).then_some(first)
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for SignalCall<T> {
    type Output = Result<T, Failure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            // Recorded code may have had a limit. Then no signal is what was recorded.
            let none = || Failure::new(ErrorCategory::Timeout, "no signal came in time");
            read(self.wait(None).await.ok_or_else(none)?)
        })
    }
}

fn read<T: DeserializeOwned>(signal: Checkpoint) -> Result<T, Failure> {
    let payload = signal.result.unwrap_or_default();
    payload.read().map_err(|error| {
        let message = format!("the payload of signal `{}` cannot be read: {error}", signal.key);
        Failure::new(ErrorCategory::DataQuality, message)
    })
}
