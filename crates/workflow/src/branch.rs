//! The life of a branch: made by the code of the outer branch, opened when it is first polled, closed at its end.
//!
//! It begins with the time that the outer branch had when the branch was made, so that a replay, in which branches end
//! at once, sees the same times as the first execution. It is recorded to the end before it closes, for the same reason.

use std::pin::Pin;
use std::task::{Context, Poll};

use wire::Time;

use crate::core::Ending;
use crate::flow::Flow;
use crate::key::{self, OperationKind};
use crate::operation::{Made, recorded, stop};
use crate::stop::{Misuse, SourceLine};
use crate::wait::Boxed;

type Code<'b, T> = Box<dyn FnOnce(Flow) -> Boxed<'b, T> + Send + 'b>;

/// Code with a cursor of its own, which begins when it is awaited. It is a future, so that branches can be joined.
#[must_use = "a branch begins when it is awaited"]
pub struct BranchCall<'b, T>(State<'b, T>);

enum State<'b, T> {
    Made {
        made: Made,
        floor: Time,
        code: Code<'b, T>,
    },
    Begun(Boxed<'b, T>),
    /// Between the two.
    Beginning,
}

impl<'b, T: Send + 'b> BranchCall<'b, T> {
    pub(crate) fn new<F, Fut>(outer: &Flow, name: &str, at: SourceLine, code: F) -> Self
    where
        F: FnOnce(Flow) -> Fut + Send + 'b,
        Fut: Future<Output = T> + Send + 'b,
    {
        let made = Made::new(outer, OperationKind::Branch, name, at);
        let code: Code<'b, T> = Box::new(move |flow| Box::pin(code(flow)));
        BranchCall(State::Made { made, floor: outer.joined(), code })
    }

    /// It is given to another operation.
    pub(crate) fn begun(self) -> Self {
        match self.0 {
            State::Made { made, floor, code } => {
                BranchCall(State::Made { made: made.begun(), floor, code })
            }
            state => BranchCall(state),
        }
    }

    /// The same branch inside of another one, made now.
    pub(crate) fn inside(self, outer: &Flow) -> Self {
        match self.0 {
            State::Made { made, code, .. } => {
                let made = made.inside(outer);
                BranchCall(State::Made { made, floor: outer.joined(), code })
            }
            state => BranchCall(state),
        }
    }

    /// The same branch with another value.
    pub(crate) fn map<U: Send + 'b>(
        self,
        change: impl FnOnce(T) -> U + Send + 'b,
    ) -> BranchCall<'b, U> {
        BranchCall(match self.0 {
            State::Made { made, floor, code } => {
                let code: Code<'b, U> =
                    Box::new(move |flow| Box::pin(async move { change(code(flow).await) }));
                State::Made { made, floor, code }
            }
            State::Begun(future) => State::Begun(Box::pin(async move { change(future.await) })),
            State::Beginning => State::Beginning,
        })
    }
}

impl<'b, T: Send + 'b> Future for BranchCall<'b, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if let State::Made { .. } = self.0
            && let State::Made { made, floor, code } =
                std::mem::replace(&mut self.0, State::Beginning)
        {
            self.0 = State::Begun(Box::pin(execute(made, floor, code)));
        }
        match &mut self.0 {
            State::Begun(future) => future.as_mut().poll(cx),
            _ => unreachable!("a branch that was made has begun"),
        }
    }
}

async fn execute<'b, T: Send + 'b>(made: Made, floor: Time, code: Code<'b, T>) -> T {
    let made = made.begun();
    let branch = OpenBranch::open(&made.flow, &made.name, floor, made.at).await;
    let result = code(branch.flow()).await;
    branch.close().await;
    result
}

/// A branch whose code runs.
pub(crate) struct OpenBranch {
    outer: Flow,
    inner: Flow,
    at: SourceLine,
    is_over: bool,
}

impl OpenBranch {
    /// Opens a branch once the outer branch is recorded: what it begins with is known then. If it cannot be opened the
    /// run stops, and this never returns.
    pub(crate) async fn open(outer: &Flow, name: &str, floor: Time, at: SourceLine) -> OpenBranch {
        let inner = Flow { shared: outer.shared.clone(), branch: outer.branch.inner(name) };
        if !key::is_name(name) || !key::fits(inner.branch.as_str()) {
            let name = inner.branch.as_str().to_owned();
            return stop(&outer.shared, Misuse::BadName { name, at }.into()).await;
        }
        recorded(&outer.shared, &outer.branch, &inner.branch.key("", 0)).await;
        let opened = outer.shared.with(|core| core.open(&outer.branch, &inner.branch, floor, at));
        if let Err(misuse) = opened {
            return stop(&outer.shared, misuse.into()).await;
        }
        OpenBranch { outer: outer.clone(), inner, at, is_over: false }
    }

    pub(crate) fn flow(&self) -> Flow {
        self.inner.clone()
    }

    pub(crate) async fn close(mut self) {
        let Flow { shared, branch } = &self.inner;
        recorded(shared, branch, &branch.key("", 0)).await;
        self.is_over = true;
        shared.with(|core| core.close(&self.outer.branch, branch));
    }
}

impl Drop for OpenBranch {
    fn drop(&mut self) {
        if !self.is_over {
            let key = self.inner.branch.as_str().to_owned();
            let misuse = Misuse::Dropped { key, at: self.at };
            self.inner.shared.with(|core| core.end(Ending::Stop(misuse.into())));
        }
    }
}
