//! `GET /v1/kinds`: what workers announced that they can do (S2-7, V-14), and announcing it with a poll.
//!
//! Announcements exist in memory only, so they are those that were made at this coordinator; the answer says how many
//! coordinators there are.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use verdict::{Name, Scope, Time};
use wire::Builds;
use wire::answers::{KindView, Kinds};
use wire::limits::PAGE_ITEMS_DEFAULT;
use wire::requests::{AnnouncedKind, LeaseRequest, ListKinds};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::translate::{query, time};
use crate::admit::ReaderPrincipal;
use crate::admit::principals::Principal as _;
use crate::announcements::Known;

pub(super) async fn kinds(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    uri: Uri,
) -> Result<Json<Kinds>, ApiError> {
    let ListKinds { kind, after, limit } = query(&uri)?;
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let rows = rows(&app, principal.scope(), principal.queues(), kind.as_deref());
    let (kinds, next_after) = page(rows, after.as_deref(), limit);
    let coordinators = app.coordinator.allowances().coordinators();
    Ok(Json(Kinds { kinds, next_after, coordinators, server_time: app.server_time() }))
}

/// Notes what the poll announces. `None` if it names an announcement that is not known here: the worker has to make it again.
pub(super) fn announced(
    app: &AppState,
    scope: &Scope,
    request: &mut LeaseRequest,
) -> Option<Known> {
    let now = app.coordinator.now();
    if let Some(announcement) = request.announce.take() {
        let queues = request.queues.iter().map(|queue| Name::from(queue.as_str())).collect();
        let worker = Name::from(request.worker_id.as_str());
        return Some(app.inner.announcements.announce(scope, &worker, queues, *announcement, now));
    }
    let Some(id) = request.announced.take() else { return Some(Known { build: None }) };
    let worker = Name::from(request.worker_id.as_str());
    app.inner.announcements.known(scope, &worker, &request.queues, &id, now)
}

/// The kinds that workers announced at a queue.
pub(super) fn kinds_at(app: &AppState, scope: &Scope, queue: &Name) -> BTreeSet<String> {
    let queues = std::slice::from_ref(queue);
    let builds = app.inner.announcements.list(scope, Some(queues), app.coordinator.now());
    let names = builds.iter().flat_map(|build| &build.announcement().kinds);
    names.map(|announced| announced.kind.clone()).collect()
}

/// What makes two announced kinds the same.
type RowKey =
    (String, Option<String>, Option<String>, Option<Builds>, Option<String>, Option<String>);

/// All rows in order. Schemas belong to the answer only if one kind is asked for: they are large.
fn rows(
    app: &AppState,
    scope: &Scope,
    queues: Option<&[Name]>,
    only: Option<&str>,
) -> Vec<KindView> {
    let mut rows: BTreeMap<RowKey, (KindView, BTreeSet<Name>, Time)> = BTreeMap::new();
    for build in app.inner.announcements.list(scope, queues, app.coordinator.now()) {
        let announcement = build.announcement();
        let wanted = |it: &&AnnouncedKind| only.is_none_or(|only| it.kind == only);
        for announced in announcement.kinds.iter().filter(wanted) {
            let AnnouncedKind { kind, version, builds, input_schema, output_schema } = announced;
            let text = |schema: &Option<wire::Json>| schema.as_ref().map(|it| it.text().to_owned());
            let build_id = announcement.build_id.clone();
            let key = (
                kind.clone(),
                version.clone(),
                build_id.clone(),
                *builds,
                text(input_schema),
                text(output_schema),
            );
            let shown = |schema: &Option<wire::Json>| schema.clone().filter(|_| only.is_some());
            let seen_at = build.last_seen_at;
            let (view, polled, last_seen_at) = rows.entry(key).or_insert_with(|| {
                let view = KindView {
                    kind: kind.clone(),
                    version: version.clone(),
                    build_id,
                    builds: *builds,
                    queues: Vec::new(),
                    workers: 0,
                    input_schema: shown(input_schema),
                    output_schema: shown(output_schema),
                    last_seen_at: time(seen_at),
                };
                (view, BTreeSet::new(), seen_at)
            });
            view.workers += build.workers;
            polled.extend(build.queues.iter().cloned());
            *last_seen_at = (*last_seen_at).max(seen_at);
        }
    }
    let finished = |(view, polled, seen_at): (KindView, BTreeSet<Name>, Time)| KindView {
        queues: polled.iter().map(Name::to_string).collect(),
        last_seen_at: time(seen_at),
        ..view
    };
    rows.into_values().map(finished).collect()
}

/// The rows after a kind. The rows of one kind stay together, so a page may have more than `limit`.
fn page(rows: Vec<KindView>, after: Option<&str>, limit: usize) -> (Vec<KindView>, Option<String>) {
    let mut page: Vec<KindView> = Vec::new();
    for row in rows.into_iter().filter(|row| after.is_none_or(|after| row.kind.as_str() > after)) {
        let last = page.last().map(|last| &last.kind);
        if page.len() >= limit && last != Some(&row.kind) {
            let next = last.cloned();
            return (page, next);
        }
        page.push(row);
    }
    (page, None)
}
