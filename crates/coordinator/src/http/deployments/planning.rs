//! What a version would change, and what stands in its way: rows that it has no place for.
//!
//! Only the first row of each status and type is looked for, so a plan costs the same for ten artifacts and for a million.

use std::sync::Arc;

use store::objects::ObjectFilter;
use store::{Browse, Filter};
use topology::Topology;
use topology::diff;
use topology::plan::Obstacle;
use verdict::topology::event_queue;
use verdict::{Name, ObjectType, Scope, State};
use wire::topologies::TopologyPlan;

use super::super::api_error::ApiError;
use super::super::app_state::AppState;
use super::version;
use crate::topologies::rows::{DeploymentRow, artifact_parent};

/// Active work orders that are counted one by one. More are as many as anybody wants to know.
const COUNTED_MAX: usize = 1_000;

pub(super) async fn plan(
    app: &AppState,
    scope: &Scope,
    before: Option<&DeploymentRow>,
    after: &Arc<Topology>,
) -> Result<TopologyPlan, ApiError> {
    let to = after.digest().to_owned();
    let Some(row) = before else {
        return Ok(TopologyPlan {
            from: None,
            to,
            differences: Vec::new(),
            obstacles: Vec::new(),
            in_flight: 0,
        });
    };
    let from = Some(row.version.clone());
    let Some(topology) = version(app, scope, row).await? else {
        let obstacles = vec!["this server cannot read the version in force".to_owned()];
        return Ok(TopologyPlan { from, to, differences: Vec::new(), obstacles, in_flight: 0 });
    };
    let differences = differences(app, scope, &topology, after).await;
    let mut obstacles = artifacts(app, scope, row, &topology, after).await?;
    obstacles.extend(events(app, scope, row, &topology, after).await?);
    Ok(TopologyPlan {
        from,
        to,
        differences,
        obstacles: obstacles.iter().map(ToString::to_string).collect(),
        in_flight: active_orders(app, scope, row).await?,
    })
}

/// Both versions are the tenant's, and large ones take a while to compare.
async fn differences(
    app: &AppState,
    scope: &Scope,
    before: &Arc<Topology>,
    after: &Arc<Topology>,
) -> Vec<String> {
    // A comparison takes about as long as both are large.
    let steps = before.bytes() + after.bytes();
    let (before, after) = (before.clone(), after.clone());
    let compare = move || diff::between(&before, &after).iter().map(ToString::to_string).collect();
    app.coordinator.topologies().checking().run(&scope.tenant, steps, compare).await
}

/// Types and statuses that the new version does not have, and that artifacts have.
async fn artifacts(
    app: &AppState,
    scope: &Scope,
    row: &DeploymentRow,
    before: &Topology,
    after: &Topology,
) -> Result<Vec<Obstacle>, ApiError> {
    let mut found = Vec::new();
    for (kind, declared) in &before.declaration().artifacts {
        let Some(next) = after.artifact(kind) else {
            if exists(app, scope, row, kind, None).await? {
                found.push(Obstacle::ArtifactType { artifact: kind.clone() });
            }
            continue;
        };
        for status in declared.statuses.iter().filter(|it| !next.statuses.contains(it)) {
            if exists(app, scope, row, kind, Some(status)).await? {
                let (artifact, status) = (kind.clone(), status.clone());
                found.push(Obstacle::Status { artifact, status });
            }
        }
    }
    Ok(found)
}

async fn exists(
    app: &AppState,
    scope: &Scope,
    row: &DeploymentRow,
    kind: &str,
    status: Option<&str>,
) -> Result<bool, ApiError> {
    let filter = ObjectFilter {
        scope: Some(scope.clone()),
        object_type: Some(ObjectType::Artifact),
        parent: Some(artifact_parent(&row.prefix(), kind)),
        status: status.map(Name::from),
        limit: 1,
        ..ObjectFilter::default()
    };
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    Ok(!found.is_empty())
}

/// Unprocessed events that no role of the new version takes.
async fn events(
    app: &AppState,
    scope: &Scope,
    row: &DeploymentRow,
    before: &Topology,
    after: &Topology,
) -> Result<Vec<Obstacle>, ApiError> {
    let mut found = Vec::new();
    let orphaned = before.declaration().events.keys().filter(|it| after.scheduler_of(it).is_none());
    for event in orphaned {
        let track = before.scheduler_of(event).and_then(|(_, role)| role.track.as_deref());
        let queue = event_queue(&row.name, before.serial_key(track));
        for state in [State::Queued, State::Retry, State::Running] {
            let filter = Filter {
                queue: Some(queue.clone()),
                kind: Some(event.as_str().into()),
                state: Some(state),
                limit: 1,
                ..Filter::default()
            };
            let listing = app.coordinator.browse().list(scope, &filter);
            if !app.read(listing).await?.tasks.is_empty() {
                found.push(Obstacle::Event { event: event.clone() });
                break;
            }
        }
    }
    Ok(found)
}

/// How many work orders have no run record.
pub(super) async fn active_orders(
    app: &AppState,
    scope: &Scope,
    row: &DeploymentRow,
) -> Result<u32, ApiError> {
    let filter = ObjectFilter {
        scope: Some(scope.clone()),
        object_type: Some(ObjectType::WorkOrder),
        parent: Some(row.prefix().into()),
        is_pending: true,
        limit: COUNTED_MAX,
        ..ObjectFilter::default()
    };
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    Ok(u32::try_from(found.len()).unwrap_or(u32::MAX))
}
