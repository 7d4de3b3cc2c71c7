//! How handlers are added to a worker: with or without state, for a kind or a name, tasks and durable functions.

use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use workflow::{Failure, Flow};

use super::program::{Program, ProgramEnd, Recorder};
use super::task::{Handler, TaskKind, typed};
use super::{Ctx, Worker};

/// A worker's state. See [`Worker::with_state`].
#[derive(Clone, Debug)]
pub struct WithState<S>(pub(super) S);

impl<S> Worker<S> {
    /// Serves the kind, and the queue where its runs wait.
    fn add<I, O>(mut self, kind: &impl TaskKind<I, O>, handler: Handler) -> Worker<S> {
        if let Some(queue) = kind.queue_name()
            && !self.queues.iter().any(|known| known == queue)
        {
            self.queues.push(queue.to_owned());
        }
        self.kinds.push(kind.announcement());
        self.tasks.add(kind.name().to_owned(), handler);
        self
    }
}

impl Worker {
    /// Adds the handler of a kind. A panic in it fails the task, not the worker.
    pub fn handle<K, F, I, O, Fut>(self, kind: K, work: F) -> Worker
    where
        K: TaskKind<I, O>,
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        Fut: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        self.add(&kind, Handler::Task(typed(work)))
    }

    /// Adds a durable function: ordinary code whose steps are recorded, one by one, and skipped when another worker
    /// continues the run after a crash or a wait. See the page about determinism for what its code may do.
    ///
    /// An error that the function returns ends the run: steps have their own retries. A panic fails the attempt, and
    /// the coordinator decides about another one.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tenure::{Failure, Flow, Kind, Retry, Worker};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Order { id: u64, cents: u64 }
    ///
    /// const ORDER: Kind<Order, String> = Kind::new("order").queue("orders");
    ///
    /// # async fn charge(_: &str, _: u64) -> Result<String, Failure> { Ok(String::new()) }
    /// # async fn ship(_: u64) -> Result<(), Failure> { Ok(()) }
    /// async fn order(flow: Flow, order: Order) -> Result<String, Failure> {
    ///     let receipt: String = flow
    ///         .step("charge", async |step| charge(step.idempotency_key(), order.cents).await)
    ///         .retry(Retry::tries(5))
    ///         .await?;
    ///     flow.sleep(Duration::from_secs(86_400)).await;
    ///     flow.step("ship", async |_| ship(order.id).await).await?;
    ///     Ok(receipt)
    /// }
    ///
    /// #[tokio::main]
    /// async fn main() -> Result<(), tenure::Error> {
    ///     Worker::from_env()?.durable(ORDER, order).run().await
    /// }
    /// ```
    pub fn durable<K, F, I, O, Fut>(self, kind: K, code: F) -> Worker
    where
        K: TaskKind<I, O>,
        F: Fn(Flow, I) -> Fut + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        Fut: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        self.add(&kind, Handler::Durable(workflow::function(code)))
    }

    /// Adds the handler of every kind without a handler; [`Ctx::kind`] returns the
    /// kind.
    pub fn handle_any<F, I, O, Fut>(mut self, work: F) -> Worker
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        Fut: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        self.tasks.set_fallback(Handler::Task(typed(work)));
        self
    }
}

/// For tools that run programs.
impl Worker {
    /// Adds a handler that runs a program, for these kinds, or for every kind without a handler if there are none.
    #[doc(hidden)]
    pub fn handle_program<F, Fut>(mut self, kinds: &[String], work: F) -> Worker
    where
        F: Fn(Ctx, Recorder) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ProgramEnd> + Send + 'static,
    {
        let program: Program = Arc::new(move |ctx, recorder| Box::pin(work(ctx, recorder)));
        if kinds.is_empty() {
            self.tasks.set_fallback(Handler::Program(program));
            return self;
        }
        let add = |worker: Worker, kind: &String| {
            worker.add::<(), ()>(kind, Handler::Program(program.clone()))
        };
        kinds.iter().fold(self, add)
    }
}

/// The same with the worker's state between context and input.
impl<S: Clone + Send + Sync + 'static> Worker<WithState<S>> {
    /// Adds the handler of a kind. A panic in it fails the task, not the worker.
    pub fn handle<K, F, I, O, Fut>(self, kind: K, work: F) -> Worker<WithState<S>>
    where
        K: TaskKind<I, O>,
        F: Fn(Ctx, S, I) -> Fut + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        Fut: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        let WithState(state) = self.state.clone();
        self.add(&kind, Handler::Task(typed(move |ctx, input| work(ctx, state.clone(), input))))
    }

    /// Adds a durable function. Its state is for its steps: what the function decides must not depend on it.
    pub fn durable<K, F, I, O, Fut>(self, kind: K, code: F) -> Worker<WithState<S>>
    where
        K: TaskKind<I, O>,
        F: Fn(Flow, S, I) -> Fut + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        Fut: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        let WithState(state) = self.state.clone();
        let code = move |flow: Flow, input: I| code(flow, state.clone(), input);
        self.add(&kind, Handler::Durable(workflow::function(code)))
    }

    /// Adds the handler of every kind without a handler; [`Ctx::kind`] returns the kind.
    pub fn handle_any<F, I, O, Fut>(mut self, work: F) -> Worker<WithState<S>>
    where
        F: Fn(Ctx, S, I) -> Fut + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        Fut: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        let WithState(state) = self.state.clone();
        let task = typed(move |ctx, input| work(ctx, state.clone(), input));
        self.tasks.set_fallback(Handler::Task(task));
        self
    }
}
