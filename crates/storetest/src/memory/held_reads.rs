//! Reads that a test holds up, to see how many are under way at once.

use tokio::sync::watch;

/// Shared by the clones of one browse.
#[derive(Debug)]
pub(super) struct HeldReads {
    is_held: watch::Sender<bool>,
    inside: watch::Sender<usize>,
}

impl Default for HeldReads {
    fn default() -> Self {
        Self { is_held: watch::Sender::new(false), inside: watch::Sender::new(0) }
    }
}

impl HeldReads {
    pub(super) fn hold(&self, is_held: bool) {
        self.is_held.send_replace(is_held);
    }

    /// Returns when so many reads wait here.
    pub(super) async fn until_inside(&self, reads: usize) {
        let mut inside = self.inside.subscribe();
        inside.wait_for(|now| *now >= reads).await.expect("the sender is here");
    }

    pub(super) fn inside(&self) -> usize {
        *self.inside.borrow()
    }

    /// What each read passes. It waits while reads are held.
    pub(super) async fn pass(&self) {
        let mut is_held = self.is_held.subscribe();
        if !*is_held.borrow_and_update() {
            return;
        }
        self.inside.send_modify(|inside| *inside += 1);
        is_held.wait_for(|held| !held).await.expect("the sender is here");
        self.inside.send_modify(|inside| *inside -= 1);
    }
}
