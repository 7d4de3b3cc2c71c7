//! Several operations at once: `all` waits for every one of them, whatever fails.
//!
//! Each member has a branch: its own name if it is a branch, its place otherwise. So the record does not depend on which
//! one was faster. Calls alone need none: they are entered in order in the flow's own branch.
//!
//! Invariant: nothing is dropped before its end, so a failure of one member never depends on the time of another.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Failure;
use crate::approval::ApprovalCall;
use crate::branch::BranchCall;
use crate::children::{ChildCall, ChildrenCall, awaited};
use crate::command::Mode;
use crate::effect::{DeliveryCall, EffectCall};
use crate::flow::Flow;
use crate::key::{self, OperationKind};
use crate::operation::{Made, Operation};
use crate::step::{Step, StepCall};
use crate::stop::{Misuse, SourceLine};
use crate::wait::{Boxed, SignalCall, SleepCall, WaitCall, Waiting, Waits};

type Code<'m, T> = Box<dyn FnOnce(Flow) -> Boxed<'m, Result<T, Failure>> + Send + 'm>;

/// An operation that was given to [`Flow::all`].
pub struct Member<'m, T>(Shape<'m, T>);

enum Shape<'m, T> {
    /// A call without a limit.
    Call(WaitCall<'m, T>),
    Branch(BranchCall<'m, Result<T, Failure>>),
    /// Anything else, in the branch that it is given.
    Placed(Code<'m, T>),
}

impl<'m, T: 'm> Member<'m, T> {
    fn waiting(wait: WaitCall<'m, T>) -> Member<'m, T> {
        let wait = wait.begun();
        if wait.is_plain_call() {
            return Member(Shape::Call(wait));
        }
        Member::placed(move |flow| Box::pin(wait.inside(&flow).wait()))
    }

    fn placed(
        code: impl FnOnce(Flow) -> Boxed<'m, Result<T, Failure>> + Send + 'm,
    ) -> Member<'m, T> {
        Member(Shape::Placed(Box::new(code)))
    }

    /// The member without its value, and where the value will be.
    fn split(self) -> (Member<'m, ()>, Slot<T>)
    where
        T: Send,
    {
        let slot = Slot::default();
        let put = slot.clone();
        let member = Member(match self.0 {
            Shape::Call(call) => Shape::Call(call.map(move |value| put.put(value))),
            Shape::Branch(branch) => {
                Shape::Branch(branch.map(|ended| ended.map(move |value| put.put(value))))
            }
            Shape::Placed(code) => Shape::Placed(Box::new(move |flow| {
                Box::pin(async move { code(flow).await.map(|value| put.put(value)) })
            })),
        });
        (member, slot)
    }
}

/// Where the value of one member will be.
struct Slot<T>(Arc<Mutex<Option<T>>>);

impl<T> Slot<T> {
    fn put(&self, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    fn take(&self) -> T {
        let value = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.expect("a member that did not fail has a value")
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Slot<T> {
        Slot(self.0.clone())
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot(Arc::default())
    }
}

/// Several operations, which begin together when this is awaited.
#[must_use = "the members begin when this is awaited"]
pub struct AllCall<'m, T> {
    made: Made,
    code: Begin<'m, T>,
}

/// Begins the members, at a place in the code.
type Begin<'m, T> = Box<dyn FnOnce(Flow, SourceLine) -> Boxed<'m, Result<T, Failure>> + Send + 'm>;

impl<'m, T: 'm> AllCall<'m, T> {
    pub(crate) fn new(
        made: Made,
        code: impl FnOnce(Flow, SourceLine) -> Boxed<'m, Result<T, Failure>> + Send + 'm,
    ) -> AllCall<'m, T> {
        AllCall { made, code: Box::new(code) }
    }

    pub(crate) fn of<M: Members<'m, Values = T>>(flow: &Flow, members: M, at: SourceLine) -> Self {
        members.all(flow, at)
    }
}

impl<'m, T: 'm> IntoFuture for AllCall<'m, T> {
    type Output = Result<T, Failure>;
    type IntoFuture = Boxed<'m, Result<T, Failure>>;

    fn into_future(self) -> Self::IntoFuture {
        let made = self.made.begun();
        (self.code)(made.flow.clone(), made.at)
    }
}

/// Does all members and waits for all of them: the first failure by place, or nothing.
async fn execute(flow: Flow, at: SourceLine, members: Vec<Member<'_, ()>>) -> Result<(), Failure> {
    let is_call = |member: &Member<'_, ()>| matches!(member.0, Shape::Call(_));
    let ends = if !members.is_empty() && members.iter().all(is_call) {
        let call = |member| if let Member(Shape::Call(call)) = member { Some(call) } else { None };
        calls(flow, at, members.into_iter().filter_map(call).collect()).await
    } else {
        // All are made before the first is polled: each begins with the time that the flow has now.
        let place = |(place, member)| in_branch(&flow, place + 1, member, at);
        joined(members.into_iter().enumerate().map(place).collect()).await
    };
    ends.into_iter().collect()
}

fn in_branch<'m>(
    flow: &Flow,
    place: usize,
    member: Member<'m, ()>,
    at: SourceLine,
) -> BranchCall<'m, Result<(), Failure>> {
    let place = place.to_string();
    match member.0 {
        Shape::Branch(branch) => branch.inside(flow),
        Shape::Call(call) => BranchCall::new(flow, &place, at, async move |flow: Flow| {
            call.inside(&flow).wait().await
        }),
        Shape::Placed(code) => BranchCall::new(flow, &place, at, code),
    }
}

/// Starts all calls in the flow's own branch, and waits until all have ended.
async fn calls(
    flow: Flow,
    at: SourceLine,
    calls: Vec<WaitCall<'_, ()>>,
) -> Vec<Result<(), Failure>> {
    let mut operation = Operation::begin(Made::new(&flow, OperationKind::All, "", at)).await;
    let mut live = Vec::with_capacity(calls.len());
    for mut call in calls {
        let identity = std::mem::replace(&mut call.identity, Ok(None));
        let digest = identity.expect("a call whose input cannot be written has a branch");
        let ask = call.take_ask();
        let Made { name, at, .. } = &call.made;
        if !key::is_name(name) {
            return operation.stop(Misuse::BadName { name: name.clone(), at }).await;
        }
        let (key, entered) = operation.enter_as(OperationKind::Child, name, digest, at).await;
        let waiting = Waiting::new(key.clone(), ask, None, digest);
        operation.shared.with(|core| waiting.start(core, &operation.branch, entered));
        live.push((call, key));
    }
    operation.arrival(Mode::All, live.iter().map(|(_, key)| awaited(key)).collect()).await;
    let ends = live.into_iter().map(|(call, key)| call.read(operation.take(&key))).collect();
    operation.end();
    ends
}

/// Polls all until all have ended.
async fn joined<'m, T: Send + 'm>(branches: Vec<BranchCall<'m, T>>) -> Vec<T> {
    let mut ends: Vec<Option<T>> = branches.iter().map(|_| None).collect();
    let mut branches: Vec<_> = branches.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        for (branch, end) in branches.iter_mut().zip(&mut ends) {
            if end.is_none()
                && let Poll::Ready(value) = branch.as_mut().poll(cx)
            {
                *end = Some(value);
            }
        }
        if ends.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    ends.into_iter().flatten().collect()
}

/// An operation that can be a member of [`Flow::all`].
pub trait Joins<'m>: Sized {
    type Value: Send + 'm;

    #[doc(hidden)]
    fn into_member(self) -> Member<'m, Self::Value>;
}

impl<'m, T: Send + 'm> Joins<'m> for Member<'m, T> {
    type Value = T;

    fn into_member(self) -> Member<'m, T> {
        self
    }
}

/// Those that wait.
macro_rules! joins {
    ($([$($generics:tt)*] $call:ty),+ $(,)?) => {$(
        impl<'m, $($generics)*> Joins<'m> for $call {
            type Value = <Self as Waits<'m>>::Value;

            fn into_member(self) -> Member<'m, Self::Value> {
                Member::waiting(self.into_wait())
            }
        }
    )+};
}

joins!(
    [T: Send + 'm] WaitCall<'m, T>,
    [] SleepCall,
    [T: DeserializeOwned + Send + 'm] SignalCall<T>,
    [T: DeserializeOwned + Send + 'm] ChildCall<T>,
    [] ApprovalCall,
    [] DeliveryCall,
);

impl<'m, T: DeserializeOwned + Send + 'static> Joins<'m> for ChildrenCall<T> {
    type Value = Vec<Result<T, Failure>>;

    fn into_member(self) -> Member<'m, Self::Value> {
        let call = self.begun();
        Member::placed(move |flow| Box::pin(async move { Ok(call.inside(&flow).await) }))
    }
}

impl<'m> Joins<'m> for EffectCall {
    type Value = ();

    fn into_member(self) -> Member<'m, ()> {
        let call = self.begun();
        Member::placed(move |flow| call.inside(&flow).into_future())
    }
}

impl<'m, W, Fut, T> Joins<'m> for StepCall<'m, W>
where
    W: FnMut(Step) -> Fut + Send + 'm,
    Fut: Future<Output = Result<T, Failure>> + Send + 'm,
    T: Serialize + DeserializeOwned + Send + 'm,
{
    type Value = T;

    fn into_member(self) -> Member<'m, T> {
        let call = self.begun();
        Member::placed(move |flow| call.inside(&flow).into_future())
    }
}

impl<'m, T: Send + 'm> Joins<'m> for BranchCall<'m, Result<T, Failure>> {
    type Value = T;

    fn into_member(self) -> Member<'m, T> {
        Member(Shape::Branch(self.begun()))
    }
}

impl<'m, T: Send + 'm> Joins<'m> for AllCall<'m, T> {
    type Value = T;

    fn into_member(self) -> Member<'m, T> {
        let AllCall { made, code } = self;
        let at = made.begun().at;
        Member::placed(move |flow| code(flow, at))
    }
}

/// A list or a tuple of operations.
pub trait Members<'m>: Sized {
    type Values;

    #[doc(hidden)]
    fn all(self, flow: &Flow, at: SourceLine) -> AllCall<'m, Self::Values>;
}

impl<'m, M: Joins<'m>> Members<'m> for Vec<M> {
    type Values = Vec<M::Value>;

    fn all(self, flow: &Flow, at: SourceLine) -> AllCall<'m, Vec<M::Value>> {
        let members = self.into_iter().map(|member| member.into_member().split());
        let (members, slots): (Vec<_>, Vec<Slot<M::Value>>) = members.unzip();
        AllCall::new(Made::new(flow, OperationKind::All, "", at), move |flow, at| {
            Box::pin(async move {
                execute(flow, at, members).await?;
                Ok(slots.iter().map(Slot::take).collect())
            })
        })
    }
}

impl<'m, M: Joins<'m>, const N: usize> Members<'m> for [M; N] {
    type Values = Vec<M::Value>;

    fn all(self, flow: &Flow, at: SourceLine) -> AllCall<'m, Vec<M::Value>> {
        Vec::from(self).all(flow, at)
    }
}

macro_rules! members_of_tuples {
    ($(($($member:ident $slot:ident),+))+) => {$(
        impl<'m, $($member: Joins<'m>),+> Members<'m> for ($($member,)+) {
            type Values = ($($member::Value,)+);

            #[expect(non_snake_case, reason = "members are named by their types")]
            fn all(self, flow: &Flow, at: SourceLine) -> AllCall<'m, Self::Values> {
                let ($($member,)+) = self;
                $(let ($member, $slot) = $member.into_member().split();)+
                let members = vec![$($member),+];
                AllCall::new(Made::new(flow, OperationKind::All, "", at), move |flow, at| {
                    Box::pin(async move {
                        execute(flow, at, members).await?;
                        Ok(($($slot.take(),)+))
                    })
                })
            }
        }
    )+};
}

members_of_tuples! {
    (A a)
    (A a, B b)
    (A a, B b, C c)
    (A a, B b, C c, D d)
    (A a, B b, C c, D d, E e)
    (A a, B b, C c, D d, E e, F f)
}
