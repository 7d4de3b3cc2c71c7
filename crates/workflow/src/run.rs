//! One attempt of a durable function: polls the code, hands out commands, takes in answers.
//!
//! It does no I/O and has no clock. It promises that the same start and the same answers give the same commands, as long
//! as the function awaits nothing but `flow` outside of steps; if it does, the run stops and says so.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::Json;
use wire::answers::BudgetLeft;
use wire::limits::{PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX};

use crate::alarm::Alarm;
use crate::command::{Answer, Command, Outcome, Report, Start};
use crate::core::{Core, Ending};
use crate::flow::Flow;
use crate::shared::Shared;
use crate::stop::Stop;
use crate::{DigestFn, Failure};

/// What a durable function returns, before it is recorded.
pub type Body<'f> = Pin<Box<dyn Future<Output = Result<Json, Failure>> + Send + 'f>>;

/// A durable function: called anew for each attempt and after each savepoint.
pub type Function<'f> = Arc<dyn Fn(Flow, Json) -> Body<'f> + Send + Sync + 'f>;

/// Makes a durable function of typed code.
///
/// ```
/// use workflow::{Flow, Failure, function};
///
/// let order = function(async |ctx: Flow, cents: u64| {
///     let receipt: String = ctx.step("charge", async |step| {
///         Ok(format!("{cents} cents under {}", step.idempotency_key()))
///     }).await?;
///     Ok(receipt)
/// });
/// # drop(order);
/// ```
pub fn function<'f, I, O, F, Fut>(code: F) -> Function<'f>
where
    I: DeserializeOwned + Send,
    O: Serialize + Send,
    F: Fn(Flow, I) -> Fut + Send + Sync + 'f,
    Fut: Future<Output = Result<O, Failure>> + Send + 'f,
{
    Arc::new(move |ctx, input| {
        let begun = input.read().map(|input| code(ctx, input));
        Box::pin(async move {
            let problem = |error| Failure::named("INPUT_UNREADABLE", error);
            encode(&begun.map_err(problem)?.await?)
        })
    })
}

/// Writes a result in the form in which it is recorded.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Json, Failure> {
    let json = Json::from_value(value)
        .map_err(|error| Failure::named("RESULT_UNWRITABLE", format!("no JSON form: {error}")))?;
    let bytes = json.text().len();
    if bytes > PAYLOAD_BYTES_MAX {
        let message = format!(
            "the result has {bytes} bytes, the limit is {PAYLOAD_BYTES_MAX}: store it elsewhere \
             and return a reference"
        );
        return Err(Failure::named("RESULT_TOO_LARGE", message));
    }
    let levels = depth(json.text());
    if levels > PAYLOAD_DEPTH_MAX {
        let message = format!(
            "the result has {levels} levels of objects and arrays, the limit is {PAYLOAD_DEPTH_MAX}"
        );
        return Err(Failure::named("RESULT_UNWRITABLE", message));
    }
    Ok(json)
}

/// Levels of objects and arrays in a JSON text.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut is_escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth -= 1,
            _ => {}
        }
    }
    deepest
}

/// One attempt. Drop it to give the attempt up: what was recorded stays.
pub struct Run<'f> {
    function: Function<'f>,
    input: Json,
    pub(crate) shared: Arc<Shared>,
    /// Gone when the run is over.
    code: Option<Body<'f>>,
    /// What the function returned while a call was under way.
    returned: Option<Result<Json, Failure>>,
    is_over: bool,
}

impl<'f> Run<'f> {
    pub fn new(start: Start, function: Function<'f>) -> Run<'f> {
        Run::with_digest(start, function, None)
    }

    /// An attempt whose inputs are identified by this digest. It must be the same in every attempt.
    pub fn with_digest(
        mut start: Start,
        function: Function<'f>,
        digest: Option<DigestFn>,
    ) -> Run<'f> {
        let input = std::mem::take(&mut start.input);
        let shared = Arc::new(Shared::new(Core::new(start, digest)));
        let code = function(Flow::root(shared.clone()), input.clone());
        Run { function, input, shared, code: Some(code), returned: None, is_over: false }
    }

    /// The next command. Pending means that the work of a step, or a call, is under way.
    ///
    /// # Panics
    ///
    /// After the last command ([`Command::Complete`], [`Command::Suspend`], [`Command::Halt`], [`Command::Cancel`]) and
    /// after a stop.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Command, Stop>> {
        assert!(!self.is_over, "a run gives no commands after its end");
        let alarm = self.shared.alarm.clone();
        alarm.set_driver(cx.waker());
        let turn = alarm.inside(|| self.turn(&alarm));
        let goes_on = Poll::is_pending(&turn)
            || matches!(turn, Poll::Ready(Ok(Command::Checkpoint(_) | Command::Execute { .. })));
        self.is_over = !goes_on;
        turn
    }

    /// The answer to the last [`Command::Checkpoint`].
    pub fn recorded(&mut self, answer: Answer) {
        self.deliver(|core| core.recorded(answer));
    }

    /// What is left of the run's budget. Only the work of steps reads it: the function itself must not depend on it.
    pub fn set_left(&self, left: Option<BudgetLeft>) {
        self.shared.with(|core| core.left = left);
    }

    /// The time of a try is over. One that has ended meanwhile stays as it is.
    pub fn time_out(&mut self, key: &str, number: u32) {
        self.deliver(|core| core.time_out(key, number));
    }

    fn deliver(&mut self, event: impl FnOnce(&mut Core)) {
        let alarm = self.shared.alarm.clone();
        alarm.inside(|| {
            self.shared.with(event);
            self.shared.wake_code();
        });
    }

    /// Lets the code run until there is a command, or nothing to do.
    fn turn(&mut self, alarm: &Arc<Alarm>) -> Poll<Result<Command, Stop>> {
        loop {
            if alarm.is_foreign() {
                self.shared.with(Core::end_by_foreign_await);
            }
            if let Some(ending) = self.shared.with(Core::take_ending) {
                match self.close(ending) {
                    Some(last) => return Poll::Ready(last),
                    None => continue,
                }
            }
            if let Some(command) = self.shared.with(Core::next_command) {
                return Poll::Ready(Ok(command));
            }
            if self.returned.is_some() {
                return self.report();
            }
            if alarm.take_woken() {
                self.poll_code(alarm);
            } else if self.shared.with(Core::settle) {
                self.shared.wake_code();
            } else {
                return Poll::Pending;
            }
        }
    }

    fn poll_code(&mut self, alarm: &Arc<Alarm>) {
        let waker = Waker::from(alarm.clone());
        let code = self.code.as_mut().expect("the code lives until the run is over");
        if let Poll::Ready(result) = code.as_mut().poll(&mut Context::from_waker(&waker)) {
            if result.is_ok() {
                self.shared.with(Core::check_all_begun);
            }
            self.returned = Some(result);
        }
    }

    /// Drops the code. Returns the last command, or nothing if the run goes on.
    fn close(&mut self, ending: Ending) -> Option<Result<Command, Stop>> {
        self.shared.with(|core| core.is_closing = true);
        self.code = None;
        self.shared.with(|core| core.is_closing = false);
        match ending {
            Ending::Stop(stop) => Some(Err(stop)),
            Ending::Suspend => Some(Ok(Command::Suspend)),
            Ending::Halt => Some(Ok(Command::Halt)),
            Ending::Cancel => Some(Ok(Command::Cancel)),
            Ending::Abort(failure) => {
                self.returned = Some(Err(failure));
                None
            }
            Ending::StartOver(savepoint) => {
                self.shared.with(|core| core.start_over(savepoint));
                let ctx = Flow::root(self.shared.clone());
                self.code = Some((self.function)(ctx, self.input.clone()));
                self.shared.alarm.ring();
                None
            }
        }
    }

    /// The end, as soon as no call is under way.
    fn report(&mut self) -> Poll<Result<Command, Stop>> {
        if self.shared.with(|core| core.has_call_under_way()) {
            return Poll::Pending;
        }
        if let Some(stop) = self.shared.with(|core| core.unreached()) {
            return Poll::Ready(Err(stop));
        }
        let (steps, children) = self.shared.with(Core::take_rest);
        let result = self.returned.take().expect("the function has returned");
        let report = match result {
            Ok(output) => {
                let (outcome, output) = (Outcome::Succeeded, Some(output));
                Report { steps, children, outcome, output, error: None }
            }
            Err(failure) => {
                let (outcome, error) = (Outcome::Failed, Some(failure));
                Report { steps, children, outcome, output: None, error }
            }
        };
        Poll::Ready(Ok(Command::Complete(report)))
    }
}
