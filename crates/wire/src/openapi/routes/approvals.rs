//! The routes of approvals.

use super::{Body, Route, no_parameters, query};
use crate::Code;
use crate::approvals::ListApprovals;
use crate::openapi::{Caller, HttpMethod};

pub(in crate::openapi) const APPROVAL_ROUTES: &[Route] = &[
    Route {
        method: HttpMethod::Get,
        path: "/v1/approvals",
        id: "listApprovals",
        tag: "approvals",
        summary: "List approvals, pending or closed",
        caller: Caller::ApiKey,
        parameters: query::<ListApprovals>,
        body: None,
        answers: &[(200, "A page of approvals.", Body::Json("ApprovalList"))],
        codes: with_key_codes![],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/approvals/{approvalId}",
        id: "getApproval",
        tag: "approvals",
        summary: "Show one approval with its votes",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: None,
        answers: &[(200, "The approval.", Body::Json("ApprovalView"))],
        codes: with_key_codes![ApprovalNotFound],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/approvals/{approvalId}/decide",
        id: "decideApproval",
        tag: "approvals",
        summary: "Approve or reject what a run waits for",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::Json("DecideApproval")),
        answers: &[(200, "The vote is recorded.", Body::Json("ApprovalDecided"))],
        codes: with_key_codes![
            ApprovalNotFound,
            ApprovalClosed,
            ApprovalDigestMismatch,
            AlreadyVoted,
            ApprovalForbidden,
            HistoryFull,
            BodyTooLarge,
            UnsupportedMediaType,
            UnknownOutcome,
            TaskSetAside
        ],
    },
];
