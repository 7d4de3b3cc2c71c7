//! What a task is called, with the types of its input and its output.
//!
//! A [`Kind`] is declared once and used wherever the task is named: where it is handled, submitted, called, scheduled.
//! A wrong pair of kind and value does not compile. A plain name stands for a kind whose types are not known.
//!
//! It knows no code: a program may submit a kind whose code is written in another language.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

use serde_json::Value;

/// The queue of a kind that names none, in every SDK.
const DEFAULT_QUEUE: &str = "default";

/// A kind of task and the queue where its runs wait.
///
/// ```
/// use workflow::Kind;
/// const GREET: Kind<String, String> = Kind::new("greet").queue("mail");
/// assert_eq!((GREET.name(), GREET.queue_name()), ("greet", "mail"));
/// ```
pub struct Kind<I, O> {
    name: &'static str,
    queue: &'static str,
    /// A kind takes an input and gives an output; it holds neither, so it is `Copy`, `Send` and `Sync` for all types.
    of: PhantomData<fn(I) -> O>,
}

impl<I, O> Kind<I, O> {
    pub const fn new(name: &'static str) -> Kind<I, O> {
        Kind { name, queue: DEFAULT_QUEUE, of: PhantomData }
    }

    /// The queue where runs of this kind wait; `default` when none is named.
    pub const fn queue(self, queue: &'static str) -> Kind<I, O> {
        Kind { queue, ..self }
    }

    pub const fn name(&self) -> &'static str {
        self.name
    }

    pub const fn queue_name(&self) -> &'static str {
        self.queue
    }
}

impl<I, O> Clone for Kind<I, O> {
    fn clone(&self) -> Kind<I, O> {
        *self
    }
}

impl<I, O> Copy for Kind<I, O> {}

impl<I, O> fmt::Debug for Kind<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind").field("name", &self.name).field("queue", &self.queue).finish()
    }
}

/// What can be given an input of type `J`: a [`Kind`] whose input can be borrowed as `J`, so that a `Kind<String, _>`
/// takes a `&str`, or a name, which takes anything and gives JSON.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not take an input of type `{J}`",
    label = "the input is `{J}`",
    note = "a `Kind<I, O>` takes what an `I` can be borrowed as; a plain name takes every input"
)]
pub trait RunKind<J: ?Sized> {
    type Output;

    fn name(&self) -> &str;

    fn queue_name(&self) -> Option<&str>;
}

impl<I: Borrow<J>, O, J: ?Sized> RunKind<J> for Kind<I, O> {
    type Output = O;

    fn name(&self) -> &str {
        self.name
    }

    fn queue_name(&self) -> Option<&str> {
        Some(self.queue)
    }
}

impl<J: ?Sized> RunKind<J> for &str {
    type Output = Value;

    fn name(&self) -> &str {
        self
    }

    fn queue_name(&self) -> Option<&str> {
        None
    }
}

impl<J: ?Sized> RunKind<J> for String {
    type Output = Value;

    fn name(&self) -> &str {
        self
    }

    fn queue_name(&self) -> Option<&str> {
        None
    }
}
