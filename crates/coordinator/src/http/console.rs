//! `GET /console/…`: the program that shows runs, leases and reasons in a browser.
//!
//! A few static files, embedded at build time. They hold nothing secret and need no key: the program logs in
//! ([`super::console_session`]) and calls the API below `/console/api/` with its session.
//!
//! Every address below `/console/` that names no file is a page of the program. The page says by its base where the program's root
//! is, so it works behind any prefix that a proxy adds.
//!
//! Invariant: every answer carries [`HEADERS`], which forbid scripts, styles and frames that are not the program's.

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderName,
    IF_NONE_MATCH, LOCATION, VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use wire::Code;

use super::api_error::ApiError;
use super::routes::{Audience, RateClass, ServedRoute, get};

/// One file of the program.
struct File {
    name: &'static str,
    media_type: &'static str,
    /// The SHA-256 of the file.
    tag: &'static str,
    plain: &'static [u8],
    packed: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// The base that `console/dist/index.html` has, as seen from its own folder.
const OWN_BASE: &str = "<base href=\"./\">";

/// How many digits of a file's digest the page puts into its address.
const VERSION_DIGITS: usize = 12;

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self'; connect-src 'self'; base-uri 'self'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (HeaderName::from_static("content-security-policy"), CONTENT_SECURITY_POLICY),
    (HeaderName::from_static("x-content-type-options"), "nosniff"),
    (HeaderName::from_static("referrer-policy"), "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
];

/// The rows of the console. They are no part of the API, so its document does not have them.
pub(super) fn table() -> Vec<ServedRoute> {
    use Audience::Anyone;
    use RateClass::Exempt;
    vec![
        get("/console", Anyone, Exempt, None, entrance),
        get("/console/", Anyone, Exempt, None, root),
        get("/console/{*path}", Anyone, Exempt, None, below),
    ]
}

/// The same headers on what the console's pages are answered. No cache keeps an answer: a cookie does not forbid it, as a
/// key does.
pub(super) fn guarded(routes: Router) -> Router {
    routes.layer(axum::middleware::map_response(async |mut response: Response| {
        for (name, value) in HEADERS.into_iter().chain([(CACHE_CONTROL, "no-store")]) {
            response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
        }
        response
    }))
}

/// Leads to the root. The location is relative, because only the browser knows the prefix.
async fn entrance() -> Response {
    answer(StatusCode::PERMANENT_REDIRECT, &[(LOCATION, "console/")], Body::empty())
}

async fn root(headers: HeaderMap) -> Response {
    page("", &headers)
}

async fn below(
    Path(path): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(found) = FILES.iter().find(|file| file.name == path) {
        return Ok(file(found, query.as_deref(), &headers));
    }
    if path == "api" || path.starts_with("api/") {
        return Err(ApiError::new(Code::NotFound, "the console's API has no such route"));
    }
    // A page has no dot in its last segment unless an id has one: only what looks like one of our files is missing.
    if !path.contains('/') && path.contains('.') {
        return Err(ApiError::new(Code::NotFound, "the console has no such file"));
    }
    Ok(page(&path, &headers))
}

fn file(file: &File, query: Option<&str>, headers: &HeaderMap) -> Response {
    let takes_gzip = accepts_gzip(headers);
    let tag = format!("\"{}{}\"", file.tag, if takes_gzip { "-gzip" } else { "" });
    let version = query.and_then(|query| query.strip_prefix("v="));
    let is_versioned = version == Some(&file.tag[..VERSION_DIGITS]);
    let cached = if is_versioned { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut lines = vec![
        (CONTENT_TYPE, file.media_type),
        (CACHE_CONTROL, cached),
        (VARY, "accept-encoding"),
        (ETAG, tag.as_str()),
    ];
    if is_known(headers, &tag) {
        return answer(StatusCode::NOT_MODIFIED, &lines, Body::empty());
    }
    if takes_gzip {
        lines.push((CONTENT_ENCODING, "gzip"));
    }
    answer(StatusCode::OK, &lines, Body::from(if takes_gzip { file.packed } else { file.plain }))
}

/// The page, with a base that leads from `path` back to the root of the console.
fn page(path: &str, headers: &HeaderMap) -> Response {
    let depth = path.matches('/').count();
    let base = if depth == 0 { "./".to_owned() } else { "../".repeat(depth) };
    let script = FILES.iter().map(|file| &file.tag[..VERSION_DIGITS]).collect::<String>();
    let tag = format!("\"{script}-{depth}\"");
    let lines = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (ETAG, tag.as_str()),
    ];
    if is_known(headers, &tag) {
        return answer(StatusCode::NOT_MODIFIED, &lines, Body::empty());
    }
    let text = PAGE.replacen(OWN_BASE, &format!("<base href=\"{base}\">"), 1);
    answer(StatusCode::OK, &lines, Body::from(text))
}

fn answer(status: StatusCode, lines: &[(HeaderName, &str)], body: Body) -> Response {
    let mut response = (status, body).into_response();
    for (name, value) in lines.iter().chain(&HEADERS) {
        let value = HeaderValue::from_str(value).expect("headers of the console are ASCII");
        response.headers_mut().insert(name, value);
    }
    response
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    codings.flat_map(|codings| codings.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let is_refused = weight.trim().strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0_f32));
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// Whether the browser has this version already.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let tags = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    tags.flat_map(|tags| tags.split(',')).any(|known| {
        let known = known.trim();
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
    })
}
