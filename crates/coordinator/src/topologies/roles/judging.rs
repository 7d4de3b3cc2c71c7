//! Gates: the output of a work order is judged, and everything that follows is one commit with its run record.
//!
//! A work order whose task ended without its gate (it was cancelled by force) is judged as one whose executor vanished, so that
//! every work order has its run record and lets its artifacts go.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use serde_json::{Value, json};
use store::{Browse, ObjectFilter, RecordsOf, RunRecord, TaskKey};
use topology::Topology;
use topology::declaration::Gate;
use topology::deployment::{Asked, ExecutionStatus, GateResult, OutputBundle};
use topology::gate;
use topology::outside::OrderTurn;
use topology::proposal::Change;
use verdict::request::Caller;
use verdict::run::{Recorded, StepOutcome};
use verdict::topology::{DECIDE, EXECUTE, JUDGE_PREFIX, JUDGED, KEY_PREFIX, PEOPLE_PREFIX};
use verdict::{Category, Fault, Name, ObjectType, Reason, Request, Scope, Subject, Text};

use super::reading::Seen;
use super::{Interrupted, PAGE, PROPOSALS_MAX, Proposed, Roles, failed, succeeded};
use crate::item::{Granted, RoleReport};
use crate::topologies::rows::{DeploymentRow, WorkOrderRow, millis};

/// Why a work order ends `failed` although its executor succeeded.
const GATE_FAILED: &str = "GATE_FAILED";

impl Roles {
    /// `seen` is what was read for the claims that were granted with this one.
    pub(super) async fn judge(&self, granted: &Granted, seen: &Seen) -> Result<(), Interrupted> {
        let scope = granted.task.scope.clone();
        let named = granted.spec.key.as_ref().and_then(|key| named(key.as_str()));
        let Some((deployment, generation, order)) = named else {
            self.give_up(granted, "this is no work order of a deployment").await;
            return Ok(());
        };
        let known = self.coordinator.topologies().snapshot();
        let row = known.get(&scope).and_then(|of_scope| of_scope.get(&deployment));
        let Some(row) = row.filter(|row| row.generation == generation) else {
            self.give_up(granted, "the deployment of the work order was deleted").await;
            return Ok(());
        };
        let key = granted.key();
        let bundle = self.bundle(&key).await?;
        let stage = granted.task.stages().map(|it| it.stage().key.clone());
        let asked = asked_before(stage.as_ref().map_or("", Name::as_str));
        let mut refused = None;
        let fresh = Seen::default();
        for seen in iter::once(seen).chain(iter::repeat_n(&fresh, PROPOSALS_MAX - 1)) {
            let (place, run) = ((&scope, row), (&key, asked));
            let judged = self.judgement(place, &order, bundle.clone(), run, refused.as_ref(), seen);
            let Some(mut report) = judged.await? else {
                // The checks of data have decided, or this was done before.
                self.pass_on(granted, &[]).await;
                return Ok(());
            };
            let asks = asks(&report.changes);
            if !asks.is_empty() {
                self.pass_on(granted, &asks).await;
                return Ok(());
            }
            report.claim = Some((key.clone(), ending(granted.caller(), &report.changes)));
            match self.propose(&scope, row, report).await? {
                Proposed::Done => return Ok(()),
                Proposed::Stale(why) => tracing::debug!(order, %why, "read again"),
                // It would be refused for ever: the work order fails with the reason.
                Proposed::Refused(why) if refused.is_none() => refused = Some(why),
                Proposed::Refused(why) | Proposed::NotNow(why) => {
                    self.later(granted, why.as_str()).await;
                    return Ok(());
                }
            }
        }
        self.later(granted, "what the work order is about changed whenever it was read").await;
        Ok(())
    }

    /// Ends a stage that decides nothing: what comes next is asked for, or was decided.
    async fn pass_on(&self, granted: &Granted, asks: &[&str]) {
        if let Request::Report(report) = succeeded(granted.caller(), &json!({"asks": asks}))
            && let Err(error) = self.coordinator.report(granted.key(), report).await
        {
            tracing::debug!(%error, "a claim of a role ends with its lease");
        }
    }

    /// What the gate proposes for a work order that left this; `None` if it has its run record. `asked` says of which stages of its
    /// run the answers are there, `refused` why what it proposed before can never be carried out.
    async fn judgement(
        &self,
        place: (&Scope, &DeploymentRow),
        id: &str,
        bundle: OutputBundle,
        run: (&TaskKey, &[&str]),
        refused: Option<&Text>,
        seen: &Seen,
    ) -> Result<Option<RoleReport>, Interrupted> {
        let Some((turn, topology)) = self.read_order(place, id, bundle, run, seen).await? else {
            return Ok(None);
        };
        let role = topology.judge_of(&turn.work_order.template);
        let role = role.map(|(name, _)| name.to_owned()).unwrap_or_default();
        let changes = match refused {
            None => self.proposed(&place.0.tenant, &topology, &role, turn).await,
            Some(why) => gate::refused(&topology, &role, &turn.read(), why.as_str()),
        };
        let version = topology.digest().to_owned();
        Ok(Some(RoleReport { claim: None, role, version, event: None, changes, objection: None }))
    }

    /// What the gate says. It applies what one tenant wrote to what another worker wrote, so it is done where nobody else waits.
    async fn proposed(
        &self,
        tenant: &Name,
        topology: &Arc<Topology>,
        role: &str,
        turn: OrderTurn,
    ) -> Vec<Change> {
        let steps = gate::steps(topology, &turn.read());
        let (topology, role) = (topology.clone(), role.to_owned());
        let judge = move || gate::propose(&topology, &role, &turn.read());
        self.coordinator.topologies().checking().run(tenant, steps, judge).await
    }

    /// What a gate reads of a work order, with the version that made it.
    pub(super) async fn read_order(
        &self,
        (scope, row): (&Scope, &DeploymentRow),
        id: &str,
        bundle: OutputBundle,
        (run, asked): (&TaskKey, &[&str]),
        seen: &Seen,
    ) -> Result<Option<(OrderTurn, Arc<Topology>)>, Interrupted> {
        let found = self.work_order(scope, row, id, seen).await?;
        let Some(found) = found.filter(|found| found.record.is_none()) else { return Ok(None) };
        let mut order = found.order;
        let Some(topology) = self.version(scope, &order.topology).await? else { return Ok(None) };
        order.output = Some(bundle);
        if let Some(gate) = topology.gate_of(&order.template).filter(|_| !asked.is_empty()) {
            order.asked = self.answers(run, gate, asked).await?;
        }
        let mut artifacts = Vec::new();
        for name in &order.artifacts {
            artifacts.extend(self.artifact(scope, row, name, seen).await?);
        }
        let now = millis(self.coordinator.now());
        Ok(Some((OrderTurn { work_order: order, artifacts, now }, topology)))
    }

    /// What the execution of a work order left: the checkpoint of its stage.
    pub(super) async fn bundle(&self, key: &TaskKey) -> Result<OutputBundle, Interrupted> {
        let created_at = millis(self.coordinator.now());
        let step = self.outcome(key, Name::from(EXECUTE)).await?;
        let (execution_status, output, notes) = match step {
            Some(StepOutcome::Succeeded { result }) => {
                let output = result.and_then(|json| serde_json::from_str(json.as_str()).ok());
                (ExecutionStatus::Completed, output.unwrap_or(Value::Null), None)
            }
            Some(StepOutcome::Failed { fault, reason }) => {
                let notes = Some(notes(&fault, reason.as_ref()));
                (status_of(&fault, reason.as_ref()), Value::Null, notes)
            }
            None => {
                let notes = "the work order ended before an executor had it".to_owned();
                (ExecutionStatus::Lost, Value::Null, Some(notes))
            }
        };
        Ok(OutputBundle { execution_status, output, notes, created_at })
    }

    /// What judges and people answered: the checkpoints of their stages. Who did not answer was asked long ago.
    async fn answers(
        &self,
        key: &TaskKey,
        gate: &Gate,
        asked: &[&str],
    ) -> Result<BTreeMap<String, Asked>, Interrupted> {
        let mut answers = BTreeMap::new();
        for check in &gate.checks {
            let prefix = match (&check.judge, &check.people) {
                (Some(_), _) => JUDGE_PREFIX,
                (None, Some(_)) => PEOPLE_PREFIX,
                (None, None) => continue,
            };
            if !asked.contains(&prefix) {
                continue;
            }
            let stage = Name::from(format!("{prefix}{}", check.name));
            let answer = self.outcome(key, stage).await?.and_then(|outcome| match outcome {
                StepOutcome::Succeeded { .. } if check.people.is_some() => {
                    Some(json!({"approved": true}))
                }
                StepOutcome::Succeeded { result } => {
                    result.and_then(|json| serde_json::from_str(json.as_str()).ok())
                }
                StepOutcome::Failed { fault, reason } => {
                    let is_refused =
                        reason.as_ref().map(Text::as_str) == Some(Reason::NotApproved.name());
                    is_refused.then(|| json!({"approved": false, "reason": fault.message.as_str()}))
                }
            });
            answers.insert(check.name.clone(), Asked { at: 0, answer });
        }
        Ok(answers)
    }

    /// How a stage ended; `None` if it did not run.
    async fn outcome(
        &self,
        key: &TaskKey,
        stage: Name,
    ) -> Result<Option<StepOutcome>, Interrupted> {
        let keys = [stage];
        let found = self.coordinator.browse().records(key, RecordsOf::Keys(&keys), 1).await?;
        Ok(found.into_iter().find_map(|record| match record {
            RunRecord::Checkpoint { checkpoint, .. } => match checkpoint.recorded {
                Recorded::Step(step) => Some(step.outcome),
                _ => None,
            },
            _ => None,
        }))
    }

    /// Judges work orders whose task has ended and that have no run record.
    pub(super) async fn settle_orders(&self) -> Result<(), Interrupted> {
        let mut after = None;
        loop {
            let filter = ObjectFilter {
                object_type: Some(ObjectType::WorkOrder),
                is_pending: true,
                after,
                limit: PAGE,
                ..ObjectFilter::default()
            };
            let page = self.coordinator.browse().objects(&filter).await?;
            for object in &page {
                if let Some(row) = WorkOrderRow::of(object) {
                    self.settle_order(&object.key.scope, object.key.id.as_str(), &row).await?;
                }
            }
            after = page.last().map(|last| last.key.clone());
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    async fn settle_order(
        &self,
        scope: &Scope,
        id: &str,
        found: &WorkOrderRow,
    ) -> Result<(), Interrupted> {
        let Some((deployment, generation)) = deployment_of(id) else { return Ok(()) };
        let Some(row) = self.active(scope, &deployment) else { return Ok(()) };
        let Some(task) = found.task().filter(|_| row.generation == generation) else {
            return Ok(());
        };
        let key = TaskKey { scope: scope.clone(), id: task };
        let stored = self.coordinator.browse().find(&key).await?;
        // A run that is not stored any more was pruned, so it has ended.
        if stored.is_some_and(|stored| !matches!(stored.subject, Subject::Done(_))) {
            return Ok(());
        }
        let bundle = self.bundle(&key).await?;
        let asked = (&key, &[JUDGE_PREFIX, PEOPLE_PREFIX][..]);
        let mut refused = None;
        let fresh = Seen::default();
        // What has changed meanwhile is found by the next look.
        for _ in 0..2 {
            let (place, id) = ((scope, &row), found.order.id.as_str());
            let judged = self.judgement(place, id, bundle.clone(), asked, refused.as_ref(), &fresh);
            let Some(report) = judged.await? else { break };
            match self.propose(scope, &row, report).await? {
                Proposed::Refused(why) => refused = Some(why),
                Proposed::Done | Proposed::Stale(_) | Proposed::NotNow(_) => break,
            }
        }
        Ok(())
    }
}

/// The stages whose answers are there when this one judges.
pub(super) fn asked_before(stage: &str) -> &'static [&'static str] {
    match stage {
        DECIDE => &[JUDGE_PREFIX, PEOPLE_PREFIX],
        JUDGED => &[JUDGE_PREFIX],
        _ => &[],
    }
}

/// The deployment, generation and id of a work order, by the key of its run.
pub(super) fn named(key: &str) -> Option<(Name, u32, String)> {
    let rest = key.strip_prefix(KEY_PREFIX)?;
    let (deployment, generation) = deployment_of(rest)?;
    let (_, id) = rest.split_once('/')?;
    Some((deployment, generation, id.to_owned()))
}

fn deployment_of(id: &str) -> Option<(Name, u32)> {
    let (prefix, _) = id.split_once('/')?;
    let (deployment, generation) = prefix.split_once('~')?;
    Some((deployment.into(), generation.parse().ok()?))
}

/// The checks that a gate wants to ask about.
pub(super) fn asks(changes: &[Change]) -> Vec<&str> {
    let asked = changes.iter().filter_map(|change| match change {
        Change::Ask { check, .. } => Some(check.as_str()),
        _ => None,
    });
    asked.collect()
}

fn status_of(fault: &Fault, reason: Option<&Text>) -> ExecutionStatus {
    let is = |wanted: Reason| reason.is_some_and(|reason| reason.as_str() == wanted.name());
    let is_lost = is(Reason::HeartbeatTimeout) || is(Reason::Undelivered);
    let is_over = is(Reason::BudgetExhausted)
        || is(Reason::BudgetTimeExhausted)
        || is(Reason::AttemptTimeout)
        || is(Reason::DeadlineExceeded);
    match () {
        () if is_lost => ExecutionStatus::Lost,
        () if is_over || fault.category == Category::Timeout => ExecutionStatus::BudgetExhausted,
        () => ExecutionStatus::Failed,
    }
}

fn notes(fault: &Fault, reason: Option<&Text>) -> String {
    match reason {
        Some(reason) => format!("{}: {}", reason.as_str(), fault.message.as_str()),
        None => fault.message.to_string(),
    }
}

/// The report that ends the gate: the run record after a pass, a failure with the reasons otherwise.
pub(super) fn ending(caller: Caller, changes: &[Change]) -> Request {
    let record = changes.iter().find_map(|change| match change {
        Change::Record(record) => Some(record),
        _ => None,
    });
    let Some(record) = record else {
        return failed(caller, Category::Configuration, "the gate has nothing to say");
    };
    if record.gate_result == GateResult::Pass {
        return succeeded(caller, &json!(record));
    }
    let reasons: Vec<String> =
        record.gate_reasons.iter().map(|it| format!("{}: {}", it.check, it.message)).collect();
    failed(caller, Category::DataQuality, &format!("{GATE_FAILED}: {}", reasons.join("; ")))
}
