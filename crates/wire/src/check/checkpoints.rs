//! Checks what workers of durable runs send, and signals.
//!
//! How much one call may hold is a rule, not a matter of shape: the coordinator refuses it with a code of its own. Here
//! are only the sizes of single values.

use std::collections::BTreeSet;

use super::{
    Check, Checked, attempt, flow, log, name, optional_name, refuse, repair_member, within,
};
use crate::effects::endpoint_name;
use crate::limits::{
    INTEGER_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, STACK_TRACE_BYTES_MAX, WAIT_MAX_MS,
};
use crate::names::{OWN_EFFECT_TYPES, is_step_key, repair_text};
use crate::requests::{
    AwaitedItem, CheckpointCall, CheckpointItem, ChildRun, DeclaredEffect, Diverged, ResumeRun,
    SendSignal, Spend, StepRecord, UnpinRun, WaitFor,
};
use crate::{ErrorCategory, Outcome, StepOutcome};

/// Maximum effects of one call: each is a few rows.
const EFFECTS_MAX: usize = 100;

/// Maximum bytes of what an effect says. Receivers limit bodies.
const EFFECT_BYTES_MAX: usize = 64 * 1024;

/// Maximum effects that one wait is for: each is looked up.
const AWAITED_EFFECTS_MAX: usize = 100;

impl Check for CheckpointCall {
    fn check(&self) -> Checked {
        attempt(self.attempt)?;
        name("workerId", &self.worker_id)?;
        content(&self.steps, &self.children, &self.effects)?;
        log::lines(&self.log)?;
        then(self.wait.as_ref(), self.diverged.as_ref())
    }

    fn repair(&mut self) {
        repair(&mut self.steps);
        log::repair(&mut self.log);
        repair_diverged(self.diverged.as_mut());
    }
}

impl Check for CheckpointItem {
    fn check(&self) -> Checked {
        name("taskId", &self.task_id)?;
        attempt(self.attempt)?;
        name("workerId", &self.worker_id)?;
        content(&self.steps, &self.children, &self.effects)?;
        log::lines(&self.log)?;
        then(self.wait.as_ref(), self.diverged.as_ref())
    }

    fn repair(&mut self) {
        repair(&mut self.steps);
        log::repair(&mut self.log);
        repair_diverged(self.diverged.as_mut());
    }
}

impl Check for SendSignal {
    fn check(&self) -> Checked {
        // The size of the payload is a rule of the coordinator, with a code of its own.
        name("name", &self.name)
    }
}

impl Check for ResumeRun {
    fn check(&self) -> Checked {
        Ok(())
    }
}

impl Check for UnpinRun {
    fn check(&self) -> Checked {
        Ok(())
    }
}

/// What rides with a report. A worker that hands its task back records nothing with it.
pub(super) fn riding(
    outcome: Outcome,
    steps: &[StepRecord],
    children: &[ChildRun],
    effects: &[DeclaredEffect],
) -> Checked {
    content(steps, children, effects)?;
    match outcome {
        Outcome::Released if !steps.is_empty() || !children.is_empty() => refuse(
            "outcome",
            "may not be RELEASED in a report with steps or children; send them as checkpoints first",
        ),
        _ => Ok(()),
    }
}

fn content(steps: &[StepRecord], children: &[ChildRun], effects: &[DeclaredEffect]) -> Checked {
    each("steps", steps, step)?;
    each("children", children, child)?;
    if effects.len() > EFFECTS_MAX {
        return refuse(
            "effects",
            format!("may be {EFFECTS_MAX} in one call; send more with later steps"),
        );
    }
    each("effects", effects, |declared| effect(declared, steps))?;
    let named: BTreeSet<_> = effects.iter().map(|effect| (&effect.step, &effect.key)).collect();
    if named.len() < effects.len() {
        return refuse("effects", "has two with the same step and key; give each a key of its own");
    }
    Ok(())
}

fn effect(effect: &DeclaredEffect, steps: &[StepRecord]) -> Checked {
    let DeclaredEffect { key, step, endpoint, r#type, aggregate, body } = effect;
    name("key", key)?;
    endpoint_name("endpoint", endpoint)?;
    name("type", r#type)?;
    if let Some(own) = OWN_EFFECT_TYPES.iter().find(|own| r#type.starts_with(**own)) {
        return refuse(
            "type",
            format!("begins with `{own}`, as the server's own events do; give it another name"),
        );
    }
    optional_name("aggregate", aggregate.as_deref())?;
    if aggregate.as_ref().is_some_and(|aggregate| aggregate.starts_with("task_")) {
        return refuse(
            "aggregate",
            "begins like the id of a task; leave it out for the task itself",
        );
    }
    if !steps.iter().any(|done| done.key == *step) {
        return refuse(
            "step",
            "is not the key of a step in this call; an effect goes with its step",
        );
    }
    if body.text().len() > EFFECT_BYTES_MAX {
        return refuse("body", format!("is larger than {EFFECT_BYTES_MAX} bytes"));
    }
    Ok(())
}

/// The first fault, under the place of its item.
fn each<T>(member: &str, items: &[T], check: impl Fn(&T) -> Checked) -> Checked {
    let mut checked = items.iter().enumerate().map(|(index, item)| {
        check(item).map_err(|fault| fault.under(&format!("{member}[{index}]")))
    });
    checked.find(Result::is_err).unwrap_or(Ok(()))
}

fn step(step: &StepRecord) -> Checked {
    step_key("key", &step.key)?;
    digest(step.input_digest.as_deref())?;
    spend(step.spend.as_ref())?;
    match (step.outcome, &step.error) {
        (StepOutcome::Failed, None) => {
            refuse("error", "is missing; a FAILED step needs a category and a message")
        }
        (StepOutcome::Failed, _) if step.result.is_some() => {
            refuse("result", "is allowed only in a SUCCEEDED step")
        }
        (StepOutcome::Succeeded, Some(_)) => refuse("error", "is not allowed in a SUCCEEDED step"),
        (StepOutcome::Failed, Some(error)) if error.category == ErrorCategory::Cancelled => {
            refuse("error.category", "may not be CANCELLED: that is how a run ends, not a step")
        }
        (StepOutcome::Failed, Some(error)) => {
            optional_name("error.reason", error.reason.as_deref())
        }
        (StepOutcome::Succeeded, None) => Ok(()),
    }
}

pub(super) fn spend(spend: Option<&Spend>) -> Checked {
    amounts_of("spend", spend)
}

pub(super) fn amounts_of(member: &str, spend: Option<&Spend>) -> Checked {
    let Some(Spend { cost_micros, tokens, tool_calls }) = spend else { return Ok(()) };
    within(&format!("{member}.costMicros"), Some(*cost_micros), 0..=INTEGER_MAX)?;
    within(&format!("{member}.tokens"), Some(*tokens), 0..=INTEGER_MAX)?;
    within(&format!("{member}.toolCalls"), Some(*tool_calls), 0..=INTEGER_MAX)
}

fn child(child: &ChildRun) -> Checked {
    step_key("key", &child.key)?;
    digest(child.input_digest.as_deref())?;
    let run = child.clone().into_run();
    flow::no_debounce(&run)?;
    run.check()
}

fn then(wait: Option<&WaitFor>, diverged: Option<&Diverged>) -> Checked {
    match (wait, diverged) {
        (Some(_), Some(_)) => refuse("diverged", "is given together with wait; send one of them"),
        (Some(wait), None) => wait_for(wait).map_err(|fault| fault.under("wait")),
        (None, _) => Ok(()),
    }
}

fn wait_for(wait: &WaitFor) -> Checked {
    step_key("key", &wait.key)?;
    within("maxMs", wait.max_ms, WAIT_MAX_MS)?;
    each("for", &wait.items, awaited)?;
    let effects = || wait.items.iter().filter_map(|item| item.effect.as_ref());
    if effects().count() > AWAITED_EFFECTS_MAX {
        return refuse(
            "for",
            format!("may name {AWAITED_EFFECTS_MAX} effects; wait for more later"),
        );
    }
    if effects().collect::<BTreeSet<_>>().len() < effects().count() {
        return refuse("for", "names an effect twice; one item is enough");
    }
    Ok(())
}

fn awaited(item: &AwaitedItem) -> Checked {
    step_key("key", &item.key)?;
    let AwaitedItem { key: _, until, signal, child, approval, effect } = item;
    match (until, signal.as_deref(), child.as_deref(), approval, effect) {
        (Some(_), None, None, None, None) => Ok(()),
        (None, Some(signal), None, None, None) => name("signal", signal),
        (None, None, Some(child), None, None) => step_key("child", child),
        (None, None, None, Some(terms), None) => {
            if terms.subject_from.is_some() {
                return refuse(
                    "approval.subjectFrom",
                    "is for steps of plans; send the text as `subject`",
                );
            }
            terms.check().map_err(|fault| fault.under("approval"))
        }
        (None, None, None, None, Some(effect)) => {
            step_key("effect.step", &effect.step)?;
            name("effect.key", &effect.key)
        }
        _ => refuse("", "must have exactly one of until, signal, child, approval and effect"),
    }
}

fn step_key(field: &str, key: &str) -> Checked {
    if is_step_key(key) {
        return Ok(());
    }
    let problem = if key.is_empty() { "is empty" } else { "is not a valid key" };
    refuse(
        field,
        format!("{problem}; a key is 1 to {NAME_BYTES_MAX} characters of A-Z a-z 0-9 . _ : / # -"),
    )
}

/// Lower case only: two spellings of one digest would be two digests.
fn digest(digest: Option<&str>) -> Checked {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match digest {
        Some(text) if text.len() != 64 || !text.bytes().all(is_digit) => {
            refuse("inputDigest", "must be 64 hexadecimal digits in lower case")
        }
        _ => Ok(()),
    }
}

pub(super) fn repair(steps: &mut [StepRecord]) {
    for error in steps.iter_mut().filter_map(|step| step.error.as_mut()) {
        error.message = repair_text(&error.message, MESSAGE_BYTES_MAX).into_owned();
        repair_member(&mut error.stack_trace, STACK_TRACE_BYTES_MAX);
    }
}

fn repair_diverged(diverged: Option<&mut Diverged>) {
    if let Some(Diverged { branch, index: _, recorded, actual }) = diverged {
        for text in [branch, recorded, actual] {
            *text = repair_text(text, MESSAGE_BYTES_MAX).into_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use crate::requests::{CheckpointCall, Completed, SendSignal};

    fn fault_of(members: &str) -> String {
        let body = format!(r#"{{"attempt":1,"workerId":"w",{members}}}"#);
        parse::<CheckpointCall>(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn what_does_not_exist_yet_is_refused_in_words() {
        let budget = r#""children":[{"key":"c","kind":"k","queue":"q","budget":{}}]"#;
        assert!(fault_of(budget).starts_with("`children[0].budget` has no limit"));
    }

    #[test]
    fn a_wait_names_an_effect_by_its_step_and_key_and_once() {
        let of = |items: &str| format!(r#""wait":{{"key":"w","mode":"all","for":[{items}]}}"#);
        let item = |key: &str, effect: &str| format!(r#"{{"key":"{key}","effect":{effect}}}"#);
        let mail = r#"{"step":"charge#1","key":"mail"}"#;
        for (effect, field) in [
            (r#"{"step":"charge 1","key":"mail"}"#, "wait.for[0].effect.step"),
            (r#"{"step":"charge#1","key":""}"#, "wait.for[0].effect.key"),
        ] {
            let fault = fault_of(&of(&item("a", effect)));
            assert!(fault.contains(field), "{fault}");
        }
        let twice = of(&format!("{},{}", item("a", mail), item("b", mail)));
        assert!(fault_of(&twice).contains("`wait.for` names an effect twice"));
        let both = of(&format!(r#"{{"key":"a","signal":"go","effect":{mail}}}"#));
        assert!(fault_of(&both).contains("exactly one of"));
        let body = format!(r#"{{"attempt":1,"workerId":"w",{}}}"#, of(&item("a", mail)));
        assert!(parse::<CheckpointCall>(body.as_bytes()).is_ok());
    }

    #[test]
    fn an_effect_goes_with_a_step_of_its_call_to_an_endpoint_by_name() {
        let call = |effect: &str| {
            let step = r#""steps":[{"key":"a#1","outcome":"SUCCEEDED"}]"#;
            fault_of(&format!(r#"{step},"effects":[{effect}]"#))
        };
        let effect = |members: &str| format!(r#"{{"key":"k","type":"t","body":1,{members}}}"#);
        for (members, field) in [
            (r#""step":"b#1","endpoint":"e""#, "effects[0].step"),
            (r#""step":"a#1","endpoint":"https://x/""#, "effects[0].endpoint"),
            (r#""step":"a#1","endpoint":"e","aggregate":"task_1""#, "effects[0].aggregate"),
            (r#""step":"a#1","endpoint":"e","url":"https://x/""#, "url"),
        ] {
            let fault = call(&effect(members));
            assert!(fault.contains(field), "{fault}");
        }
        for own in ["run.succeeded", "task.failed", "recovery.notified", "tenure.x", "run."] {
            let fault = call(
                &effect(r#""step":"a#1","endpoint":"e""#).replace(r#""t""#, &format!("{own:?}")),
            );
            assert!(fault.contains("effects[0].type") && fault.contains("own events"), "{fault}");
        }
        let one = effect(r#""step":"a#1","endpoint":"e""#);
        assert!(call(&format!("{one},{one}")).starts_with("`effects` has two"));
    }

    #[test]
    fn an_approval_says_who_decides_until_when() {
        let of = |terms: &str| {
            format!(r#""wait":{{"key":"w","mode":"all","for":[{{"key":"a","approval":{terms}}}]}}"#)
        };
        for (terms, field) in [
            (r#"{"roles":["ops"]}"#, "roles"),
            (r#"{"quorum":0}"#, "quorum"),
            (r#"{"default":"APPROVED"}"#, "default"),
            (r#"{"digest":"AB"}"#, "digest"),
            (r#"{"keys":["a b"]}"#, "keys"),
        ] {
            let fault = fault_of(&of(terms));
            assert!(fault.contains(&format!("wait.for[0].approval.{field}")), "{fault}");
        }
        let body = format!(r#"{{"attempt":1,"workerId":"w",{}}}"#, of("{}"));
        assert!(parse::<CheckpointCall>(body.as_bytes()).is_ok());
    }

    #[test]
    fn keys_may_count_and_items_wait_for_one_thing() {
        let body = r#"{"attempt":1,"workerId":"w","steps":[{"key":"left/charge#1","outcome":"SUCCEEDED"}],
            "wait":{"key":"wait:go#1","mode":"any","for":[{"key":"go#1","signal":"go"},{"key":"t#1",
            "until":"2026-01-01T00:00:00.000Z"},{"key":"c#1","child":"c#1"}]}}"#;
        let call: CheckpointCall = parse(body.as_bytes()).unwrap();
        assert_eq!(call.wait.unwrap().items.len(), 3);
        let two =
            r#""wait":{"key":"w","mode":"all","for":[{"key":"a","signal":"go","child":"c"}]}"#;
        assert!(fault_of(two).contains("`wait.for[0]` must have exactly one of until, signal"));
        assert!(
            fault_of(r#""steps":[{"key":"a b","outcome":"SUCCEEDED"}]"#).contains("steps[0].key")
        );
        let digest = r#""steps":[{"key":"a","outcome":"SUCCEEDED","inputDigest":"AB"}]"#;
        assert!(fault_of(digest).contains("steps[0].inputDigest"));
    }

    #[test]
    fn a_failed_step_says_why_and_a_succeeded_one_does_not() {
        assert!(fault_of(r#""steps":[{"key":"a","outcome":"FAILED"}]"#).contains("steps[0].error"));
        let cancelled =
            r#""steps":[{"key":"a","outcome":"FAILED","error":{"category":"CANCELLED"}}]"#;
        assert!(fault_of(cancelled).contains("steps[0].error.category"));
        let both = r#""steps":[{"key":"a","outcome":"SUCCEEDED","error":{"category":"TIMEOUT"}}]"#;
        assert!(fault_of(both).contains("steps[0].error"));
    }

    #[test]
    fn a_report_takes_steps_and_a_release_does_not() {
        let body = |outcome: &str| {
            let steps = r#""steps":[{"key":"a","outcome":"SUCCEEDED"}]"#;
            format!(r#"{{"attempt":1,"workerId":"w","outcome":"{outcome}",{steps}}}"#)
        };
        let report: Completed = parse(body("SUCCEEDED").as_bytes()).unwrap();
        assert_eq!(report.steps.len(), 1);
        assert_eq!(parse::<Completed>(body("RELEASED").as_bytes()).unwrap_err().field, "outcome");
    }

    #[test]
    fn a_signal_has_a_name() {
        assert!(parse::<SendSignal>(br#"{"name":"go","payload":{"by":"ops"}}"#).is_ok());
        assert_eq!(parse::<SendSignal>(br#"{"name":"go now"}"#).unwrap_err().field, "name");
    }
}
