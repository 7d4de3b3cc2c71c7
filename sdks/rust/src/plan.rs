//! Plans: what a run does, declared instead of coded in a durable function.
//!
//! The coordinator checks a plan as a whole and names what is wrong; nothing is checked here but that inputs have a JSON form.

use std::time::Duration;

use serde::Serialize;
use wire::requests::Retry;
use wire::{ApprovalDecision, Json};
use wire::{approvals, plan};
use workflow::{OnError, RunKind};

use crate::budget::Ceiling;
use crate::new_run::millis;

/// The steps of a run, fixed when it is submitted. Without [`PlanStep::after`] in any step they run one after the other; with
/// it, each starts when the steps that it names have ended.
///
/// ```no_run
/// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
/// use serde_json::json;
/// use tenure::{Kind, Plan, PlanStep};
///
/// const READ: Kind<String, String> = Kind::new("read").queue("io");
/// const DRAFT: Kind<serde_json::Value, String> = Kind::new("draft").queue("io");
///
/// let plan = Plan::steps([
///     PlanStep::new("read", READ, "https://example.org"),
///     PlanStep::new("draft", DRAFT, &json!({ "$from": "read" })).after("read"),
/// ]);
/// let run = client.submit_run(plan).label("customer", "acme").await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    steps: Vec<PlanStep>,
}

impl Plan {
    pub fn steps(steps: impl IntoIterator<Item = PlanStep>) -> Plan {
        Plan { steps: steps.into_iter().collect() }
    }

    /// The plan in the wire's shape, and why it cannot be sent.
    pub(crate) fn into_wire(self) -> (plan::Plan, Option<String>) {
        let problem = self.steps.iter().find_map(|step| step.problem.clone());
        (plan::Plan { steps: self.steps.into_iter().map(|step| step.wire).collect() }, problem)
    }
}

impl From<plan::Plan> for Plan {
    fn from(plan: plan::Plan) -> Plan {
        Plan::steps(plan.steps.into_iter().map(|wire| PlanStep { wire, problem: None }))
    }
}

/// One step of a [`Plan`].
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a step does nothing until it is part of a plan"]
pub struct PlanStep {
    wire: plan::PlanStep,
    problem: Option<String>,
}

impl PlanStep {
    /// A step that a worker executes. In its input, `{"$from": "read"}` stands for the output of the step `read`.
    pub fn new<J, K>(key: impl Into<String>, kind: K, input: &J) -> PlanStep
    where
        J: Serialize + ?Sized,
        K: RunKind<J>,
    {
        let key = key.into();
        let (input, problem) = match Json::from_value(input) {
            Ok(input) => (input, None),
            Err(why) => {
                (Json::null(), Some(format!("the input of step `{key}` has no JSON form: {why}")))
            }
        };
        let (kind, queue) =
            (kind.name().to_owned(), kind.queue_name().unwrap_or_default().to_owned());
        PlanStep {
            wire: plan::PlanStep { key, kind, queue, input, ..plan::PlanStep::default() },
            problem,
        }
    }

    /// A step that asks people: it succeeds when they approve.
    pub fn approval(key: impl Into<String>, ask: impl Into<String>) -> PlanStep {
        let terms = approvals::ApprovalTerms { subject: Some(ask.into()), ..Default::default() };
        let wire = plan::PlanStep { key: key.into(), approval: Some(terms), ..Default::default() };
        PlanStep { wire, problem: None }
    }

    /// How many must approve; 1 by default. One rejection rejects.
    pub fn quorum(self, people: u32) -> PlanStep {
        self.ask("quorum", |terms| terms.quorum = Some(people))
    }

    /// Roles of API keys that may decide; any key that may approve, when not given.
    pub fn roles<R: Into<String>>(self, roles: impl IntoIterator<Item = R>) -> PlanStep {
        self.ask("roles", |terms| terms.roles = roles.into_iter().map(Into::into).collect())
    }

    /// Ids of API keys that may decide.
    pub fn keys<K: Into<String>>(self, keys: impl IntoIterator<Item = K>) -> PlanStep {
        self.ask("keys", |terms| terms.keys = keys.into_iter().map(Into::into).collect())
    }

    /// How long people may take, and what counts as decided after that.
    pub fn within_or(self, span: Duration, decision: ApprovalDecision) -> PlanStep {
        self.ask("within_or", |terms| {
            terms.expires_in_ms = Some(millis(span));
            terms.default = Some(decision);
        })
    }

    /// What exactly is approved, shown to those who decide: up to 64 KiB of JSON, with references as in an input.
    pub fn content<J: Serialize + ?Sized>(mut self, content: &J) -> PlanStep {
        match Json::from_value(content) {
            Ok(content) => self.ask("content", |terms| terms.content = Some(content)),
            Err(why) => {
                let key = &self.wire.key;
                self.problem = Some(format!("the content of step `{key}` has no JSON form: {why}"));
                self
            }
        }
    }

    /// The step runs only if this condition holds, and is skipped otherwise, for example
    /// `{"path": "check.output.total", "op": "at-least", "value": 1000}`. Steps after it run nevertheless.
    pub fn when<J: Serialize + ?Sized>(mut self, condition: &J) -> PlanStep {
        match Json::from_value(condition) {
            Ok(condition) => self.wire.when = Some(condition),
            Err(why) => {
                let key = &self.wire.key;
                self.problem =
                    Some(format!("the condition of step `{key}` has no JSON form: {why}"));
            }
        }
        self
    }

    /// Only a step that asks people has terms: on another one they would be lost.
    fn ask(mut self, what: &str, say: impl FnOnce(&mut approvals::ApprovalTerms)) -> PlanStep {
        match &mut self.wire.approval {
            Some(terms) => say(terms),
            None => {
                let key = &self.wire.key;
                let why = format!(
                    "step `{key}` asks nobody, so it has no {what}; see `PlanStep::approval`"
                );
                self.problem.get_or_insert(why);
            }
        }
        self
    }

    /// The queue of a step whose kind is a name.
    pub fn queue(mut self, queue: impl Into<String>) -> PlanStep {
        self.wire.queue = queue.into();
        self
    }

    /// Starts when this step has ended, and every other one that was named.
    pub fn after(mut self, key: impl Into<String>) -> PlanStep {
        self.wire.depends_on.get_or_insert_default().push(key.into());
        self
    }

    /// What a failure of this step means for the plan. `Abort` fails it at its first reported failure; with `Continue` the plan
    /// goes on without it; `Retry`, which counts when nothing is given, skips what depends on it once it has failed for good.
    pub fn on_error(mut self, then: OnError) -> PlanStep {
        self.wire.on_error = Some(match then {
            OnError::Abort => wire::OnError::Abort,
            OnError::Continue => wire::OnError::Continue,
            OnError::Retry => wire::OnError::Retry,
        });
        self
    }

    /// How many attempts may report a failure before the step fails; 3 by default.
    pub fn max_attempts(mut self, attempts: u32) -> PlanStep {
        self.wire.max_attempts = Some(attempts);
        self
    }

    /// How many attempts may be lost with their worker before the step fails; 3 by default.
    pub fn max_lost_attempts(mut self, attempts: u32) -> PlanStep {
        self.wire.lost_max = Some(attempts);
        self
    }

    /// The pause before the first retry; it doubles with every further one, up to `max`.
    pub fn retry_backoff(mut self, initial: Duration, max: Duration) -> PlanStep {
        self.wire.retry = Some(Retry { base_ms: Some(millis(initial)), cap_ms: Some(millis(max)) });
        self
    }

    /// How long a worker may go without a heartbeat; 90 s by default.
    pub fn lease(mut self, lease: Duration) -> PlanStep {
        self.wire.lease_ms = Some(millis(lease));
        self
    }

    /// The interval between a worker's heartbeats; a third of the lease by default.
    pub fn heartbeat_interval(mut self, interval: Duration) -> PlanStep {
        self.wire.heartbeat_interval_ms = Some(millis(interval));
        self
    }

    /// How long a worker may take to stop after a graceful cancel; 30 s by default.
    pub fn cancel_grace(mut self, grace: Duration) -> PlanStep {
        self.wire.cancel_grace_ms = Some(millis(grace));
        self
    }

    /// What the step may use at most of the run's budget.
    pub fn ceiling(mut self, ceiling: Ceiling) -> PlanStep {
        self.wire.ceiling = Some(ceiling.into_wire());
        self
    }

    /// How long the step may take, from the moment at which it may start.
    pub fn deadline_in(mut self, span: Duration) -> PlanStep {
        self.wire.deadline_ms = Some(millis(span));
        self
    }

    /// The step runs whatever happened before it: after failures, at the end of the run's deadline, after a cancel.
    pub fn always(mut self) -> PlanStep {
        self.wire.always = true;
        self
    }

    /// The step judges the one before it, so a worker does not get it together with the answer to its own report.
    pub fn gate(mut self) -> PlanStep {
        self.wire.gate = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, NewRun};

    const READ: Kind<String, String> = Kind::new("read").queue("io");

    #[test]
    fn steps_bring_their_kinds_queues_and_order() {
        let plan = Plan::steps([
            PlanStep::new("read", READ, "a.txt").max_attempts(5),
            PlanStep::new("draft", "draft", &1).queue("cpu").after("read"),
        ]);
        let sent = NewRun::from(plan).into_request().unwrap().plan.unwrap();
        let [read, draft] = &sent.steps[..] else { panic!("two steps") };
        assert_eq!(
            (read.kind.as_str(), read.queue.as_str(), read.input.text()),
            ("read", "io", "\"a.txt\"")
        );
        assert_eq!((read.max_attempts, read.depends_on.as_deref()), (Some(5), None));
        assert_eq!(
            (draft.queue.as_str(), draft.depends_on.as_deref()),
            ("cpu", Some(&["read".to_owned()][..]))
        );
    }

    #[test]
    fn a_step_that_asks_people_has_terms_and_another_one_cannot() {
        let day = Duration::from_secs(86_400);
        let ask = PlanStep::approval("review", "publish?").quorum(2).roles(["editor"]);
        let ask = ask.keys(["key_1"]).within_or(day, ApprovalDecision::Rejected);
        let sent = NewRun::from(Plan::steps([ask])).into_request().unwrap().plan.unwrap();
        let terms = serde_json::to_value(&sent.steps[0].approval).unwrap();
        let expected = serde_json::json!({"roles": ["editor"], "keys": ["key_1"], "quorum": 2,
            "expiresInMs": 86_400_000, "default": "REJECTED", "subject": "publish?"});
        assert_eq!(terms, expected);
        let plan = Plan::steps([PlanStep::new("read", READ, "a.txt").quorum(2)]);
        let refused = NewRun::from(plan).into_request().unwrap_err().to_string();
        assert!(refused.contains("step `read` asks nobody"), "{refused}");
    }

    #[test]
    fn a_ceiling_names_what_it_bounds_and_nothing_else() {
        let ceiling = Ceiling::new().tokens(9).cost_micros(8).tool_calls(7);
        let step = PlanStep::new("read", READ, "a").ceiling(ceiling);
        let step = step.heartbeat_interval(Duration::from_secs(1)).cancel_grace(Duration::ZERO);
        let sent = serde_json::to_value(&step.on_error(OnError::Abort).wire).unwrap();
        let expected = serde_json::json!({"costMicros": 8, "tokens": 9, "toolCalls": 7});
        assert_eq!((&sent["ceiling"], &sent["heartbeatIntervalMs"]), (&expected, &1000.into()));
        assert_eq!((&sent["cancelGraceMs"], &sent["onError"]), (&0.into(), &"abort".into()));
    }

    #[test]
    fn an_input_without_json_form_names_its_step() {
        let keyed = std::collections::BTreeMap::from([((1, 2), 3)]);
        let plan = Plan::steps([PlanStep::new("read", "read", &keyed).queue("io")]);
        let refused = NewRun::from(plan).into_request().unwrap_err().to_string();
        assert!(refused.contains("step `read`"), "{refused}");
    }
}
