//! One call of the engine in as many calls of the wire as the coordinator's limits need.
//!
//! The order is kept, and a wait comes last: a worker that dies in between has recorded a beginning of the call, which is
//! a state that a replay continues from.

use wire::approvals::ApprovalTerms;
use wire::requests::{CheckpointItem, ChildRun, DeclaredEffect, Report, StepRecord, WaitFor};
use workflow::{Call, ChildRecord};

use super::translate;

/// Half of the coordinator's limit on a body: a wait for thousands of children fits beside it.
const PART_BYTES_MAX: usize = 512 * 1024;
/// What rides with a report, whose output may be as large as a payload can be.
const RIDING_BYTES_MAX: usize = 128 * 1024;
/// The coordinator's limits of one call.
const STEPS_MAX: usize = 100;
const CHILDREN_MAX: usize = 500;
const EFFECTS_MAX: usize = 100;
/// The size of an item without its texts.
const ITEM_BYTES: usize = 256;

/// The names of the members of an item that a wait is for.
const MEMBERS: usize = 32;

/// A call for the coordinator, without task, token and worker. It has at least one part.
pub(super) fn split(call: Call) -> Vec<CheckpointItem> {
    let Call { steps, children, wait } = call;
    let mut parts = items(steps, children);
    if let Some(wait) = wait.map(translate::wait) {
        let bytes = wait_bytes(&wait);
        match parts.last_mut() {
            Some(last) if size(last) + bytes <= PART_BYTES_MAX => last.wait = Some(wait),
            _ => parts.push(CheckpointItem { wait: Some(wait), ..CheckpointItem::default() }),
        }
    }
    if parts.is_empty() {
        parts.push(CheckpointItem::default());
    }
    parts
}

/// What must be recorded before a report, and what rides with it.
pub(super) fn of_report(
    steps: Vec<workflow::StepRecord>,
    children: Vec<ChildRecord>,
) -> (Vec<CheckpointItem>, CheckpointItem) {
    let mut parts = items(steps, children);
    let rides = parts.last().is_some_and(|last| size(last) <= RIDING_BYTES_MAX);
    let riding = if rides { parts.pop() } else { None };
    (parts, riding.unwrap_or_default())
}

fn items(steps: Vec<workflow::StepRecord>, children: Vec<ChildRecord>) -> Vec<CheckpointItem> {
    let mut parts = Parts::default();
    for mut step in steps {
        let effects = translate::effects(&mut step);
        let step = translate::step(step);
        let bytes = step_bytes(&step) + effects.iter().map(effect_bytes).sum::<usize>();
        let part = parts.with_room_for(bytes, effects.len());
        part.steps.push(step);
        part.effects.extend(effects);
    }
    for child in children.into_iter().map(translate::child) {
        parts.with_room_for(child_bytes(&child), 0).children.push(child);
    }
    parts.parts
}

#[derive(Default)]
struct Parts {
    parts: Vec<CheckpointItem>,
    /// The size of the last one.
    bytes: usize,
}

impl Parts {
    fn with_room_for(&mut self, bytes: usize, effects: usize) -> &mut CheckpointItem {
        let has_room = |last: &CheckpointItem| {
            last.steps.len() < STEPS_MAX
                && last.children.len() < CHILDREN_MAX
                && last.effects.len() + effects <= EFFECTS_MAX
                && self.bytes + bytes <= PART_BYTES_MAX
        };
        if !self.parts.last().is_some_and(has_room) {
            self.parts.push(CheckpointItem::default());
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.parts.last_mut().expect("one was pushed if there was none")
    }
}

/// About as many bytes as the call has on the wire.
pub(in crate::worker) fn size(item: &CheckpointItem) -> usize {
    let steps = item.steps.iter().map(step_bytes).sum::<usize>();
    let children = item.children.iter().map(child_bytes).sum::<usize>();
    let effects = item.effects.iter().map(effect_bytes).sum::<usize>();
    let wait = item.wait.as_ref().map_or(0, wait_bytes);
    item.task_token.len() + steps + children + effects + wait + ITEM_BYTES
}

/// The same of what rides with a report.
pub(in crate::worker) fn riding_size(report: &Report) -> usize {
    let steps = report.steps.iter().map(step_bytes).sum::<usize>();
    let children = report.children.iter().map(child_bytes).sum::<usize>();
    steps + children + report.effects.iter().map(effect_bytes).sum::<usize>()
}

fn effect_bytes(effect: &DeclaredEffect) -> usize {
    effect.step.len() + effect.key.len() + effect.body.text().len() + ITEM_BYTES
}

fn step_bytes(step: &StepRecord) -> usize {
    let result = step.result.as_ref().map_or(0, |result| result.text().len());
    let error = step.error.as_ref().map_or(0, |error| error.message.len());
    step.key.len() + result + error + ITEM_BYTES
}

fn child_bytes(child: &ChildRun) -> usize {
    let labels = child.labels.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    child.key.len() + child.input.text().len() + labels + ITEM_BYTES
}

fn wait_bytes(wait: &WaitFor) -> usize {
    let items = wait.items.iter().map(|item| {
        let name = item.signal.as_ref().or(item.child.as_ref()).map_or(0, String::len);
        let terms = item.approval.as_ref().map_or(0, approval_bytes);
        let effect = item.effect.as_ref().map_or(0, |it| it.step.len() + it.key.len() + MEMBERS);
        item.key.len() + name + terms + effect + MEMBERS
    });
    items.sum::<usize>() + ITEM_BYTES
}

fn approval_bytes(terms: &ApprovalTerms) -> usize {
    let named = terms.roles.iter().chain(&terms.keys).map(|name| name.len() + MEMBERS);
    let subject = terms.subject.as_ref().map_or(0, String::len);
    let content = terms.content.as_ref().map_or(0, |content| content.text().len());
    named.sum::<usize>() + subject + content + ITEM_BYTES
}

#[cfg(test)]
mod tests {
    use wire::Json;
    use wire::limits::PAYLOAD_BYTES_MAX;
    use workflow::{Awaited, Mode, Outcome, Wait};

    use super::*;

    fn step(n: usize, bytes: usize) -> workflow::StepRecord {
        workflow::StepRecord {
            key: format!("s#{n}"),
            outcome: Outcome::Succeeded,
            result: Some(Json::from_value(&"x".repeat(bytes)).unwrap()),
            error: None,
            input_digest: None,
            spend: None,
            savepoint: false,
            effects: Vec::new(),
        }
    }

    fn wait() -> Wait {
        let items = vec![Awaited::Signal { key: "signal:go#1".into(), signal: "go".into() }];
        Wait { key: "wait:signal:go#1".into(), mode: Mode::Any, items, max_ms: None }
    }

    #[test]
    fn a_call_with_large_results_is_sent_in_parts_and_the_wait_comes_last() {
        let steps = (1..=5).map(|n| step(n, PAYLOAD_BYTES_MAX - 2)).collect();
        let parts = split(Call { steps, children: Vec::new(), wait: Some(wait()) });
        let keys: Vec<Vec<&str>> = parts
            .iter()
            .map(|part| part.steps.iter().map(|step| step.key.as_str()).collect())
            .collect();
        assert_eq!(keys, [vec!["s#1"], vec!["s#2"], vec!["s#3"], vec!["s#4"], vec!["s#5"]]);
        assert!(parts.iter().all(|part| size(part) <= PART_BYTES_MAX));
        let waits: Vec<bool> = parts.iter().map(|part| part.wait.is_some()).collect();
        assert_eq!(waits, [false, false, false, false, true]);
    }

    #[test]
    fn a_usual_call_is_one_part() {
        let call =
            Call { steps: vec![step(1, 10), step(2, 10)], children: vec![], wait: Some(wait()) };
        let parts = split(call);
        assert_eq!((parts.len(), parts[0].steps.len()), (1, 2));
        assert!(parts[0].wait.is_some());
    }

    #[test]
    fn a_report_takes_along_what_fits_beside_its_output() {
        let (before, riding) = of_report((1..=250).map(|n| step(n, 1)).collect(), Vec::new());
        let lengths: Vec<usize> = before.iter().map(|part| part.steps.len()).collect();
        assert_eq!((lengths, riding.steps.len()), (vec![100, 100], 50));
        let (before, riding) = of_report(vec![step(1, RIDING_BYTES_MAX)], Vec::new());
        assert_eq!((before.len(), riding.steps.len()), (1, 0));
        let (before, riding) = of_report(Vec::new(), Vec::new());
        assert!(before.is_empty() && riding.steps.is_empty());
    }
}
