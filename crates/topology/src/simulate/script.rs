//! A script: what people do, what executors return, and how often roles poll.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::check::Topology;
use crate::declaration::Trigger;
use crate::problem::Problem;
use crate::query::Target;
use crate::reading;
use crate::span::Span;
use crate::work::Work;

/// The most steps of one script, and the most processes of one role.
const STEPS_MAX: usize = 100_000;
const PROCESSES_MAX: u32 = 100;

/// The most turns that a script may ask for: minutes of a processor.
const TURNS_MAX: u64 = 20_000_000;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    /// The name of the deployment.
    #[serde(default = "default_deployment")]
    pub deployment: String,
    /// How often roles poll, unless `roles` says otherwise.
    #[serde(default = "default_poll")]
    pub poll: Span,
    /// How long a claim lasts without renewal.
    #[serde(default = "default_lease")]
    pub lease: Span,
    /// The end of the simulation, if something still happens by then.
    #[serde(default = "default_until")]
    pub until: Span,
    /// How many things may happen at most: a poll, a step of a person, the end of an execution. A topology in an endless
    /// cycle ends here.
    #[serde(default = "default_turns")]
    pub turns: u64,
    #[serde(default)]
    pub roles: BTreeMap<String, Polling>,
    /// Claims, counted from 1, whose holder dies before it commits anything.
    #[serde(default)]
    pub crash_after_claim: Vec<u64>,
    /// Claims, counted from 1, whose holder dies after its commit and before its release.
    #[serde(default)]
    pub crash_before_release: Vec<u64>,
    /// What people do.
    #[serde(default, rename = "do")]
    pub steps: Vec<Step>,
    /// What executors and judges of a kind return, in turn. The last one repeats.
    #[serde(default)]
    pub executors: BTreeMap<String, Vec<Performance>>,
    /// What people answer to a check of this name, in turn. The last one repeats.
    #[serde(default)]
    pub people: BTreeMap<String, Vec<Decision>>,
    /// Other deployments.
    #[serde(default)]
    pub deployments: BTreeMap<String, Target>,
    /// The status in which an artifact must end, by `TYPE/ID`.
    #[serde(default)]
    pub expect: BTreeMap<String, String>,
}

fn default_deployment() -> String {
    "simulated".to_owned()
}

fn default_poll() -> Span {
    Span::from_ms(5_000)
}

fn default_lease() -> Span {
    Span::from_ms(60_000)
}

/// A thousand artifacts need fewer. A cycle without an end is seen within seconds.
fn default_turns() -> u64 {
    1_000_000
}

fn default_until() -> Span {
    Span::from_ms(90 * 86_400_000)
}

/// How one role polls.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Polling {
    pub poll: Option<Span>,
    /// When the first process polls first.
    pub first: Span,
    pub processes: Option<u32>,
    /// How often a process repeats its poll at once.
    pub repeat: Option<u32>,
}

/// One thing that a person does: exactly one of `create`, `move`, `resume` and `request`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Since the start, or since the condition of `once` first held.
    #[serde(default)]
    pub at: Span,
    #[serde(default)]
    pub once: Option<Condition>,
    #[serde(default)]
    pub create: Option<NewArtifact>,
    #[serde(default, rename = "move")]
    pub move_to: Option<MoveTo>,
    #[serde(default)]
    pub request: Option<Request>,
}

/// A state of one artifact.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Condition {
    pub artifact: String,
    pub id: String,
    #[serde(default)]
    pub status: Option<String>,
    /// An output passed its gate and waits for a person.
    #[serde(default)]
    pub passed: bool,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewArtifact {
    pub artifact: String,
    pub id: String,
    #[serde(default = "no_fields")]
    pub fields: Value,
    /// How many: from 2 on, `-1`, `-2` and so on is added to the id.
    #[serde(default = "one")]
    pub count: u32,
}

fn no_fields() -> Value {
    Value::Object(serde_json::Map::new())
}

fn one() -> u32 {
    1
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveTo {
    pub artifact: String,
    pub id: String,
    pub to: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Request {
    pub event: String,
    /// The same key is the same event.
    pub key: String,
}

/// One execution: `output`, `raises`, `dies`, or none of them, which never returns.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Performance {
    pub takes: Span,
    pub output: Option<Value>,
    pub raises: Option<String>,
    /// The executor vanishes, and its runner with it.
    pub dies: bool,
}

/// What a person answers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decision {
    #[serde(default)]
    pub takes: Span,
    pub approved: bool,
    #[serde(default)]
    pub reason: Option<String>,
}

impl Script {
    /// Reads a script and checks that it fits the topology.
    pub fn read(text: &str, topology: &Topology) -> Result<Self, Vec<Problem>> {
        let script = reading::parse::<Self>(text).map_err(|problem| vec![problem])?;
        let places = crate::places::Places::of(text);
        let found = script.problems(topology);
        if found.is_empty() {
            return Ok(script);
        }
        let placed = found.into_iter().map(|(path, message)| Problem {
            place: places.find(&path),
            path,
            message,
        });
        Err(placed.collect())
    }

    fn problems(&self, topology: &Topology) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (path, span) in [("poll", self.poll), ("lease", self.lease), ("until", self.until)] {
            if span.ms() == 0 {
                found.push((path.to_owned(), "give a length of time above zero".to_owned()));
            }
        }
        if !(1..=TURNS_MAX).contains(&self.turns) {
            found.push(("turns".to_owned(), format!("give a number from 1 to {TURNS_MAX}")));
        }
        if self.steps.len() > STEPS_MAX {
            found.push(("do".to_owned(), format!("at most {STEPS_MAX} steps are played")));
        }
        for (name, polling) in &self.roles {
            let path = format!("roles.{name}");
            if topology.role(name).is_none() {
                found.push((path.clone(), format!("the topology has no role `{name}`")));
            }
            let zero = polling.poll.is_some_and(|poll| poll.ms() == 0);
            let many = [polling.processes, polling.repeat];
            let outside = many.into_iter().flatten().any(|n| !(1..=PROCESSES_MAX).contains(&n));
            if zero || outside {
                let message = format!(
                    "`poll` is above zero, `processes` and `repeat` are 1 to {PROCESSES_MAX}"
                );
                found.push((path, message));
            }
        }
        for (place, step) in self.steps.iter().enumerate() {
            found.extend(step.problem(topology).map(|message| (format!("do.{place}"), message)));
        }
        found
    }
}

impl Step {
    fn problem(&self, topology: &Topology) -> Option<String> {
        let ways = [self.create.is_some(), self.move_to.is_some(), self.request.is_some()];
        if ways.into_iter().filter(|way| *way).count() != 1 {
            return Some("give exactly one of `create`, `move` and `request`".to_owned());
        }
        let kind = [
            self.create.as_ref().map(|it| &it.artifact),
            self.move_to.as_ref().map(|it| &it.artifact),
            self.once.as_ref().map(|it| &it.artifact),
        ];
        let unknown = kind.into_iter().flatten().find(|kind| topology.artifact(kind).is_none());
        if let Some(kind) = unknown {
            return Some(format!("the topology has no artifact type `{kind}`"));
        }
        if let Some(create) = &self.create {
            let fields =
                topology.test_fields(&create.artifact, &create.fields, &mut Work::of_check()).err();
            let count = !(1..=100_000).contains(&create.count);
            return fields.or_else(|| count.then(|| "`count` is 1 to 100000".to_owned()));
        }
        let request = self.request.as_ref()?;
        let source = topology.event(&request.event);
        let asked_for = source.is_some_and(|source| source.on == Trigger::Request);
        (!asked_for)
            .then(|| format!("the topology has no event `{}` that is `on: request`", request.event))
    }
}
