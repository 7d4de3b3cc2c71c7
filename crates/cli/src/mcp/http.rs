//! The Streamable HTTP transport: one path, one message per POST, JSON answers, no sessions and no streams.
//!
//! Every caller acts with the key that it sends. A page in a browser cannot call: browsers name the origin of a page, and
//! only origins that were allowed may call, whatever name the page has found for this address.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Request as HttpRequest, State as Shared};
use axum::http::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderName, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde::Serialize;
use tenure::Client;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use super::endpoint::{Endpoint, REVISIONS};
use super::message::{self, Fault, Message};
use super::{CALLS_MAX, MESSAGE_BYTES_MAX};
use crate::exit::{CommandResult, Exit};
use crate::output::{self, Format};
use crate::serve;

const PATH: &str = "/mcp";
const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Where it is served, and for whom.
pub(super) struct Place {
    pub(super) listen: SocketAddr,
    pub(super) origins: Vec<String>,
    /// The address of the Tenure server.
    pub(super) server: String,
}

struct App {
    endpoint: Endpoint,
    /// Has the connections, and no key.
    client: Client,
    origins: Vec<String>,
    calls: Semaphore,
}

/// What `--json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Serving {
    url: String,
    server: String,
}

pub(super) async fn run(
    format: Format,
    endpoint: Endpoint,
    client: Client,
    place: Place,
) -> CommandResult {
    let cannot_listen =
        |error: std::io::Error| serve::cannot_listen(place.listen, &error, "--listen");
    let mut stop = signal(SignalKind::terminate()).map_err(cannot_listen)?;
    let listener = TcpListener::bind(place.listen).await.map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    let calls = Semaphore::new(CALLS_MAX);
    let app = App { endpoint, client, origins: place.origins, calls };
    let serving = Serving { url: format!("http://{address}{PATH}"), server: place.server };
    match format {
        Format::Json => output::json_line(&serving)?,
        Format::People => {
            output::line(format_args!("MCP at {} for {}", serving.url, serving.server))?;
            output::note("each client sends its own key, as `Authorization: Bearer KEY`");
        }
    }
    tokio::select! {
        ended = async { axum::serve(listener, routes(app)).await } => ended.map_err(cannot_listen)?,
        _ = tokio::signal::ctrl_c() => {}
        _ = stop.recv() => {}
    }
    Ok(Exit::Done)
}

fn routes(app: App) -> Router {
    let app = Arc::new(app);
    Router::new()
        .route(PATH, post(accept).fallback(only_post))
        .layer(DefaultBodyLimit::max(MESSAGE_BYTES_MAX))
        // Before the body is read, and for every path.
        .layer(middleware::from_fn_with_state(Arc::clone(&app), check_origin))
        .with_state(app)
}

async fn check_origin(Shared(app): Shared<Arc<App>>, request: HttpRequest, next: Next) -> Response {
    let mut named = request.headers().get_all(ORIGIN).iter();
    let is_allowed = |origin: &[u8]| app.origins.iter().any(|it| it.as_bytes() == origin);
    if named.all(|origin| is_allowed(origin.as_bytes())) {
        return next.run(request).await;
    }
    let message = "this origin may not call";
    let next = "call without an Origin header, or start `tenure mcp` with --allow-origin";
    refuse(StatusCode::FORBIDDEN, &Fault::invalid_request(message, next))
}

async fn only_post() -> Response {
    let fault = Fault::invalid_request(
        "this server has no streams and no sessions",
        "POST one JSON-RPC message",
    );
    ([(ALLOW, "POST")], refuse(StatusCode::METHOD_NOT_ALLOWED, &fault)).into_response()
}

async fn accept(
    Shared(app): Shared<Arc<App>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    if let Some(refused) = wrong_headers(&headers) {
        return refused;
    }
    let client = match bearer(&headers).map(|key| app.client.clone().with_api_key(key)) {
        Some(Ok(client)) => client,
        Some(Err(_)) | None => return no_key(),
    };
    match body {
        Ok(body) => answer(&app, &client, &body).await,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            refuse(StatusCode::PAYLOAD_TOO_LARGE, &Fault::too_large())
        }
        Err(rejection) => {
            refuse(rejection.status(), &Fault::parse_error("the body could not be read"))
        }
    }
}

async fn answer(app: &App, client: &Client, body: &[u8]) -> Response {
    match message::read(body) {
        Ok(Message::Request(request)) => match app.calls.try_acquire() {
            Ok(_call) => json(StatusCode::OK, app.endpoint.answer(client, &request).await),
            Err(_) => {
                let busy =
                    json(StatusCode::SERVICE_UNAVAILABLE, Fault::busy().reply(Some(&request.id)));
                ([(RETRY_AFTER, "1")], busy).into_response()
            }
        },
        // Also a cancellation: ids are those of one client, and who sent this one is not known.
        Ok(Message::Notification(_) | Message::Response) => StatusCode::ACCEPTED.into_response(),
        Err(rejected) => json(StatusCode::BAD_REQUEST, rejected.reply()),
    }
}

fn wrong_headers(headers: &HeaderMap) -> Option<Response> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let media = text(CONTENT_TYPE).unwrap_or_default().split(';').next().unwrap_or_default();
    if !media.trim().eq_ignore_ascii_case("application/json") {
        let fault = Fault::invalid_request(
            "the content type is not application/json",
            "send `Content-Type: application/json`",
        );
        return Some(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, &fault));
    }
    let takes_json = |accept: &str| {
        ["application/json", "application/*", "*/*"].iter().any(|it| accept.contains(it))
    };
    if text(ACCEPT).is_some_and(|accept| !takes_json(accept)) {
        let fault = Fault::invalid_request(
            "answers are application/json",
            "send `Accept: application/json, text/event-stream`",
        );
        return Some(refuse(StatusCode::NOT_ACCEPTABLE, &fault));
    }
    if text(REVISION).is_some_and(|revision| !REVISIONS.contains(&revision)) {
        let message = format!("of the protocol, {} are spoken here", REVISIONS.join(" and "));
        let fault =
            Fault::invalid_request(message, "initialize, and use the revision of the answer");
        return Some(refuse(StatusCode::BAD_REQUEST, &fault));
    }
    None
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

fn no_key() -> Response {
    let message = "every call needs an API key of the Tenure server";
    let fault = Fault::invalid_request(message, "send it as `Authorization: Bearer KEY`");
    let refused = refuse(StatusCode::UNAUTHORIZED, &fault);
    ([(WWW_AUTHENTICATE, "Bearer")], refused).into_response()
}

fn refuse(status: StatusCode, fault: &Fault) -> Response {
    json(status, fault.reply(None))
}

fn json(status: StatusCode, text: String) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], text).into_response()
}
