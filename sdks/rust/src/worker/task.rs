//! The kinds of work that a worker handles: tasks, each a function from its context to JSON, and durable functions.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::Json;
use wire::requests::AnnouncedKind;
use workflow::{Failure, Function, Kind};

use super::ctx::Ctx;
use super::program::Program;
use crate::payload::{self, encode_payload};

pub(crate) type Task = Arc<dyn Fn(Ctx) -> BoxFuture<'static, Result<Json, Failure>> + Send + Sync>;

/// What a handler is added for: a [`Kind`] with the handler's types, or a name, whose handler chooses its types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kind from `{I}` to `{O}`",
    label = "the handler takes `{I}` and gives `{O}`",
    note = "a `Kind<I, O>` needs a handler with exactly its types; a plain name fits every handler"
)]
pub trait TaskKind<I, O> {
    fn name(&self) -> &str;

    /// Where runs of the kind wait; a name does not say.
    fn queue_name(&self) -> Option<&str>;

    /// What the worker announces of the kind, or why it cannot; of a name, the name alone.
    #[doc(hidden)]
    fn announcement(&self) -> Result<AnnouncedKind, String> {
        Ok(AnnouncedKind { kind: self.name().to_owned(), ..AnnouncedKind::default() })
    }
}

impl<I, O> TaskKind<I, O> for Kind<I, O> {
    fn name(&self) -> &str {
        Kind::name(self)
    }

    fn queue_name(&self) -> Option<&str> {
        Some(Kind::queue_name(self))
    }

    fn announcement(&self) -> Result<AnnouncedKind, String> {
        Kind::announcement(self)
    }
}

impl<I, O> TaskKind<I, O> for &str {
    fn name(&self) -> &str {
        self
    }

    fn queue_name(&self) -> Option<&str> {
        None
    }
}

impl<I, O> TaskKind<I, O> for String {
    fn name(&self) -> &str {
        self
    }

    fn queue_name(&self) -> Option<&str> {
        None
    }
}

/// How a kind of work is executed.
#[derive(Clone)]
pub(crate) enum Handler {
    Task(Task),
    Durable(Function<'static>),
    Program(Program),
}

#[derive(Clone, Default)]
pub(crate) struct Tasks {
    by_kind: BTreeMap<String, Handler>,
    /// For every kind without a handler.
    fallback: Option<Handler>,
}

impl Tasks {
    pub(crate) fn add(&mut self, kind: String, handler: Handler) {
        self.by_kind.insert(kind, handler);
    }

    pub(crate) fn set_fallback(&mut self, handler: Handler) {
        self.fallback = Some(handler);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_kind.is_empty() && self.fallback.is_none()
    }

    pub(crate) fn of(&self, kind: &str) -> Option<&Handler> {
        self.by_kind.get(kind).or(self.fallback.as_ref())
    }

    /// The kinds to poll for; `None`, which means all, if there is a fallback.
    pub(crate) fn kinds(&self) -> Option<Vec<String>> {
        self.fallback.is_none().then(|| self.by_kind.keys().cloned().collect())
    }
}

/// Wraps a typed function: parses the input before it and serialises the output after it.
pub(crate) fn typed<F, I, O, Fut>(work: F) -> Task
where
    F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize,
    Fut: Future<Output = Result<O, Failure>> + Send + 'static,
{
    let work = Arc::new(work);
    Arc::new(move |ctx: Ctx| {
        let work = Arc::clone(&work);
        // Called inside the future, so that a panic in the call is attributed to the task.
        Box::pin(async move {
            let input = read(ctx.input())?;
            let output = work(ctx, input).await?;
            write(&output)
        })
    })
}

pub(crate) fn read<I: DeserializeOwned>(input: &Json) -> Result<I, Failure> {
    payload::read(input).map_err(|why| {
        Failure::data(format!("the input does not have the type of this task, {why}"))
    })
}

pub(crate) fn write<O: Serialize>(output: &O) -> Result<Json, Failure> {
    encode_payload(output).map_err(|why| Failure::permanent(format!("the output {why}")))
}
