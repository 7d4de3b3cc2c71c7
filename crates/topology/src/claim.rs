//! Claims on events and work orders: the six fields of a claim record, and the rules of taking, renewing and releasing.
//!
//! The row of a claim is never deleted and its version only grows, so an owner from before can match nothing. Claims are
//! apart from the artifacts: no role's logic sees one.

use serde::Serialize;

/// What can be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ResourceType {
    Event,
    WorkOrder,
}

/// One claim record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claim {
    pub resource_type: ResourceType,
    pub resource_id: String,
    pub owner_id: String,
    pub lease_expires_at: u64,
    pub heartbeat_at: u64,
    pub claim_version: u64,
}

impl Claim {
    /// Expired means that the end of the lease has come.
    #[must_use]
    pub fn is_live(&self, now: u64) -> bool {
        now < self.lease_expires_at
    }

    fn is_held_by(&self, owner: &str, version: u64, now: u64) -> bool {
        self.is_live(now) && self.owner_id == owner && self.claim_version == version
    }
}

/// Creates the claim, or takes it over if it has expired. `None` while another owner holds it.
#[must_use]
pub fn acquire(
    existing: Option<&Claim>,
    resource: (ResourceType, &str),
    owner: &str,
    lease_ms: u64,
    now: u64,
) -> Option<Claim> {
    if existing.is_some_and(|claim| claim.is_live(now)) {
        return None;
    }
    let (resource_type, id) = resource;
    Some(Claim {
        resource_type,
        resource_id: id.to_owned(),
        owner_id: owner.to_owned(),
        lease_expires_at: now.saturating_add(lease_ms),
        heartbeat_at: now,
        claim_version: existing.map_or(0, |claim| claim.claim_version + 1),
    })
}

/// Extends the lease if owner and version still match. `None` means that the owner must stop.
#[must_use]
pub fn renew(claim: &Claim, owner: &str, version: u64, lease_ms: u64, now: u64) -> Option<Claim> {
    claim.is_held_by(owner, version, now).then(|| Claim {
        lease_expires_at: claim.lease_expires_at.max(now.saturating_add(lease_ms)),
        heartbeat_at: now,
        claim_version: version + 1,
        ..claim.clone()
    })
}

/// Ends the lease and keeps the row.
#[must_use]
pub fn release(claim: &Claim, owner: &str, version: u64, now: u64) -> Option<Claim> {
    claim.is_held_by(owner, version, now).then(|| Claim {
        lease_expires_at: now,
        claim_version: version + 1,
        ..claim.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(now: u64) -> Claim {
        acquire(None, (ResourceType::Event, "e"), "a", 60, now).unwrap()
    }

    #[test]
    fn a_live_claim_is_skipped_and_an_expired_one_taken_over() {
        // The end of the lease belongs to the next owner.
        let claim = taken(0);
        let again = |now| acquire(Some(&claim), (ResourceType::Event, "e"), "b", 60, now);
        assert_eq!(again(59), None);
        let next = again(60).unwrap();
        assert_eq!((next.owner_id.as_str(), next.claim_version), ("b", 1));
    }

    #[test]
    fn only_the_owner_of_the_current_version_renews() {
        let first = taken(0);
        let renewed = renew(&first, "a", 0, 60, 10).unwrap();
        assert_eq!(
            (renewed.claim_version, renewed.heartbeat_at, renewed.lease_expires_at),
            (1, 10, 70)
        );
        assert_eq!(renew(&renewed, "a", 0, 60, 11), None, "a version from before");
        assert_eq!(renew(&renewed, "b", 1, 60, 11), None, "another owner");
        assert_eq!(renew(&renewed, "a", 1, 60, 70), None, "an expired lease stays expired");
    }

    #[test]
    fn a_released_claim_keeps_its_version() {
        // A version that began again would let an old owner match it.
        let first = taken(0);
        let released = release(&first, "a", 0, 5).unwrap();
        let next = acquire(Some(&released), (ResourceType::Event, "e"), "b", 60, 5).unwrap();
        assert_eq!(next.claim_version, 2);
        assert_eq!(release(&next, "a", 0, 6), None);
    }

    #[test]
    fn a_claim_is_shown_with_its_six_fields() {
        let shown = serde_json::to_value(taken(7)).unwrap();
        let expected = serde_json::json!({
            "resource_type": "EVENT", "resource_id": "e", "owner_id": "a",
            "lease_expires_at": 67, "heartbeat_at": 7, "claim_version": 0
        });
        assert_eq!(shown, expected);
        assert_eq!(serde_json::to_value(ResourceType::WorkOrder).unwrap(), "WORKORDER");
    }
}
