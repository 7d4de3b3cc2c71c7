//! A call with options: choose what matters, then await it.

use std::marker::PhantomData;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::admin::{AuditLog, AuditQuery};
use wire::answers::{FlowKeys, Kinds, Workers};
use wire::approvals::{ApprovalList, ListApprovals};
use wire::effects::{EffectList, ListEffects};
use wire::recovery::{CandidateHistory, CandidateHistoryQuery, CandidateList, ListCandidates};
use wire::requests::{ListFlowKeys, ListKinds, ListWorkers};
use wire::schedules::{ListSchedules, ScheduleHistory, ScheduleHistoryQuery, ScheduleList};
use wire::topologies::{
    ArtifactList, DeploymentList, ListArtifacts, ListDeployments, ListPauseStates, ListWorkOrders,
    PauseStateList, WorkOrderList,
};

use super::Client;
use crate::Error;
use crate::transport::Retries;

/// A call that is made when this is awaited. `S` is what the call says, in the shape of the wire, and `A` is its answer.
///
/// ```no_run
/// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
/// use tenure::EffectState;
///
/// let mut page = client.effects().list().state(EffectState::Dead).await?;
/// while let Some(cursor) = page.cursor {
///     page = client.effects().list().state(EffectState::Dead).cursor(cursor).await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is asked until this is awaited"]
pub struct Request<S, A> {
    client: Client,
    path: Vec<String>,
    said: S,
    manner: Manner,
    /// How long the server may hold the call open.
    wait_ms: Option<u64>,
    answer: PhantomData<fn() -> A>,
}

#[derive(Clone, Copy, Debug)]
enum Manner {
    Read,
    Write,
    /// Without repetitions: a second one would do something else.
    WriteOnce,
}

impl<S, A> Request<S, A> {
    pub(super) fn read(client: &Client, path: &[&str], said: S) -> Request<S, A> {
        Request::new(client, path, said, Manner::Read)
    }

    pub(super) fn write(client: &Client, path: &[&str], said: S) -> Request<S, A> {
        Request::new(client, path, said, Manner::Write)
    }

    pub(super) fn write_once(client: &Client, path: &[&str], said: S) -> Request<S, A> {
        Request::new(client, path, said, Manner::WriteOnce)
    }

    fn new(client: &Client, path: &[&str], said: S, manner: Manner) -> Request<S, A> {
        let path = path.iter().map(|part| (*part).to_owned()).collect();
        let client = client.clone();
        Request { client, path, said, manner, wait_ms: None, answer: PhantomData }
    }

    /// Everything that the call says, in the wire's own shape. What was chosen before is replaced.
    pub fn with(mut self, said: S) -> Request<S, A> {
        self.said = said;
        self
    }

    pub(super) fn holding(mut self, wait_ms: Option<u64>) -> Request<S, A> {
        self.wait_ms = wait_ms;
        self
    }

    pub(super) fn say(mut self, choose: impl FnOnce(&mut S)) -> Request<S, A> {
        choose(&mut self.said);
        self
    }
}

impl<S, A> IntoFuture for Request<S, A>
where
    S: Serialize + Send + Sync + 'static,
    A: DeserializeOwned + 'static,
{
    type Output = Result<A, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Request { client, path, said, manner, wait_ms, .. } = self;
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            match manner {
                Manner::Read => client.long_poll(&path, &said, wait_ms).await,
                Manner::Write => client.post_json(&path, &said).await,
                Manner::WriteOnce => client.post_once(&path, &said, wait_ms).await,
            }
        })
    }
}

impl Client {
    pub(super) async fn post_once<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
        wait_ms: Option<u64>,
    ) -> Result<T, Error> {
        self.without_retries().call(&self.post(path, body)?.with_wait(wait_ms)).await
    }

    pub(super) fn without_retries(&self) -> crate::transport::Transport {
        self.transport.clone().with_retries(Retries::NONE)
    }
}

/// Lists that come in pages: how large one is, and where it begins.
macro_rules! pages {
    ($($list:ty => $page:ty, $from:ident: $place:ty, $member:literal;)+) => {$(
        impl Request<$list, $page> {
            /// At most this many in a page.
            pub fn limit(self, count: u32) -> Self {
                self.say(|it| it.limit = Some(count))
            }

            #[doc = concat!("Continues after an earlier page: its `", $member, "`.")]
            pub fn $from(self, place: impl Into<$place>) -> Self {
                self.say(|it| it.$from = Some(place.into()))
            }
        }
    )+};
}

pages! {
    ListApprovals => ApprovalList, cursor: String, "cursor";
    ListEffects => EffectList, cursor: String, "cursor";
    ListCandidates => CandidateList, cursor: String, "cursor";
    ListSchedules => ScheduleList, cursor: String, "cursor";
    ListDeployments => DeploymentList, cursor: String, "cursor";
    ListArtifacts => ArtifactList, cursor: String, "cursor";
    ListWorkOrders => WorkOrderList, cursor: String, "cursor";
    ListPauseStates => PauseStateList, cursor: String, "cursor";
    ListWorkers => Workers, after: String, "next_after";
    ListFlowKeys => FlowKeys, after: String, "next_after";
    ListKinds => Kinds, after: String, "next_after";
    AuditQuery => AuditLog, before: u64, "next_before";
    CandidateHistoryQuery => CandidateHistory, before: u32, "next_before";
    ScheduleHistoryQuery => ScheduleHistory, before: u32, "next_before";
}
