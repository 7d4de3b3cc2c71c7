//! The routes of waits for many runs, and of what workers announced.

use super::{Body, Route, no_parameters, query};
use crate::Code;
use crate::openapi::{Caller, HttpMethod};
use crate::requests::ListKinds;

pub(in crate::openapi) const KIND_ROUTES: &[Route] = &[
    Route {
        method: HttpMethod::Post,
        path: "/v1/waits",
        id: "waitForRuns",
        tag: "runs",
        summary: "Wait until at least one of many runs has ended",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::Json("WaitForRuns")),
        answers: &[(
            200,
            "Which have ended, which have not, and which are not there.",
            Body::Json("WaitAnswer"),
        )],
        codes: with_key_codes![BodyTooLarge, UnsupportedMediaType],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/kinds",
        id: "listKinds",
        tag: "runs",
        summary: "List what workers announced that they can do",
        caller: Caller::ApiKey,
        parameters: query::<ListKinds>,
        body: None,
        answers: &[(200, "A page of announced kinds.", Body::Json("Kinds"))],
        codes: with_key_codes![],
    },
];
