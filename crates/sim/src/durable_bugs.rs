//! Planted bugs that only durable runs can show.

use store::MessageChanges;

use crate::planted_bug::PlantedBug;

/// Leaves out a part of what a request needs.
pub(crate) fn forget(bug: PlantedBug, loaded: &mut verdict::run::Loaded) {
    match bug {
        PlantedBug::LosesWakeUps => loaded.signals.clear(),
        PlantedBug::DoublesChildren => loaded.children.clear(),
        PlantedBug::ForgetsSteps => loaded.checkpoints.clear(),
        _ => {}
    }
}

/// Drops messages that are to be decided later.
pub(crate) fn lose_messages(messages: &mut MessageChanges) {
    let decided = std::mem::take(&mut messages.decided);
    let is_saved_now = |key: &store::MessageKey| messages.saved.iter().any(|it| it.key() == *key);
    messages.decided = decided.into_iter().filter(|key| !is_saved_now(key)).collect();
    messages.saved.clear();
}
