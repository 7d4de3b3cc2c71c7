//! A task's position in its queue: priority, larger first, then age, as bytes that sort in that order.

use verdict::TaskId;

pub(in crate::postgres) const POSITION_BYTES: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::postgres) struct QueuePosition([u8; POSITION_BYTES]);

impl QueuePosition {
    pub(in crate::postgres) fn new(priority: i32, id: TaskId) -> Self {
        let mut bytes = [0; POSITION_BYTES];
        // Flipping all but the sign bit turns "larger first" into ascending bytes.
        let urgency = (priority as u32) ^ 0x7fff_ffff;
        bytes[..4].copy_from_slice(&urgency.to_be_bytes());
        bytes[4..].copy_from_slice(&id.as_u128().to_be_bytes());
        Self(bytes)
    }

    pub(in crate::postgres) const fn from_bytes(bytes: [u8; POSITION_BYTES]) -> Self {
        Self(bytes)
    }

    pub(in crate::postgres) fn bytes(&self) -> &[u8; POSITION_BYTES] {
        &self.0
    }

    pub(in crate::postgres) fn priority(&self) -> i32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.0[..4]);
        (u32::from_be_bytes(bytes) ^ 0x7fff_ffff) as i32
    }

    pub(in crate::postgres) fn id(&self) -> TaskId {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[4..]);
        TaskId::from_u128(u128::from_be_bytes(bytes))
    }
}
