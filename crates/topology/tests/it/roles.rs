//! Each role by itself: what it read goes in, what it proposes comes out, and a second time nothing.

use serde_json::{Value, json};
use topology::Topology;
use topology::deployment::{Artifact, ArtifactRef, Deployment};
use topology::gate;
use topology::proposal::{self, ArtifactChange, Author, Change, Refusal};
use topology::roles::runner::Execution;
use topology::roles::{deadlines, readiness, review, runner, scheduler};
use topology::work::Work;

use crate::{EXECUTION, TASK_MANAGEMENT, compiled};

struct World {
    topology: Topology,
    deployment: Deployment,
    now: u64,
}

impl World {
    fn new(text: &str) -> Self {
        Self { topology: compiled(text), deployment: Deployment::new("d"), now: 0 }
    }

    fn commit(&mut self, author: Author<'_>, changes: &[Change]) -> Result<(), Refusal> {
        self.now += 1;
        proposal::commit(&self.topology, &mut self.deployment, author, changes, self.now)
    }

    fn create(&mut self, kind: &str, id: &str, fields: Value) -> ArtifactRef {
        let artifact = ArtifactRef { kind: kind.to_owned(), id: id.to_owned() };
        let fields = self.topology.check_fields(kind, fields, &mut Work::of_check()).unwrap();
        let change = Change::Create { artifact: artifact.clone(), fields };
        self.commit(Author::Person, &[change]).unwrap();
        artifact
    }

    fn artifact(&self, name: &ArtifactRef) -> &Artifact {
        &self.deployment.artifacts[name]
    }

    fn move_by(&mut self, author: Author<'_>, name: &ArtifactRef, to: &str) -> Result<(), Refusal> {
        let mut change = ArtifactChange::of(self.artifact(name));
        change.to = Some(to.to_owned());
        self.commit(author, &[Change::Artifact(change)])
    }

    fn ready(&mut self, role: &str, name: &ArtifactRef) -> Vec<Change> {
        let changes = readiness::propose(&self.topology, role, self.artifact(name), self.now);
        self.commit(Author::Role(role), &changes).unwrap();
        changes
    }

    fn scheduling(&self, role: &str, event: &str) -> Vec<Change> {
        let event = &self.deployment.events[event];
        let read = scheduler::Read {
            deployment: "d",
            event,
            subject: event.subject.as_ref().and_then(|it| self.deployment.artifacts.get(it)),
            pending: self.deployment.artifacts.values().collect(),
            lists: Vec::new(),
            answers: Vec::new(),
            is_ordered: false,
            now: self.now,
        };
        scheduler::propose(&self.topology, role, &read)
    }

    fn judging(&self, role: &str, order: &str) -> Vec<Change> {
        let order = &self.deployment.work_orders[order];
        let read = gate::Read {
            work_order: order,
            recorded: self.deployment.run_records.contains_key(&order.id),
            artifacts: order.artifacts.iter().map(|it| self.artifact(it)).collect(),
            now: self.now,
        };
        gate::propose(&self.topology, role, &read)
    }
}

fn ticket() -> Value {
    json!({"title": "t", "acceptance_criteria": ["c"], "objective_type": "TICKET", "importance": 1, "urgency": 1})
}

/// A ticket that a person has approved.
fn approved() -> (World, ArtifactRef) {
    let mut world = World::new(EXECUTION);
    let name = world.create("objective", "T", ticket());
    world.move_by(Author::Person, &name, "TODO").unwrap();
    (world, name)
}

/// An approved ticket with its event.
fn evented() -> (World, ArtifactRef, String) {
    let (mut world, name) = approved();
    world.ready("readiness", &name);
    let event = world.deployment.events.keys().next().unwrap().clone();
    (world, name, event)
}

#[test]
fn readiness_emits_once_for_each_entry_into_the_status() {
    // S0-7, S0-9, S0-10, R-18
    let mut world = World::new(EXECUTION);
    let name = world.create("objective", "T", ticket());
    assert!(world.ready("readiness", &name).is_empty(), "a new ticket is not executable");
    world.move_by(Author::Person, &name, "TODO").unwrap();
    assert_eq!(world.ready("readiness", &name).len(), 2);
    for _ in 0..3 {
        assert!(world.ready("readiness", &name).is_empty());
    }
    // Even if the event itself were forgotten, the artifact's row remembers it.
    world.deployment.events.clear();
    assert!(world.ready("readiness", &name).is_empty());
    world.move_by(Author::Person, &name, "NEW").unwrap();
    world.move_by(Author::Person, &name, "TODO").unwrap();
    assert_eq!(world.ready("readiness", &name).len(), 2, "another entry, another event");
}

#[test]
fn two_readiness_processes_that_read_the_same_emit_once() {
    // S0-10: the second proposal names a revision that is gone, and nothing of it is kept.
    let (mut world, name) = approved();
    let same = readiness::propose(&world.topology, "readiness", world.artifact(&name), 5);
    world.commit(Author::Role("readiness"), &same).unwrap();
    let after = world.deployment.clone();
    assert_eq!(world.commit(Author::Role("readiness"), &same), Err(Refusal::StaleRevision(name)));
    assert_eq!(world.deployment, after);
}

#[test]
fn only_declared_transitions_by_their_declared_author_are_made() {
    // S0-8: every pair of statuses and every author, against the declaration.
    let topology = compiled(EXECUTION);
    let statuses = topology.artifact("objective").unwrap().statuses.clone();
    let authors =
        [Author::Person, Author::Role("scheduler"), Author::Role("gate"), Author::Role("runner")];
    let mut allowed = 0;
    for from in &statuses {
        for to in &statuses {
            for author in authors {
                let declared = topology.authority("objective", from, to);
                let expected = match author {
                    Author::Person => matches!(declared, Some("approval" | "person")),
                    Author::Role(role) => declared == Some(&format!("role:{role}")),
                };
                assert_eq!(proposal::may_move(&topology, "objective", from, to, author), expected);
                allowed += usize::from(expected);
            }
        }
    }
    assert_eq!(allowed, 7, "each declared transition has one author");
    let (mut world, name) = approved();
    let refused = world.move_by(Author::Role("gate"), &name, "DONE");
    assert!(matches!(refused, Err(Refusal::NotAllowed { .. })), "{refused:?}");
}

#[test]
fn scheduling_is_one_proposal_and_the_second_time_nothing() {
    // S0-13, S0-14, S0-15, S0-16, S0-17, S0-49, S0-50, W-28
    let (mut world, name, event) = evented();
    let changes = world.scheduling("scheduler", &event);
    world.commit(Author::Role("scheduler"), &changes).unwrap();
    let order = world.deployment.work_orders.values().next().unwrap().clone();
    assert_eq!(order.id, format!("wo/{event}"), "the id derives from the event's");
    assert_eq!(order.kind, "PATCH_DIAZOTROPH");
    assert_eq!(order.snapshot["artifacts"][0]["fields"]["title"], "t");
    assert_eq!(order.topology, world.topology.digest());
    assert_eq!(world.artifact(&name).status, "IN_PROGRESS");
    let end = world.deployment.events[&event].processed.clone().unwrap();
    assert_eq!(end.terminal_reason, "SCHEDULED");
    assert!(world.scheduling("scheduler", &event).is_empty(), "a processed event asks for nothing");
    // A process that read before the commit is refused as a whole.
    let after = world.deployment.clone();
    assert!(world.commit(Author::Role("scheduler"), &changes).is_err());
    assert_eq!(world.deployment, after);
}

#[test]
fn a_proposal_that_is_refused_anywhere_changes_nothing() {
    // W-28: whichever change of a scheduling is refused, none of the others is kept.
    let (world, _, event) = evented();
    let changes = world.scheduling("scheduler", &event);
    assert_eq!(changes.len(), 3);
    for place in 0..=changes.len() {
        let mut broken = changes.clone();
        broken.insert(place, Change::Process { event: "none".to_owned(), reason: "X".to_owned() });
        let mut deployment = world.deployment.clone();
        let refused = proposal::commit(
            &world.topology,
            &mut deployment,
            Author::Role("scheduler"),
            &broken,
            9,
        );
        assert_eq!(refused, Err(Refusal::Missing("none".to_owned())));
        assert_eq!(deployment, world.deployment, "refused at {place}");
    }
}

#[test]
fn events_that_ask_for_nothing_possible_end_with_their_reason() {
    // S0-17, W-30: and none of them makes a work order.
    let end = |change: &dyn Fn(&mut World, &ArtifactRef)| {
        let (mut world, name, event) = evented();
        change(&mut world, &name);
        let changes = world.scheduling("scheduler", &event);
        world.commit(Author::Role("scheduler"), &changes).unwrap();
        assert!(world.deployment.work_orders.is_empty());
        world.deployment.events[&event].processed.clone().unwrap().terminal_reason
    };
    assert_eq!(
        end(&|world, name| {
            world.deployment.artifacts.remove(name);
        }),
        "MISSING_TICKET"
    );
    assert_eq!(
        end(&|world, name| world.move_by(Author::Person, name, "NEW").unwrap()),
        "NON_EXECUTABLE_STATUS"
    );
    assert_eq!(
        end(&|world, name| world.move_by(Author::Role("scheduler"), name, "IN_PROGRESS").unwrap()),
        "NON_EXECUTABLE_STATUS"
    );
    let newer = end(&|world, name| {
        world.move_by(Author::Person, name, "NEW").unwrap();
        world.move_by(Author::Person, name, "TODO").unwrap();
    });
    assert_eq!(newer, "NON_EXECUTABLE_STATUS", "the newer entry has an event of its own");
}

#[test]
fn a_blocked_ticket_is_paused_with_its_next_action() {
    //
    let mut world = World::new(EXECUTION);
    let mut fields = ticket();
    fields["blocked_on"] = json!([
        {"blocker_id": "b", "kind": "USER_INPUT", "description": "?", "resolved": true},
        {"blocker_id": "c", "kind": "USER_INPUT", "description": "?", "resolved": false},
    ]);
    let name = world.create("objective", "T", fields);
    world.move_by(Author::Person, &name, "TODO").unwrap();
    world.ready("readiness", &name);
    let changes = world.scheduling("scheduler", "TICKET_READY/objective/T/2");
    world.commit(Author::Role("scheduler"), &changes).unwrap();
    assert_eq!(world.artifact(&name).status, "BLOCKED");
    let pause = world.deployment.pauses.values().next().unwrap();
    assert_eq!(pause.id, "BLOCKED/objective/T/2", "cause and transition, not the time of writing");
    assert_eq!(pause.actions.len(), 1);
}

fn good_patch() -> Value {
    json!({"title": "p", "content": "diff", "metadata": {"applies_cleanly": true, "branch_name": "azolla/T", "commit_sha": "abc", "pr_description_draft": "d"}})
}

/// A ticket with an executed work order.
fn executed(execution: &Execution) -> (World, ArtifactRef, String) {
    let (mut world, name, event) = evented();
    let changes = world.scheduling("scheduler", &event);
    world.commit(Author::Role("scheduler"), &changes).unwrap();
    let id = world.deployment.work_orders.keys().next().unwrap().clone();
    for _ in 0..10 {
        let changes = runner::propose(
            &world.topology,
            &world.deployment.work_orders[&id],
            execution,
            world.now,
        );
        world.commit(Author::Role("runner"), &changes).unwrap();
    }
    (world, name, id)
}

#[test]
fn an_execution_leaves_one_output_and_the_second_time_nothing() {
    // S0-21, S0-22, S0-51: ten runs of the runner, one bundle.
    let (mut world, _, id) = executed(&Execution::Completed(good_patch()));
    let bundle = world.deployment.work_orders[&id].output.clone().unwrap();
    assert_eq!(bundle.output, good_patch());
    let other = Change::Output { work_order: id.clone(), bundle: bundle.clone() };
    assert_eq!(world.commit(Author::Role("runner"), &[other]), Err(Refusal::Done(id)));
}

#[test]
fn an_executor_that_always_raises_or_vanishes_uses_up_its_attempts() {
    // W-26, R-37, R-38: the work order ends at its gate.
    for (execution, status, pause) in [
        (Execution::Raised("boom".to_owned()), "FAILED", "GATE_FAILED"),
        (Execution::Lost, "LOST", "GATE_FAILED"),
        (Execution::BudgetExhausted, "BUDGET_EXHAUSTED", "BUDGET_EXHAUSTED"),
    ] {
        let (mut world, name, id) = executed(&execution);
        let order = &world.deployment.work_orders[&id];
        assert!(order.failures + order.lost < 3);
        let changes = world.judging("gate", &id);
        world.commit(Author::Role("gate"), &changes).unwrap();
        let record = serde_json::to_value(&world.deployment.run_records[&id]).unwrap();
        assert_eq!(
            (&record["gateResult"], &record["executionStatus"]),
            (&json!("FAIL"), &json!(status))
        );
        assert_eq!(record["gateReasons"][0]["check"], "execution");
        assert_eq!(world.artifact(&name).status, "TODO");
        let shown = serde_json::to_value(world.deployment.pauses.values().next().unwrap()).unwrap();
        assert_eq!(shown["reason"], pause);
    }
}

#[test]
fn a_gate_makes_one_record_and_the_second_time_nothing() {
    // S0-24, S0-25, S0-27, S0-52, R-27
    let (mut world, _, id) = executed(&Execution::Completed(good_patch()));
    let changes = world.judging("gate", &id);
    world.commit(Author::Role("gate"), &changes).unwrap();
    assert!(world.judging("gate", &id).is_empty());
    let after = world.deployment.clone();
    assert_eq!(world.commit(Author::Role("gate"), &changes), Err(Refusal::Done(id.clone())));
    assert_eq!(world.deployment, after);
    assert_eq!((after.run_records.len(), after.pauses.len()), (1, 1));
}

#[test]
fn a_pass_is_not_yet_a_confirmation() {
    // R-26, S0-26: the ticket stays until a person confirms it, unless the topology says otherwise.
    let (mut world, name, id) = executed(&Execution::Completed(good_patch()));
    let changes = world.judging("gate", &id);
    world.commit(Author::Role("gate"), &changes).unwrap();
    assert_eq!(
        (world.artifact(&name).status.as_str(), world.artifact(&name).passed.as_ref()),
        ("IN_PROGRESS", Some(&id))
    );
    world.move_by(Author::Person, &name, "DONE").unwrap();
    assert_eq!(world.artifact(&name).passed, None);

    let automatic = EXECUTION.replace("autoConfirm: false", "autoConfirm: true").replace(
        "{from: IN_PROGRESS, to: DONE, by: person}",
        "{from: IN_PROGRESS, to: DONE, by: \"role:gate\"}",
    );
    world.topology = compiled(&automatic);
    let (again, _, _) = executed(&Execution::Completed(good_patch()));
    world.deployment = again.deployment;
    let changes = world.judging("gate", &id);
    world.commit(Author::Role("gate"), &changes).unwrap();
    assert_eq!(world.artifact(&name).status, "DONE");
}

#[test]
fn a_gate_that_fails_names_every_clause() {
    let mut output = good_patch();
    output["metadata"]["branch_name"] = json!("");
    output["content"] = json!("  ");
    let (mut world, _, id) = executed(&Execution::Completed(output));
    let changes = world.judging("gate", &id);
    world.commit(Author::Role("gate"), &changes).unwrap();
    let reasons = &world.deployment.run_records[&id].gate_reasons;
    let named: Vec<&str> = reasons.iter().map(|it| it.check.as_str()).collect();
    assert_eq!(named, ["has-a-patch", "names-its-branch"]);
    assert_eq!(
        reasons[1].message,
        "`output.metadata.branch_name` must not be empty, but it is \"\""
    );
}

#[test]
fn a_person_who_moves_the_artifact_first_is_not_overruled() {
    let (mut world, name, id) = executed(&Execution::Completed(json!({})));
    world.move_by(Author::Person, &name, "DONE").unwrap();
    let changes = world.judging("gate", &id);
    world.commit(Author::Role("gate"), &changes).unwrap();
    assert_eq!(
        (world.artifact(&name).status.as_str(), &world.artifact(&name).reserved_by),
        ("DONE", &None)
    );
    assert!(world.deployment.run_records.contains_key(&id), "the record is written all the same");
}

#[test]
fn two_events_do_not_take_the_same_captures() {
    // W-25, S1-3, S1-4, S1-5, S1-8, S1-9, S1-10
    let mut world = World::new(TASK_MANAGEMENT);
    let names: Vec<ArtifactRef> = (0..3)
        .map(|n| {
            world.create(
                "capture_buffer",
                &format!("c{n}"),
                json!({"raw_content": "x", "source_label": "y"}),
            )
        })
        .collect();
    for name in &names {
        assert_eq!(world.ready("capture-readiness", name).len(), 2);
        assert!(world.ready("capture-readiness", name).is_empty());
    }
    let events: Vec<String> = world.deployment.events.keys().cloned().collect();
    assert_eq!(events.len(), 3);
    for event in &events {
        let changes = world.scheduling("scheduler", event);
        world.commit(Author::Role("scheduler"), &changes).unwrap();
    }
    let orders: Vec<_> = world.deployment.work_orders.values().collect();
    assert_eq!(orders.len(), 1);
    assert_eq!(orders[0].artifacts.len(), 3);
    assert_eq!(orders[0].snapshot["artifacts"].as_array().unwrap().len(), 3);
    assert!(
        names.iter().all(|name| world.artifact(name).reserved_by.as_ref() == Some(&orders[0].id))
    );
    let ends = events
        .iter()
        .map(|event| world.deployment.events[event].processed.clone().unwrap().terminal_reason);
    assert_eq!(
        ends.collect::<Vec<_>>(),
        ["SCHEDULED", "NO_PENDING_CAPTURES", "NO_PENDING_CAPTURES"]
    );
}

#[test]
fn a_work_order_takes_at_most_what_is_declared_and_its_own_capture_first() {
    let mut world = World::new(&TASK_MANAGEMENT.replace("atMost: 10}", "atMost: 2}"));
    for n in 0..5 {
        let name = world.create(
            "capture_buffer",
            &format!("c{n}"),
            json!({"raw_content": "x", "source_label": "y"}),
        );
        world.ready("capture-readiness", &name);
    }
    let changes = world.scheduling("scheduler", "CAPTURE_READY/capture_buffer/c4/1");
    world.commit(Author::Role("scheduler"), &changes).unwrap();
    let order = world.deployment.work_orders.values().next().unwrap();
    assert_eq!(order.artifacts.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["c4", "c0"]);
}

#[test]
fn an_overdue_objective_is_paused_once_for_each_deadline() {
    // W-24, S1-24, S1-25, S1-26: urgency 4 has no deadline, an ended objective neither.
    const DAY: u64 = 86_400_000;
    let mut world = World::new(TASK_MANAGEMENT);
    let fields =
        |urgency: u64| json!({"title": "t", "objective_type": "STANDING", "urgency": urgency});
    let soon = world.create("objective", "soon", fields(1));
    let never = world.create("objective", "never", fields(4));
    let look = |world: &mut World, name: &ArtifactRef, now: u64| {
        let changes =
            deadlines::propose(&world.topology, "deadline-monitor", world.artifact(name), now);
        world.now = now;
        world.commit(Author::Role("deadline-monitor"), &changes).unwrap();
        world.deployment.pauses.len()
    };
    let entered = world.artifact(&soon).entered_at;
    assert_eq!(look(&mut world, &soon, entered + DAY - 1), 0);
    for later in [0, 1, 1_000, 5 * DAY] {
        assert_eq!(
            look(&mut world, &soon, entered + DAY + later),
            1,
            "one deadline, one pause state"
        );
    }
    assert_eq!(look(&mut world, &never, 4_000 * DAY), 1);
    let pause = world.deployment.pauses.values().next().unwrap().clone();
    assert_eq!(pause.id, format!("DEADLINE_OVERDUE/objective/soon/{}", entered + DAY));
    assert_eq!(pause.actions.len(), 2);
    // S1-27: it orders nothing and claims nothing.
    assert!(world.deployment.work_orders.is_empty() && world.deployment.events.is_empty());
    world.move_by(Author::Person, &soon, "TODO").unwrap();
    let entered = world.artifact(&soon).entered_at;
    assert_eq!(look(&mut world, &soon, entered + DAY), 2, "a new status, a new deadline");
}

#[test]
fn a_review_moves_only_where_the_declaration_names_it() {
    // S0-57, S0-58: one line replaces the person.
    let mut world = World::new(EXECUTION);
    let name = world.create("objective", "T", ticket());
    assert!(review::propose(&world.topology, "review", world.artifact(&name)).is_empty());
    world.topology = compiled(&EXECUTION.replace("by: approval", "by: \"role:review\""));
    let changes = review::propose(&world.topology, "review", world.artifact(&name));
    world.commit(Author::Role("review"), &changes).unwrap();
    assert_eq!(world.artifact(&name).status, "TODO");
    assert!(review::propose(&world.topology, "review", world.artifact(&name)).is_empty());
    let refused = world.create("objective", "vague", {
        let mut fields = ticket();
        fields["acceptance_criteria"] = json!([]);
        fields
    });
    assert!(review::propose(&world.topology, "review", world.artifact(&refused)).is_empty());
}
