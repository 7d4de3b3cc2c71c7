//! Wrong pairs of a kind and a value, a handler or an output do not compile. Each example differs from one that compiles in the
//! marked line only, so that nothing else can be what fails.
//!
//! Documentation tests are the harness: they use the build that is there, and a second build of all dependencies, as other
//! harnesses make, would cost minutes.
//!
//! What fits:
//!
//! ```no_run
//! use tenure::roles::{ArtifactDecision, ArtifactTurn, EventTurn, GateDecision, OrderTurn, RoleProcess, SchedulerDecision};
//! use tenure::{Client, Ctx, Error, Failure, Flow, Kind, NewRun, PlanStep, RunHandle, Worker};
//!
//! const GREET: Kind<String, String> = Kind::new("greet").queue("mail");
//! const COUNT: Kind<u32, u64> = Kind::new("count");
//!
//! async fn greet(_: Ctx, name: String) -> Result<String, Failure> { Ok(name) }
//! async fn count(_: Flow, n: u32) -> Result<u64, Failure> { Ok(u64::from(n)) }
//! async fn greet_with(_: Ctx, word: &'static str, name: String) -> Result<String, Failure> { Ok(format!("{word}, {name}")) }
//!
//! async fn judge(_: OrderTurn) -> Result<GateDecision, Failure> { Ok(GateDecision::pass()) }
//! async fn order(_: EventTurn) -> Result<SchedulerDecision, Failure> { Ok(SchedulerDecision::block()) }
//! async fn look(_: ArtifactTurn) -> Result<ArtifactDecision, Failure> { Ok(ArtifactDecision::Go) }
//!
//! async fn example(client: Client) -> Result<(), Error> {
//!     let _ = RoleProcess::new(client.clone(), "d").gate("g", judge).scheduler("s", order).review("r", look);
//!     let _ = Worker::new(client.clone()).handle(GREET, greet).handle("by-name", greet).durable(COUNT, count);
//!     let _ = Worker::new(client.clone()).handle(COUNT, |_, n| async move { Ok(u64::from(n)) });
//!     let _ = Worker::new(client.clone()).with_state("Hello").handle(GREET, greet_with);
//!     let handle: RunHandle<String> = client.submit(GREET, "Ada").await?;
//!     let _: String = handle.result().await?;
//!     let _: u64 = client.submit(COUNT, &7).await?.result().await?;
//!     let _: u64 = client.submit("count", &7).queue("default").await?.output().await?;
//!     let _: u64 = client.run("run_1").of(COUNT).result().await?;
//!     let _: Vec<NewRun<String>> = vec![NewRun::new(GREET, "Ada")];
//!     let _ = PlanStep::new("greet", GREET, "Ada").after("count");
//!     Ok(())
//! }
//! ```
//!
//! Another input:
//!
//! ```compile_fail,E0277
//! # use tenure::{Client, Kind};
//! const GREET: Kind<String, String> = Kind::new("greet").queue("mail");
//! fn example(client: &Client) {
//!     let _ = client.submit(GREET, &7_u32); // not text
//! }
//! ```
//!
//! Another output:
//!
//! ```compile_fail,E0308
//! # use tenure::{Client, Error, Kind};
//! const GREET: Kind<String, String> = Kind::new("greet").queue("mail");
//! async fn example(client: &Client) -> Result<u32, Error> {
//!     client.submit(GREET, "Ada").await?.result().await // not a number
//! }
//! ```
//!
//! A handler of another input:
//!
//! ```compile_fail,E0277
//! # use tenure::{Client, Ctx, Failure, Kind, Worker};
//! const GREET: Kind<String, String> = Kind::new("greet").queue("mail");
//! async fn count(_: Ctx, n: u32) -> Result<String, Failure> { Ok(n.to_string()) }
//! fn example(client: Client) {
//!     let _ = Worker::new(client).handle(GREET, count); // takes a number
//! }
//! ```
//!
//! A durable function of another output:
//!
//! ```compile_fail,E0277
//! # use tenure::{Client, Failure, Flow, Kind, Worker};
//! const GREET: Kind<String, String> = Kind::new("greet").queue("mail");
//! async fn length(_: Flow, name: String) -> Result<usize, Failure> { Ok(name.len()) }
//! fn example(client: Client) {
//!     let _ = Worker::new(client).durable(GREET, length); // gives a number
//! }
//! ```
//!
//! A step of a plan with another input:
//!
//! ```compile_fail,E0277
//! # use tenure::{Kind, PlanStep};
//! const GREET: Kind<String, String> = Kind::new("greet").queue("mail");
//! let _ = PlanStep::new("greet", GREET, &7_u32); // not text
//! ```
//!
//! A gate that orders work:
//!
//! ```compile_fail,E0271
//! # use tenure::roles::{OrderTurn, RoleProcess, SchedulerDecision};
//! # use tenure::{Client, Failure};
//! async fn order(_: OrderTurn) -> Result<SchedulerDecision, Failure> { Ok(SchedulerDecision::block()) }
//! fn example(client: Client) {
//!     let _ = RoleProcess::new(client, "d").gate("g", order); // no decision of a gate
//! }
//! ```
//!
//! A scheduler that is told what a gate is told:
//!
//! ```compile_fail,E0631
//! # use tenure::roles::{OrderTurn, RoleProcess, SchedulerDecision};
//! # use tenure::{Client, Failure};
//! async fn order(_: OrderTurn) -> Result<SchedulerDecision, Failure> { Ok(SchedulerDecision::block()) }
//! fn example(client: Client) {
//!     let _ = RoleProcess::new(client, "d").scheduler("s", order); // events are told, no work orders
//! }
//! ```
