//! Changes of endpoints by administrators: what is stored, and what is refused.
//!
//! A change is decided under the lock of the endpoint, known to every later commit of any coordinator before its caller is
//! answered, and an entry of the object's log that names the caller's key.

use store::Browse;
use store::effects::{SealedSecret, StoredEndpoint, endpoint_key};
use verdict::effect::endpoint::ENDPOINTS_MAX;
use verdict::effect::{Endpoint, EndpointStatus};
use verdict::{Moment, Name, Object, Scope, Span};

use super::claims::GONE;
use crate::carry::ObjectSet;
use crate::coordinator::Coordinator;
use crate::item::RequestError;

/// Why an endpoint was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EndpointRefusal {
    #[error("no endpoint has this name")]
    NotFound,
    #[error("an endpoint of this name exists")]
    Exists,
    #[error(
        "an endpoint of this name was deleted, and its effects are still being given up; try again soon"
    )]
    Leaving,
    #[error("a workspace has at most {ENDPOINTS_MAX} endpoints; delete one first")]
    TooMany,
    #[error("another change of the endpoint is under way; try again")]
    Busy,
}

/// What is to become of an endpoint.
#[derive(Clone, Debug)]
pub(crate) enum EndpointChange {
    Create {
        endpoint: Endpoint,
        secret: SealedSecret,
    },
    /// Everything but name, status and secrets.
    Update(Endpoint),
    /// The old secret signs beside the new one for this time.
    Rotate {
        secret: SealedSecret,
        overlap: Span,
    },
    Enable,
    Disable,
    /// Its receiver said that it is gone for ever.
    Gone,
    Delete,
}

pub(crate) async fn change(
    coordinator: &Coordinator,
    (scope, name): (Scope, Name),
    change: EndpointChange,
    by: Name,
) -> Result<Result<StoredEndpoint, EndpointRefusal>, RequestError> {
    let count = coordinator.endpoints().snapshot().get(&scope).map_or(0, |known| known.len());
    if matches!(change, EndpointChange::Create { .. }) && count >= ENDPOINTS_MAX {
        return Ok(Err(EndpointRefusal::TooMany));
    }
    let key = endpoint_key(&scope, &name);
    let decide = {
        let key = key.clone();
        move |objects: &mut ObjectSet, at: Moment| {
            if objects.is_locked(&key) {
                return Err(EndpointRefusal::Busy);
            }
            let after = after(objects.get(&key), change.clone(), at)?;
            objects.put(after.object(&key.scope, true, 1), Some(by.clone()));
            Ok(after)
        }
    };
    let changed = coordinator.decide_objects(vec![key], decide).await;
    coordinator.effect_feed().nudge();
    if matches!(changed, Ok(Ok(_))) {
        wait_until_in_force(coordinator).await;
    }
    changed
}

/// Waits for commits of other coordinators that do not know the change: what is decided after the answer is decided by it.
/// A coordinator that hangs in a commit for seconds is not waited for. The change is stored and cannot be asked for again, so
/// its caller is answered all the same.
async fn wait_until_in_force(coordinator: &Coordinator) {
    if let Err(failure) = coordinator.browse().settings_in_force().await {
        tracing::warn!(error = %failure, "an endpoint has changed, and a commit under way may not know it");
    }
}

/// The endpoint after a change.
fn after(
    before: Option<&Object>,
    change: EndpointChange,
    at: Moment,
) -> Result<StoredEndpoint, EndpointRefusal> {
    let stored = before.and_then(StoredEndpoint::of);
    let is_deleted = |it: &StoredEndpoint| it.endpoint.status == EndpointStatus::Deleted;
    if let EndpointChange::Create { endpoint, secret } = change {
        return match (&stored, before) {
            (Some(stored), _) if !is_deleted(stored) => Err(EndpointRefusal::Exists),
            (Some(_), Some(before)) if before.is_pending => Err(EndpointRefusal::Leaving),
            _ => Ok(StoredEndpoint { endpoint, secrets: vec![secret], created_at: at.now }),
        };
    }
    let mut stored = stored.filter(|it| !is_deleted(it)).ok_or(EndpointRefusal::NotFound)?;
    match change {
        EndpointChange::Create { .. } => {}
        EndpointChange::Update(wanted) => {
            let Endpoint { name, status, disabled_because, .. } = stored.endpoint;
            stored.endpoint = Endpoint { name, status, disabled_because, ..wanted };
        }
        EndpointChange::Rotate { secret, overlap } => {
            let until = at.now.plus(overlap);
            let newest = stored.secrets.drain(..).next();
            let old = newest.map(|old| SealedSecret { until: Some(until), ..old });
            stored.secrets = [secret].into_iter().chain(old).collect();
        }
        EndpointChange::Enable => {
            stored.endpoint.status = EndpointStatus::Enabled;
            stored.endpoint.disabled_because = None;
        }
        EndpointChange::Disable => stored.endpoint.status = EndpointStatus::Disabled,
        EndpointChange::Gone => {
            stored.endpoint.status = EndpointStatus::Disabled;
            stored.endpoint.disabled_because = Some(GONE.into());
        }
        EndpointChange::Delete => {
            stored.endpoint.status = EndpointStatus::Deleted;
            stored.secrets.clear();
        }
    }
    Ok(stored)
}
