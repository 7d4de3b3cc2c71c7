//! `/v1/deployments/{deployment}/artifacts/{type}`: create, list, show, and move by people.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use serde_json::Value;
use store::objects::ObjectFilter;
use store::{Browse, PAGE_BYTES_MAX};
use topology::deployment::ArtifactRef;
use topology::fields::CheckedFields;
use topology::work::Work;
use verdict::topology::TopologyRefusal;
use verdict::{Name, Object, ObjectType, Scope, Text};
use wire::limits::PAGE_ITEMS_DEFAULT;
use wire::topologies::{ArtifactList, ArtifactView, CreateArtifact, ListArtifacts, MoveArtifact};

use super::super::api_error::ApiError;
use super::super::app_state::{AppState, RequestId};
use super::super::audit::note_act;
use super::super::body::{API_BYTES_MAX, JsonBody};
use super::super::translate::query;
use super::{
    asked, at, check_whole_workspace, decided, find, next_cursor, object, one, version, written,
};
use crate::admit::{ApproverPrincipal, ClientPrincipal, ReaderPrincipal};
use crate::item::TopologyCall;
use crate::topologies::rows::{ArtifactRow, DeploymentRow, artifact_key, artifact_parent};

/// The action in the audit.
const APPROVED: &str = "artifact.approved";

pub(in crate::http) async fn list(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    Path((deployment, kind)): Path<(String, String)>,
    uri: Uri,
) -> Result<Json<ArtifactList>, ApiError> {
    let ListArtifacts { status, cursor, limit } = query(&uri)?;
    check_whole_workspace(&principal)?;
    let scope = principal.scope();
    let row = find(&app, scope, &deployment).await?;
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let after = cursor
        .map(|id| artifact_key(scope, &row.prefix(), &ArtifactRef { kind: kind.clone(), id }));
    let filter = ObjectFilter {
        scope: Some(scope.clone()),
        object_type: Some(ObjectType::Artifact),
        parent: Some(artifact_parent(&row.prefix(), &kind)),
        status: status.map(Name::from),
        after,
        limit,
        bytes: Some(PAGE_BYTES_MAX),
        ..ObjectFilter::default()
    };
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    let rows: Vec<ArtifactRow> = found.iter().filter_map(ArtifactRow::of).collect();
    let cursor = next_cursor(&filter, &found, |object| {
        ArtifactRow::of(object).map_or_else(String::new, |row| row.artifact.name.id)
    });
    Ok(Json(ArtifactList { artifacts: rows.into_iter().map(view).collect(), cursor }))
}

pub(in crate::http) async fn show(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    Path((deployment, kind, id)): Path<(String, String, String)>,
) -> Result<Json<ArtifactView>, ApiError> {
    check_whole_workspace(&principal)?;
    let scope = principal.scope();
    let row = find(&app, scope, &deployment).await?;
    let key = artifact_key(scope, &row.prefix(), &ArtifactRef { kind, id });
    let found = one(&app, &key).await?;
    Ok(Json(viewed(found.as_ref())?))
}

pub(in crate::http) async fn create(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    Path((deployment, kind)): Path<(String, String)>,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<(StatusCode, Json<ArtifactView>), ApiError> {
    check_whole_workspace(&principal)?;
    let CreateArtifact { id, fields } = wire::parse(&body)?;
    let scope = principal.scope();
    let row = find(&app, scope, &deployment).await?;
    let fields =
        if fields.is_null() { Value::Object(serde_json::Map::new()) } else { read(&fields)? };
    let checked = check_fields(&app, scope, &row, &kind, fields).await?;
    let call = TopologyCall::Create { artifact: ArtifactRef { kind, id }, fields: checked };
    let item = asked(scope, (&deployment, row.generation), call, principal.key());
    let made = object(decided(&app, item).await?)?;
    Ok((StatusCode::CREATED, Json(viewed(Some(&made))?)))
}

pub(in crate::http) async fn transition(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    Path(path): Path<(String, String, String)>,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<ArtifactView>, ApiError> {
    check_whole_workspace(&principal)?;
    let wanted = wire::parse(&body)?;
    move_artifact(&app, principal.scope(), principal.key(), path, wanted, false).await
}

pub(in crate::http) async fn approve(
    State(app): State<AppState>,
    principal: ApproverPrincipal,
    Path(path): Path<(String, String, String)>,
    request: RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<ArtifactView>, ApiError> {
    let wanted = wire::parse(&body)?;
    let (deployment, kind, id) = &path;
    let object = format!("{deployment}/{kind}/{id}");
    let moved = move_artifact(&app, principal.scope(), principal.key(), path, wanted, true).await?;
    let by = (principal.scope(), principal.key());
    note_act(&app, by, APPROVED, &object, request).await?;
    Ok(moved)
}

async fn move_artifact(
    app: &AppState,
    scope: &Scope,
    by: &Name,
    (deployment, kind, id): (String, String, String),
    wanted: MoveArtifact,
    is_approval: bool,
) -> Result<Json<ArtifactView>, ApiError> {
    let MoveArtifact { to, revision, fields } = wanted;
    let row = find(app, scope, &deployment).await?;
    let fields = match (!fields.is_null()).then(|| read(&fields)).transpose()? {
        Some(fields) => Some(check_fields(app, scope, &row, &kind, fields).await?),
        None => None,
    };
    let artifact = ArtifactRef { kind, id };
    let call = TopologyCall::Move { artifact, to, expect: revision, fields, is_approval };
    let item = asked(scope, (&deployment, row.generation), call, by);
    let moved = object(decided(app, item).await?)?;
    Ok(Json(viewed(Some(&moved))?))
}

/// Checks fields by the version in force, before and not inside the commit. One that comes into force meanwhile refuses them as
/// stale.
async fn check_fields(
    app: &AppState,
    scope: &Scope,
    row: &DeploymentRow,
    kind: &str,
    fields: Value,
) -> Result<CheckedFields, ApiError> {
    let Some(topology) = version(app, scope, row).await? else {
        let why = "this program cannot read the version in force; upgrade it";
        return Err(TopologyRefusal::Incompatible(Text::from(why)).into());
    };
    let steps = topology.fields_steps(kind, &fields);
    let kind = kind.to_owned();
    let check = move || topology.check_fields(&kind, fields, &mut Work::of_check());
    let checked = app.coordinator.topologies().checking().run(&scope.tenant, steps, check).await;
    let unfit = |why| format!("the fields do not fit the artifact type: {why}");
    checked.map_err(|why| TopologyRefusal::Invalid(Text::from(unfit(why))).into())
}

fn read(fields: &wire::Json) -> Result<Value, ApiError> {
    let read: Result<Value, _> = serde_json::from_str(fields.text());
    match read {
        Ok(fields @ Value::Object(_)) => Ok(fields),
        Ok(_) | Err(_) => Err(ApiError::field("fields", "must be an object")),
    }
}

fn viewed(object: Option<&Object>) -> Result<ArtifactView, ApiError> {
    let row = object.and_then(ArtifactRow::of);
    row.map(view).ok_or_else(|| TopologyRefusal::ArtifactNotFound.into())
}

fn view(row: ArtifactRow) -> ArtifactView {
    let artifact = row.artifact;
    ArtifactView {
        artifact_type: artifact.name.kind,
        id: artifact.name.id,
        status: artifact.status,
        revision: artifact.revision,
        transition_no: artifact.transition_no,
        cycles: artifact.cycles,
        reserved_by: artifact.reserved_by,
        passed: artifact.passed,
        fields: written(&artifact.fields),
        created_at: at(artifact.created_at),
        entered_at: at(artifact.entered_at),
    }
}
