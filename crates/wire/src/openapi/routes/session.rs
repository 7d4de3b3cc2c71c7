//! The routes about the caller itself.

use super::{Body, Route, no_parameters};
use crate::Code;
use crate::openapi::{Caller, HttpMethod};

pub(in crate::openapi) const SESSION_ROUTES: &[Route] = &[
    Route {
        method: HttpMethod::Get,
        path: "/v1/session",
        id: "getSession",
        tag: "administration",
        summary: "Show who the key belongs to and what it may do",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: None,
        answers: &[(200, "The key and what it may do.", Body::Json("Session"))],
        codes: with_key_codes![],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/console-codes",
        id: "createConsoleCode",
        tag: "administration",
        summary: "Make a one-time code, with which a browser logs in to the console as this key",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: None,
        answers: &[(201, "The code.", Body::Json("ConsoleCode"))],
        codes: with_key_codes![NotFound, TooManySessions],
    },
];
