//! The chapter on provenance: a run is proved from its store, handed over as a bundle, and a forgery is found.

use std::time::Duration;

use serde_json::Value;

use super::order::{KIND, Order};
use super::processes::{Printed, QUEUE, expect, unexpected};
use super::{CHAPTER_LEASE, HEARTBEAT, Tour};
use crate::exit::CliError;
use crate::output::{self, BAD, GOOD};
use crate::server;

/// Seals follow a few seconds after the ends that they cover.
const LOOK_PAUSE: Duration = Duration::from_millis(200);
const LOOKS_MAX: u32 = 100;

impl Tour {
    /// The chapter in full.
    pub(super) async fn prove(&self) -> Result<(), CliError> {
        self.say.act("An order is done. The commit that ends it writes its record.")?;
        let id = self.order_for_proof().await?;
        self.say
            .act("`tenure prove` asks no server: it decides everything again from the store.")?;
        let proof = self.sealed(&id).await?;
        self.told(&id, &proof).await?;

        self.say
            .act("The run is handed over as a bundle. Then somebody changes one digit in it.")?;
        let bundle = self.server.folder.join("order.bundle");
        let file = bundle.to_string_lossy().into_owned();
        let written = self.proof(&[&id, "--export", &file]).await?;
        expect(written.is_success, format_args!("a bundle is written: {}", written.stderr))?;
        let checked = self.proof(&["--bundle", &file]).await?;
        expect(checked.is_success, format_args!("the bundle is proved: {}", checked.stdout))?;
        self.say.tell("bundle", format_args!("{file}: {GOOD}proved{GOOD:#} without the store"))?;
        self.forged(&bundle).await
    }

    async fn order_for_proof(&self) -> Result<String, CliError> {
        let submission = self
            .server
            .client
            .submit(KIND, &Order { id: 7, cents: 500 })
            .lease(CHAPTER_LEASE)
            .heartbeat_interval(HEARTBEAT);
        let run = submission.queue(QUEUE).goal("deliver order 7");
        let run = run.await.map_err(server::cli_error)?;
        self.say.tell("submitted", format_args!("{} order: 500 cents", run.id()))?;
        let mut alice = self.server.order_worker("alice", None)?;
        self.approve(run.id()).await?;
        for step in ["charge", "pack", "ship"] {
            self.work_done(&mut alice, step).await?;
        }
        let ended = self.ended(run.id()).await?;
        self.say.tell("ended", format_args!("{GOOD}{}{GOOD:#}", ended.state))?;
        Ok(run.id().to_owned())
    }

    /// `tenure prove` on the store of the tour.
    async fn proof(&self, arguments: &[&str]) -> Result<Printed, CliError> {
        let store = format!("sqlite:{}", self.server.store().display());
        let mut all = vec!["prove", "--json"];
        if !arguments.contains(&"--bundle") {
            all.extend(["--store", &store]);
        }
        all.extend(arguments);
        self.server.run_command(&all).await
    }

    /// Proves a run once its record is sealed.
    async fn sealed(&self, id: &str) -> Result<Value, CliError> {
        for _ in 0..LOOKS_MAX {
            let printed = self.proof(&[id]).await?;
            expect(printed.is_success, format_args!("the run is proved: {}", printed.stdout))?;
            let proof: Value = serde_json::from_str(&printed.stdout).map_err(unexpected)?;
            if proof["sealedRecords"] == proof["records"] {
                return Ok(proof);
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        Err(unexpected("the record was never sealed"))
    }

    /// The story as the command prints it, and what it rests on.
    async fn told(&self, id: &str, proof: &Value) -> Result<(), CliError> {
        let store = format!("sqlite:{}", self.server.store().display());
        let story = self.server.run_command(&["prove", id, "--store", &store]).await?;
        self.indented(&story.stdout)?;
        let count = |name: &str, what: &str| output::count(proof[name].as_u64().unwrap_or(0), what);
        let (decisions, seals) = (count("decisions", "decision"), count("seals", "seal"));
        self.say.tell(
            "proved",
            format_args!("{GOOD}no findings{GOOD:#}: {decisions} decided again, {seals} checked"),
        )
    }

    /// One digit in a copy of the bundle, changed as an editor of files would.
    async fn forged(&self, bundle: &std::path::Path) -> Result<(), CliError> {
        let mut bytes = std::fs::read(bundle)?;
        let places = places_of(&bytes, b"receipt for 500 cents");
        expect(!places.is_empty(), "the receipt is in the bundle")?;
        for place in places {
            bytes[place + "receipt for ".len()] = b'4';
        }
        let forged = self.server.folder.join("forged.bundle");
        std::fs::write(&forged, bytes)?;
        let place = forged.display();
        self.say.tell("forged", format_args!("{place}: the receipt is for 400 cents there"))?;
        let file = forged.to_string_lossy();
        let found = self.proof(&["--bundle", &file]).await?;
        expect(!found.is_success, "a forged receipt is found")?;
        let found: Value = serde_json::from_str(&found.stdout).map_err(unexpected)?;
        let findings = found["findings"].as_array().cloned().unwrap_or_default();
        expect(!findings.is_empty(), "a finding says what differs")?;
        for finding in findings.iter().take(3) {
            self.say.tell(
                "found",
                format_args!("{BAD}{}{BAD:#}: {}", text(finding, "code"), text(finding, "message")),
            )?;
        }
        Ok(())
    }
}

fn places_of(bytes: &[u8], text: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(text.len()).enumerate();
    windows.filter(|(_, window)| *window == text).map(|(place, _)| place).collect()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}
