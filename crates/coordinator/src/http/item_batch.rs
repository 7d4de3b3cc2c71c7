//! Many calls under leases in one request, one answer each: the mechanism that all such routes share.
//!
//! A batch answers 200, whatever the outcome of its items: a bad item never affects the others. Each item passes the
//! checks of a single call, in the same order, and all items that pass are decided together.

use bytes::Bytes;
use store::TaskKey;
use verdict::request::Caller;
use wire::{BatchItem, Verdict, parse_batch};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::audit::note_item;
use super::caller::{caller, verify};
use super::checkpoint::check_watched;
use super::endpoints::check_endpoints;
use super::queue_limit::check_children;
use super::token_grace::TokenGrace;
use crate::admit::{LeaseHolderPrincipal, TaskPrincipal, TokenScope};
use crate::item::{Item, Reply};

/// The status of an item that was granted.
pub(super) const OK: u16 = 200;

/// What a single call has in its path and header, and every item in members.
pub(super) struct Identity {
    pub(super) task_id: String,
    pub(super) task_token: String,
    pub(super) attempt: u32,
    pub(super) worker_id: String,
}

/// A call that can also be sent in batches.
pub(super) trait BatchedCall {
    type Item: BatchItem;
    /// The rest of an item, without its identity.
    type Rest;
    /// What is remembered of an item until its reply arrives.
    type Memo;
    type Answer;

    fn split(item: Self::Item) -> (Identity, Self::Rest);

    /// The request that the rules decide.
    fn translate(
        app: &AppState,
        token: &TokenScope,
        key: TaskKey,
        caller: Caller,
        rest: Self::Rest,
    ) -> Result<(Item, Self::Memo), ApiError>;

    /// The answer to an item that was decided.
    async fn answer(
        app: &AppState,
        sent: &Sent<Self::Memo>,
        reply: Reply,
    ) -> Result<Self::Answer, ApiError>;

    fn refused(refused: RefusedItem) -> Self::Answer;
}

/// An item that passed the checks.
pub(super) struct Sent<M> {
    pub(super) task_id: String,
    pub(super) token: TaskPrincipal,
    pub(super) key: TaskKey,
    pub(super) memo: M,
}

/// What every kind of answer says of an item that was refused.
pub(super) struct RefusedItem {
    pub(super) task_id: String,
    pub(super) status: u16,
    pub(super) verdict: Option<Verdict>,
    pub(super) state: Option<wire::State>,
    pub(super) error: Option<String>,
    pub(super) message: Option<String>,
    pub(super) field: Option<String>,
    pub(super) expected_attempt: Option<u32>,
    pub(super) received_attempt: Option<u32>,
}

/// Answers every item, in the order of the request.
pub(super) async fn answer_all<C: BatchedCall>(
    app: &AppState,
    principal: &LeaseHolderPrincipal,
    body: &Bytes,
) -> Result<Vec<C::Answer>, ApiError> {
    let mut asked = Vec::new();
    let mut named = Vec::new();
    let mut token_grace = TokenGrace::default();
    for item in parse_batch::<C::Item>(body)? {
        let (task_id, prepared) = match item {
            Err(fault) => (String::new(), Err(fault.into())),
            Ok(item) => prepare::<C>(app, principal, item, &mut token_grace).await,
        };
        let sent = prepared.map(|(request, sent)| {
            asked.push(request);
            sent
        });
        named.push((task_id, sent));
    }
    let mut replies = app.decided(app.coordinator.ask(asked)).await?.into_iter();
    let mut answers = Vec::with_capacity(named.len());
    for (task_id, sent) in named {
        let answered = match sent {
            Err(error) => Err(error),
            Ok(sent) => {
                let reply = replies.next().expect("every request has a reply");
                C::answer(app, &sent, reply).await
            }
        };
        answers.push(answered.unwrap_or_else(|error| {
            note_item(&error);
            C::refused(RefusedItem::new(task_id, error))
        }));
    }
    Ok(answers)
}

type Prepared<C> = Result<(Item, Sent<<C as BatchedCall>::Memo>), ApiError>;

/// The same checks as for a single call, in the same order.
async fn prepare<C: BatchedCall>(
    app: &AppState,
    principal: &LeaseHolderPrincipal,
    item: C::Item,
    token_grace: &mut TokenGrace,
) -> (String, Prepared<C>) {
    let (identity, rest) = C::split(item);
    let task_id = identity.task_id.clone();
    let checked = async {
        let Identity { task_id, task_token, attempt, worker_id } = identity;
        let token = verify(app, &task_token, token_grace).await?;
        let (key, caller) = caller(&token, &task_id, attempt, &worker_id)?;
        check_scope(principal, &key)?;
        let (request, memo) = C::translate(app, token.token(), key.clone(), caller, rest)?;
        check_children(app, token.token(), &request)?;
        check_endpoints(app, &request).await?;
        check_watched(app, &request).await?;
        let request = request.asked_by(token.token().key.as_ref());
        Ok((request, Sent { task_id, token, key, memo }))
    };
    (task_id, checked.await)
}

/// A worker's key is limited to its scope, whatever token comes with it.
fn check_scope(principal: &LeaseHolderPrincipal, key: &TaskKey) -> Result<(), ApiError> {
    if *principal.scope() == key.scope {
        return Ok(());
    }
    let message = "the task token belongs to another scope than the API key";
    Err(ApiError::new(wire::Code::InvalidToken, message))
}

impl RefusedItem {
    fn new(task_id: String, error: ApiError) -> Self {
        let verdict = error.worker_verdict();
        let ApiError { code, message, verdict: _, state, attempts, field, retry_after: _, by: _ } =
            error;
        let (expected_attempt, received_attempt) =
            attempts.map(|attempts| (attempts.expected, attempts.received)).unzip();
        Self {
            task_id,
            status: code.status(),
            verdict,
            state,
            error: Some(code.as_str().to_owned()),
            message: Some(message),
            field,
            expected_attempt,
            received_attempt,
        }
    }
}
