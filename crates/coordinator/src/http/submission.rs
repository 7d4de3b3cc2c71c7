//! A run as the wire spells it becomes a submission, member by member.

use sha2::{Digest as _, Sha256};
use store::{Resources, Spec};
use verdict::{Digest, Name, Policy, Scope, Span, Text};
use wire::limits;
use wire::requests::SubmitRun;

use super::translate::{instant, raw};
use crate::item::Submission;

/// Translates a checked run. `key` is the idempotency key, wherever it stood.
pub(super) fn submission(scope: &Scope, run: SubmitRun, key: Option<String>) -> Submission {
    let fingerprint = fingerprint(&run);
    let policy = policy(&run);
    let SubmitRun {
        kind,
        queue,
        input,
        goal,
        task_key,
        asset_id,
        resources,
        priority,
        max_attempts: _,
        lost_max: _,
        lease_ms: _,
        heartbeat_interval_ms: _,
        cancel_grace_ms: _,
        run_at,
        deadline: _,
        seed: _,
        labels,
        retry: _,
        traceparent,
        idempotency_key: _,
    } = run;
    let spec = Spec {
        input: raw(&input),
        goal: goal.map(Text::from),
        task_key: task_key.map(Name::from),
        asset_id: asset_id.map(Text::from),
        resources: resources.map(resources_row),
        labels,
        traceparent: traceparent.map(Text::from),
        key: key.map(Text::from),
        fingerprint,
    };
    Submission {
        scope: scope.clone(),
        kind: kind.into(),
        queue: queue.into(),
        priority: priority.unwrap_or(0),
        policy,
        run_at: run_at.map(instant),
        spec,
    }
}

fn policy(run: &SubmitRun) -> Policy {
    let lease_ms = run.lease_ms.unwrap_or(limits::LEASE_MS_DEFAULT);
    let interval_ms = run
        .heartbeat_interval_ms
        .unwrap_or_else(|| limits::heartbeat_interval_ms_default(lease_ms));
    let (base_ms, cap_ms) = run.retry.clone().unwrap_or_default().base_and_cap_ms();
    let limit_ms = run.resources.as_ref().and_then(|resources| resources.timeout_ms);
    let grace_ms = run.cancel_grace_ms.unwrap_or(limits::CANCEL_GRACE_MS_DEFAULT);
    Policy {
        lease: Span::from_millis(lease_ms),
        heartbeat_every: Span::from_millis(interval_ms),
        cancel_grace: Span::from_millis(grace_ms),
        failures_max: run.max_attempts.unwrap_or(limits::MAX_ATTEMPTS_DEFAULT),
        lost_max: run.lost_max.unwrap_or(limits::LOST_MAX_DEFAULT),
        retry_base: Span::from_millis(base_ms),
        retry_cap: Span::from_millis(cap_ms),
        attempt_limit: limit_ms.map(Span::from_millis),
        deadline: run.deadline.map(instant),
        seed: run.seed,
    }
}

fn resources_row(resources: wire::requests::Resources) -> Resources {
    let wire::requests::Resources { memory_bytes, cpu_millicores, timeout_ms } = resources;
    Resources { memory_bytes, cpu_millicores, timeout_ms }
}

/// What the submission says, whatever the order and spacing of its members. A default that was spelled
/// out is another submission than one left out: nobody should have to know our defaults to retry.
fn fingerprint(run: &SubmitRun) -> Digest {
    let said = SubmitRun { idempotency_key: None, ..run.clone() };
    let tree = serde_json::to_value(&said).expect("a parsed run can be written again");
    canonical_digest(&tree)
}

/// SHA-256 over the canonical form (RFC 8785) of a JSON value.
pub(super) fn canonical_digest(tree: &serde_json::Value) -> Digest {
    let canonical =
        serde_json_canonicalizer::to_vec(tree).expect("a JSON tree has a canonical form");
    Digest::from_bytes(Sha256::digest(&canonical).into())
}
