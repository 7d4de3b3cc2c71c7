//! `tenure kinds`: what workers announced that they can do, and `tenure submit --check`.

use comfy_table::Cell;
use serde_json::Value;
use tenure::Client;
use topology::value_schema;
use wire::answers::{KindView, Kinds};
use wire::requests::{ListKinds, SubmitRun};
use wire::{Builds, Json, Time, limits};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::{duration, server};

/// More kinds than a person reads, and fewer than a terminal can hold.
const LIMIT_MAX: usize = 10_000;

/// The maximum page size of the server.
const PAGE: u32 = *limits::PAGE_ITEMS.end() as u32;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only this kind, with its schemas
    kind: Option<String>,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    let answer = all(&client, arguments.kind.clone()).await?;
    if format == Format::Json {
        output::json(&answer.kinds)?;
        return Ok(Exit::Done);
    }
    if answer.kinds.is_empty() {
        output::note("no worker has announced that here; workers of the SDKs announce their kinds");
    } else {
        print(&answer)?;
    }
    if arguments.kind.is_some() {
        answer.kinds.iter().try_for_each(print_schemas)?;
    }
    if answer.next_after.is_some() {
        output::note(format_args!("… and more kinds; only the first {LIMIT_MAX} are listed"));
    }
    if answer.coordinators > 1 {
        output::note(format_args!(
            "there are {} coordinators; these kinds were announced at the one that answered",
            answer.coordinators
        ));
    }
    Ok(Exit::Done)
}

/// The pages as one answer, up to a limit.
async fn all(client: &Client, kind: Option<String>) -> Result<Kinds, CliError> {
    let mut page = ListKinds { kind, after: None, limit: Some(PAGE) };
    let mut answer = client.kinds().list().with(page.clone()).await.map_err(server::cli_error)?;
    while let Some(after) = answer.next_after.take_if(|_| answer.kinds.len() < LIMIT_MAX) {
        page.after = Some(after);
        let next = client.kinds().list().with(page.clone()).await.map_err(server::cli_error)?;
        answer.kinds.extend(next.kinds);
        answer.next_after = next.next_after;
    }
    Ok(answer)
}

fn print(answer: &Kinds) -> Result<(), CliError> {
    let mut table = output::table(&["KIND", "VERSION", "BUILD", "QUEUES", "WORKERS", "SEEN"]);
    for view in &answer.kinds {
        table.add_row(row(view, answer.server_time));
    }
    output::print_table(&table)
}

fn row(view: &KindView, now: Time) -> [Cell; 6] {
    [
        Cell::new(&view.kind),
        Cell::new(view.version.as_deref().unwrap_or_default()),
        Cell::new(build(view)),
        Cell::new(view.queues.join(",")),
        Cell::new(view.workers),
        Cell::new(format!("{} ago", duration::between(view.last_seen_at, now))),
    ]
}

/// The build, and whether runs stay with it.
fn build(view: &KindView) -> String {
    let id = view.build_id.as_deref().unwrap_or_default();
    let pinned = if view.builds == Some(Builds::Pin) { " (pinned)" } else { "" };
    format!("{id}{pinned}")
}

fn print_schemas(view: &KindView) -> Result<(), CliError> {
    for (name, schema) in [("input", &view.input_schema), ("output", &view.output_schema)] {
        if let Some(schema) = schema {
            let version = view.version.as_deref().unwrap_or_default();
            output::line(format_args!("\n{name} of {} {version}\n{}", view.kind, schema.text()))?;
        }
    }
    Ok(())
}

/// Refuses a run whose input no announced schema of its kind and queue accepts.
pub(crate) async fn check(client: &Client, run: &SubmitRun) -> Result<(), CliError> {
    let mut announced = all(client, Some(run.kind.clone())).await?.kinds;
    announced.retain(|view| view.queues.contains(&run.queue));
    if announced.is_empty() {
        let message = format!(
            "no worker has announced the kind `{}` for the queue `{}`",
            run.kind, run.queue
        );
        return Err(CliError::new(Exit::Conflict, "kind_not_announced", message)
            .hint("`tenure kinds` lists what was announced; submit without --check, or start a worker that announces it"));
    }
    fits_one(&announced, &run.input).map_err(|why| {
        let message = format!("the input does not fit the schema of `{}`: {why}", run.kind);
        let hint = format!("`tenure kinds {}` prints the schema", run.kind);
        CliError::new(Exit::Usage, "input_does_not_fit", message).hint(hint)
    })
}

/// Whether one of these takes the input. One without a schema takes everything.
fn fits_one(announced: &[KindView], input: &Json) -> Result<(), String> {
    let value: Value = input.read().map_err(|error| format!("it is not valid JSON: {error}"))?;
    let mut whys = Vec::new();
    for view in announced {
        let Some(schema) = &view.input_schema else { return Ok(()) };
        let fits = match schema.read::<Value>() {
            Ok(schema) => value_schema::fits(&schema, &value),
            Err(error) => Err(format!("the announced schema is not valid JSON: {error}")),
        };
        match fits {
            Ok(()) => return Ok(()),
            Err(why) => whys.push(why),
        }
    }
    whys.dedup();
    Err(whys.join("; or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::from_text(text.to_owned()).unwrap()
    }

    fn view(schema: Option<&str>) -> KindView {
        KindView {
            kind: "k".to_owned(),
            version: None,
            build_id: None,
            builds: None,
            queues: vec!["q".to_owned()],
            workers: 1,
            input_schema: schema.map(json),
            output_schema: None,
            last_seen_at: duration::now(),
        }
    }

    #[test]
    fn an_input_has_to_fit_one_of_the_announced_schemas() {
        let (text, number) =
            (view(Some(r#"{"type": "string"}"#)), view(Some(r#"{"type": "number"}"#)));
        let both = [text, number];
        assert!(fits_one(&both, &json("7")).is_ok() && fits_one(&both, &json("\"a\"")).is_ok());
        let why = fits_one(&both, &json("null")).unwrap_err();
        assert!(why.contains("string") && why.contains("number"), "{why}");
        assert!(fits_one(&[view(None)], &json("null")).is_ok(), "what says nothing takes all");
    }

    #[test]
    fn a_schema_that_multiplies_its_work_is_refused_before_it_runs() {
        // Each level tests the value of the next one twice.
        let mut schema = r#"{"type": "string"}"#.to_owned();
        for _ in 0..14 {
            schema = format!(r#"{{"allOf": [{schema}, {schema}]}}"#);
        }
        let refused = fits_one(&[view(Some(&schema))], &json("\"a\"")).unwrap_err();
        assert!(refused.contains("costs too much"), "{refused}");
        let fetched = r#"{"$ref": "http://127.0.0.1:9/schema.json"}"#;
        assert!(fits_one(&[view(Some(fetched))], &json("1")).is_err(), "nothing is fetched");
    }
}
