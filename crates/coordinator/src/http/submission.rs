//! A run as the wire spells it becomes a submission, member by member.

use edge::canonical::Canonical;
use store::{Resources, Spec};
use verdict::{Digest, Name, Policy, Scope, Span, Text};
use wire::requests::SubmitRun;
use wire::{TraceContext, limits};

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
        // What is not valid is ignored, as W3C wants it.
        traceparent: traceparent
            .and_then(|text| TraceContext::parse(&text))
            .map(|context| Text::from(context.to_string())),
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
    let SubmitRun {
        kind,
        queue,
        input,
        goal,
        task_key,
        asset_id,
        resources,
        priority,
        max_attempts,
        lost_max,
        lease_ms,
        heartbeat_interval_ms,
        cancel_grace_ms,
        run_at,
        deadline,
        seed,
        labels,
        retry,
        // Who asks again may do so in another span.
        traceparent: _,
        idempotency_key: _,
    } = run;
    let mut said = Canonical::object();
    said.optional("assetId", asset_id.as_ref());
    said.optional("cancelGraceMs", cancel_grace_ms.as_ref());
    said.optional("deadline", deadline.as_ref());
    said.optional("goal", goal.as_ref());
    said.optional("heartbeatIntervalMs", heartbeat_interval_ms.as_ref());
    said.json("input", input);
    said.scalar("kind", kind);
    if !labels.is_empty() {
        said.value("labels", labels);
    }
    said.optional("leaseMs", lease_ms.as_ref());
    said.optional("lostMax", lost_max.as_ref());
    said.optional("maxAttempts", max_attempts.as_ref());
    said.optional("priority", priority.as_ref());
    said.scalar("queue", queue);
    if let Some(resources) = resources {
        said.value("resources", resources);
    }
    if let Some(retry) = retry {
        said.value("retry", retry);
    }
    said.optional("runAt", run_at.as_ref());
    said.optional("seed", seed.as_ref());
    said.optional("taskKey", task_key.as_ref());
    said.digest()
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    /// The slow way: a tree of everything but the key and the trace, in its canonical form.
    fn through_a_tree(run: &SubmitRun) -> Digest {
        let said = SubmitRun { idempotency_key: None, traceparent: None, ..run.clone() };
        let tree = serde_json::to_value(&said).unwrap();
        let text = serde_json_canonicalizer::to_vec(&tree).unwrap();
        Digest::from_bytes(Sha256::digest(text).into())
    }

    fn run(text: &str) -> SubmitRun {
        wire::parse(text.as_bytes()).unwrap()
    }

    const EVERY_MEMBER: &str = r#"{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "retry":{"capMs":9000,"baseMs":10},"labels":{"b":"2","a":"\u00e9"},"seed":9007199254740991,
        "deadline":"2030-01-02T03:04:05.678Z","runAt":"2029-01-02T03:04:05+01:00","cancelGraceMs":0,
        "heartbeatIntervalMs":500,"leaseMs":2000,"lostMax":2,"maxAttempts":100,"priority":-7,
        "resources":{"memoryBytes":1,"cpuMillicores":2,"timeoutMs":3},"assetId":"asset","taskKey":"key",
        "goal":"a \"goal\"\n","input":{"z":[1.0,2e3],"a":null},"queue":"q","kind":"k","idempotencyKey":"i"}"#;

    #[test]
    fn a_fingerprint_is_that_of_the_canonical_form() {
        // A store remembers fingerprints for longer than a program runs.
        for text in [EVERY_MEMBER, r#"{"kind":"k","queue":"q"}"#] {
            let run = run(text);
            assert_eq!(fingerprint(&run), through_a_tree(&run), "{text}");
        }
    }

    #[test]
    fn every_member_but_the_key_and_the_trace_counts() {
        let whole = run(EVERY_MEMBER);
        let members: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(EVERY_MEMBER).unwrap();
        for name in members.keys().filter(|name| !matches!(name.as_str(), "kind" | "queue")) {
            let mut fewer = members.clone();
            fewer.remove(name);
            let fewer = run(&serde_json::to_string(&fewer).unwrap());
            let is_same = fingerprint(&fewer) == fingerprint(&whole);
            let counts_not = matches!(name.as_str(), "idempotencyKey" | "traceparent");
            assert_eq!(is_same, counts_not, "{name}");
        }
    }
}
