//! The first of several: one wait for all members, and the one that the coordinator committed first wins.
//!
//! Each member is entered in a branch of its name. Only the winner leaves a record, so a member takes its place in the
//! record only if the record's next key of its branch is its own. A call that lost was started all the same: it is
//! recorded as started, and cancelled when the run ends.

use crate::Failure;
use crate::branch::OpenBranch;
use crate::command::{Checkpoint, Mode};
use crate::flow::Flow;
use crate::key::{self, OperationKind};
use crate::operation::{Made, arrival, recorded, stop};
use crate::stop::{Misuse, SourceLine, Stop};
use crate::wait::{Boxed, WaitCall, Waiting, Waits};

/// Several operations of which the first counts. They begin when this is awaited.
#[must_use = "the members begin when this is awaited"]
pub struct AnyCall<'m, N, T> {
    made: Made,
    members: Vec<(N, WaitCall<'m, T>)>,
}

impl<'m, N: AsRef<str>, T> AnyCall<'m, N, T> {
    pub(crate) fn new<M: Waits<'m, Value = T>>(
        flow: &Flow,
        members: impl IntoIterator<Item = (N, M)>,
        at: SourceLine,
    ) -> AnyCall<'m, N, T> {
        let members = members.into_iter().map(|(name, member)| (name, member.into_wait().begun()));
        AnyCall { made: Made::new(flow, OperationKind::Any, "", at), members: members.collect() }
    }

    async fn first(self) -> Result<(N, T), Failure> {
        let AnyCall { made, members } = self;
        let made = made.begun();
        let (flow, at) = (made.flow.clone(), made.at);
        if let Err(misuse) = check(&members, at) {
            return stop(&flow.shared, misuse.into()).await;
        }
        let floor = flow.joined();
        let wanted = flow.branch.inner("any").key("", 0);
        let now = recorded(&flow.shared, &flow.branch, &wanted).await.max(floor);
        let mut open = Vec::with_capacity(members.len());
        let mut failed = None;
        for (name, mut member) in members {
            let branch = OpenBranch::open(&flow, name.as_ref(), floor, at).await;
            match enter(&branch.flow(), &mut member).await {
                Ok(waiting) => open.push((name, member, branch, waiting)),
                Err(failure) => {
                    branch.close().await;
                    failed = Some(failure);
                    break;
                }
            }
        }
        let won = match failed {
            None => Ok(winner(&flow, now, open.iter().map(|(_, _, _, it)| it).collect()).await),
            Some(failure) => Err(failure),
        };
        let mut winner = None;
        for (name, member, branch, waiting) in open {
            flow.shared.with(|core| core.forget_parts(&waiting.key));
            branch.close().await;
            if let Ok(first) = &won
                && waiting.keys().contains(&first.key.as_str())
            {
                winner = Some((name, member, waiting.key));
            }
        }
        let first = won?;
        let (name, member, key) = winner.expect("a member has won");
        member.read((first.key == key).then_some(first)).map(|value| (name, value))
    }
}

impl<'m, N, T> IntoFuture for AnyCall<'m, N, T>
where
    N: AsRef<str> + Send + 'm,
    T: 'm,
{
    type Output = Result<(N, T), Failure>;
    type IntoFuture = Boxed<'m, Result<(N, T), Failure>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.first())
    }
}

fn check<N: AsRef<str>, T>(members: &[(N, WaitCall<'_, T>)], at: SourceLine) -> Result<(), Misuse> {
    if members.is_empty() {
        return Err(Misuse::AnyOfNothing { at });
    }
    for (name, member) in members {
        if !key::is_name(name.as_ref()) {
            return Err(Misuse::BadName { name: name.as_ref().to_owned(), at });
        }
        let Made { kind, name, at, .. } = &member.made;
        if !kind.accepts(name) {
            return Err(Misuse::BadName { name: name.clone(), at });
        }
    }
    Ok(())
}

/// Enters a member in its branch.
async fn enter<T>(flow: &Flow, member: &mut WaitCall<'_, T>) -> Result<Waiting, Failure> {
    let digest = std::mem::replace(&mut member.identity, Ok(None))?;
    let ask = member.take_ask().declared(flow).await?;
    let Made { kind, name, at, .. } = &member.made;
    let entered: Result<_, Stop> =
        flow.shared.with(|core| core.enter_if_next(&flow.branch, *kind, name, digest, at));
    let (key, entered) = match entered {
        Ok(entered) => entered,
        Err(difference) => return stop(&flow.shared, difference).await,
    };
    let waiting = Waiting::new(key, ask, member.within, digest);
    flow.shared.with(|core| waiting.start(core, &flow.branch, entered));
    Ok(waiting)
}

/// One wait for all members: what was committed first.
async fn winner(flow: &Flow, now: wire::Time, members: Vec<&Waiting>) -> Checkpoint {
    if !flow.shared.with(|core| members.iter().any(|waiting| waiting.is_over(core))) {
        let mut items: Vec<_> = members.iter().flat_map(|waiting| waiting.items(now)).collect();
        items.sort_by(|one, other| one.key().cmp(other.key()));
        let wanted = items[0].key().to_owned();
        arrival(&flow.shared, &flow.branch, &wanted, Mode::Any, items).await;
    }
    let keys: Vec<&str> = members.iter().flat_map(|waiting| waiting.keys()).collect();
    let first = flow.shared.with(|core| core.take_first(&flow.branch, &keys));
    first.expect("one of them has arrived")
}
