//! The chapter on durable runs: an order outlives its workers, and its record is a test of its code.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use wire::State;
use wire::answers::Run;

use super::order::{APPROVE, COOLING_OFF, KIND, Order};
use super::processes::{OrderWorker, QUEUE, expect, unexpected};
use super::{HEARTBEAT_MS, SHORT_LEASE_MS, Tour};
use crate::exit::CliError;
use crate::output::{GOOD, WARN};
use crate::{duration, server};

/// How often the tour looks whether the order waits, and how many times at most.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
const LOOKS_MAX: u32 = 300;

/// What was done, by name of the step, in all worker processes.
#[derive(Default)]
struct Done(BTreeMap<String, u32>);

impl Tour {
    /// The chapter in full.
    pub(super) async fn durable(&self) -> Result<(), CliError> {
        let mut done = Done::default();
        self.say.act("A durable order is charged. Its worker is killed between two steps.")?;
        let id = self.submit_order().await?;
        self.killed_before_packing(&id, &mut done).await?;
        self.say.act("Another worker continues where the record ends.")?;
        let bob = self.packed(&mut done).await?;
        self.say.act("The order sleeps and waits for a person. No worker is needed for that.")?;
        self.abandoned(&id, bob).await?;
        self.approve(&id).await?;
        let mut carol = self.server.order_worker("carol", None)?;
        self.executed(&mut carol, &mut done).await?;
        self.order_ended(&id, &done).await?;
        self.drawn(&id).await?;
        self.replayed(&id).await
    }

    /// The chapter in one act, for the tour of everything.
    pub(super) async fn durable_in_short(&self) -> Result<(), CliError> {
        let mut done = Done::default();
        self.say.act("A durable order outlives its worker. No recorded step is done again.")?;
        let id = self.submit_order().await?;
        self.killed_before_packing(&id, &mut done).await?;
        self.approve(&id).await?;
        let mut bob = self.packed(&mut done).await?;
        let nap = duration::format_ms(COOLING_OFF.as_millis() as i64);
        self.say.tell("asleep", format_args!("for {nap}; the coordinator keeps the time"))?;
        self.executed(&mut bob, &mut done).await?;
        self.order_ended(&id, &done).await
    }

    async fn submit_order(&self) -> Result<String, CliError> {
        let order = Order { id: 7, cents: 500 };
        let submission = self
            .server
            .client
            .submit(KIND, &order)
            .queue(QUEUE)
            .lease(Duration::from_millis(SHORT_LEASE_MS))
            .heartbeat_interval(Duration::from_millis(HEARTBEAT_MS));
        let run = submission.await.map_err(server::cli_error)?;
        let steps = "charge, pack, sleep, wait for a signal, ship";
        self.say.tell("submitted", format_args!("{} {KIND}: {steps}", run.id()))?;
        Ok(run.id().to_owned())
    }

    /// A worker charges, comes to the next step, and dies there.
    async fn killed_before_packing(&self, id: &str, done: &mut Done) -> Result<(), CliError> {
        let mut alice = self.server.order_worker("alice", Some("pack"))?;
        self.executed(&mut alice, done).await?;
        expect(alice.reached().await? == "pack", "the next step is pack")?;
        let steps = self.server.client.run(id).steps().await.map_err(server::cli_error)?;
        let keys: Vec<&str> = steps.iter().map(|step| step.key.as_str()).collect();
        expect(keys == ["charge#1"], "charge is recorded before pack begins")?;
        self.say.tell("recorded", format_args!("{GOOD}charge{GOOD:#}, before pack begins"))?;
        alice.kill().await?;
        self.say.tell("killed", "alice, with SIGKILL, before she packed anything")
    }

    async fn packed(&self, done: &mut Done) -> Result<OrderWorker, CliError> {
        let lease = duration::format_ms(SHORT_LEASE_MS.cast_signed());
        self.say.tell("silence", format_args!("alice's lease expires within {lease}"))?;
        let mut bob = self.server.order_worker("bob", None)?;
        self.executed(&mut bob, done).await?;
        expect(done.count("charge") == 1, "the customer is charged once")?;
        expect(done.count("pack") == 1, "the order is packed")?;
        self.say
            .tell("replayed", "charge was not done again: bob's code got the recorded result")?;
        Ok(bob)
    }

    /// The order waits, and its last worker goes.
    async fn abandoned(&self, id: &str, bob: OrderWorker) -> Result<(), CliError> {
        let waits = self.until_waiting(id).await?;
        self.say.tell("waiting", waits)?;
        bob.kill().await?;
        self.say.tell("killed", "bob too: there is no worker now")
    }

    pub(super) async fn until_waiting(&self, id: &str) -> Result<String, CliError> {
        for _ in 0..LOOKS_MAX {
            let run = self.server.client.run(id).status().await.map_err(server::cli_error)?;
            if let Some(waits) = awaited(&run) {
                return Ok(waits);
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        Err(unexpected("the order never waited"))
    }

    pub(super) async fn approve(&self, id: &str) -> Result<(), CliError> {
        let signal = self.server.client.run(id).signal(APPROVE, "Ada");
        signal.await.map_err(server::cli_error)?;
        self.say.tell("signalled", format_args!("{APPROVE}, kept until the order takes it"))
    }

    /// The next piece of work that a worker does.
    async fn executed(&self, worker: &mut OrderWorker, done: &mut Done) -> Result<(), CliError> {
        let (step, fence) = worker.executed().await?;
        let (name, pid) = (&worker.name, worker.pid);
        self.say
            .tell("executed", format_args!("{step} by {name} (process {pid}), fence {fence}"))?;
        *done.0.entry(step).or_default() += 1;
        Ok(())
    }

    async fn order_ended(&self, id: &str, done: &Done) -> Result<(), CliError> {
        let run = self.ended(id).await?;
        expect(run.state == State::Succeeded, "the order succeeds")?;
        let once = ["charge", "pack", "ship"].iter().all(|step| done.count(step) == 1);
        expect(once, "each step was done once")?;
        let output = run.output.as_ref().map(|output| output.text()).unwrap_or_default();
        self.say.tell("ended", format_args!("{GOOD}{}{GOOD:#}, output {output}", run.state))?;
        self.say.tell("counted", "charge 1, pack 1, ship 1: each step was done once")
    }

    /// What `tenure runs show` draws.
    async fn drawn(&self, id: &str) -> Result<(), CliError> {
        self.say.act("Everything is on record: steps, waits, attempts. `tenure runs show`:")?;
        let drawn = self.shown(id).await?;
        for key in ["charge#1", "pack#1", "sleep#1", "signal:approve#1", "ship#1"] {
            expect(drawn.stdout.contains(key), format_args!("{key} is shown"))?;
        }
        Ok(())
    }

    /// The record is served to the same code, and to another version of it.
    async fn replayed(&self, id: &str) -> Result<(), CliError> {
        self.say
            .act("The record is a test of the code. It is replayed, and nothing is executed.")?;
        let file = self.server.folder.join("order.jsonl");
        let file = file.to_string_lossy();
        let exported = self.server.run_command(&["export", id, "--output", &file]).await?;
        expect(exported.is_success, format_args!("the run can be exported: {}", exported.stderr))?;
        self.say.tell("exported", format_args!("with `tenure export`: {file}"))?;
        let same = self.server.replay(&file, &[]).await?;
        expect(same["same"] == true, format_args!("the same code fits the record: {same}"))?;
        self.say.tell(
            "replayed",
            format_args!("with `tenure replay`, the same code: {GOOD}same{GOOD:#}"),
        )?;
        let other = self.server.replay(&file, &["--changed"]).await?;
        let found = &other["difference"];
        expect(found["recorded"] == "pack#1", format_args!("the renamed step is found: {other}"))?;
        self.say.tell("replayed", format_args!(
            "code with a renamed step: {WARN}differs{WARN:#} at operation {}, recorded {}, now {}",
            found["index"],
            text(&found["recorded"]),
            text(&found["actual"]),
        ))
    }
}

impl Done {
    fn count(&self, step: &str) -> u32 {
        self.0.get(step).copied().unwrap_or(0)
    }
}

/// What a waiting run waits for.
fn awaited(run: &Run) -> Option<String> {
    let waiting = run.durable.as_ref()?.waiting.as_ref()?;
    let item = waiting.wait.as_ref()?.items.first()?;
    Some(match (item.until, &item.signal) {
        (Some(until), _) => format!("asleep until {until}; the coordinator keeps the time"),
        (None, Some(signal)) => format!("for the signal {signal}"),
        (None, None) => format!("for {}", item.key),
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
