//! Events that a process of roles reports to its operator. All of them are logged too.

use std::sync::Arc;

/// What became of a turn. `about` is the event, work order or artifact of the turn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoleEvent {
    /// The decision was carried out.
    Decided { role: String, about: String },
    /// The turn was not decided, and will be told again after a pause.
    GivenBack { role: String, about: String, why: String },
    /// The turn is another process's, or is decided.
    Lost { role: String, about: String, why: String },
    /// No server answers calls for turns; the process keeps asking.
    Unreachable { role: String, why: String },
}

#[derive(Clone)]
pub(super) struct Events(Arc<dyn Fn(&RoleEvent) + Send + Sync>);

impl Events {
    pub(super) fn new(observer: impl Fn(&RoleEvent) + Send + Sync + 'static) -> Events {
        Events(Arc::new(observer))
    }

    pub(super) fn emit(&self, event: &RoleEvent) {
        match event {
            RoleEvent::Decided { role, about } => tracing::debug!(role, about, "decided"),
            RoleEvent::GivenBack { role, about, why } => {
                tracing::warn!(role, about, why, "a turn was given back");
            }
            RoleEvent::Lost { role, about, why } => {
                tracing::info!(role, about, why, "a turn was lost");
            }
            RoleEvent::Unreachable { role, why } => {
                tracing::warn!(role, why, "cannot take turns; retrying");
            }
        }
        (self.0)(event);
    }
}
