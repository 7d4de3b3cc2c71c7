//! `tenure submit --from FILE`: many runs, one JSON object per line.
//!
//! A line has the members of `POST /v1/runs`; the command line gives members that the lines omit. Lines are sent in
//! batches and in order, and each is accepted or refused alone: an error names its line and does not stop the others.
//! Nothing here remembers how far it came. With idempotency keys the same command can be repeated: lines that were
//! submitted are found by their keys.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::time::Duration;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use tenure::{Client, NewRun, Retries};
use wire::answers::SubmitResult;
use wire::limits::BATCH_ITEMS_MAX;
use wire::requests::SubmitRun;
use wire::{FieldError, Submit};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::server;

/// The server takes a body of one mebibyte. What is between the runs needs some of it.
const BATCH_BYTES_MAX: usize = 900 * 1024;

/// The longest line that fits into a batch: an input of the largest size, with room for the other members.
const LINE_BYTES_MAX: usize = BATCH_BYTES_MAX;

/// Errors that are shown one by one; a file that is wrong as a whole needs no more.
const ERRORS_SHOWN: u64 = 100;

/// How long a batch may go without an answer before the wait is mentioned.
const SILENT_FOR: Duration = Duration::from_secs(2);

/// Editors on some systems begin a file with it. It is not part of the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

type Members = BTreeMap<String, Box<RawValue>>;

/// What to submit.
pub(crate) struct Source<'a> {
    /// `-` is stdin.
    pub(crate) file: &'a Path,
    /// Line 7 without a key of its own gets `PREFIX-7`.
    pub(crate) key_prefix: Option<String>,
    /// Members for lines that do not have them.
    pub(crate) defaults: SubmitRun,
    /// How often a batch is sent again while no server answers.
    pub(crate) retries: Option<u16>,
}

/// A line of the file, ready to be sent.
struct Line {
    number: u64,
    bytes: usize,
    run: SubmitRun,
}

/// What became of one line, as a line of JSON.
#[derive(Serialize)]
struct LineResult {
    line: u64,
    #[serde(flatten)]
    result: SubmitResult,
}

/// How far it came.
struct Progress {
    format: Format,
    has_terminal: bool,
    submitted: u64,
    found: u64,
    refused: u64,
    /// The last line of which the result is known.
    line: u64,
    /// Whether a server that does not answer was mentioned.
    has_mentioned_silence: bool,
}

pub(crate) async fn run(client: Client, format: Format, source: Source<'_>) -> CommandResult {
    let client = match source.retries {
        Some(retries) => client.with_retries(Retries::new(retries.into())),
        None => server::with_long_retries(client),
    };
    let mut lines = open(source.file)?;
    let defaults = members_of(&source.defaults);
    let mut progress = Progress::new(format);
    let (mut batch, mut number) = (Vec::new(), 0);
    // Reading blocks this task. Nothing else waits for it.
    while let Some(text) = next_line(&mut lines, source.file)? {
        number += 1;
        let text = text.strip_prefix(BYTE_ORDER_MARK).filter(|_| number == 1).unwrap_or(&text);
        match read_line(text, number, &defaults, source.key_prefix.as_deref()) {
            None => {}
            Some(Ok(line)) => {
                if !fits(&batch, &line) {
                    send(&client, &mut batch, &mut progress, &source).await?;
                }
                batch.push(line);
            }
            Some(Err(why)) => {
                // The results of earlier lines come first.
                send(&client, &mut batch, &mut progress, &source).await?;
                progress.note(number, unreadable(why))?;
            }
        }
    }
    send(&client, &mut batch, &mut progress, &source).await?;
    progress.end()
}

fn open(file: &Path) -> Result<Box<dyn BufRead>, CliError> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    match File::open(file) {
        Ok(open) => Ok(Box::new(BufReader::new(open))),
        Err(error) => Err(unusable(file, &error)),
    }
}

fn unusable(file: &Path, error: &std::io::Error) -> CliError {
    let message = format!("cannot read {}: {error}", file.display());
    CliError::usage("input_unreadable", message).hint("give a file with one JSON object per line")
}

/// The next line without its end; `None` after the last one. A line that is too long is cut one byte behind the limit.
fn next_line(lines: &mut dyn BufRead, file: &Path) -> Result<Option<Vec<u8>>, CliError> {
    let mut text = Vec::new();
    let limit = LINE_BYTES_MAX as u64 + 1;
    let read = Read::take(&mut *lines, limit).read_until(b'\n', &mut text);
    read.map_err(|error| unusable(file, &error))?;
    if text.is_empty() {
        return Ok(None);
    }
    if text.len() > LINE_BYTES_MAX && text.last() != Some(&b'\n') {
        skip_line(lines).map_err(|error| unusable(file, &error))?;
    }
    let end = text.iter().rposition(|byte| !byte.is_ascii_whitespace()).map_or(0, |at| at + 1);
    text.truncate(end);
    Ok(Some(text))
}

/// Passes over the rest of a line without keeping it.
fn skip_line(lines: &mut dyn BufRead) -> std::io::Result<()> {
    loop {
        let buffer = lines.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (length, is_over) = (buffer.len(), buffer.is_empty() || end.is_some());
        lines.consume(end.map_or(length, |at| at + 1));
        if is_over {
            return Ok(());
        }
    }
}

/// The run of a line; `None` for an empty one.
fn read_line(
    text: &[u8],
    number: u64,
    defaults: &Members,
    key_prefix: Option<&str>,
) -> Option<Result<Line, String>> {
    if text.is_empty() {
        return None;
    }
    if text.len() > LINE_BYTES_MAX {
        return Some(Err(format!("is longer than {LINE_BYTES_MAX} bytes")));
    }
    let read = parse(text, defaults).map(|mut run| {
        if run.idempotency_key.is_none() {
            run.idempotency_key = key_prefix.map(|prefix| format!("{prefix}-{number}"));
        }
        // With defaults and key, which the text may lack.
        let bytes = serde_json::to_vec(&run).map_or(text.len(), |sent| sent.len());
        Line { number, bytes, run }
    });
    Some(read)
}

/// Members keep their bytes: an input is passed on as it was written.
fn parse(text: &[u8], defaults: &Members) -> Result<SubmitRun, String> {
    let UniqueMembers(own) = serde_json::from_slice(text)
        .map_err(|error| format!("is not a JSON object such as {{\"input\": 1}}: {error}"))?;
    let mut members = defaults.clone();
    members.extend(own);
    let batch = BTreeMap::from([("runs", [members])]);
    let batch = serde_json::to_vec(&batch).expect("members of JSON are JSON");
    let run = match wire::parse_submit(&batch) {
        Ok(Submit::Many(runs)) => runs.into_iter().next().expect("one run was given"),
        Ok(Submit::One(run)) => Ok(*run),
        Err(error) => Err(error),
    };
    run.map_err(|FieldError { field, message }| match field.trim_start_matches("runs[0].") {
        "" => message,
        field => format!("`{field}` {message}"),
    })
}

/// The members of an object that has each of them once. A map alone would keep the last of two.
struct UniqueMembers(Members);

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueVisitor).map(UniqueMembers)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Members, A::Error> {
        let mut members = Members::new();
        while let Some((name, value)) = object.next_entry::<String, Box<RawValue>>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the member `{name}` is there twice")));
            }
            members.insert(name, value);
        }
        Ok(members)
    }
}

fn members_of(defaults: &SubmitRun) -> Members {
    let text = serde_json::to_string(defaults).expect("a request is JSON");
    let mut members: Members = serde_json::from_str(&text).expect("a request is an object");
    // Without these a line must have them, and the error should say so.
    for name in ["kind", "queue"] {
        if members.get(name).is_some_and(|value| value.get() == "\"\"") {
            members.remove(name);
        }
    }
    members
}

fn fits(batch: &[Line], line: &Line) -> bool {
    let bytes: usize = batch.iter().map(|line| line.bytes).sum();
    batch.len() < BATCH_ITEMS_MAX && bytes + line.bytes <= BATCH_BYTES_MAX
}

async fn send(
    client: &Client,
    batch: &mut Vec<Line>,
    progress: &mut Progress,
    source: &Source<'_>,
) -> Result<(), CliError> {
    if batch.is_empty() {
        return Ok(());
    }
    let lines = std::mem::take(batch);
    let numbers: Vec<u64> = lines.iter().map(|line| line.number).collect();
    let runs = lines.into_iter().map(|line| NewRun::from(line.run));
    let results = progress.while_waiting(client.accept_many(runs)).await;
    let results = results.map_err(|error| stopped(server::cli_error(error), progress, source))?;
    for (number, result) in numbers.into_iter().zip(results) {
        progress.note(number, result)?;
    }
    progress.show();
    Ok(())
}

/// The call failed: none of its lines has a known result.
fn stopped(error: CliError, progress: &Progress, source: &Source<'_>) -> CliError {
    progress.clear();
    let message = format!("stopped after line {}: {}", progress.line, error.message);
    let hint = match source.key_prefix {
        Some(_) => "run the same command again: lines that were submitted are found by their keys"
            .to_owned(),
        None => format!(
            "lines up to {} have their results; with --key-prefix, or an idempotencyKey in every line, the whole file \
             can be submitted again without duplicates",
            progress.line
        ),
    };
    CliError { message, ..error }.hint(hint)
}

fn unreadable(why: String) -> SubmitResult {
    let (error, message) = (Some("invalid_line".to_owned()), Some(why));
    SubmitResult { error, message, ..SubmitResult::default() }
}

impl Progress {
    fn new(format: Format) -> Self {
        let has_terminal = format == Format::People && std::io::stderr().is_terminal();
        Self {
            format,
            has_terminal,
            submitted: 0,
            found: 0,
            refused: 0,
            line: 0,
            has_mentioned_silence: false,
        }
    }

    /// Mentions once that the answer to a batch takes long: calls are repeated for a while before they fail.
    async fn while_waiting<T>(&mut self, call: impl Future<Output = T>) -> T {
        let mut call = std::pin::pin!(call);
        if self.has_mentioned_silence || self.format == Format::Json {
            return call.await;
        }
        tokio::select! {
            answer = &mut call => return answer,
            () = tokio::time::sleep(SILENT_FOR) => {}
        }
        self.clear();
        output::note("the server has not answered yet; still trying (--retries limits it)");
        self.has_mentioned_silence = true;
        call.await
    }

    fn note(&mut self, line: u64, result: SubmitResult) -> Result<(), CliError> {
        self.line = line;
        match (&result.run_id, result.replayed) {
            (Some(_), Some(true)) => self.found += 1,
            (Some(_), _) => self.submitted += 1,
            (None, _) => self.refused += 1,
        }
        match (self.format, &result.run_id) {
            (Format::Json, _) => output::json_line(&LineResult { line, result }),
            (Format::People, Some(id)) => output::line(id),
            (Format::People, None) => {
                self.show_error(line, &result);
                Ok(())
            }
        }
    }

    fn show_error(&self, line: u64, result: &SubmitResult) {
        if self.refused > ERRORS_SHOWN {
            return;
        }
        self.clear();
        let (code, message) = (result.error.as_deref(), result.message.as_deref());
        let field = result.field.as_ref().map_or(String::new(), |field| format!("{field}: "));
        let (code, message) = (code.unwrap_or("refused"), message.unwrap_or("was refused"));
        output::warning(format_args!("line {line}: {field}{message} [{code}]"));
        if self.refused == ERRORS_SHOWN {
            output::note("further errors are only counted; --json shows all of them");
        }
    }

    /// Shows how far it came, on a terminal.
    fn show(&self) {
        if self.has_terminal {
            // Progress is a courtesy: a terminal that cannot show it stops nothing.
            let _ = write!(std::io::stderr(), "\r\x1b[2Kline {}: {self}", self.line);
        }
    }

    fn clear(&self) {
        if self.has_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }

    fn end(self) -> CommandResult {
        self.clear();
        if self.format == Format::People {
            output::note(&self);
        }
        Ok(if self.refused == 0 { Exit::Done } else { Exit::Failed })
    }
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { submitted, found, refused, .. } = self;
        write!(f, "{submitted} submitted, {found} found by their keys, {refused} refused")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults(kind: &str, queue: &str) -> Members {
        let run = SubmitRun { kind: kind.into(), queue: queue.into(), ..SubmitRun::default() };
        members_of(&run)
    }

    #[test]
    fn a_line_wins_over_the_command_line_and_keeps_its_bytes() {
        let line = br#"{"input": {"b": 1.0,  "a":2}, "queue": "own"}"#;
        let run = parse(line, &defaults("resize", "images")).unwrap();
        assert_eq!((run.kind.as_str(), run.queue.as_str()), ("resize", "own"));
        assert_eq!(run.input.text(), r#"{"b": 1.0,  "a":2}"#);
    }

    #[test]
    fn a_line_that_cannot_be_submitted_says_why() {
        let refusals = [
            ("7", "JSON object"),
            ("{\"kind\": \"k\"", "JSON object"),
            ("{\"kind\": \"k\"}", "queue"),
            ("{\"kind\": \"k\", \"queue\": \"q\", \"quue\": 1}", "quue"),
            ("{\"kind\": \"k\", \"queue\": \"q\", \"kind\": \"k\"}", "`kind` is there twice"),
            ("{\"runs\": [{\"kind\": \"k\", \"queue\": \"q\"}]}", "runs"),
        ];
        for (line, expected) in refusals {
            let why = parse(line.as_bytes(), &defaults("", "")).unwrap_err();
            assert!(why.contains(expected), "{line}: {why}");
        }
    }

    #[test]
    fn keys_follow_line_numbers_and_never_replace_a_key() {
        let read = |text: &str| {
            let line = read_line(text.as_bytes(), 7, &defaults("k", "q"), Some("night"));
            line.unwrap().unwrap().run.idempotency_key.unwrap()
        };
        assert_eq!(read("{}"), "night-7");
        assert_eq!(read(r#"{"idempotencyKey": "mine"}"#), "mine");
        assert!(read_line(b"", 8, &defaults("k", "q"), None).is_none());
    }

    #[test]
    fn a_batch_is_as_large_as_what_is_sent_and_not_as_its_lines() {
        let text = format!("\"{}\"", "x".repeat(BATCH_BYTES_MAX / 4));
        let input = wire::Json::from_text(text).unwrap();
        let run = SubmitRun { kind: "k".into(), queue: "q".into(), input, ..SubmitRun::default() };
        let read = || read_line(b"{}", 1, &members_of(&run), None).unwrap().unwrap();
        let three = [read(), read(), read()];
        assert!(fits(&three[..2], &read()));
        assert!(!fits(&three, &read()), "the default input is sent with every line");
    }

    #[test]
    fn an_endless_line_is_passed_over_and_the_next_one_is_read() {
        let long = vec![b'x'; 3 * LINE_BYTES_MAX];
        let mut text = [&long[..], b"\n{}\r\n\n{}"].concat();
        text.push(b' ');
        let (mut lines, file) = (text.as_slice(), Path::new("f"));
        let first = next_line(&mut lines, file).unwrap().unwrap();
        assert!(read_line(&first, 1, &defaults("k", "q"), None).unwrap().is_err());
        let rest: Vec<Vec<u8>> =
            std::iter::from_fn(|| next_line(&mut lines, file).unwrap()).collect();
        assert_eq!(rest, [b"{}".to_vec(), Vec::new(), b"{}".to_vec()]);
    }
}
