//! The chapter on topologies: declared deployments run on the server, with scripts in the place of people and executors.
//!
//! A script is a file that `tenure topology simulate` would play too. Nothing here knows a name in it, or in the topology: who may
//! move what, who executes and who is asked is read from the files. How long something takes is left out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tenure::{Ctx, Failure, Worker};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use topology::Topology;
use topology::simulate::Script;
use topology::simulate::script::{Condition, Decision, MoveTo, Performance, Step};
use wire::approvals::ApprovalView;
use wire::topologies::{ArtifactView, CreateArtifact, MoveArtifact, PauseStateView, WorkOrderView};
use wire::{ApprovalState, Json, PauseStateState};

use super::processes::{expect, unexpected};
use super::{END_WITHIN, Tour};
use crate::exit::CliError;
use crate::output::{self, BAD, GOOD};
use crate::server;

/// Between two looks at whether something has come to pass.
const LOOK: Duration = Duration::from_millis(20);

/// A topology with the script that is played on it.
struct Scene {
    title: &'static str,
    declared: &'static str,
    script: &'static str,
}

const REVIEW: Scene = Scene {
    title: "A topology: an agent works, and a schema, a judge and a person decide.",
    declared: include_str!("../../../../topologies/agent-review.yaml"),
    script: include_str!("scenes/agent-review.yaml"),
};

const TICKETS: Scene = Scene {
    title: "A topology: a ticket becomes a patch, although the server dies.",
    declared: include_str!("../../../../topologies/execution.yaml"),
    script: include_str!("scenes/execution.yaml"),
};

const TASKS: Scene = Scene {
    title: "A topology: notes become objectives, and other deployments are asked what waits.",
    declared: include_str!("../../../../topologies/task-management.yaml"),
    script: include_str!("scenes/task-management.yaml"),
};

impl Tour {
    /// The chapter in full.
    pub(super) async fn topology(&mut self) -> Result<(), CliError> {
        self.topology_in_short().await?;
        let tickets = Stage::of(&TICKETS)?;
        self.set(&TICKETS, &tickets).await?;
        let (before, after) = tickets.acts();
        self.play(&tickets, before, &mut Told::default()).await?;
        self.server.kill_and_restart().await?;
        self.say.tell("killed", "the server, with SIGKILL; another one has the same store")?;
        self.execute(&tickets, after).await?;
        let tasks = Stage::of(&TASKS)?;
        self.set(&TASKS, &tasks).await?;
        self.execute(&tasks, &tasks.script.steps).await
    }

    /// One scene, for the tour of everything.
    pub(super) async fn topology_in_short(&self) -> Result<(), CliError> {
        let review = Stage::of(&REVIEW)?;
        self.set(&REVIEW, &review).await?;
        self.execute(&review, &review.script.steps).await
    }

    /// Puts the topology in force, from a file as a person would.
    async fn set(&self, scene: &Scene, stage: &Stage) -> Result<(), CliError> {
        self.say.act(scene.title)?;
        let name = stage.name();
        let file = self.server.folder.join(format!("{name}.yaml"));
        std::fs::write(&file, scene.declared)?;
        let file = file.to_string_lossy();
        let applied = self.server.run_command(&["topology", "apply", &file]).await?;
        expect(applied.is_success, format_args!("{name} is put in force: {}", applied.stderr))?;
        let roles = output::count(stage.topology.declaration().roles.len() as u64, "role");
        self.say.tell("applied", format_args!("{name}.yaml: {roles}, and no code"))
    }

    /// Plays the rest with executors at work, and shows what came of it.
    async fn execute(&self, stage: &Stage, steps: &[Step]) -> Result<(), CliError> {
        let executors = Executors::start(self, stage);
        let mut told = Told::default();
        self.play(stage, steps, &mut told).await?;
        self.until_settled(stage, &mut told).await?;
        executors.stop().await?;
        self.ends(stage)?;
        self.inbox(stage).await
    }

    async fn play(&self, stage: &Stage, steps: &[Step], told: &mut Told) -> Result<(), CliError> {
        for step in steps {
            if let Some(condition) = &step.once {
                self.until(stage, condition, told).await?;
            }
            self.act_as_a_person(stage, step).await?;
        }
        Ok(())
    }

    async fn act_as_a_person(&self, stage: &Stage, step: &Step) -> Result<(), CliError> {
        let (deployments, name) = (self.server.client.deployments(), stage.name());
        if let Some(wanted) = &step.create {
            let made = CreateArtifact { id: wanted.id.clone(), fields: json(&wanted.fields)? };
            let made = deployments.create_artifact(name, &wanted.artifact, &made).await;
            let made = made.map_err(server::cli_error)?;
            self.say.tell("created", at(&made))?;
        }
        if let Some(wanted) = &step.move_to {
            self.move_artifact(stage, wanted).await?;
        }
        if let Some(wanted) = &step.request {
            let made = deployments.event(name, &wanted.event, &wanted.key).await;
            let made = made.map_err(server::cli_error)?;
            self.say.tell("requested", made.event_id)?;
        }
        Ok(())
    }

    async fn move_artifact(&self, stage: &Stage, wanted: &MoveTo) -> Result<(), CliError> {
        let (deployments, name) = (self.server.client.deployments(), stage.name());
        let MoveTo { artifact, id, to } = wanted;
        let now = deployments.artifact(name, artifact, id).await.map_err(server::cli_error)?;
        let is_approval = stage.is_approval(artifact, &now.status, to);
        let to = MoveArtifact { to: to.clone(), revision: None, fields: Json::null() };
        let moved = match is_approval {
            true => deployments.approve_artifact(name, artifact, id, &to).await,
            false => deployments.move_artifact(name, artifact, id, &to).await,
        };
        let moved = moved.map_err(server::cli_error)?;
        self.say.tell(if is_approval { "approved" } else { "moved" }, at(&moved))
    }

    async fn until(
        &self,
        stage: &Stage,
        condition: &Condition,
        told: &mut Told,
    ) -> Result<(), CliError> {
        let deadline = Instant::now() + END_WITHIN;
        loop {
            self.judgements(stage, told).await?;
            let Condition { artifact, id, status, passed } = condition;
            let deployments = self.server.client.deployments();
            let now = deployments.artifact(stage.name(), artifact, id).await;
            let now = now.map_err(server::cli_error)?;
            let is_there = status.as_ref().is_none_or(|status| *status == now.status);
            if is_there && (!passed || now.passed.is_some()) {
                return Ok(());
            }
            expect(Instant::now() < deadline, format_args!("{} goes on", at(&now)))?;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Answers what people are asked, until the script is through.
    async fn until_settled(&self, stage: &Stage, told: &mut Told) -> Result<(), CliError> {
        let deadline = Instant::now() + END_WITHIN;
        let mut answered = BTreeMap::new();
        loop {
            let is_settled = self.is_settled(stage).await?;
            self.judgements(stage, told).await?;
            if is_settled {
                return Ok(());
            }
            self.answer(stage, &mut answered, told).await?;
            expect(Instant::now() < deadline, format_args!("{} comes to an end", stage.name()))?;
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn is_settled(&self, stage: &Stage) -> Result<bool, CliError> {
        for (artifact, status) in &stage.script.expect {
            let (kind, id) = artifact.split_once('/').unwrap_or((artifact, ""));
            let deployments = self.server.client.deployments();
            let now = deployments.artifact(stage.name(), kind, id).await;
            if now.map_err(server::cli_error)?.status != *status {
                return Ok(false);
            }
        }
        let orders = self.orders(stage).await?;
        let ended: BTreeSet<&str> =
            orders.iter().filter(|it| it.record.is_some()).map(|it| it.kind.as_str()).collect();
        Ok(stage.ordered().all(|kind| ended.contains(kind)))
    }

    async fn answer(
        &self,
        stage: &Stage,
        answered: &mut BTreeMap<String, usize>,
        told: &mut Told,
    ) -> Result<(), CliError> {
        let approvals = self.server.client.approvals();
        let asked =
            approvals.list().state(ApprovalState::Pending).await.map_err(server::cli_error)?;
        for approval in asked.approvals {
            let Some((check, decisions)) = stage.people(&approval) else { continue };
            let turn = answered.entry(check.to_owned()).or_default();
            let decision = decisions.get(*turn).or(decisions.last());
            let decision = decision.ok_or_else(|| unexpected("the script has no answer"))?;
            *turn += 1;
            // What was judged before the question is told before it.
            self.judgements(stage, told).await?;
            self.answer_one(&approval, decision).await?;
        }
        Ok(())
    }

    async fn answer_one(&self, approval: &ApprovalView, answer: &Decision) -> Result<(), CliError> {
        let question = approval.subject.as_deref().unwrap_or(&approval.key);
        self.say.tell("asked", format_args!("a person: \"{question}\""))?;
        let (verb, word) =
            if answer.approved { ("approve", "approved") } else { ("reject", "rejected") };
        // The key of the executors did the work, so another one decides about it.
        let person = self.person("reviewer").await?;
        let digest = approval.digest.clone().unwrap_or_default();
        let why = answer.reason.as_deref().unwrap_or("without a comment");
        let said = ["approvals", verb, &approval.approval_id, "--digest", &digest];
        let more = ["--comment", why, "--key", &person.secret];
        let said = self.server.run_command(&[&said[..], &more[..]].concat()).await?;
        expect(said.is_success, format_args!("a reviewer may decide: {}", said.stderr))?;
        self.say.tell(word, format_args!("\"{why}\""))
    }

    async fn orders(&self, stage: &Stage) -> Result<Vec<WorkOrderView>, CliError> {
        let found = self.server.client.deployments().work_orders(stage.name()).await;
        Ok(found.map_err(server::cli_error)?.work_orders)
    }

    /// The work orders that were judged since the last time, with what their gates said, in the order of their ends.
    async fn judgements(&self, stage: &Stage, told: &mut Told) -> Result<(), CliError> {
        let mut orders = self.orders(stage).await?;
        orders.retain(|order| order.record.is_some() && told.orders.insert(order.id.clone()));
        orders.sort_by_key(|order| order.record.as_ref().map(|record| record.created_at));
        for WorkOrderView { kind, record, .. } in &orders {
            let Some(record) = record else { continue };
            let checks: Vec<&str> =
                record.gate_reasons.iter().map(|reason| reason.check.as_str()).collect();
            let result = &record.gate_result;
            match checks.is_empty() {
                true => self.say.tell("judged", format_args!("{kind}: {GOOD}{result}{GOOD:#}"))?,
                false => self.say.tell(
                    "judged",
                    format_args!("{kind}: {BAD}{result}{BAD:#}, {}", checks.join(", ")),
                )?,
            }
        }
        Ok(())
    }

    /// Where the artifacts are at the end.
    fn ends(&self, stage: &Stage) -> Result<(), CliError> {
        for (artifact, status) in &stage.script.expect {
            self.say.tell("ended", format_args!("{artifact} {GOOD}{status}{GOOD:#}"))?;
        }
        Ok(())
    }

    /// The last thing that waits for a person.
    async fn inbox(&self, stage: &Stage) -> Result<(), CliError> {
        let pauses = self.server.client.deployments().pause_states(stage.name());
        let found = pauses.state(PauseStateState::Open).await;
        let found = found.map_err(server::cli_error)?.pause_states;
        let last = found.iter().max_by_key(|pause| pause.created_at);
        let last = last.ok_or_else(|| unexpected("nothing is in the inbox"))?;
        let PauseStateView { reason, actions, .. } = last;
        let action = actions.first().map_or("", String::as_str);
        self.say.tell("inbox", format_args!("what is left for a person ({reason}): \"{action}\""))
    }
}

/// Work orders whose judgement was told.
#[derive(Default)]
struct Told {
    orders: BTreeSet<String>,
}

/// A topology and its script, read.
struct Stage {
    topology: Topology,
    script: Script,
}

impl Stage {
    fn of(scene: &Scene) -> Result<Stage, CliError> {
        let problems = |found: Vec<topology::Problem>| unexpected(format!("{found:?}"));
        let topology = topology::read(scene.declared).map_err(problems)?;
        let script = Script::read(scene.script, &topology).map_err(problems)?;
        Ok(Stage { topology, script })
    }

    fn name(&self) -> &str {
        self.topology.name()
    }

    /// The steps before the first one that waits for something, and the others.
    fn acts(&self) -> (&[Step], &[Step]) {
        let steps = &self.script.steps;
        steps.split_at(steps.iter().position(|step| step.once.is_some()).unwrap_or(steps.len()))
    }

    fn is_approval(&self, artifact: &str, from: &str, to: &str) -> bool {
        let declared = self.topology.declaration().artifacts.get(artifact);
        let transitions = declared.into_iter().flat_map(|it| &it.transitions);
        transitions.into_iter().any(|it| it.from == from && it.to == to && it.by == "approval")
    }

    /// The queues of executors and judges.
    fn queues(&self) -> BTreeSet<String> {
        let declared = self.topology.declaration();
        let checks = declared.gates.values().flat_map(|gate| &gate.checks);
        let judges = checks.filter_map(|check| check.judge.as_ref()).map(|judge| &judge.queue);
        declared.work_orders.values().map(|order| &order.queue).chain(judges).cloned().collect()
    }

    /// The kinds of work orders that the script has executors for.
    fn ordered(&self) -> impl Iterator<Item = &str> {
        let declared = self.topology.declaration().work_orders.values();
        let kinds = declared.map(|order| order.kind.as_str());
        kinds.filter(|kind| self.script.executors.contains_key(*kind))
    }

    /// What the script lets people answer to a question.
    fn people(&self, approval: &ApprovalView) -> Option<(&str, &[Decision])> {
        let mut checks = self.script.people.iter();
        let (check, decisions) = checks.find(|(check, _)| approval.key.ends_with(*check))?;
        Some((check, decisions))
    }
}

/// A worker that does what the script says, in the place of every executor and judge.
struct Executors {
    stop: oneshot::Sender<()>,
    working: JoinHandle<Result<(), tenure::Error>>,
}

/// What executors do next, by kind. The last one repeats.
type Turns = Arc<Mutex<BTreeMap<String, VecDeque<Performance>>>>;

impl Executors {
    fn start(tour: &Tour, stage: &Stage) -> Executors {
        let turns = stage.script.executors.iter();
        let turns = turns.map(|(kind, done)| (kind.clone(), done.clone().into()));
        let turns: Turns = Arc::new(Mutex::new(turns.collect()));
        let mut worker = Worker::new(tour.server.client.clone()).name("frank");
        for queue in stage.queues() {
            worker = worker.queue(queue);
        }
        let worker = worker.handle_any(move |ctx: Ctx, _: Value| {
            let done = perform(&turns, ctx.kind());
            async move { done }
        });
        let (stop, stopped) = oneshot::channel();
        let working = tokio::spawn(worker.run_until(async { drop(stopped.await) }));
        Executors { stop, working }
    }

    async fn stop(self) -> Result<(), CliError> {
        drop(self.stop);
        self.working.await.map_err(unexpected)?.map_err(server::cli_error)
    }
}

fn perform(turns: &Turns, kind: &str) -> Result<Value, Failure> {
    let mut turns = turns.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let queue = turns.get_mut(kind).ok_or_else(|| Failure::config("not in the script"))?;
    let next = match queue.len() {
        0 | 1 => queue.front().cloned(),
        _ => queue.pop_front(),
    };
    let Performance { output, raises, .. } = next.unwrap_or_default();
    match (output, raises) {
        (Some(output), _) => Ok(output),
        (None, raises) => Err(Failure::user_code(raises.unwrap_or_default())),
    }
}

fn at(artifact: &ArtifactView) -> String {
    format!("{}/{} {}", artifact.artifact_type, artifact.id, artifact.status)
}

fn json(value: &Value) -> Result<Json, CliError> {
    Json::from_text(value.to_string()).map_err(unexpected)
}
