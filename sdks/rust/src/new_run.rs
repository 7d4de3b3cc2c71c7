//! A run to submit: its kind, its input and its policy.
//!
//! Every member of the wire's submission has a method here. Values are sent unchecked: the
//! coordinator knows their limits and refuses values outside them, so that each limit is defined in
//! one place.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::answers::RunAccepted;
use wire::requests::{Resources, Retry, Stall, StallAction, SubmitRun};
use wire::{Json, Time};
use workflow::RunKind;

use crate::budget::Budget;
use crate::codec::{self, Sealer};
use crate::flow_key::FlowKey;
use crate::plan::Plan;
use crate::run_handle::read_output;
use crate::{Client, Error, RunHandle};

/// A run to submit. [`Client::submit`] makes one that is submitted by awaiting it; [`NewRun::new`]
/// makes one for [`Client::submit_many`].
///
/// ```no_run
/// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
/// use std::time::Duration;
/// use tenure::Kind;
///
/// const RESIZE: Kind<String, String> = Kind::new("resize").queue("images");
///
/// let run = client
///     .submit(RESIZE, "cat.png")
///     .idempotency_key("avatar-42")
///     .priority(5)
///     .delay(Duration::from_secs(60))
///     .label("customer", "acme")
///     .await?;
/// println!("{}", run.id());
/// # Ok(()) }
/// ```
#[must_use = "nothing is submitted until this is awaited, or given to a client"]
pub struct NewRun<O = Value, C = ()> {
    client: C,
    request: SubmitRun,
    /// Why the run cannot be sent; returned on submission, so that the methods can be chained.
    problem: Option<String>,
    /// A run gives an output and holds none.
    output: PhantomData<fn() -> O>,
}

impl<O> NewRun<O> {
    /// A run of a kind, with an input that has a JSON form. A name instead of a [`Kind`](crate::Kind) takes any input, and
    /// needs a [`queue`](NewRun::queue).
    pub fn new<J, K>(kind: K, input: &J) -> NewRun<O>
    where
        J: Serialize + ?Sized,
        K: RunKind<J, Output = O>,
    {
        let (input, problem) = match Json::from_value(input) {
            Ok(json) => (json, None),
            Err(why) => (Json::null(), Some(format!("the input has no JSON form: {why}"))),
        };
        let (kind, queue) =
            (kind.name().to_owned(), kind.queue_name().unwrap_or_default().to_owned());
        NewRun { problem, ..NewRun::of(SubmitRun { kind, queue, input, ..SubmitRun::default() }) }
    }

    fn of(request: SubmitRun) -> NewRun<O> {
        NewRun { client: (), request, problem: None, output: PhantomData }
    }

    /// The same run with any output, for a list of runs of several kinds.
    pub fn untyped(self) -> NewRun {
        let NewRun { client, request, problem, output: _ } = self;
        NewRun { client, request, problem, output: PhantomData }
    }

    pub(crate) fn bind(self, client: Client) -> NewRun<O, Client> {
        let NewRun { client: (), request, problem, output } = self;
        NewRun { client, request, problem, output }
    }
}

impl<O, C: Clone> Clone for NewRun<O, C> {
    fn clone(&self) -> NewRun<O, C> {
        let NewRun { client, request, problem, output } = self;
        let (client, request) = (client.clone(), request.clone());
        NewRun { client, request, problem: problem.clone(), output: *output }
    }
}

impl<O, C> fmt::Debug for NewRun<O, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewRun")
            .field("request", &self.request)
            .field("problem", &self.problem)
            .finish_non_exhaustive()
    }
}

/// For programs that already have the wire's own shape.
impl From<SubmitRun> for NewRun {
    fn from(request: SubmitRun) -> NewRun {
        NewRun::of(request)
    }
}

/// A run with a plan has no kind, queue or input of its own: its steps have.
impl From<Plan> for NewRun {
    fn from(plan: Plan) -> NewRun {
        let (plan, problem) = plan.into_wire();
        NewRun { problem, ..NewRun::of(SubmitRun { plan: Some(plan), ..SubmitRun::default() }) }
    }
}

impl<O, C> NewRun<O, C> {
    /// The queue in which the run waits for a worker. The coordinator refuses a run without one.
    pub fn queue(mut self, queue: impl Into<String>) -> NewRun<O, C> {
        self.request.queue = queue.into();
        self
    }

    /// The idempotency key: a second submission with the same key finds the run instead of creating
    /// another. Without one the client uses a random key, which only makes its own retries safe.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> NewRun<O, C> {
        self.request.idempotency_key = Some(key.into());
        self
    }

    /// What the run is for, in words.
    pub fn goal(mut self, goal: impl Into<String>) -> NewRun<O, C> {
        self.request.goal = Some(goal.into());
        self
    }

    /// Adds a label to find the run by.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> NewRun<O, C> {
        self.request.labels.insert(name.into(), value.into());
        self
    }

    /// Adds many labels.
    pub fn labels<N, V>(mut self, labels: impl IntoIterator<Item = (N, V)>) -> NewRun<O, C>
    where
        N: Into<String>,
        V: Into<String>,
    {
        let labels = labels.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.request.labels.extend(labels.collect::<BTreeMap<String, String>>());
        self
    }

    /// What the run and its descendants may use. The call that crosses a limit halts the run, with every step kept.
    pub fn budget(mut self, budget: Budget) -> NewRun<O, C> {
        self.request.budget = Some(budget.into_wire());
        self
    }

    /// Limits that all runs with this key share. A run has one key: a second one is refused on submission, because the limit
    /// that was dropped would be missing.
    pub fn flow_key(mut self, flow_key: FlowKey) -> NewRun<O, C> {
        let flow = flow_key.into_wire();
        if let Some(before) = self.request.flow.replace(flow) {
            let now = self.request.flow.as_ref().map_or("", |flow| &flow.key);
            let message = format!(
                "a run has one flow key, and this one was given `{}` and `{now}`; put all limits into one `FlowKey`",
                before.key
            );
            self.problem.get_or_insert(message);
        }
        self
    }

    /// Higher goes first, from -1000 to 1000; 0 by default.
    pub fn priority(mut self, priority: i32) -> NewRun<O, C> {
        self.request.priority = Some(priority);
        self
    }

    /// The earliest start, as a delay that begins when the coordinator accepts the run. It replaces an instant that
    /// was given before.
    pub fn delay(mut self, delay: Duration) -> NewRun<O, C> {
        (self.request.run_at, self.request.delay_ms) = (None, Some(millis(delay)));
        self
    }

    /// The earliest start. It replaces a delay that was given before. For a run with an idempotency key prefer a
    /// delay, unless a repeated submission has the same instant.
    pub fn run_at(mut self, at: impl Into<SystemTime>) -> NewRun<O, C> {
        (self.request.run_at, self.request.delay_ms) = (Some(wire_time(at.into())), None);
        self
    }

    /// Fails the run with category TIMEOUT if it has not ended by then.
    pub fn deadline(mut self, at: impl Into<SystemTime>) -> NewRun<O, C> {
        (self.request.deadline, self.request.deadline_ms) = (Some(wire_time(at.into())), None);
        self
    }

    /// Fails the run with category TIMEOUT if it has not ended this long after the coordinator accepted it.
    pub fn deadline_in(mut self, span: Duration) -> NewRun<O, C> {
        (self.request.deadline, self.request.deadline_ms) = (None, Some(millis(span)));
        self
    }

    /// Fails the run with the reason TTL_EXPIRED if no worker has taken it this long after it may start. A run that
    /// has been taken is not touched.
    pub fn ttl(mut self, span: Duration) -> NewRun<O, C> {
        self.request.ttl_ms = Some(millis(span));
        self
    }

    /// How many attempts may report a failure before the run fails; 3 by default.
    pub fn max_attempts(mut self, attempts: u32) -> NewRun<O, C> {
        self.request.max_attempts = Some(attempts);
        self
    }

    /// How many attempts may be lost with their worker before the run fails; 3 by default.
    pub fn max_lost_attempts(mut self, attempts: u32) -> NewRun<O, C> {
        self.request.lost_max = Some(attempts);
        self
    }

    /// The pause before the first retry; it doubles with every further one, up to `max`. 5 s and 5
    /// min by default.
    pub fn retry_backoff(mut self, initial: Duration, max: Duration) -> NewRun<O, C> {
        let retry = Retry { base_ms: Some(millis(initial)), cap_ms: Some(millis(max)) };
        self.request.retry = Some(retry);
        self
    }

    /// Makes the jitter of the pauses between retries reproducible.
    pub fn seed(mut self, seed: u64) -> NewRun<O, C> {
        self.request.seed = Some(seed);
        self
    }

    /// How long a worker may go without a heartbeat before it loses the run; 90 s by default.
    pub fn lease(mut self, lease: Duration) -> NewRun<O, C> {
        self.request.lease_ms = Some(millis(lease));
        self
    }

    /// The interval between a worker's heartbeats; a third of the lease by default.
    pub fn heartbeat_interval(mut self, interval: Duration) -> NewRun<O, C> {
        self.request.heartbeat_interval_ms = Some(millis(interval));
        self
    }

    /// How long a worker may take to stop after a graceful cancel; 30 s by default.
    pub fn cancel_grace(mut self, grace: Duration) -> NewRun<O, C> {
        self.request.cancel_grace_ms = Some(millis(grace));
        self
    }

    /// What follows when an attempt makes no progress for this long, although its worker lives. Progress is what
    /// the task reports, and whatever a durable function records.
    pub fn stall(mut self, after: Duration, action: StallAction) -> NewRun<O, C> {
        self.request.stall = Some(Stall { after_ms: millis(after), action });
        self
    }

    /// The time limit of one attempt. The worker then stops its task, and the attempt fails with
    /// category TIMEOUT.
    pub fn attempt_timeout(mut self, timeout: Duration) -> NewRun<O, C> {
        self.resources().timeout_ms = Some(millis(timeout));
        self
    }

    /// How much memory an attempt needs: passed to the worker, not enforced.
    pub fn memory_bytes(mut self, bytes: u64) -> NewRun<O, C> {
        self.resources().memory_bytes = Some(bytes);
        self
    }

    /// How much of a processor an attempt needs: passed to the worker, not enforced.
    pub fn cpu_millicores(mut self, millicores: u64) -> NewRun<O, C> {
        self.resources().cpu_millicores = Some(millicores);
        self
    }

    /// The name of the task in its plan or asset; the kind by default.
    pub fn task_key(mut self, task_key: impl Into<String>) -> NewRun<O, C> {
        self.request.task_key = Some(task_key.into());
        self
    }

    /// The asset that the run makes or changes.
    pub fn asset(mut self, asset_id: impl Into<String>) -> NewRun<O, C> {
        self.request.asset_id = Some(asset_id.into());
        self
    }

    /// The W3C trace context that the run continues: the text of a `traceparent` header, or what
    /// [`crate::Ctx::trace`] returns.
    pub fn traceparent(mut self, parent: impl fmt::Display) -> NewRun<O, C> {
        self.request.traceparent = Some(parent.to_string());
        self
    }

    fn resources(&mut self) -> &mut Resources {
        self.request.resources.get_or_insert_default()
    }

    /// The run in the wire's shape, or why it cannot be sent.
    pub(crate) fn into_request(self) -> Result<SubmitRun, Error> {
        match self.problem {
            Some(why) => Err(Error::Setup(why)),
            None => Ok(self.request),
        }
    }

    /// The same with its inputs as they are stored.
    pub(crate) fn into_sealed(self, codec: &Sealer) -> Result<SubmitRun, Error> {
        codec::sealed(codec, self.into_request()?)
    }
}

impl<O> NewRun<O, Client> {
    /// Submits the run and returns the coordinator's whole answer, which says whether the run is
    /// new or was found by its key. Awaiting the run itself returns a handle instead.
    pub async fn accept(self) -> Result<RunAccepted, Error> {
        let client = self.client.clone();
        client.send_submission(self.into_sealed(client.codec())?).await
    }

    /// Submits the run, waits for its end, and reads its output: [`RunHandle::result`] with one call instead of two, if the run
    /// ends soon. Await the run itself where the handle is needed meanwhile.
    ///
    /// ```no_run
    /// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
    /// use tenure::Kind;
    ///
    /// const GREET: Kind<String, String> = Kind::new("greet").queue("mail");
    /// println!("{}", client.submit(GREET, "Ada").result().await?);
    /// # Ok(()) }
    /// ```
    pub async fn result(self) -> Result<O, Error>
    where
        O: DeserializeOwned,
    {
        let client = self.client.clone();
        let accepted = self.accept_within(Duration::MAX).await?;
        match accepted.run {
            Some(run) => read_output(&client, *run),
            None => RunHandle::new(client, accepted.run_id).result().await,
        }
    }

    /// [`NewRun::accept`], and waits for the end of the run up to `wait`, at most half a minute, in the same call. The answer
    /// has the member `run` if the run has ended; without it, wait on with a handle.
    pub async fn accept_within(self, wait: Duration) -> Result<RunAccepted, Error> {
        let client = self.client.clone();
        client.submit_and_wait(self.into_sealed(client.codec())?, wait).await
    }
}

impl<O: 'static> IntoFuture for NewRun<O, Client> {
    type Output = Result<RunHandle<O>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let client = self.client.clone();
            let accepted = self.accept().await?;
            Ok(RunHandle::new(client, accepted.run_id))
        })
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The instant, or the nearest one that the wire can represent.
fn wire_time(at: SystemTime) -> Time {
    let Ok(since) = at.duration_since(SystemTime::UNIX_EPOCH) else { return Time::MIN };
    i64::try_from(since.as_millis()).map_or(Time::MAX, Time::from_ms)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::requests::{Flow, FlowRate};

    use super::*;

    #[test]
    fn a_second_flow_key_is_refused_and_drops_nothing() {
        let mixed = NewRun::new("k", &()).flow_key(FlowKey::new("a").limit(3));
        let mixed = mixed.flow_key(FlowKey::new("b").debounce(Duration::from_secs(1)));
        let refused = mixed.into_request().unwrap_err().to_string();
        assert!(refused.contains("`a` and `b`"), "{refused}");
    }

    #[test]
    fn a_kind_brings_its_queue() {
        const RESIZE: crate::Kind<u32, ()> = crate::Kind::new("resize").queue("images");
        let run = NewRun::new(RESIZE, &7).into_request().unwrap();
        assert_eq!(
            (run.kind.as_str(), run.queue.as_str(), run.input.text()),
            ("resize", "images", "7")
        );
        let run = NewRun::new(RESIZE, &7).queue("large").into_request().unwrap();
        assert_eq!(run.queue, "large");
    }

    #[test]
    fn every_member_of_a_submission_has_a_method() {
        let ms = Duration::from_millis;
        let run = NewRun::new("k", &json!({ "b": 1 }))
            .queue("q")
            .idempotency_key("key")
            .goal("goal")
            .label("one", "1")
            .labels([("two", "2"), ("three", "3")])
            .priority(-1)
            .run_at(SystemTime::UNIX_EPOCH + ms(1))
            .deadline(SystemTime::UNIX_EPOCH + ms(2))
            .ttl(ms(15))
            .max_attempts(3)
            .max_lost_attempts(4)
            .retry_backoff(ms(5), ms(6))
            .seed(7)
            .lease(ms(8))
            .heartbeat_interval(ms(9))
            .cancel_grace(ms(10))
            .stall(ms(14), StallAction::Requeue)
            .attempt_timeout(ms(11))
            .memory_bytes(12)
            .cpu_millicores(13)
            .task_key("task")
            .asset("asset")
            .traceparent("trace")
            .budget(Budget::new().tokens(14))
            .flow_key(
                FlowKey::new("customer")
                    .limit(16)
                    .rate(10, Duration::from_secs(1))
                    .debounce(Duration::from_secs(5))
                    .debounce_max(Duration::from_secs(60)),
            );
        // Destructured without `..`: a new member needs a method before this compiles again.
        let SubmitRun {
            kind,
            queue,
            // A run with a plan has neither kind nor queue: it is submitted with `Client::submit_run`.
            plan: _,
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
            ttl_ms,
            seed,
            labels,
            retry,
            budget,
            flow,
            traceparent,
            idempotency_key,
        } = run.into_request().unwrap();
        assert_eq!((delay_ms, deadline_ms, ttl_ms), (None, None, Some(15)));
        assert_eq!((kind.as_str(), queue.as_str(), input.text()), ("k", "q", r#"{"b":1}"#));
        let texts = [goal, task_key, asset_id, traceparent, idempotency_key].map(Option::unwrap);
        assert_eq!(texts, ["goal", "task", "asset", "trace", "key"]);
        let needs =
            Resources { memory_bytes: Some(12), cpu_millicores: Some(13), timeout_ms: Some(11) };
        assert_eq!(resources, Some(needs));
        assert_eq!((priority, max_attempts, lost_max), (Some(-1), Some(3), Some(4)));
        let spans = (lease_ms, heartbeat_interval_ms, cancel_grace_ms);
        assert_eq!(spans, (Some(8), Some(9), Some(10)));
        assert_eq!(stall, Some(Stall { after_ms: 14, action: StallAction::Requeue }));
        assert_eq!((run_at, deadline), (Some(Time::from_ms(1)), Some(Time::from_ms(2))));
        assert_eq!(retry, Some(Retry { base_ms: Some(5), cap_ms: Some(6) }));
        assert_eq!((seed, labels.len()), (Some(7), 3));
        assert_eq!(budget.and_then(|budget| budget.tokens), Some(14));
        let rate = Some(FlowRate { count: 10, per_ms: 1_000 });
        let (debounce_ms, debounce_max_ms) = (Some(5_000), Some(60_000));
        let key = "customer".to_owned();
        let expected =
            Flow { key, limit: Some(16), rate, debounce_ms, debounce_max_ms, hold: None };
        assert_eq!(flow, Some(expected));
    }

    #[test]
    fn an_input_without_json_form_is_told_when_it_is_submitted() {
        let keyed = BTreeMap::from([((1, 2), 3)]);
        let no_json = NewRun::new("k", &keyed).queue("q").into_request().unwrap_err();
        assert!(no_json.to_string().contains("no JSON form"), "{no_json}");
    }

    #[test]
    fn spans_are_sent_as_spans_and_the_last_word_counts() {
        let hour = Duration::from_secs(3600);
        let at = SystemTime::UNIX_EPOCH + hour;
        let run = NewRun::new("k", &1).run_at(at).delay(hour).deadline(at).deadline_in(2 * hour);
        let sent = run.clone().into_request().unwrap();
        assert_eq!((sent.run_at, sent.delay_ms), (None, Some(3_600_000)));
        assert_eq!((sent.deadline, sent.deadline_ms), (None, Some(7_200_000)));
        let sent = run.run_at(at).deadline(at).into_request().unwrap();
        assert_eq!((sent.delay_ms, sent.deadline_ms), (None, None));
        assert_eq!(sent.run_at, Some(Time::from_ms(3_600_000)));
    }

    /// Beyond the year 9999.
    const FAR: Duration = Duration::from_secs(400_000_000_000);

    #[test]
    fn instants_that_the_wire_cannot_spell_become_the_nearest_one() {
        assert_eq!(wire_time(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), Time::MIN);
        let run = NewRun::new("k", &1).queue("q").run_at(SystemTime::UNIX_EPOCH + FAR);
        assert_eq!(run.into_request().unwrap().run_at, Some(Time::MAX));
    }
}
