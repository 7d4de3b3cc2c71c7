//! Follows the registered endpoints, and keeps a lane for each of them that is registered for queues.
//!
//! The directory of endpoints is in memory and follows what other coordinators change. A lane ends by itself when its endpoint
//! is disabled, deleted or registered for no queue any more.

use std::collections::HashSet;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use verdict::{Name, Scope};

use super::lane::{Lane, is_pushed_to};
use crate::http::AppState;

/// How often the directory is looked at for endpoints without a lane.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(crate) struct Dispatcher {
    app: AppState,
    lanes: JoinSet<(Scope, Name)>,
    known: HashSet<(Scope, Name)>,
}

impl Dispatcher {
    pub(crate) fn new(app: AppState) -> Self {
        Self { app, lanes: JoinSet::new(), known: HashSet::new() }
    }

    /// Pushes until `closing` is cancelled, and then waits for the calls under way.
    pub(crate) async fn run(mut self, closing: CancellationToken) {
        while !closing.is_cancelled() {
            self.open_lanes(&closing);
            tokio::select! {
                biased;
                () = closing.cancelled() => {}
                Some(ended) = self.lanes.join_next() => self.forget(ended),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
        while self.lanes.join_next().await.is_some() {}
    }

    fn open_lanes(&mut self, closing: &CancellationToken) {
        let endpoints = self.app.coordinator.endpoints().snapshot();
        for (scope, of_scope) in endpoints.iter() {
            for (name, _) in of_scope.iter().filter(|(_, stored)| is_pushed_to(stored)) {
                let place = (scope.clone(), name.clone());
                if !self.known.insert(place.clone()) {
                    continue;
                }
                let lane = Lane::new(self.app.clone(), place.clone());
                let closing = closing.clone();
                self.lanes.spawn(async move {
                    lane.run(closing).await;
                    place
                });
            }
        }
    }

    /// A lane that panicked is not opened again: what it held runs out, and the log says why.
    fn forget(&mut self, ended: Result<(Scope, Name), tokio::task::JoinError>) {
        if let Ok(place) = ended {
            self.known.remove(&place);
        }
    }
}
