//! Which route takes an id that another one answered with.

/// An id in an answer, and a route that takes it.
pub(in crate::openapi) struct NextCall {
    pub(in crate::openapi) from: &'static str,
    pub(in crate::openapi) status: u16,
    pub(in crate::openapi) pointer: &'static str,
    pub(in crate::openapi) to: &'static str,
    pub(in crate::openapi) parameter: &'static str,
}

const fn run(from: &'static str, status: u16, pointer: &'static str, to: &'static str) -> NextCall {
    NextCall { from, status, pointer, to, parameter: "runId" }
}

const fn key(to: &'static str) -> NextCall {
    NextCall { from: "createKey", status: 201, pointer: "/key/keyId", to, parameter: "keyId" }
}

/// The typical sequences of calls, for readers and for tools that try sequences.
pub(in crate::openapi) const LINKS: &[NextCall] = &[
    run("submitRuns", 201, "/runId", "getRun"),
    run("submitRuns", 201, "/runId", "cancelRun"),
    run("submitRuns", 201, "/runId", "retryRun"),
    run("submitRuns", 201, "/runId", "getHistory"),
    run("submitRuns", 201, "/runId", "getRecord"),
    run("submitRuns", 201, "/runId", "explainRun"),
    run("listRuns", 200, "/runs/0/runId", "getRun"),
    run("cancelRun", 202, "/runId", "getRun"),
    run("cancelRun", 202, "/runId", "getRecord"),
    run("cancelRun", 202, "/runId", "retryRun"),
    run("retryRun", 201, "/runId", "getRun"),
    run("submitRuns", 201, "/runId", "sendSignal"),
    run("submitRuns", 201, "/runId", "listSteps"),
    run("submitRuns", 201, "/runId", "listChildren"),
    run("submitRuns", 201, "/runId", "resumeRun"),
    key("rotateKey"),
    key("revokeKey"),
];
