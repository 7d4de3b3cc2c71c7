//! `POST /v1/signing-keys/rotate`: new keys for task tokens, without interrupting work.

use axum::Json;
use axum::extract::State;
use verdict::{Name, Span};
use wire::Code;
use wire::admin::{RotateSigning, SigningRotated};

use super::api_error::ApiError;
use super::app_state::{AppState, RequestId};
use super::body::{API_BYTES_MAX, JsonBody};
use super::translate::time;
use crate::admit::administer::{Reach, signing_rotation};
use crate::admit::{AdminPrincipal, KeyringError, Rotation, token};

/// Covers the longest lifetime of a token that was just signed, plus the leeway for clocks.
const OVERLAP: Span = Span::from_millis(token::LIFETIME_MAX.millis() + token::LEEWAY.millis());

pub(super) async fn rotate(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    RequestId(request): RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<SigningRotated>, ApiError> {
    let RotateSigning { emergency } = wire::parse(&body)?;
    if principal.reach() != Reach::Everything {
        let message =
            "all tenants share the signing keys: this needs an admin key of default/default";
        let error = ApiError::new(Code::Forbidden, message);
        return Err(error.by(principal.key(), principal.scope()));
    }
    let rotation = match emergency {
        Some(true) => Rotation::Emergency,
        Some(false) | None => Rotation::Overlap(OVERLAP),
    };
    let (keyring, now) = (&app.inner.keyring, app.coordinator.now());
    let rotated = app.with_entropy(|entropy| keyring.rotated(entropy, rotation, now));
    let rotated = rotated.map_err(not_rotated)?;
    let mut act = signing_rotation(&principal, &keyring.kid(), Name::new(request), now);
    act.ring = rotated.change.clone();
    app.decided(app.coordinator.administer(act)).await??;
    keyring.apply(rotated).map_err(not_rotated)?;
    let previous_until = match rotation {
        Rotation::Overlap(overlap) => Some(time(now.plus(overlap))),
        Rotation::Emergency => None,
    };
    Ok(Json(SigningRotated { kid: keyring.kid(), previous_until }))
}

fn not_rotated(error: KeyringError) -> ApiError {
    tracing::error!(error = &error as &dyn std::error::Error, "cannot rotate the signing keys");
    ApiError::new(Code::Unavailable, "the key file could not be written; the keys were not rotated")
}
