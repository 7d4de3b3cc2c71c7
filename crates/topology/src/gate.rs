//! Gate: judges the output of an executed work order, and makes its one run record with everything that follows.
//!
//! Checks of data come first; a work order that fails one is not shown to a worker or a person. All of them share one bound
//! of work ([`Work`]): one that it does not suffice for fails. Workers judge next, people last. A question without an answer
//! in its time is a failed check, so every gate ends. A pass and its acceptance by a person are different facts: without
//! `autoConfirm` a pass leaves the status alone.

use serde_json::{Value, json};

use crate::check::{ENTRIES_MAX, NAME_CHARS_MAX, Topology};
use crate::declaration::{Check, Gate, Outcome};
use crate::deployment::{
    Artifact, ArtifactRef, Asked, ExecutionStatus, GateReason, GateResult, OutputBundle,
    PauseReason, PauseState, RunRecord, WorkOrder,
};
use crate::fields::CheckedFields;
use crate::outside::{Decision, Objection};
use crate::predicate::look_up;
use crate::proposal::{ArtifactChange, Author, Change, may_move};
use crate::schema::Schema;
use crate::work::{Work, size_of};

/// The check that fails when the executor left no output.
const EXECUTION: &str = "execution";
/// The check that fails when an output cannot become the artifact it should.
const CREATES: &str = "creates";
/// The check that fails when what follows from the gate cannot be carried out.
const CONSEQUENCES: &str = "consequences";

/// The longest message of a reason that an outside process gives: people read it in a list.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// What a gate role read about one work order.
#[derive(Debug)]
pub struct Read<'r> {
    pub work_order: &'r WorkOrder,
    /// Whether its run record exists.
    pub recorded: bool,
    /// The artifacts of the work order that exist.
    pub artifacts: Vec<&'r Artifact>,
    pub now: u64,
}

/// What a gate says so far.
enum Judgement {
    Ask(Vec<String>),
    Wait,
    Decided(Vec<GateReason>),
}

/// When the next question of this work order runs out of time.
#[must_use]
pub fn next_timeout(topology: &Topology, order: &WorkOrder) -> Option<u64> {
    let gate = topology.gate_of(&order.template)?;
    let open = gate.checks.iter().filter_map(|check| {
        let asked = order.asked.get(&check.name).filter(|asked| asked.answer.is_none())?;
        Some(asked.at.saturating_add(within(check)?))
    });
    open.min()
}

fn within(check: &Check) -> Option<u64> {
    let judge = check.judge.as_ref().map(|judge| judge.within);
    judge.or_else(|| check.people.as_ref().map(|people| people.within)).map(|span| span.ms())
}

/// What the role proposes: questions, or the run record with all that follows. Nothing while answers are awaited, and
/// nothing for a work order that is not executed or has its run record.
#[must_use]
pub fn propose(topology: &Topology, role: &str, read: &Read<'_>) -> Vec<Change> {
    let order = read.work_order;
    let gate = topology.gate_of(&order.template).filter(|_| !read.recorded);
    let (Some(gate), Some(bundle)) = (gate, &order.output) else {
        return Vec::new();
    };
    match judge(topology, gate, read, bundle) {
        Judgement::Wait => Vec::new(),
        Judgement::Ask(checks) => asks(order, checks),
        Judgement::Decided(reasons) => conclude(topology, role, gate, read, bundle, reasons),
    }
}

/// What follows when a proposal of the role can never be committed: the work order fails for that reason, so that it has its run
/// record and lets its artifacts go. Nothing for one that is not executed or has its run record.
#[must_use]
pub fn refused(topology: &Topology, role: &str, read: &Read<'_>, why: &str) -> Vec<Change> {
    let order = read.work_order;
    let gate = topology.gate_of(&order.template).filter(|_| !read.recorded);
    let (Some(gate), Some(bundle)) = (gate, &order.output) else {
        return Vec::new();
    };
    let reason = GateReason { check: CONSEQUENCES.to_owned(), message: why.to_owned() };
    conclude(topology, role, gate, read, bundle, vec![reason])
}

fn asks(order: &WorkOrder, checks: Vec<String>) -> Vec<Change> {
    let ask = |check| Change::Ask { work_order: order.id.clone(), check };
    checks.into_iter().map(ask).collect()
}

/// What the role decides about one work order; `None` while answers are awaited, and for one that is not executed or has its
/// run record.
#[must_use]
pub fn decide(topology: &Topology, read: &Read<'_>) -> Option<Decision> {
    let gate = topology.gate_of(&read.work_order.template).filter(|_| !read.recorded)?;
    match judge(topology, gate, read, read.work_order.output.as_ref()?) {
        Judgement::Wait => None,
        Judgement::Ask(checks) => Some(Decision::Ask { checks }),
        Judgement::Decided(reasons) if reasons.is_empty() => Some(Decision::Pass),
        Judgement::Decided(reasons) => Some(Decision::Fail { reasons }),
    }
}

/// What an outside process decided, as changes. It may refuse an output for reasons of its own, and never pass one that the
/// declared checks refuse or have not been asked about.
pub fn decided(
    topology: &Topology,
    role: &str,
    read: &Read<'_>,
    decision: &Decision,
) -> Result<Vec<Change>, Objection> {
    let order = read.work_order;
    let own = decide(topology, read);
    let (Some(own), Some(gate), Some(bundle)) =
        (own, topology.gate_of(&order.template), &order.output)
    else {
        return Err(Objection::Stale(format!("{} has its run record", order.id)));
    };
    let reasons = match (own, decision) {
        (_, Decision::Fail { reasons }) => {
            check_reasons(reasons)?;
            reasons.clone()
        }
        (Decision::Pass, Decision::Pass) => Vec::new(),
        (Decision::Ask { checks }, Decision::Ask { checks: asked }) if checks == *asked => {
            return Ok(asks(order, checks));
        }
        (Decision::Fail { reasons }, Decision::Pass | Decision::Ask { .. }) => {
            let named: Vec<String> =
                reasons.iter().map(|it| format!("{}: {}", it.check, it.message)).collect();
            let why = format!("the declared checks refuse the output: {}", named.join("; "));
            return Err(Objection::NotAllowed(why));
        }
        (own, _) => {
            let why = format!("the work order is to {}", own.words());
            return Err(Objection::NotAllowed(why));
        }
    };
    Ok(conclude(topology, role, gate, read, bundle, reasons))
}

fn check_reasons(reasons: &[GateReason]) -> Result<(), Objection> {
    let is_said = |reason: &GateReason| {
        (1..=NAME_CHARS_MAX).contains(&reason.check.chars().count())
            && (1..=MESSAGE_CHARS_MAX).contains(&reason.message.chars().count())
    };
    if (1..=ENTRIES_MAX).contains(&reasons.len()) && reasons.iter().all(is_said) {
        return Ok(());
    }
    let why = format!(
        "a fail has 1 to {ENTRIES_MAX} reasons, each with the name of a check and a message of at most {MESSAGE_CHARS_MAX} characters"
    );
    Err(Objection::Invalid(why))
}

/// What judging this work order costs, roughly: where it runs depends on it, and nothing else.
#[must_use]
pub fn steps(topology: &Topology, read: &Read<'_>) -> u64 {
    let order = read.work_order;
    let (Some(gate), Some(bundle)) = (topology.gate_of(&order.template), &order.output) else {
        return 0;
    };
    let artifact = read.artifacts.first().map_or(0, |artifact| size_of(&artifact.fields));
    let conditions = (gate.checks.len() as u64).saturating_mul(artifact + size_of(&bundle.output));
    let schemas = (0..gate.checks.len()).filter_map(|place| schema_of(topology, order, place));
    let creates = gate.pass.creates.as_ref();
    schemas
        .map(|schema| schema.steps(&bundle.output))
        .chain(creates.map(|it| topology.fields_steps(&it.artifact, &bundle.output)))
        .fold(conditions, u64::saturating_add)
}

fn schema_of<'t>(topology: &'t Topology, order: &WorkOrder, place: usize) -> Option<&'t Schema> {
    let name = &topology.template(&order.template)?.gate;
    topology.schema(&format!("gates.{name}.checks.{place}.schema"))
}

fn judge(topology: &Topology, gate: &Gate, read: &Read<'_>, bundle: &OutputBundle) -> Judgement {
    let (mut about, mut work) = (about(read, bundle), Work::of_check());
    let failed = data_checks(topology, gate, read.work_order, bundle, &about, &mut work);
    if !failed.is_empty() {
        return Judgement::Decided(failed);
    }
    for asks_people in [false, true] {
        let stage: Vec<&Check> = gate
            .checks
            .iter()
            .filter(|check| within(check).is_some() && check.people.is_some() == asks_people)
            .collect();
        match ask(&stage, read, &mut about, &mut work) {
            Judgement::Decided(failed) if failed.is_empty() => {}
            other => return other,
        }
    }
    Judgement::Decided(Vec::new())
}

/// What conditions of a gate speak about.
fn about(read: &Read<'_>, bundle: &OutputBundle) -> Value {
    let order = read.work_order;
    let ids: Vec<&str> = order.artifacts.iter().map(|name| name.id.as_str()).collect();
    json!({
        "output": bundle.output,
        "notes": bundle.notes,
        "execution": bundle.execution_status,
        "workOrder": {"id": order.id, "kind": order.kind, "budgetMs": order.budget_ms, "artifacts": ids},
        "artifact": read.artifacts.first().map(|artifact| &artifact.fields),
    })
}

fn data_checks(
    topology: &Topology,
    gate: &Gate,
    order: &WorkOrder,
    bundle: &OutputBundle,
    about: &Value,
    work: &mut Work,
) -> Vec<GateReason> {
    if bundle.execution_status != ExecutionStatus::Completed {
        let message = bundle.notes.clone().unwrap_or_default();
        return vec![GateReason { check: EXECUTION.to_owned(), message }];
    }
    let mut failed = Vec::new();
    for (place, check) in gate.checks.iter().enumerate() {
        let result = match (&check.require, schema_of(topology, order, place)) {
            (Some(require), _) => require.test(about, work),
            (None, Some(schema)) => schema.test(&bundle.output, work),
            (None, None) => Ok(()),
        };
        if let Err(message) = result {
            failed.push(GateReason { check: check.name.clone(), message });
        }
    }
    if let Some(creates) = &gate.pass.creates {
        let fields = look_up(about, &creates.from).cloned().unwrap_or_default();
        if let Err(message) = topology.test_fields(&creates.artifact, &fields, work) {
            failed.push(GateReason { check: CREATES.to_owned(), message });
        }
    }
    failed
}

fn ask(stage: &[&Check], read: &Read<'_>, about: &mut Value, work: &mut Work) -> Judgement {
    let order = read.work_order;
    let unasked = stage.iter().filter(|check| !order.asked.contains_key(&check.name));
    let unasked: Vec<String> = unasked.map(|check| check.name.clone()).collect();
    if !unasked.is_empty() {
        return Judgement::Ask(unasked);
    }
    let mut failed = Vec::new();
    for check in stage {
        let Some(asked) = order.asked.get(&check.name) else {
            continue;
        };
        match answered(check, asked, read.now, about, work) {
            Some(Ok(())) => {}
            Some(Err(message)) => failed.push(GateReason { check: check.name.clone(), message }),
            None => return Judgement::Wait,
        }
    }
    Judgement::Decided(failed)
}

/// `None` while there is neither an answer nor the end of its time.
fn answered(
    check: &Check,
    asked: &Asked,
    now: u64,
    about: &mut Value,
    work: &mut Work,
) -> Option<Result<(), String>> {
    let Some(answer) = &asked.answer else {
        let within = within(check).unwrap_or(0);
        let late = now >= asked.at.saturating_add(within);
        return late
            .then(|| Err(format!("no answer within {}", crate::span::Span::from_ms(within))));
    };
    if let Some(judge) = &check.judge {
        about["answer"] = answer.clone();
        return Some(judge.pass.test(about, work));
    }
    let approved = answer.get("approved").and_then(Value::as_bool).unwrap_or(false);
    let reason = answer.get("reason").and_then(Value::as_str).unwrap_or("no reason given");
    Some(if approved { Ok(()) } else { Err(format!("a person rejected it: {reason}")) })
}

fn conclude(
    topology: &Topology,
    role: &str,
    gate: &Gate,
    read: &Read<'_>,
    bundle: &OutputBundle,
    reasons: Vec<GateReason>,
) -> Vec<Change> {
    let order = read.work_order;
    let passed = reasons.is_empty();
    let outcome = if passed { &gate.pass } else { &gate.fail };
    let record = RunRecord {
        work_order: order.id.clone(),
        event: order.event.clone(),
        artifacts: order.artifacts.clone(),
        topology: order.topology.clone(),
        execution_status: bundle.execution_status,
        gate_result: if passed { GateResult::Pass } else { GateResult::Fail },
        gate_reasons: reasons,
        created_at: read.now,
    };
    let mut changes = vec![Change::Record(Box::new(record))];
    let settle =
        |artifact: &&Artifact| Change::Artifact(settled(topology, role, outcome, order, artifact));
    changes.extend(
        read.artifacts.iter().filter(|it| it.reserved_by.as_ref() == Some(&order.id)).map(settle),
    );
    if let Some(creates) = outcome.creates.as_ref().filter(|_| passed) {
        let about = about(read, bundle);
        let fields = look_up(&about, &creates.from).cloned().unwrap_or_default();
        let artifact = ArtifactRef { kind: creates.artifact.clone(), id: order.id.clone() };
        // A gate passes only what the type of the artifact allows.
        let fields = CheckedFields::tested(topology, &creates.artifact, fields);
        changes.push(Change::Create { artifact, fields });
    }
    changes.push(Change::Pause(pause(outcome, passed, read, bundle)));
    changes
}

/// The artifact is let go in any case; it is moved where the declaration lets this role move it.
fn settled(
    topology: &Topology,
    role: &str,
    outcome: &Outcome,
    order: &WorkOrder,
    artifact: &Artifact,
) -> ArtifactChange {
    let mut change = ArtifactChange::of(artifact);
    change.reserved_by = Some(None);
    let Some(to) = &outcome.to else {
        return change;
    };
    if !outcome.auto_confirm {
        change.passed = Some(Some(order.id.clone()));
    } else if may_move(topology, &artifact.name.kind, &artifact.status, to, Author::Role(role)) {
        change.to = Some(to.clone());
    }
    change
}

fn pause(outcome: &Outcome, passed: bool, read: &Read<'_>, bundle: &OutputBundle) -> PauseState {
    let reason = match (passed, bundle.execution_status) {
        (true, _) => PauseReason::RunComplete,
        (false, ExecutionStatus::BudgetExhausted) => PauseReason::BudgetExhausted,
        (false, _) => PauseReason::GateFailed,
    };
    let from = outcome.actions_from.as_deref().filter(|_| passed);
    let about = about(read, bundle);
    let found = from.and_then(|path| look_up(&about, path)).and_then(Value::as_array);
    let sentences: Vec<String> = found
        .into_iter()
        .flatten()
        .filter_map(|it| it.as_str().filter(|it| !it.trim().is_empty()).map(str::to_owned))
        .collect();
    let actions = if sentences.is_empty() { &outcome.actions } else { &sentences };
    // A work order has one run record, hence one instant.
    PauseState::new(reason, &read.work_order.id, 0, actions, read.now)
        .about(read.work_order.artifacts.first())
}
