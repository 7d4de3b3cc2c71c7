//! Who pushes to an endpoint, where several coordinators share a database.

use store::effects::{StoredPushClaim, push_claim_key};
use verdict::push::PushClaim;
use verdict::{Moment, Name, Scope};

use crate::carry::ObjectSet;
use crate::coordinator::Coordinator;
use crate::item::RequestError;

/// Takes or renews the claim; `None` while another coordinator has it.
pub(super) async fn take(
    coordinator: &Coordinator,
    (scope, endpoint): (&Scope, &Name),
    holder: &Name,
) -> Result<Option<PushClaim>, RequestError> {
    let (key, holder) = (push_claim_key(scope, endpoint), holder.clone());
    let keys = vec![key.clone()];
    let decide = move |objects: &mut ObjectSet, at: Moment| {
        if objects.is_locked(&key) {
            return None;
        }
        let held = objects.get(&key).and_then(StoredPushClaim::of).map(|stored| stored.0);
        let claim = PushClaim::take(held.as_ref(), &holder, at.now)?;
        objects.put(StoredPushClaim(claim.clone()).object(&key, 1), None);
        Some(claim)
    };
    coordinator.decide_objects(keys, decide).await
}
