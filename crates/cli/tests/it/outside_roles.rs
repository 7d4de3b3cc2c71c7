//! The shipped topologies with their roles in processes of their own, which die while they hold claims. What comes of it is what
//! comes of the same file when the server runs every role and nobody dies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crashlab::rng::SeededRng;
use crashlab::waits;
use serde_json::{Value, json};
use tenure::wire::Json;
use tenure::wire::approvals::DecideApproval;
use tenure::wire::topologies::{CreateArtifact, MoveArtifact};
use tenure::wire::{ApprovalDecision, ApprovalState, DeploymentState, Role};
use tenure::{Client, Ctx, Failure, Worker};
use tokio_util::sync::CancellationToken;
use topology::declaration::Logic;

use crate::durable::World;
use crate::home::Process;
use crate::operate_backup::url;

/// The environment variable that repeats a seed.
const SEED: &str = "TENURE_CRASH_SEED";

/// How many turns end with the death of the process that has them.
const DEATHS: usize = 4;

/// Among how many of the first turns those are.
const TURNS: u64 = 14;

/// Among how many of them the first one is.
const TURNS_FIRST: u64 = 3;

/// Things of each kind that go through a topology.
const THINGS: usize = 3;

/// The shortest lease that may be declared: so long a turn of a dead process rests.
const LEASE: &str = "2s";

/// Asked before each decision, which it leaves as it is. Once so many turns were taken as the next death says, it kills who asks.
const MORTAL: &str = r#"#!/bin/sh
set -eu
cat > /dev/null
cd "$(dirname "$0")"
mktemp turns/XXXXXXXX > /dev/null
turn=$(ls turns | wc -l | tr -d ' ')
for death in $(ls deaths | sort -n); do
  if [ "$death" -le "$turn" ] && rmdir "deaths/$death" 2> /dev/null; then
    echo "$TENURE_ROLE" >> died
    kill -9 "$PPID"
    exit 1
  fi
done
"#;

/// A shipped topology, and how far it must come.
#[derive(Clone, Copy)]
struct Story {
    file: &'static str,
    name: &'static str,
    /// The statuses in which artifacts of a type must end.
    ends: &'static [(&'static str, usize, &'static str)],
    /// Whether the work orders are the same whoever takes which turn first.
    is_exact: bool,
}

const EXECUTION: Story = Story {
    file: "execution.yaml",
    name: "execution",
    ends: &[("objective", THINGS, "IN_PROGRESS")],
    is_exact: true,
};

const TASK_MANAGEMENT: Story = Story {
    file: "task-management.yaml",
    name: "task-management",
    ends: &[("capture_buffer", THINGS, "PROCESSED"), ("session_manifest", 1, "WRITTEN")],
    is_exact: false,
};

const AGENT_REVIEW: Story = Story {
    file: "agent-review.yaml",
    name: "agent-review",
    ends: &[("assignment", THINGS, "accepted")],
    is_exact: true,
};

fn seed() -> u64 {
    match std::env::var(SEED) {
        Ok(text) => text.parse().expect("a seed is a number"),
        Err(_) => getrandom::u64().unwrap(),
    }
}

fn json<T: serde::Serialize>(value: &T) -> Json {
    Json::from_value(value).unwrap()
}

/// How often each work order was executed, by its event and stage.
type Executed = Arc<Mutex<BTreeMap<String, usize>>>;

/// A story that is played on a server.
struct Play {
    world: World,
    story: Story,
    executed: Executed,
    stop: CancellationToken,
}

impl Play {
    fn begin(world: World, story: Story) -> Play {
        let executed = Executed::default();
        let stop = CancellationToken::new();
        let mut worker = Worker::new(world.client.clone());
        for queue in ["patch", "triage", "manifest", "agents", "judges"] {
            worker = worker.queue(queue);
        }
        for kind in [
            "PATCH_DIAZOTROPH",
            "TRIAGE_DIAZOTROPH",
            "MANIFEST_BUILDER_DIAZOTROPH",
            "plan-assignment",
            "build-assignment",
            "judge-assignment",
        ] {
            let executed = executed.clone();
            worker = worker.handle(kind, move |_: Ctx, snapshot: Value| {
                let made = execute(kind, &snapshot, &executed);
                async move { Ok::<Value, Failure>(made) }
            });
        }
        tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        Play { world, story, executed, stop }
    }

    /// The declaration of the shipped file, with every role that may be outside there or not.
    fn declaration(&self, is_outside: bool) -> (Value, Vec<String>) {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
        let text = std::fs::read_to_string(folder.join(self.story.file)).unwrap();
        let topology = topology::read(&text).unwrap();
        let mut declared = serde_json::to_value(topology.declaration()).unwrap();
        let mut outside = Vec::new();
        for (name, role) in &topology.declaration().roles {
            let is_claiming = matches!(role.uses, Logic::Scheduler | Logic::Gate);
            if is_outside && (is_claiming || role.uses == Logic::Readiness) {
                declared["roles"][name]["outside"] = json!(true);
                if is_claiming {
                    declared["roles"][name]["lease"] = json!(LEASE);
                }
                outside.push(name.clone());
            }
        }
        (declared, outside)
    }

    async fn apply(&self, declared: &Value) {
        let made = self.world.client.deployments().apply(self.story.name, json(declared)).await;
        assert_eq!(made.unwrap().state, DeploymentState::Active);
    }

    /// What people do before anything else happens.
    async fn prepare(&self) {
        let deployments = self.world.client.deployments();
        let name = self.story.name;
        let create = async |kind: &str, id: String, fields: Value| {
            let made = CreateArtifact { id, fields: json(&fields) };
            deployments.create_artifact(name, kind, &made).await.unwrap();
        };
        for n in 0..THINGS {
            match name {
                "execution" => {
                    let fields = json!({"title": "t", "acceptance_criteria": ["c"],
                        "objective_type": "TICKET", "importance": 1, "urgency": 1});
                    create("objective", format!("T-{n}"), fields).await;
                    let to =
                        MoveArtifact { to: "TODO".into(), revision: None, fields: Json::null() };
                    let id = format!("T-{n}");
                    deployments.approve_artifact(name, "objective", &id, &to).await.unwrap();
                }
                "task-management" => {
                    let fields = json!({"raw_content": "buy bread", "source_label": "s"});
                    create("capture_buffer", format!("c-{n}"), fields).await;
                }
                _ => create("assignment", format!("a-{n}"), json!({"goal": "g"})).await,
            }
        }
        if name == "task-management" {
            deployments.event(name, "MANIFEST_REQUESTED", "k").await.unwrap();
        }
    }

    /// Approves what waits for people.
    async fn approve(&self) {
        // The key of the executors did the work, so another one decides about it.
        let made = self.world.client.keys().create([Role::Approver]).await.unwrap();
        let person = Client::new(&url(&self.world.home), &made.secret).unwrap();
        let approvals = person.approvals();
        let pending = approvals.list().state(ApprovalState::Pending).await.unwrap();
        for waiting in pending.approvals {
            let (decision, comment) = (ApprovalDecision::Approved, None);
            let yes = DecideApproval { decision, digest: waiting.digest, comment };
            approvals.decide(&waiting.approval_id, decision).with(yes).await.unwrap();
        }
    }

    async fn artifacts(&self, kind: &str) -> Vec<Value> {
        let artifacts = self.world.client.deployments().artifacts(self.story.name, kind);
        let found = artifacts.limit(1000).await;
        found.unwrap().artifacts.iter().map(|it| serde_json::to_value(it).unwrap()).collect()
    }

    async fn orders(&self) -> Vec<Value> {
        let orders = self.world.client.deployments().work_orders(self.story.name);
        let found = orders.limit(1000).await;
        found.unwrap().work_orders.iter().map(|it| serde_json::to_value(it).unwrap()).collect()
    }

    /// Whether everything has come to its end.
    async fn is_over(&self) -> bool {
        for (kind, count, status) in self.story.ends {
            let found = self.artifacts(kind).await;
            let is_there = |it: &&Value| it["status"] == *status && it["reservedBy"].is_null();
            let is_passed =
                |it: &&Value| self.story.name != "execution" || it["passed"].is_string();
            let there = found.iter().filter(is_there).filter(is_passed).count();
            if there < *count {
                return false;
            }
        }
        self.orders().await.iter().all(|it| it["record"].is_object())
            && self.events().await.iter().all(|(state, _)| state == "succeeded")
    }

    /// The state and the terminal reason of every event.
    async fn events(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let (declared, _) = self.declaration(false);
        for kind in declared["events"].as_object().unwrap().keys() {
            let page = self.world.client.runs().kind(kind).limit(1000).await.unwrap();
            for run in page.runs {
                let run = self.world.client.run(&run.run_id).status().await.unwrap();
                let output: Value = run.output.map_or(Value::Null, |it| it.read().unwrap());
                let reason = output["terminalReason"].as_str().unwrap_or_default().to_owned();
                found.push((run.state.as_str().to_owned(), reason));
            }
        }
        found
    }

    /// What the story came to, without what depends on time.
    async fn end(&self) -> Value {
        let mut artifacts = Vec::new();
        let (declared, _) = self.declaration(false);
        for kind in declared["artifacts"].as_object().unwrap().keys() {
            for it in self.artifacts(kind).await {
                // What is made from an output is named by its work order.
                let id = if self.story.is_exact || kind == "capture_buffer" {
                    &it["id"]
                } else {
                    &Value::Null
                };
                artifacts.push(json!([
                    kind,
                    id,
                    it["status"],
                    it["reservedBy"],
                    it["transitionNo"]
                ]));
            }
        }
        let order = |it: &Value| {
            json!([
                it["id"],
                it["event"],
                it["state"],
                it["artifacts"],
                it["record"]["gateReasons"]
            ])
        };
        let orders: Vec<Value> = self.orders().await.iter().map(order).collect();
        let pauses = self.world.client.deployments().pause_states(self.story.name);
        let pauses = pauses.limit(1000).await.unwrap().pause_states;
        let ids: Vec<&String> = pauses.iter().map(|it| &it.id).collect();
        match self.story.is_exact {
            true => json!({"artifacts": artifacts, "orders": orders, "pauses": ids}),
            false => json!({"artifacts": artifacts}),
        }
    }

    /// Nothing twice, and nothing lost.
    async fn judge(&self) {
        // S0-16, S0-17, A0-33: every event ended once, with its reason.
        for (state, reason) in self.events().await {
            assert_eq!(state, "succeeded");
            assert!(!reason.is_empty());
        }
        // S0-50, S0-52: one work order for each event, one run record and one execution for each work order.
        let orders = self.orders().await;
        let events: BTreeSet<&str> =
            orders.iter().map(|it| it["event"].as_str().unwrap()).collect();
        assert_eq!(events.len(), orders.len(), "{orders:?}");
        assert!(orders.iter().all(|it| it["record"].is_object()), "{orders:?}");
        let executed = self.executed.lock().unwrap().clone();
        assert!(executed.values().all(|times| *times == 1), "{executed:?}");
        let names: BTreeSet<&str> =
            executed.keys().filter(|it| !it.starts_with("judge")).map(String::as_str).collect();
        assert_eq!(names, events, "each work order was executed");
        // S0-46: claims are released.
        let claims = self.world.client.deployments().claims(self.story.name).await.unwrap();
        assert!(claims.claims.is_empty(), "{claims:?}");
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What an executor makes of a snapshot. The first patch of a ticket is refused by its gate.
fn execute(kind: &str, snapshot: &Value, executed: &Executed) -> Value {
    let mut executed = executed.lock().unwrap();
    let ids: Vec<&Value> = snapshot["artifacts"]
        .as_array()
        .map(|all| all.iter().map(|it| &it["id"]).collect())
        .unwrap_or_default();
    let event = match kind {
        "judge-assignment" => format!("judge {}", snapshot["workOrder"].as_str().unwrap()),
        _ => snapshot["event"].as_str().unwrap().to_owned(),
    };
    let is_first = event.ends_with("/2");
    *executed.entry(event).or_default() += 1;
    match kind {
        "PATCH_DIAZOTROPH" if is_first => json!({"title": "p", "content": "", "metadata": {}}),
        "PATCH_DIAZOTROPH" => {
            json!({"title": "p", "content": "diff", "metadata": {"applies_cleanly": true,
                "branch_name": "b", "commit_sha": "s", "pr_description_draft": "d"}})
        }
        "TRIAGE_DIAZOTROPH" => json!({"metadata": {"capture_ids": ids},
            "content": {"title": "t", "acceptance_criteria": ["c"]}}),
        "MANIFEST_BUILDER_DIAZOTROPH" => json!({"manifest": {"queried_azolla_ids": ["x"],
            "pause_state_summary": [], "prioritized_orientation": ["Look."]}}),
        "plan-assignment" => json!({"steps": ["one"]}),
        "build-assignment" => json!({"summary": "s", "files": ["f"]}),
        _ => json!({"score": 0.9}),
    }
}

/// Processes of roles, begun again when they die.
struct Troupe {
    processes: Vec<(String, Process)>,
    killed: usize,
}

impl Troupe {
    fn begin(play: &Play, roles: &[String], rng: &mut SeededRng) -> Troupe {
        let folder = play.world.home.path();
        std::fs::create_dir(folder.join("turns")).unwrap();
        // The first one early: few turns are enough for some stories.
        let mut deaths = BTreeSet::from([1 + rng.below(TURNS_FIRST)]);
        while deaths.len() < DEATHS {
            deaths.insert(1 + rng.below(TURNS));
        }
        for death in deaths {
            std::fs::create_dir_all(folder.join(format!("deaths/{death}"))).unwrap();
        }
        std::fs::write(folder.join("died"), "").unwrap();
        let program = folder.join("mortal.sh");
        std::fs::write(&program, MORTAL).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        // Two of each: one goes on while the claim of the other rests.
        let processes = roles.iter().chain(roles).map(|role| (role.clone(), start(play, role)));
        Troupe { processes: processes.collect(), killed: 0 }
    }

    /// Kills one at times, and begins those again that are dead.
    fn live(&mut self, play: &Play, rng: &mut SeededRng) {
        if rng.one_in(20) && self.killed < DEATHS {
            let count = self.processes.len() as u64;
            let chosen = rng.below(count) as usize;
            self.processes[chosen].1.signal("KILL");
            self.killed += 1;
        }
        for (role, process) in &mut self.processes {
            if process.child.try_wait().unwrap().is_some() {
                *process = start(play, role);
            }
        }
    }
}

fn start(play: &Play, role: &str) -> Process {
    let program = play.world.home.path().join("mortal.sh");
    let arguments =
        ["topology", "role", play.story.name, role, "--exec", program.to_str().unwrap()];
    let mut command = play.world.home.tenure(&arguments);
    command.stderr(std::process::Stdio::null());
    Process::start(command)
}

/// Plays to the end, and says what it came to.
async fn undisturbed(story: Story) -> Value {
    let play = Play::begin(World::on_sqlite(), story);
    let (declared, _) = play.declaration(false);
    play.apply(&declared).await;
    play.prepare().await;
    until_over(&play, |_| {}).await;
    play.judge().await;
    play.end().await
}

async fn until_over(play: &Play, mut between: impl FnMut(&Play)) {
    let over = async {
        while !play.is_over().await {
            play.approve().await;
            between(play);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    waits::within("the end of the story", over).await.unwrap();
}

async fn dies_and_goes_on(world: World, story: Story) {
    let seed = seed();
    let mut rng = SeededRng::new(seed);
    let play = Play::begin(world, story);
    let (declared, roles) = play.declaration(true);
    assert!(roles.len() >= 3, "{roles:?}");
    play.apply(&declared).await;
    play.prepare().await;
    let mut troupe = Troupe::begin(&play, &roles, &mut rng);
    until_over(&play, |play| troupe.live(play, &mut rng)).await;
    play.judge().await;
    let died = std::fs::read_to_string(play.world.home.path().join("died")).unwrap();
    assert!(died.lines().count() > 0, "with {SEED}={seed}: nobody died with a turn");
    assert_eq!(play.end().await, undisturbed(story).await, "with {SEED}={seed}");
}

macro_rules! stories {
    ($($name:ident: $world:ident, $story:ident;)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            // S0-37, S0-38, S0-48, S0-49, S0-53, S0-54, S1-28, S1-34, S1-35, S1-37, S1-38, S1-39, S1-40
            dies_and_goes_on(World::$world(), $story).await;
        })*
    };
}

stories! {
    execution_survives_the_deaths_of_its_roles: on_sqlite, EXECUTION;
    execution_survives_them_over_postgresql: on_postgres, EXECUTION;
    task_management_survives_the_deaths_of_its_roles: on_sqlite, TASK_MANAGEMENT;
    task_management_survives_them_over_postgresql: on_postgres, TASK_MANAGEMENT;
    agent_review_survives_the_deaths_of_its_roles: on_sqlite, AGENT_REVIEW;
    agent_review_survives_them_over_postgresql: on_postgres, AGENT_REVIEW;
}
