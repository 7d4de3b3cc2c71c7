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
use crate::announcements::{Known, SameBuild};

/// A page ends with the kind that reaches this many bytes of queues.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a text takes in JSON beside itself.
const QUOTES: usize = 3;

pub(super) async fn kinds(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    uri: Uri,
) -> Result<Json<Kinds>, ApiError> {
    let ListKinds { kind, after, limit } = query(&uri)?;
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let (scope, queues) = (principal.scope(), principal.queues());
    let builds = app.inner.announcements.list(scope, queues, app.coordinator.now());
    let wanted = wanted(&builds, kind.as_deref(), after.as_deref(), limit);
    let (kinds, next_after) = page(wanted, kind.is_some(), limit);
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

/// What makes two announcements of a kind the same.
type RowKey = (Option<String>, Option<String>, Option<Builds>, Option<String>, Option<String>);

/// Who announced each kind, and with what.
type Wanted<'b> = BTreeMap<&'b str, Vec<(&'b SameBuild, &'b AnnouncedKind)>>;

/// The kinds that a page may show, and one more: each has a row at least. Announcements are walked through once, however many kinds
/// they have.
fn wanted<'b>(
    builds: &'b [SameBuild],
    only: Option<&str>,
    after: Option<&str>,
    limit: usize,
) -> Wanted<'b> {
    let kinds_of =
        |build: &'b SameBuild| build.announcement().kinds.iter().map(move |it| (build, it));
    let mut wanted = Wanted::new();
    for (build, announced) in builds.iter().flat_map(kinds_of) {
        let name = announced.kind.as_str();
        let is_shown =
            only.is_none_or(|only| name == only) && after.is_none_or(|after| name > after);
        let is_behind =
            wanted.len() > limit && wanted.last_key_value().is_some_and(|(last, _)| name > *last);
        if !is_shown || is_behind {
            continue;
        }
        wanted.entry(name).or_default().push((build, announced));
        if wanted.len() > limit.saturating_add(1) {
            wanted.pop_last();
        }
    }
    wanted
}

/// The rows of these kinds, up to so many rows or bytes. Those of one kind stay together, so a page may have more by those of
/// its last kind. A kind's rows are made only when its turn comes: each of a thousand kinds may be served at thousands of queues.
fn page(wanted: Wanted<'_>, with_schemas: bool, limit: usize) -> (Vec<KindView>, Option<String>) {
    let mut page: Vec<KindView> = Vec::new();
    let mut bytes = 0;
    for (kind, announced) in wanted {
        if page.len() >= limit || bytes >= PAGE_BYTES_MAX {
            let next = page.last().map(|last| last.kind.clone());
            return (page, next);
        }
        let rows = rows(kind, announced, with_schemas);
        let queues = rows.iter().flat_map(|row| &row.queues);
        bytes += queues.map(|queue| queue.len() + QUOTES).sum::<usize>();
        page.extend(rows);
    }
    (page, None)
}

/// The rows of one kind, in order. Schemas belong to the answer only if one kind is asked for: they are large.
fn rows(
    kind: &str,
    announced: Vec<(&SameBuild, &AnnouncedKind)>,
    with_schemas: bool,
) -> Vec<KindView> {
    let mut rows: BTreeMap<RowKey, (KindView, BTreeSet<&Name>, Time)> = BTreeMap::new();
    for (build, announced) in announced {
        let AnnouncedKind { kind: _, version, builds, input_schema, output_schema } = announced;
        let text = |schema: &Option<wire::Json>| schema.as_ref().map(|it| it.text().to_owned());
        let build_id = build.announcement().build_id.clone();
        let key =
            (version.clone(), build_id.clone(), *builds, text(input_schema), text(output_schema));
        let shown = |schema: &Option<wire::Json>| schema.clone().filter(|_| with_schemas);
        let seen_at = build.last_seen_at;
        let (view, polled, last_seen_at) = rows.entry(key).or_insert_with(|| {
            let view = KindView {
                kind: kind.to_owned(),
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
        polled.extend(build.queues.iter());
        *last_seen_at = (*last_seen_at).max(seen_at);
    }
    let finished = |(view, polled, seen_at): (KindView, BTreeSet<&Name>, Time)| KindView {
        queues: polled.iter().map(ToString::to_string).collect(),
        last_seen_at: time(seen_at),
        ..view
    };
    rows.into_values().map(finished).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::announcements::Announcements;

    /// What workers announced: each its kinds, at so many queues with long names.
    fn announced(workers: &[(&[&str], usize)]) -> Vec<SameBuild> {
        let (all, scope) = (Announcements::default(), Scope::default());
        for (n, (kinds, queues)) in workers.iter().enumerate() {
            let kind = |kind: &&str| AnnouncedKind { kind: (*kind).into(), ..Default::default() };
            let kinds = kinds.iter().map(kind).collect();
            let build_id = Some(format!("build-{n}"));
            let said = wire::requests::Announcement { id: n.to_string(), build_id, kinds };
            let queues = (0..*queues).map(|queue| Name::from(format!("{queue:0>100}"))).collect();
            all.announce(&scope, &Name::from(format!("w{n}")), queues, said, Time::default());
        }
        all.list(&scope, None, Time::default())
    }

    fn page_of(
        builds: &[SameBuild],
        after: Option<&str>,
        limit: usize,
    ) -> (Vec<String>, Option<String>) {
        let (page, next) = page(wanted(builds, None, after, limit), false, limit);
        (page.into_iter().map(|row| row.kind).collect(), next)
    }

    #[test]
    fn a_page_ends_with_its_rows_and_keeps_those_of_one_kind_together() {
        let builds = announced(&[(&["a", "b", "c"], 1), (&["b"], 1)]);
        assert_eq!(
            page_of(&builds, None, 2),
            (vec!["a".into(), "b".into(), "b".into()], Some("b".into()))
        );
        assert_eq!(page_of(&builds, Some("b"), 2), (vec!["c".into()], None));
        assert_eq!(page_of(&builds, None, 4).0.len(), 4);
    }

    #[test]
    fn a_page_ends_with_its_bytes() {
        let kinds: Vec<String> = (0..16).map(|n| format!("k{n:02}")).collect();
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let builds = announced(&[(&kinds, 10_000)]);
        let (first, next) = page_of(&builds, None, 1_000);
        assert!(first.len() < kinds.len() && next.as_ref() == first.last(), "{first:?} {next:?}");
        let (rest, _) = page_of(&builds, next.as_deref(), 1_000);
        assert_eq!(rest.first().map(String::as_str), Some(kinds[first.len()]));
    }
}
