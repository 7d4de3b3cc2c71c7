//! The routes of endpoints and effects.

use super::{Body, Route, no_parameters, query};
use crate::Code;
use crate::effects::ListEffects;
use crate::openapi::{Caller, HttpMethod};

/// The codes that a change with a body may return besides.
macro_rules! with_body_codes {
    ($($code:ident),*) => {
        with_key_codes![BodyTooLarge, UnsupportedMediaType, UnknownOutcome $(, $code)*]
    };
}

const fn get(
    path: &'static str,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    answers: &'static [(u16, &'static str, Body)],
    codes: &'static [Code],
) -> Route {
    Route {
        method: HttpMethod::Get,
        path,
        id,
        tag,
        summary,
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: None,
        answers,
        codes,
    }
}

const fn post(route: Route, body: Option<Body>) -> Route {
    Route { method: HttpMethod::Post, body, ..route }
}

const ENDPOINT: &[(u16, &str, Body)] = &[(200, "The endpoint.", Body::Json("EndpointView"))];
const EFFECT: &[(u16, &str, Body)] = &[(200, "The effect.", Body::Json("EffectView"))];

pub(in crate::openapi) const EFFECT_ROUTES: &[Route] = &[
    post(
        get(
            "/v1/endpoints",
            "createEndpoint",
            "endpoints",
            "Register an endpoint for effects",
            &[(201, "The endpoint, with its secret.", Body::Json("EndpointSecret"))],
            with_body_codes![EndpointExists],
        ),
        Some(Body::Json("CreateEndpoint")),
    ),
    get(
        "/v1/endpoints",
        "listEndpoints",
        "endpoints",
        "List all endpoints of the workspace",
        &[(200, "All endpoints.", Body::Json("EndpointList"))],
        with_key_codes![],
    ),
    get(
        "/v1/endpoints/{endpoint}",
        "getEndpoint",
        "endpoints",
        "Show one endpoint",
        ENDPOINT,
        with_key_codes![EndpointNotFound],
    ),
    post(
        get(
            "/v1/endpoints/{endpoint}",
            "updateEndpoint",
            "endpoints",
            "Change an endpoint, disable it or enable it again",
            ENDPOINT,
            with_body_codes![EndpointNotFound],
        ),
        Some(Body::Json("UpdateEndpoint")),
    ),
    post(
        get(
            "/v1/endpoints/{endpoint}/rotate",
            "rotateEndpoint",
            "endpoints",
            "Make a new secret; the old one signs beside it for a time",
            &[(200, "The new secret.", Body::Json("EndpointSecret"))],
            with_body_codes![EndpointNotFound],
        ),
        Some(Body::JsonOrEmpty("RotateEndpoint")),
    ),
    post(
        get(
            "/v1/endpoints/{endpoint}/delete",
            "deleteEndpoint",
            "endpoints",
            "Delete an endpoint; its effects are given up",
            ENDPOINT,
            with_key_codes![EndpointNotFound, UnknownOutcome],
        ),
        None,
    ),
    Route {
        parameters: query::<ListEffects>,
        ..get(
            "/v1/effects",
            "listEffects",
            "effects",
            "List effects by run, endpoint and state",
            &[(200, "A page of effects.", Body::Json("EffectList"))],
            with_key_codes![],
        )
    },
    get(
        "/v1/effects/{effectId}",
        "getEffect",
        "effects",
        "Show one effect with what is sent and everything that happened to it",
        EFFECT,
        with_key_codes![EffectNotFound],
    ),
    post(
        get(
            "/v1/effects/{effectId}/redrive",
            "redriveEffect",
            "effects",
            "Give new tries to an effect that is dead",
            EFFECT,
            with_key_codes![EffectNotFound, EffectStateMismatch, UnknownOutcome],
        ),
        None,
    ),
    post(
        get(
            "/v1/effects/{effectId}/release",
            "releaseEffect",
            "effects",
            "Let an aggregate go on behind an effect that is dead",
            EFFECT,
            with_key_codes![EffectNotFound, EffectStateMismatch, UnknownOutcome],
        ),
        None,
    ),
    post(
        get(
            "/v1/effects/{effectId}/reconcile",
            "reconcileEffect",
            "effects",
            "Say whether an unknown effect has arrived",
            EFFECT,
            with_body_codes![EffectNotFound, EffectStateMismatch],
        ),
        Some(Body::Json("ReconcileEffect")),
    ),
    post(
        get(
            "/v1/effects/redrive",
            "redriveEffects",
            "effects",
            "Give new tries to all dead effects of a run, an endpoint or a time",
            &[(200, "How many.", Body::Json("Redriven"))],
            with_body_codes![],
        ),
        Some(Body::JsonOrEmpty("RedriveEffects")),
    ),
];
