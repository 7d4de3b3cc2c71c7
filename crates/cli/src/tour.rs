//! `tenure tour`: the promise, kept before your eyes, in less than a minute and without questions.
//!
//! A server and workers as processes of their own, over HTTP. Every verdict that is printed was parsed from an
//! answer, and every expectation that does not hold ends the tour with exit code 1.

mod stage;
pub(crate) mod worker;

use std::path::PathBuf;

use tenure::Force;
use wire::answers::{AttemptView, Run};
use wire::requests::{Retry, SubmitRun};
use wire::{AttemptOutcome, Outcome, State, Time, Verdict};

use crate::exit::{Complaint, Ended, Exit};
use crate::output::{self, BAD, BOLD, FAINT, GOOD, WARN};
use crate::{server, span};
use stage::{Stage, act, expect, tell, unexpected};
use worker::{Answer, Manner};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where to keep the tour's store [default: a new folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// The shortest lease there is: a dead worker is noticed after two seconds.
const LEASE_MS: u64 = *wire::limits::LEASE_MS.start();
const HEARTBEAT_MS: u64 = *wire::limits::HEARTBEAT_INTERVAL_MS.start();
const GRACE_MS: u64 = 1_000;
const RETRY_BASE_MS: u64 = 200;
const SEED: u64 = 7;

pub(crate) async fn run(arguments: Arguments) -> Ended {
    tokio::select! {
        ended = play(arguments) => ended,
        // Returning drops the stage, and every process on it ends.
        _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
    }
}

async fn play(arguments: Arguments) -> Ended {
    let folder = match arguments.folder {
        Some(folder) => std::path::absolute(folder)?,
        None => std::env::temp_dir().join(format!("tenure-tour-{}", std::process::id())),
    };
    let mut stage = Stage::set(folder).await?;
    output::line(format_args!(
        "{BOLD}The tour of Tenure:{BOLD:#} workers execute, only the coordinator decides what is true."
    ))?;
    tell("server", &stage.connection.url)?;
    tell("store", stage.store().display())?;

    a_worker_dies(&stage).await?;
    a_task_fails(&stage).await?;
    a_cancel_is_honoured(&stage).await?;
    a_cancel_is_ignored(&stage).await?;
    the_books_are_checked(&mut stage).await?;
    farewell(&stage)?;
    Ok(Exit::Done)
}

async fn submit(stage: &Stage, kind: &str) -> Result<String, Complaint> {
    let request = SubmitRun {
        kind: kind.to_owned(),
        queue: stage::QUEUE.to_owned(),
        lease_ms: Some(LEASE_MS),
        heartbeat_interval_ms: Some(HEARTBEAT_MS),
        cancel_grace_ms: Some(GRACE_MS),
        seed: Some(SEED),
        retry: Some(Retry { base_ms: Some(RETRY_BASE_MS), cap_ms: None }),
        ..SubmitRun::default()
    };
    let accepted = stage.client.submit(request, None).await.map_err(server::complaint)?;
    tell("submitted", format_args!("{}, kind {kind}", accepted.run_id))?;
    Ok(accepted.run_id)
}

async fn a_worker_dies(stage: &Stage) -> Result<(), Complaint> {
    act(1, "A worker dies. Its late report is refused; one result counts.")?;
    let id = submit(stage, "resize").await?;
    let mut alice = stage.worker("alice", Manner::Hold, 1)?;
    let first = alice.granted().await?;
    tell(
        "leased",
        format_args!(
            "attempt {} to alice (process {}), fence {}",
            first.attempt, alice.pid, first.fence
        ),
    )?;
    alice.kill().await?;
    tell("killed", "alice, with SIGKILL, while she held the lease")?;

    let mut bob = stage.worker("bob", Manner::Finish, 1)?;
    let second = bob.granted().await?;
    expect(second.attempt == first.attempt + 1, "the next attempt has the next number")?;
    expect(second.fence > first.fence, "a later lease has a larger fence")?;
    let done = bob.answered().await?;
    let record = stage.client.record(&id).await.map_err(server::complaint)?;
    let lost = attempt(&record.attempts, first.attempt)?;
    expect(lost.outcome == AttemptOutcome::Lost, "the dead worker's attempt is lost")?;
    tell(
        "expired",
        format_args!(
            "attempt {} is {} after {} ({})",
            lost.attempt,
            lost.outcome,
            span::between(lost.granted_at, lost.ended_at),
            lost.reason.as_deref().unwrap_or("no reason")
        ),
    )?;
    tell(
        "leased",
        format_args!(
            "attempt {} to bob (process {}), fence {}",
            second.attempt, bob.pid, second.fence
        ),
    )?;
    tell("reported", format_args!("bob: SUCCEEDED        {}", spell(&done)))?;
    expect(done.verdict == Some(Verdict::Committed), "the current worker's report counts")?;

    let report = worker::report(&first, "alice", Outcome::Succeeded);
    let late = worker::send(&stage.client, &first, &report).await?;
    tell("reported", format_args!("alice, late: SUCCEEDED {}", spell(&late)))?;
    expect(late.verdict == Some(Verdict::Cancelled), "a late report is answered CANCELLED")?;
    expect(matches!(late.status, 409 | 410), "a late report is a conflict, or gone")?;

    let run = ended(stage, &id).await?;
    let output = run.output.as_ref().map(|o| o.text().to_owned()).unwrap_or_default();
    expect(run.state == State::Succeeded && output == r#"{"by":"bob"}"#, "bob's result stands")?;
    tell("recorded", format_args!("{GOOD}{}{GOOD:#}, output {output}, once", run.state))
}

async fn a_task_fails(stage: &Stage) -> Result<(), Complaint> {
    act(2, "A task fails until it may not any more. Equal seeds, equal pauses.")?;
    let mut schedules = Vec::new();
    for _ in 0..2 {
        let id = submit(stage, "flaky").await?;
        let mut carol = stage.worker("carol", Manner::Fail, 3)?;
        let mut states = Vec::new();
        for _ in 0..3 {
            let attempt = carol.granted().await?.attempt;
            let answer = carol.answered().await?;
            tell("reported", format_args!("attempt {attempt}: FAILED     {}", spell(&answer)))?;
            states.push(answer.state);
        }
        let expected = [State::Retry, State::Retry, State::Failed].map(Some);
        expect(states == expected, "three failures end the run, not two")?;
        let record = stage.client.record(&id).await.map_err(server::complaint)?;
        schedules.push(pauses(stage, &id, &record.attempts).await?);
    }
    tell("pauses", format_args!("{} and {}", list(&schedules[0]), list(&schedules[1])))?;
    expect(schedules[0] == schedules[1], "equal seeds make equal pauses")?;
    tell(
        "recorded",
        format_args!("{BAD}failed{BAD:#} after 3 attempts, twice, on the same schedule"),
    )
}

/// How long each retry had to wait, as it was decided.
async fn pauses(stage: &Stage, id: &str, attempts: &[AttemptView]) -> Result<Vec<i64>, Complaint> {
    let due = crate::runs::retries_due(&stage.client, id).await?;
    expect(due.len() + 1 == attempts.len(), "every attempt but the last has a retry")?;
    Ok(attempts
        .iter()
        .zip(due)
        .map(|(a, due): (_, Time)| due.as_ms() - a.ended_at.as_ms())
        .collect())
}

fn list(pauses: &[i64]) -> String {
    let spelled: Vec<String> = pauses.iter().map(|ms| span::spell_ms(*ms)).collect();
    spelled.join(", ")
}

async fn a_cancel_is_honoured(stage: &Stage) -> Result<(), Complaint> {
    act(3, "A cancel that is honoured.")?;
    let id = submit(stage, "long").await?;
    let mut dave = stage.worker("dave", Manner::Obey, 1)?;
    cancel_held(stage, &id, &mut dave).await?;
    let answer = dave.answered().await?;
    tell("reported", format_args!("dave: CANCELLED        {}", spell(&answer)))?;
    expect(answer.verdict == Some(Verdict::Committed), "an honoured cancel is committed")?;
    let run = ended(stage, &id).await?;
    expect(run.state == State::Cancelled, "the run is cancelled")?;
    tell("recorded", format_args!("{WARN}{}{WARN:#}", run.state))
}

async fn a_cancel_is_ignored(stage: &Stage) -> Result<(), Complaint> {
    act(4, "A cancel that is ignored, until the grace is over.")?;
    let id = submit(stage, "deaf").await?;
    let mut erin = stage.worker("erin", Manner::Hold, 1)?;
    cancel_held(stage, &id, &mut erin).await?;
    let run = ended(stage, &id).await?;
    let reason = run.error.as_ref().map(|error| error.reason.as_str()).unwrap_or_default();
    expect(
        run.state == State::Failed && reason == "CANCEL_TIMEOUT",
        "an ignored cancel ends CANCEL_TIMEOUT",
    )?;
    tell(
        "recorded",
        format_args!(
            "{BAD}{}{BAD:#} ({reason}) after a grace of {}",
            run.state,
            span::spell_ms(GRACE_MS.cast_signed())
        ),
    )?;
    let answer = erin.answered().await?;
    tell("heartbeat", format_args!("erin, still alive:     {}", spell(&answer)))?;
    expect(answer.verdict == Some(Verdict::Cancelled), "the deaf worker has lost its authority")
}

async fn cancel_held(stage: &Stage, id: &str, worker: &mut stage::Actor) -> Result<(), Complaint> {
    let lease = worker.granted().await?;
    tell(
        "leased",
        format_args!("attempt {} to {} (process {})", lease.attempt, worker.name, worker.pid),
    )?;
    stage
        .client
        .cancel(id, Some("changed my mind"), Force::Ask)
        .await
        .map_err(server::complaint)?;
    let reason = worker.asked_to_stop().await?.unwrap_or_default();
    tell("cancelled", format_args!("{} was asked to stop by a heartbeat: {reason}", worker.name))
}

async fn the_books_are_checked(stage: &mut Stage) -> Result<(), Complaint> {
    act(5, "The books are checked.")?;
    stage.strike().await?;
    tell("stopped", "the server, so that nobody writes")?;
    let store = stage.store();
    let output = stage::myself()?
        .args(["verify", "--json", "--store"])
        .arg(format!("sqlite:{}", store.display()))
        .output()
        .await?;
    let found: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| unexpected(format!("verify did not answer: {error}")))?;
    let findings = found["findings"].as_array().map_or(usize::MAX, Vec::len);
    let tasks = &found["tasks"];
    expect(output.status.success() && findings == 0, "verify finds nothing")?;
    tell(
        "verified",
        format_args!(
            "{GOOD}{tasks} tasks{GOOD:#}, every decision made again from its history: no findings"
        ),
    )
}

async fn ended(stage: &Stage, id: &str) -> Result<Run, Complaint> {
    let limit = Some(std::time::Duration::from_secs(15));
    let run = stage.client.wait(id, limit).await.map_err(server::complaint)?;
    expect(run.state.is_terminal(), format_args!("{id} ends"))?;
    Ok(run)
}

fn attempt(attempts: &[AttemptView], number: u32) -> Result<&AttemptView, Complaint> {
    attempts
        .iter()
        .find(|attempt| attempt.attempt == number)
        .ok_or_else(|| unexpected(format!("attempt {number} is not on record")))
}

/// An answer as it was parsed.
fn spell(answer: &Answer) -> String {
    let style = match answer.verdict {
        Some(Verdict::Committed) => GOOD,
        Some(Verdict::Cancelled) => WARN,
        Some(Verdict::Rejected) | None => BAD,
    };
    let verdict = answer.verdict.map_or("no verdict", Verdict::as_str);
    let about = match (&answer.error, answer.state) {
        (Some(error), _) => format!(", {error}"),
        (None, Some(state)) => format!(", the run is {state}"),
        (None, None) => String::new(),
    };
    format!("{FAINT}->{FAINT:#} {} {style}{verdict}{style:#}{about}", answer.status)
}

fn farewell(stage: &Stage) -> Result<(), Complaint> {
    let store = stage.store();
    let store = store.display();
    output::line(format_args!(
        "\n{BOLD}Now by hand.{BOLD:#} The data of this tour lies in {}
  tenure dev --store sqlite:{store}                       {FAINT}# terminal 1: a server on this data{FAINT:#}
  tenure work --queue demo --name alice --exec sleep -- 600     {FAINT}# terminal 2: a worker that takes its time{FAINT:#}
  tenure submit nap --queue demo --lease-ms {LEASE_MS}              {FAINT}# terminal 3: something to do{FAINT:#}
  pkill -KILL -f 'name alice'                            {FAINT}# kill the worker{FAINT:#}
  tenure work --queue demo --name bob --exec true        {FAINT}# another takes over{FAINT:#}
  tenure runs list                                       {FAINT}# what became of it; `runs show RUN` draws it{FAINT:#}",
        stage.folder.display(),
    ))
}
