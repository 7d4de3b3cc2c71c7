//! Pausing and resuming queues: which administrator may, and the change itself. It is written with its audit entry
//! through the carrier, and in force for every coordinator before its caller is answered. What a pause means is a rule
//! ([`verdict::decide::grant`]).
//!
//! A pause waits for batches under way even if the queue is paused already, because the call that paused it may not have
//! waited. It waits beside the carrier, which goes on with its batches.

use store::{Administration, Audit, Browse, PauseChange, PausedQueues, QueuePause};
use verdict::{Digest, Name, Scope, Text, Time};

use super::api_keys::ApiKeys;
use super::principals::AdminPrincipal;
use crate::coordinator::Coordinator;
use crate::item::RequestError;

/// Paused queues of one tenant. All of them are in the memory of every coordinator, and read again after each change.
const PAUSED_PER_TENANT_MAX: usize = 1_000;

const PAUSED: &str = "queue.paused";
const RESUMED: &str = "queue.resumed";

/// Why a queue was neither paused nor resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PauseError {
    #[error("this key has no permission to administer that tenant or workspace")]
    OutOfReach,
    #[error("a tenant has at most {PAUSED_PER_TENANT_MAX} paused queues; resume one first")]
    TooMany,
    /// The caller's key became invalid while the call waited for its turn.
    #[error("the API key of this call is no longer valid")]
    CallerGone,
    #[error("the store cannot be read at this moment")]
    Unreadable,
    #[error(
        "the queue is paused, but a batch that began before may still lease from it; repeat the call to wait again"
    )]
    NotInForce,
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// What an administrator wants of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Paused { reason: Option<Text> },
    Resumed,
}

/// Pauses or resumes a queue, and returns its pause afterwards. Once begun it completes even if its caller disconnects.
/// A queue that is already as wanted stays unchanged.
pub(crate) async fn change(
    keys: &ApiKeys,
    coordinator: &Coordinator,
    admin: &AdminPrincipal,
    request: Name,
    (scope, queue): (Scope, Name),
    wanted: Wanted,
) -> Result<Option<QueuePause>, PauseError> {
    let (keys, coordinator, admin) = (keys.clone(), coordinator.clone(), admin.clone());
    let changing = tokio::spawn(async move {
        let turn = keys.changing.of_tenant(&admin.scope().tenant).await;
        let now = coordinator.now();
        if !keys.is_usable(admin.key().as_str(), now) {
            return Err(PauseError::CallerGone);
        }
        let paused = coordinator.browse().paused_queues().await;
        let paused = paused.map_err(|failure| {
            tracing::warn!(error = %failure, "cannot read the paused queues");
            PauseError::Unreadable
        })?;
        let decided = decide(&paused, &admin, (scope, queue), wanted, now)?;
        if let Some((change, audit)) = decided.act {
            let audit = vec![Audit { request: Some(request), ..audit }];
            let act = Administration { pauses: vec![change], audit, ..Administration::default() };
            coordinator.administer(act).await?;
        }
        drop(turn);
        if decided.after.is_some() {
            wait_until_in_force(&coordinator).await?;
        }
        Ok(decided.after)
    });
    // Only a bug ends the task early; the outcome of the change is then unknown.
    changing.await.unwrap_or(Err(PauseError::Request(RequestError::Unknown)))
}

async fn wait_until_in_force(coordinator: &Coordinator) -> Result<(), PauseError> {
    coordinator.browse().settings_in_force().await.map_err(|failure| {
        tracing::warn!(error = %failure, "a pause is stored but not in force yet");
        PauseError::NotInForce
    })
}

/// What to write with its record, if anything, and the pause of the queue afterwards.
struct Decided {
    act: Option<(PauseChange, Audit)>,
    after: Option<QueuePause>,
}

fn decide(
    paused: &PausedQueues,
    admin: &AdminPrincipal,
    (scope, queue): (Scope, Name),
    wanted: Wanted,
    now: Time,
) -> Result<Decided, PauseError> {
    if !admin.reach().includes(&scope) {
        return Err(PauseError::OutOfReach);
    }
    let before = paused.iter().find(|it| it.scope == scope && it.queue == queue).cloned();
    let audit = |action: &str, before: Option<Digest>, after: Option<Digest>| Audit {
        at: now,
        scope: scope.clone(),
        actor: admin.key().clone(),
        action: action.into(),
        object: Text::from(queue.as_str()),
        code: None,
        times: 1,
        before,
        after,
        request: None,
        seal: None,
    };
    match (before, wanted) {
        // Nothing is written: a peer may have resumed the queue since it was read.
        (Some(before), Wanted::Paused { .. }) => Ok(Decided { act: None, after: Some(before) }),
        (None, Wanted::Resumed) => Ok(Decided { act: None, after: None }),
        (Some(before), Wanted::Resumed) => {
            let audit = audit(RESUMED, Some(before.fingerprint()), None);
            let change = PauseChange::Resume { scope, queue };
            Ok(Decided { act: Some((change, audit)), after: None })
        }
        (None, Wanted::Paused { reason }) => {
            if paused.iter().filter(|it| it.scope.tenant == scope.tenant).count()
                >= PAUSED_PER_TENANT_MAX
            {
                return Err(PauseError::TooMany);
            }
            let by = admin.key().clone();
            let pause =
                QueuePause { scope: scope.clone(), queue: queue.clone(), at: now, by, reason };
            let audit = audit(PAUSED, None, Some(pause.fingerprint()));
            Ok(Decided {
                act: Some((PauseChange::Pause(pause.clone()), audit)),
                after: Some(pause),
            })
        }
    }
}
