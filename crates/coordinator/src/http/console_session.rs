//! `/console/api/session`: a browser logs in with a key or a one-time code, and logs out; and how its later calls enter.
//!
//! Logging in sets a sealed cookie and answers a page token. The cookie has no path, so that the browser sends it to
//! `…/console/api` and nowhere else, whatever prefix a proxy puts before it. Every later call needs both, and has to come
//! from a page of this console ([`super::same_origin`]). `/v1` never reads a cookie.
//!
//! A session does not outlive its key: the key is looked up in every call ([`crate::admit::sessions`]).

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::{COOKIE, HeaderName, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use store::{Administration, Audit};
use verdict::{Digest, Text, Time};
use wire::Code;
use wire::answers::Session as SessionView;

use super::api_error::ApiError;
use super::app_state::{AppState, RequestId};
use super::authenticate::mark_authenticated;
use super::body::JsonBody;
use super::routes::{Audience, RateClass, Route, ServedRoute, post};
use super::same_origin;
use super::session::view;
use crate::admit::api_key::Verified;
use crate::admit::sessions::ledger::LoginRefused;
use crate::admit::sessions::{SESSION_LIFE, Session, page_digest, secret_digest};
use crate::admit::{KeyError, hex};

/// The header of the page token.
const PAGE_TOKEN: HeaderName = HeaderName::from_static("x-tenure-session");

const PAGE_TOKEN_BYTES: usize = 32;

/// Cookies of this name that are tried: another program on this host may have set one, too.
const COOKIES_MAX: usize = 4;

/// A key or a code, with room for white space.
const LOGIN_BYTES_MAX: usize = 1_024;

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Where a browser logs in and out, below the console's API: in one folder, or the cookie of the one would not replace
/// that of the other.
const LOGIN: &str = "/session";
const LOGOUT: &str = "/logout";

/// The rows of the login. They are no part of the API, so its document does not have them.
pub(super) fn table() -> Vec<ServedRoute> {
    use Audience::Anyone;
    use RateClass::Exempt;
    vec![post(LOGIN, Anyone, Exempt, None, begin), post(LOGOUT, Anyone, Exempt, None, end)]
}

/// Whether a route needs no session, because it begins or ends one.
pub(super) fn is_login(route: &Route) -> bool {
    [LOGIN, LOGOUT].contains(&route.path)
}

/// The session in which a call is made.
#[derive(Clone)]
pub(super) struct Entered {
    pub(super) verified: Verified,
    pub(super) session: Session,
}

/// One of both.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Login {
    key: Option<String>,
    code: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LoggedIn {
    page_token: String,
    session: SessionView,
}

/// A call whose page was checked. Its connection counts as authenticated once the login succeeds.
struct OwnPage(Parts);

impl axum::extract::FromRequestParts<AppState> for OwnPage {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, ApiError> {
        same_origin::check(parts, &app.inner.console_hosts)?;
        Ok(Self(parts.clone()))
    }
}

async fn begin(
    State(app): State<AppState>,
    OwnPage(parts): OwnPage,
    RequestId(request): RequestId,
    JsonBody(body): JsonBody<LOGIN_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let now = app.coordinator.now();
    let (verified, secret) = credential(&app, &body, now)?;
    mark_authenticated(&parts);
    let before = entered(&app, &parts.headers, now);
    let (key, tenant) = (&verified.key().id, &verified.key().scope.tenant);
    let mut id = [0; 16];
    let mut page = [0; PAGE_TOKEN_BYTES];
    app.with_entropy(|entropy| {
        entropy.fill(&mut id);
        entropy.fill(&mut page);
    });
    let begun = app.inner.sessions.begin(id, key, tenant, now);
    let (began_at, ends_at) = begun.map_err(|why| refused(why, &verified))?;
    if let Ok(Entered { verified, session }) = before {
        app.inner.sessions.end(&session, &verified.key().scope.tenant);
    }
    let page_token = hex(&page);
    let page = page_digest(&page_token);
    let session = Session { id, key: key.clone(), secret, page, began_at, ends_at };
    note(&app, "console.login", &verified, now, &request);
    app.note_use(&verified, now);
    let text = app.with_entropy(|entropy| session.seal(&app.inner.keyring, entropy));
    let cookie = cookie(&app, &parts.headers, &text, SESSION_LIFE.millis() / 1_000);
    let session = view(&app, &verified, Some(ends_at));
    Ok(([(SET_COOKIE, cookie)], Json(LoggedIn { page_token, session })).into_response())
}

/// The key that is shown or that the code stands for, and the digest of its secret.
fn credential(app: &AppState, body: &[u8], now: Time) -> Result<(Verified, Digest), ApiError> {
    let unauthenticated = |why: KeyError| ApiError::new(Code::Unauthenticated, why.to_string());
    let malformed = || {
        let message = "send an object with `key` or `code`, one of both, as a string";
        ApiError::new(Code::InvalidArgument, message)
    };
    let Login { key, code } = serde_json::from_slice(body).map_err(|_| malformed())?;
    match (key, code) {
        (Some(key), None) => {
            let verified = app.inner.keys.find(&key, now).map_err(unauthenticated)?;
            let secret = secret_digest(&key).ok_or_else(|| unauthenticated(KeyError::Unknown))?;
            Ok((verified, secret))
        }
        (None, Some(code)) => {
            let invalid = |_| ApiError::new(Code::ConsoleCodeInvalid, CODE_INVALID);
            let stands_for = app.inner.codes.take(&code, now).ok_or(()).map_err(invalid)?;
            let found = app.inner.keys.of_session(&stands_for.key, &stands_for.secret, now);
            Ok((found.map_err(|_| ()).map_err(invalid)?, stands_for.secret))
        }
        _ => Err(malformed()),
    }
}

const CODE_INVALID: &str = "the one-time code was used, has expired, or was made by another server; `tenure console` makes another";

fn refused(why: LoginRefused, verified: &Verified) -> ApiError {
    let key = verified.key();
    let error = match why {
        LoginRefused::TooMany => {
            let message = "the tenant has as many sessions of the console as it may; log out elsewhere, or wait until some end";
            ApiError::new(Code::TooManySessions, message)
        }
        LoginRefused::TooOften(wait) => {
            let message =
                "this key logs in more often than people do; wait for the time in Retry-After";
            let wait = Some(Duration::from_millis(wait.millis()));
            ApiError { retry_after: wait, ..ApiError::new(Code::TooManyRequests, message) }
        }
    };
    error.by(&key.id, &key.scope)
}

/// Ends the session of the browser, if it has one, and takes its cookie away in any case.
async fn end(
    State(app): State<AppState>,
    OwnPage(parts): OwnPage,
    RequestId(request): RequestId,
) -> Response {
    let now = app.coordinator.now();
    if let Ok(Entered { verified, session }) = entered(&app, &parts.headers, now) {
        app.inner.sessions.end(&session, &verified.key().scope.tenant);
        note(&app, "console.logout", &verified, now, &request);
    }
    let cookie = cookie(&app, &parts.headers, "", 0);
    (StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response()
}

/// Lets a call in that belongs to a session, and leaves the session in it.
pub(super) fn enter(app: &AppState, parts: &mut Parts) -> Result<(), ApiError> {
    same_origin::check(parts, &app.inner.console_hosts)?;
    let entered = entered(app, &parts.headers, app.coordinator.now())?;
    mark_authenticated(parts);
    parts.extensions.insert(entered);
    Ok(())
}

/// The session of the cookie and the page token. Only who has both learns why it does not count.
fn entered(app: &AppState, headers: &HeaderMap, now: Time) -> Result<Entered, ApiError> {
    let refused = |why: &str| ApiError::new(Code::SessionRequired, why);
    let session = sealed(app, headers, now).ok_or_else(|| refused("log in to the console"))?;
    if session.ends_at.has_come(now) {
        return Err(refused("the session has reached its end; log in again"));
    }
    let found = app.inner.keys.of_session(&session.key, &session.secret, now);
    let verified = found.map_err(|why| refused(key_gone(why)))?;
    let tenant = &verified.key().scope.tenant;
    let counts = app.inner.sessions.check(&session, tenant, now);
    counts.map_err(|_| refused("this session was ended; log in again"))?;
    Ok(Entered { verified, session })
}

fn key_gone(why: KeyError) -> &'static str {
    match why {
        KeyError::Revoked => "the key of this session was revoked",
        KeyError::Expired => "the key of this session has expired",
        KeyError::Rotated => "the key of this session was rotated; log in with its new secret",
        KeyError::Unknown => "the key of this session does not exist any more",
    }
}

/// The session of the one cookie that belongs to the page token.
fn sealed(app: &AppState, headers: &HeaderMap, now: Time) -> Option<Session> {
    let mut tokens = headers.get_all(PAGE_TOKEN).iter();
    let page = page_digest(tokens.next()?.to_str().ok()?);
    if tokens.next().is_some() {
        return None;
    }
    let name = cookie_name(app);
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs =
        lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let texts = pairs.filter(|(of, _)| *of == name).map(|(_, text)| text).take(COOKIES_MAX);
    let mut sessions = texts.filter_map(|text| Session::open(text, &app.inner.keyring, now));
    sessions.find(|session| crate::admit::is_same(session.page.bytes(), page.bytes()))
}

/// A name for each installation: browsers keep the cookies of all ports of a host together.
fn cookie_name(app: &AppState) -> String {
    const DIGITS: usize = 8;
    format!("tenure_{}", &app.inner.keyring.first_kid()[..DIGITS])
}

fn cookie(app: &AppState, headers: &HeaderMap, text: &str, max_age: u64) -> HeaderValue {
    let secure = if is_encrypted(app, headers) { "; Secure" } else { "" };
    let name = cookie_name(app);
    let line = format!("{name}={text}; HttpOnly; SameSite=Strict; Max-Age={max_age}{secure}");
    HeaderValue::from_str(&line).expect("names and sealed texts are ASCII")
}

/// Whether the browser reached the server over TLS, as far as the server can know.
fn is_encrypted(app: &AppState, headers: &HeaderMap) -> bool {
    let forwarded = headers.get(FORWARDED_PROTO).is_some_and(|value| value == "https");
    let is_public = app.inner.callback_base_url.starts_with("https://");
    app.inner.certificates.is_some() || forwarded || is_public
}

/// One entry for each login and log-out. The answer does not wait for it: a store that takes no writes has to be looked at, too.
fn note(app: &AppState, action: &str, verified: &Verified, now: Time, request: &str) {
    let key = verified.key();
    let audit = Audit {
        at: now,
        scope: key.scope.clone(),
        actor: key.id.clone(),
        action: action.into(),
        object: Text::from(key.id.as_str()),
        code: None,
        times: 1,
        before: None,
        after: None,
        request: Some(request.into()),
        seal: None,
    };
    let coordinator = app.coordinator.clone();
    app.inner.background.spawn(async move {
        let act = Administration { audit: vec![audit], ..Administration::default() };
        if let Err(error) = coordinator.administer(act).await {
            tracing::warn!(%error, "cannot write a session of the console to the audit");
        }
    });
}
