//! Request bodies: limits of size and speed, and their encoding.
//!
//! An input of 256 KiB must fit together with the other members, even when escaped, so the body's
//! limit is twice the payload's. Completions carry output, partial progress and a stack trace, and
//! batches carry many items.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{Extensions, HeaderMap};
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::Instant;
use wire::Code;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::authenticate::TenantOf;
use super::byte_budget::{ByteBudget, HeldBytes, too_much_held};
use crate::admit::{LeaseHolderPrincipal, TaskPrincipal};

/// A heartbeat with some kilobytes of log lines, even when all of them are escaped.
pub(super) const HEARTBEAT_BYTES_MAX: usize = 128 * 1024;
pub(super) const API_BYTES_MAX: usize = 512 * 1024;
pub(super) const LARGE_BYTES_MAX: usize = 1024 * 1024;
/// Steps of parallel branches go out in one call: sixteen results of the largest size.
pub(super) const CHECKPOINT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How slowly a body may arrive: a grace period, then a minimum rate.
#[derive(Clone, Copy, Debug)]
pub struct SlowBodyLimits {
    pub grace: Duration,
    pub bytes_per_second: u64,
}

impl Default for SlowBodyLimits {
    /// Slower than any modem, faster than an attacker who wants to hold connections open.
    fn default() -> Self {
        Self { grace: Duration::from_secs(5), bytes_per_second: 1024 }
    }
}

impl SlowBodyLimits {
    fn deadline(&self, started: Instant, received: usize) -> Instant {
        let earned = Duration::from_millis(received as u64 * 1000 / self.bytes_per_second.max(1));
        started + self.grace + earned
    }
}

/// A JSON body of at most `MAX` bytes, not yet parsed. May be empty.
pub(super) struct JsonBody<const MAX: usize>(pub(super) Bytes);

impl<const MAX: usize> FromRequest<AppState> for JsonBody<MAX> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        check_encoding(&parts.headers)?;
        check_length(&parts.headers, MAX)?;
        let held = held_of(&parts.extensions, &app.inner.bodies);
        let bytes = read(body, MAX, app.inner.timeouts.body, held).await?;
        if !bytes.is_empty() {
            check_type(&parts.headers)?;
        }
        Ok(Self(bytes))
    }
}

/// Compressed bodies are refused: a small bomb must stay small (X22).
fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let is_plain = |value: &axum::http::HeaderValue| value.as_bytes() == b"identity";
    if headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        return Ok(());
    }
    Err(ApiError::new(Code::UnsupportedMediaType, "send the body without Content-Encoding"))
}

fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    match (types.next().and_then(|value| value.to_str().ok()), types.next()) {
        (Some(text), None) if is_json(text) => Ok(()),
        _ => {
            let message = "send the body with `Content-Type: application/json`";
            Err(ApiError::new(Code::UnsupportedMediaType, message))
        }
    }
}

fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    is_json && parts.all(|parameter| parameter.eq_ignore_ascii_case("charset=utf-8"))
}

fn check_length(headers: &HeaderMap, max: usize) -> Result<(), ApiError> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    match declared.and_then(|text| text.parse::<u64>().ok()) {
        Some(length) if length > max as u64 => Err(too_large(max)),
        Some(_) | None => Ok(()),
    }
}

fn too_large(max: usize) -> ApiError {
    ApiError::new(
        Code::BodyTooLarge,
        format!("the body has more than the {max} bytes allowed here"),
    )
}

/// Where the body is counted: a tenant's calls under leases have a share of their own.
fn held_of(known: &Extensions, bodies: &ByteBudget) -> Option<HeldBytes> {
    let TenantOf(tenant) = known.get()?;
    let is_leased =
        known.get::<TaskPrincipal>().is_some() || known.get::<LeaseHolderPrincipal>().is_some();
    Some(if is_leased { bodies.begin(tenant) } else { bodies.begin_new_work(tenant) })
}

/// A body in memory: it counts until the handler has let go of it, when its call is answered.
struct HeldBody {
    bytes: Bytes,
    _held: HeldBytes,
}

impl AsRef<[u8]> for HeldBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn whole(bytes: Collected, held: Option<HeldBytes>) -> Bytes {
    match (bytes.whole(), held) {
        (bytes, Some(held)) if !bytes.is_empty() => {
            Bytes::from_owner(HeldBody { bytes, _held: held })
        }
        (bytes, _) => bytes,
    }
}

async fn read(
    mut body: Body,
    max: usize,
    limits: SlowBodyLimits,
    mut held: Option<HeldBytes>,
) -> Result<Bytes, ApiError> {
    let started = tokio::time::Instant::now();
    let mut bytes = Collected::default();
    loop {
        let deadline = limits.deadline(started, bytes.len());
        let frame = tokio::time::timeout_at(deadline, body.frame()).await.map_err(|_| {
            ApiError::new(
                Code::RequestTimeout,
                "the body arrived too slowly; send it without pauses",
            )
        })?;
        let Some(frame) = frame else { return Ok(whole(bytes, held)) };
        let frame = frame.map_err(|_| ApiError::field("", "ended before it was complete"))?;
        // Trailers are legal and ignored here.
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > max {
            return Err(too_large(max));
        }
        if let Some(held) = &mut held {
            held.grow(data.len()).map_err(|full| too_much_held(full, "bodies of calls"))?;
        }
        bytes.add(data);
        if body.is_end_stream() {
            return Ok(whole(bytes, held));
        }
    }
}

/// The chunks of a body. Nearly all bodies arrive in one, which is then used without a copy.
#[derive(Default)]
struct Collected {
    first: Bytes,
    all: BytesMut,
}

impl Collected {
    fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    fn add(&mut self, data: Bytes) {
        if self.first.is_empty() {
            self.first = data;
            return;
        }
        if self.all.is_empty() {
            self.all.extend_from_slice(&self.first);
        }
        self.all.extend_from_slice(&data);
    }

    fn whole(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.freeze() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_all_its_parts_in_order() {
        for parts in [&[][..], &["abc"], &["", "ab", "", "c"], &["a", "b", "c"]] {
            let mut bytes = Collected::default();
            let mut length = 0;
            for part in parts {
                bytes.add(Bytes::from_static(part.as_bytes()));
                length += part.len();
                assert_eq!(bytes.len(), length);
            }
            assert_eq!(bytes.whole(), parts.concat());
        }
    }
}
