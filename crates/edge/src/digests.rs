//! The digests that identify a repeated submission or report.
//!
//! Every entry point of the coordinator uses these functions, so that a program that embeds it
//! and a client over HTTP agree: a run that one submitted under an idempotency key is found by the
//! other. A store keeps the digests for longer than a program runs, so their content never changes.

use serde::Serialize;
use verdict::{Digest, TaskId};
use wire::requests::{
    CheckpointCall, ChildRun, Completed, DeclaredEffect, ForkRun, SendSignal, StepRecord,
    SubmitRun, WaitFor,
};

use crate::canonical::Canonical;

/// The digest of a submission, by which a repeated idempotency key is recognised as the same
/// submission or refused as another. An explicit default differs from an omitted one: a client need
/// not know our defaults to retry.
pub fn submission(run: &SubmitRun) -> Digest {
    let SubmitRun {
        kind,
        queue,
        plan,
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
        stall,
        run_at,
        delay_ms,
        deadline,
        deadline_ms,
        seed,
        ttl_ms,
        labels,
        retry,
        budget,
        flow,
        // A repeated submission may belong to another span.
        traceparent: _,
        idempotency_key: _,
    } = run;
    let mut said = Canonical::object();
    said.optional("assetId", asset_id.as_ref());
    if let Some(budget) = budget {
        said.value("budget", budget);
    }
    said.optional("cancelGraceMs", cancel_grace_ms.as_ref());
    said.optional("deadline", deadline.as_ref());
    said.optional("deadlineMs", deadline_ms.as_ref());
    said.optional("delayMs", delay_ms.as_ref());
    if let Some(flow) = flow {
        said.value("flow", flow);
    }
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
    if let Some(plan) = plan {
        let text = serde_json::to_string(plan).expect("what was parsed can be written again");
        said.json("plan", &wire::Json::from_text(text).expect("a plan is valid JSON"));
    }
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
    if let Some(stall) = stall {
        said.value("stall", stall);
    }
    said.optional("taskKey", task_key.as_ref());
    said.optional("ttlMs", ttl_ms.as_ref());
    said.digest()
}

/// The digest of the run that a schedule submits for an instant: an instant is one run, whatever its template says by then.
pub fn firing(key: &str) -> Digest {
    let mut said = Canonical::object();
    said.scalar("firing", &key);
    said.digest()
}

/// The digest of a retry: under one idempotency key a run is submitted again once, whatever time has passed and however
/// its deadline moves.
pub fn retry(of: TaskId) -> Digest {
    let mut said = Canonical::object();
    said.scalar("retryOf", &of.run_name());
    said.digest()
}

/// The digest of a fork: under one idempotency key a run is continued once, with one budget.
pub fn fork(of: TaskId, asked: &ForkRun) -> Digest {
    let ForkRun { budget, from_step } = asked;
    let mut said = Canonical::object();
    if let Some(budget) = budget {
        said.value("budget", budget);
    }
    said.scalar("forkOf", &of.run_name());
    said.optional("fromStep", from_step.as_ref());
    said.digest()
}

/// The digests of the steps and children of one call: what their keys mean, and part of the digest of the call itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemDigests {
    pub steps: Vec<Digest>,
    pub children: Vec<Digest>,
}

impl ItemDigests {
    pub fn of(steps: &[StepRecord], children: &[ChildRun]) -> Self {
        Self {
            steps: steps.iter().map(step).collect(),
            children: children.iter().map(child).collect(),
        }
    }

    /// The same where steps ask for effects: those are part of what the key of a step means.
    #[must_use]
    pub fn with_effects(mut self, steps: &[StepRecord], effects: &[DeclaredEffect]) -> Self {
        for (done, digest) in steps.iter().zip(&mut self.steps) {
            for effect in effects.iter().filter(|effect| effect.step == done.key) {
                *digest = with_effect(digest, effect);
            }
        }
        self
    }
}

fn with_effect(step: &Digest, effect: &DeclaredEffect) -> Digest {
    let DeclaredEffect { key, step: _, endpoint, r#type, aggregate, body } = effect;
    let mut said = Canonical::object();
    said.optional("aggregate", aggregate.as_ref());
    said.json("body", body);
    said.scalar("endpoint", endpoint);
    said.scalar("key", key);
    said.scalar("step", &step.to_string());
    said.scalar("type", r#type);
    said.digest()
}

/// The digest of a report: outcome, output, error and partial progress; not times, not metrics
/// (R-5).
///
/// Steps and children that ride along are part of it. A report without any has the digest that it always had.
pub fn report(completed: &Completed) -> Digest {
    let items = ItemDigests::of(&completed.steps, &completed.children);
    last_call(completed, &items.with_effects(&completed.steps, &completed.effects))
}

/// [`report`], with the digests of the steps and children that ride along.
pub fn last_call(completed: &Completed, items: &ItemDigests) -> Digest {
    let mut said = Canonical::object();
    if !completed.children.is_empty() {
        said.scalar("children", &children(&completed.children, items));
    }
    error(&mut said, completed.error.as_ref());
    said.scalar("outcome", &completed.outcome);
    said.json("output", completed.output.as_ref().unwrap_or(&wire::Json::null()));
    said.json(
        "partialProgress",
        completed.partial_progress.as_ref().unwrap_or(&wire::Json::null()),
    );
    if !completed.steps.is_empty() {
        said.scalar("steps", &steps(&completed.steps, items));
    }
    said.digest()
}

/// An error is rare, and its members are not in the order of their names.
fn error(said: &mut Canonical, error: Option<&impl Serialize>) {
    match error {
        Some(error) => said.value("error", error),
        None => said.scalar("error", &()),
    }
}

/// The digest of a checkpoint call: what it does, not who sends it. `items` are those of its steps and children.
pub fn checkpoint(call: &CheckpointCall, items: &ItemDigests) -> Digest {
    let CheckpointCall {
        attempt: _,
        worker_id: _,
        steps: done,
        children: wanted,
        wait: awaited,
        diverged,
        // Part of the digests of their steps.
        effects: _,
        // For people: a repeated call may carry other lines.
        log: _,
    } = call;
    let mut said = Canonical::object();
    said.scalar("children", &children(wanted, items));
    match diverged {
        Some(diverged) => said.value("diverged", diverged),
        None => said.scalar("diverged", &()),
    }
    said.scalar("steps", &steps(done, items));
    said.scalar("wait", &awaited.as_ref().map(|awaited| (&awaited.key, wait(awaited).to_string())));
    said.digest()
}

fn steps<'a>(steps: &'a [StepRecord], items: &ItemDigests) -> Vec<(&'a str, String)> {
    let named = |(done, digest): (&'a StepRecord, &Digest)| (done.key.as_str(), digest.to_string());
    steps.iter().zip(&items.steps).map(named).collect()
}

fn children<'a>(children: &'a [ChildRun], items: &ItemDigests) -> Vec<(&'a str, bool, String)> {
    let named = |(wanted, digest): (&'a ChildRun, &Digest)| {
        (wanted.key.as_str(), wanted.detached, digest.to_string())
    };
    children.iter().zip(&items.children).map(named).collect()
}

/// The digest of a step: its outcome and its input. What it used is no part of what it means.
pub fn step(step: &StepRecord) -> Digest {
    let StepRecord {
        key: _,
        outcome,
        result,
        error: said_error,
        input_digest,
        spend: _,
        savepoint,
    } = step;
    let mut said = Canonical::object();
    error(&mut said, said_error.as_ref());
    said.scalar("inputDigest", input_digest);
    said.scalar("outcome", outcome);
    said.json("result", result.as_ref().unwrap_or(&wire::Json::null()));
    said.scalar("savepoint", savepoint);
    said.digest()
}

/// What the key of a child means: what its worker says, or the whole submission.
pub fn child(child: &ChildRun) -> Digest {
    let said = child.input_digest.as_deref().and_then(Digest::parse);
    said.unwrap_or_else(|| submission(&child.clone().into_run()))
}

/// The digest of a wait: its mode and its items. How long it may last is no part of what it means.
pub fn wait(wait: &WaitFor) -> Digest {
    let WaitFor { key: _, mode, items, max_ms: _ } = wait;
    let mut said = Canonical::object();
    said.value("for", items);
    said.scalar("mode", mode);
    said.digest()
}

/// The digest of a signal, by which a repeated idempotency key is recognised as the same signal.
pub fn signal(signal: &SendSignal) -> Digest {
    let SendSignal { name, payload } = signal;
    let mut said = Canonical::object();
    said.scalar("name", name);
    said.json("payload", payload.as_ref().unwrap_or(&wire::Json::null()));
    said.digest()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sha2::{Digest as _, Sha256};

    use super::*;

    /// The slow path: a tree of everything but the key and the trace, in its canonical form.
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
        // A store keeps fingerprints for longer than a program runs.
        let spans = r#"{"kind":"k","queue":"q","delayMs":5,"deadlineMs":6,"goal":"g"}"#;
        for text in [EVERY_MEMBER, spans, r#"{"kind":"k","queue":"q"}"#] {
            let run = run(text);
            assert_eq!(submission(&run), through_a_tree(&run), "{text}");
        }
    }

    #[test]
    fn a_span_is_part_of_a_submission_as_it_was_sent() {
        let digest =
            |members: &str| submission(&run(&format!(r#"{{"kind":"k","queue":"q"{members}}}"#)));
        assert_eq!(digest(r#","delayMs":5"#), digest(r#", "delayMs": 5"#));
        let apart = ["", r#","delayMs":5"#, r#","delayMs":6"#, r#","deadlineMs":5"#].map(digest);
        let apart: std::collections::BTreeSet<Digest> = apart.into_iter().collect();
        assert_eq!(apart.len(), 4);
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
            let is_same = submission(&fewer) == submission(&whole);
            let counts_not = matches!(name.as_str(), "idempotencyKey" | "traceparent");
            assert_eq!(is_same, counts_not, "{name}");
        }
    }

    #[test]
    fn a_report_is_compared_by_the_canonical_form_of_what_counts() {
        // R-5: spacing, order, times and metrics do not count; outcome, output, error and progress do.
        let texts = [
            r#"{"attempt":1,"workerId":"w","outcome":"SUCCEEDED","output":{"b":1.0, "a":2}}"#,
            r#"{"attempt":1,"workerId":"w","outcome":"SUCCEEDED","output":{"a":2,"b":1},
                "completedAt":"2026-01-01T00:00:00Z","metrics":{"cpuTimeMs":1},
                "traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#,
            r#"{"attempt":1,"workerId":"w","outcome":"SUCCEEDED","output":{"a":2,"b":2}}"#,
            r#"{"attempt":1,"workerId":"w","outcome":"SUCCEEDED"}"#,
            r#"{"attempt":1,"workerId":"w","outcome":"CANCELLED","partialProgress":{"a":2}}"#,
            r#"{"attempt":1,"workerId":"w","outcome":"FAILED",
                "error":{"category":"TIMEOUT","message":"m","stackTrace":"s","retryable":false}}"#,
        ];
        let said: Vec<Completed> =
            texts.iter().map(|text| wire::parse(text.as_bytes()).unwrap()).collect();
        for completed in &said {
            let tree = json!({
                "outcome": completed.outcome,
                "output": completed.output,
                "error": completed.error,
                "partialProgress": completed.partial_progress,
            });
            let text = serde_json_canonicalizer::to_vec(&tree).unwrap();
            let wanted = Digest::from_bytes(Sha256::digest(text).into());
            assert_eq!(report(completed), wanted, "{completed:?}");
        }
        assert_eq!(report(&said[0]), report(&said[1]));
        let mut apart: Vec<Digest> = said[1..].iter().map(report).collect();
        apart.sort();
        apart.dedup();
        assert_eq!(apart.len(), said.len() - 1);
    }

    fn digest_of(tree: &serde_json::Value) -> Digest {
        Digest::from_bytes(Sha256::digest(serde_json_canonicalizer::to_vec(tree).unwrap()).into())
    }

    #[test]
    fn a_call_and_its_steps_are_compared_by_the_canonical_form_of_what_counts() {
        // A store keeps these digests with its checkpoints, for longer than a program runs.
        let texts = [
            r##"{"attempt":1,"workerId":"w","steps":[{"key":"a/b#1","outcome":"SUCCEEDED","result":{"b":1.0, "a":2}},
                {"key":"c","outcome":"FAILED","error":{"category":"TIMEOUT","message":"é\n"},"savepoint":true}]}"##,
            r#"{"attempt":1,"workerId":"w","children":[{"key":"k","kind":"x","queue":"q","detached":true}],
                "wait":{"key":"w","mode":"all","for":[{"key":"k","signal":"s"}]}}"#,
            r#"{"attempt":2,"workerId":"w","diverged":{"branch":"","index":3,"recorded":"a","actual":"b"}}"#,
        ];
        for text in texts {
            let call: CheckpointCall = wire::parse(text.as_bytes()).unwrap();
            let items = ItemDigests::of(&call.steps, &call.children);
            let of_step = |(done, digest): (&StepRecord, &Digest)| {
                let tree = json!({
                    "error": done.error, "inputDigest": done.input_digest, "outcome": done.outcome,
                    "result": done.result, "savepoint": done.savepoint,
                });
                assert_eq!(*digest, digest_of(&tree), "{text}");
                json!([done.key, digest.to_string()])
            };
            let of_child = |(wanted, digest): (&ChildRun, &Digest)| {
                json!([wanted.key, wanted.detached, digest.to_string()])
            };
            let steps: Vec<_> = call.steps.iter().zip(&items.steps).map(of_step).collect();
            let children: Vec<_> =
                call.children.iter().zip(&items.children).map(of_child).collect();
            let awaited = call.wait.as_ref().map(|it| json!([it.key, wait(it).to_string()]));
            let tree = json!({
                "children": children, "diverged": call.diverged, "steps": steps, "wait": awaited,
            });
            assert_eq!(checkpoint(&call, &items), digest_of(&tree), "{text}");
        }
    }
}
