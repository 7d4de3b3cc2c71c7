//! What a worker tells of itself with its polls: the kinds that it serves, with their schemas, and its build.
//!
//! It is a description, which grants nothing and filters nothing. It goes out once; later polls name it by its id. A
//! coordinator that has forgotten it asks for it again, and one that does not know of it is polled without.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use wire::Code;
use wire::answers::Leases;
use wire::limits::{ANNOUNCEMENT_BYTES_MAX, KINDS_PER_POLL_MAX, SCHEMA_BYTES_MAX};
use wire::names::is_name;
use wire::requests::{AnnouncedKind, Announcement as Content, LeaseRequest};
use workflow::Digest;

use super::lease_state::locked;
use crate::Error;
use crate::codec::Sealer;

/// The beginning of a digest, long enough to be unique.
const ID_DIGITS: usize = 32;

/// After a refusal nothing is announced for so long. The coordinator may be replaced by a newer one without the worker's
/// notice, and one refused poll in ten minutes costs nothing.
const SILENT_FOR: Duration = Duration::from_secs(600);

/// What a worker announces, and whether its coordinator knows it.
pub(crate) struct Announcement {
    /// Nothing, if the worker names no kind or too many.
    content: Option<Box<Content>>,
    standing: Mutex<Standing>,
}

#[derive(Clone, Copy)]
enum Standing {
    /// The coordinator does not know it yet, or not any more.
    Unknown,
    Known,
    /// The coordinator refused it as a member that it does not know.
    Refused(Instant),
}

impl Announcement {
    /// Fails if a schema or the name of the build cannot be sent at all.
    pub(crate) fn new(
        kinds: &[Result<AnnouncedKind, String>],
        build_id: Option<String>,
        codec: &Sealer,
    ) -> Result<Announcement, Error> {
        let kinds = kinds.iter().cloned().collect::<Result<Vec<_>, _>>();
        let mut kinds = kinds.map_err(Error::Setup)?;
        if codec.is_set() {
            // Nothing that is stored looks like the schema of the plain value.
            kinds.iter_mut().for_each(without_schemas);
        }
        let (kinds, build_id) = (last_of_each(kinds), build_id_of(build_id)?);
        check_builds(&kinds, build_id.as_deref())?;
        let content = content(kinds, build_id);
        Ok(Announcement { content, standing: Mutex::new(Standing::Unknown) })
    }

    /// The poll with what belongs to it of the announcement.
    pub(crate) fn added_to(&self, request: LeaseRequest) -> LeaseRequest {
        let Some(content) = &self.content else { return request };
        match *locked(&self.standing) {
            Standing::Refused(at) if at.elapsed() < SILENT_FOR => request,
            Standing::Known => LeaseRequest { announced: Some(content.id.clone()), ..request },
            Standing::Unknown | Standing::Refused(_) => {
                LeaseRequest { announce: Some(content.clone()), ..request }
            }
        }
    }

    /// Whether the coordinator answered the poll only to ask for the announcement.
    pub(crate) fn is_wanted(&self, sent: &LeaseRequest, answer: &Leases) -> bool {
        let is_wanted = answer.announce_again == Some(true);
        if is_wanted {
            *locked(&self.standing) = Standing::Unknown;
        } else if sent.announce.is_some() {
            *locked(&self.standing) = Standing::Known;
        }
        is_wanted
    }

    /// Whether the poll may have been refused because of its announcement: then it is repeated without. An older coordinator
    /// names the member in `field`, or in its message alone.
    pub(crate) fn is_refused(&self, sent: &LeaseRequest, error: &Error) -> bool {
        let has_members = sent.announce.is_some() || sent.announced.is_some();
        if !has_members || error.code() != Some(Code::InvalidArgument) {
            return false;
        }
        let field = error.problem().and_then(|problem| problem.field.as_deref());
        if field.is_some_and(|field| !matches!(field, "announce" | "announced")) {
            tracing::warn!(%error, "the coordinator refused what this worker announces");
        }
        *locked(&self.standing) = Standing::Refused(Instant::now());
        true
    }
}

/// A kind that was added twice is served by the handler that was added last.
fn last_of_each(kinds: Vec<AnnouncedKind>) -> Vec<AnnouncedKind> {
    let is_last = |n: usize| !kinds[n + 1..].iter().any(|later| later.kind == kinds[n].kind);
    let last: Vec<bool> = (0..kinds.len()).map(is_last).collect();
    kinds.into_iter().zip(last).filter_map(|(kind, is_last)| is_last.then_some(kind)).collect()
}

/// The build that was given, else that of the environment.
fn build_id_of(given: Option<String>) -> Result<Option<String>, Error> {
    let from_env = || std::env::var("TENURE_BUILD_ID").ok().filter(|build| !build.is_empty());
    match given.or_else(from_env) {
        Some(build) if !is_name(&build) => Err(Error::Setup(format!(
            "the build id is `{build}`; use 1 to 128 letters, digits and . _ : / -"
        ))),
        build => Ok(build),
    }
}

/// Runs of a kind can stay with a build only if the coordinator is told which one this is.
fn check_builds(kinds: &[AnnouncedKind], build_id: Option<&str>) -> Result<(), Error> {
    let Some(kind) = kinds.iter().find(|kind| kind.builds.is_some()) else { return Ok(()) };
    let kind = &kind.kind;
    if build_id.is_none() {
        return Err(Error::Setup(format!(
            "the kind `{kind}` says which builds may continue its runs, but this worker has no build id; set it with \
             `Worker::build_id` or TENURE_BUILD_ID"
        )));
    }
    if kinds.len() > KINDS_PER_POLL_MAX {
        return Err(Error::Setup(format!(
            "the kind `{kind}` says which builds may continue its runs, but a worker with more than {KINDS_PER_POLL_MAX} kinds \
             announces none; use several workers"
        )));
    }
    Ok(())
}

/// The kinds with their schemas, as far as those fit the coordinator's limits.
fn content(mut kinds: Vec<AnnouncedKind>, build_id: Option<String>) -> Option<Box<Content>> {
    if !(1..=KINDS_PER_POLL_MAX).contains(&kinds.len()) {
        return None;
    }
    for kind in &mut kinds {
        kind.input_schema.take_if(|schema| schema.text().len() > SCHEMA_BYTES_MAX);
        kind.output_schema.take_if(|schema| schema.text().len() > SCHEMA_BYTES_MAX);
    }
    if kinds.iter().map(schema_bytes).sum::<usize>() > ANNOUNCEMENT_BYTES_MAX {
        kinds.iter_mut().for_each(without_schemas);
    }
    let mut content = Content { id: String::new(), build_id, kinds };
    let digest = Digest::of(&content).expect("names and schemas have a JSON form").to_string();
    content.id = digest[..ID_DIGITS].to_owned();
    Some(Box::new(content))
}

fn without_schemas(kind: &mut AnnouncedKind) {
    (kind.input_schema, kind.output_schema) = (None, None);
}

fn schema_bytes(kind: &AnnouncedKind) -> usize {
    let schemas = [&kind.input_schema, &kind.output_schema];
    schemas.into_iter().flatten().map(|schema| schema.text().len()).sum()
}

#[cfg(test)]
mod tests {
    use wire::Json;

    use super::*;

    fn kind(name: &str, schema_bytes: usize) -> AnnouncedKind {
        let schema = Json::from_value(&serde_json::json!({"a": "x".repeat(schema_bytes)}));
        AnnouncedKind {
            kind: name.to_owned(),
            input_schema: Some(schema.unwrap()),
            ..AnnouncedKind::default()
        }
    }

    #[test]
    fn what_would_be_refused_is_left_out() {
        let large = content(vec![kind("a", SCHEMA_BYTES_MAX), kind("b", 1)], None).unwrap();
        assert!(large.kinds[0].input_schema.is_none() && large.kinds[1].input_schema.is_some());
        let many = (0..9).map(|n| kind(&n.to_string(), SCHEMA_BYTES_MAX - 100)).collect();
        let many = content(many, Some("7".to_owned())).unwrap();
        assert!(many.kinds.iter().all(|kind| kind.input_schema.is_none()));
        assert_eq!((many.kinds.len(), many.build_id.as_deref()), (9, Some("7")));
        assert!(content(vec![kind("k", 1); KINDS_PER_POLL_MAX + 1], None).is_none());
        assert!(content(Vec::new(), None).is_none());
    }

    #[test]
    fn the_id_names_exactly_this_content() {
        let id = |kinds, build: Option<&str>| content(kinds, build.map(str::to_owned)).unwrap().id;
        let one = id(vec![kind("a", 1)], None);
        assert_eq!((one.len(), is_name(&one)), (ID_DIGITS, true));
        assert_eq!(one, id(vec![kind("a", 1)], None));
        assert_ne!(one, id(vec![kind("a", 2)], None));
        assert_ne!(one, id(vec![kind("a", 1)], Some("7")));
    }

    #[test]
    fn a_build_is_a_name_and_a_kind_is_announced_once() {
        let refused =
            Announcement::new(&[], Some("build 7".to_owned()), &Sealer::default()).err().unwrap();
        assert!(refused.to_string().contains("`build 7`"), "{refused}");
        let kinds = last_of_each(vec![kind("a", 1), kind("b", 1), kind("a", 9)]);
        assert_eq!(kinds.iter().map(|it| it.kind.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn a_kind_that_stays_with_a_build_needs_one() {
        let pinned = AnnouncedKind { builds: Some(wire::Builds::Pin), ..kind("order", 1) };
        let refused = check_builds(std::slice::from_ref(&pinned), None).unwrap_err();
        assert!(refused.to_string().contains("`order`"), "{refused}");
        assert!(check_builds(std::slice::from_ref(&pinned), Some("7")).is_ok());
        let many = vec![pinned; KINDS_PER_POLL_MAX + 1];
        assert!(check_builds(&many, Some("7")).is_err(), "they would not be announced");
        assert!(check_builds(&[kind("a", 1)], None).is_ok());
    }
}
