//! Output for people and scripts: data on stdout, everything else on stderr, colour only on a
//! terminal.
//!
//! With `--json` stdout holds only JSON, with the member names of the HTTP interface: one value, or
//! one value per line for commands that keep running. Without it, tables and sentences.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use comfy_table::{Cell, Color, ContentArrangement, Table, presets};
use serde::Serialize;
use wire::State;

use crate::exit::CliError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    People,
    Json,
}

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const BUSY: Style = AnsiColor::Cyan.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();

pub(crate) const fn style_of(state: State) -> Style {
    match state {
        State::Succeeded => GOOD,
        State::Failed => BAD,
        State::Halted | State::Cancelled | State::Skipped | State::Retry => WARN,
        State::Running | State::Waiting => BUSY,
        State::Queued | State::Blocked => Style::new(),
    }
}

const fn color_of(state: State) -> Option<Color> {
    match state {
        State::Succeeded => Some(Color::Green),
        State::Failed => Some(Color::Red),
        State::Halted | State::Cancelled | State::Skipped | State::Retry => Some(Color::Yellow),
        State::Running | State::Waiting => Some(Color::Cyan),
        State::Queued | State::Blocked => None,
    }
}

/// One line of data or text on stdout. Colour codes are dropped unless stdout is a terminal.
pub(crate) fn line(text: impl std::fmt::Display) -> Result<(), CliError> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}

/// One line on stderr, for what is not data. A failed write there is ignored.
pub(crate) fn note(text: impl std::fmt::Display) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

pub(crate) fn warning(text: impl std::fmt::Display) {
    note(format_args!("{WARN}warning:{WARN:#} {text}"));
}

/// One JSON value: indented on a terminal, on one line otherwise.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Result<(), CliError> {
    let text = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    line(text.expect("answers have string keys and no failing serializer"))
}

/// One JSON value on exactly one line, for commands that keep running.
pub(crate) fn json_line<T: Serialize + ?Sized>(value: &T) -> Result<(), CliError> {
    line(serde_json::to_string(value).expect("answers have string keys and no failing serializer"))
}

/// A table without rules, readable in any terminal and by `awk`. Cells are never wrapped, because
/// people copy ids.
pub(crate) fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    if !colours() {
        table.force_no_tty();
    }
    table.set_header(heads.iter().map(|head| Cell::new(head).fg(Color::DarkGrey)));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

pub(crate) fn state_cell(state: State) -> Cell {
    match color_of(state) {
        Some(color) => Cell::new(state).fg(color),
        None => Cell::new(state),
    }
}

/// Prints a table without trailing white space.
pub(crate) fn print_table(table: &Table) -> Result<(), CliError> {
    for row in table.lines() {
        line(row.trim_end())?;
    }
    Ok(())
}

/// Whether stdout takes colour: it is a terminal and NO_COLOR is not set.
pub(crate) fn colours() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// `1 attempt`, `2 attempts`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// The command that starts this program again: as it was typed this time, if that was a path.
pub(crate) fn program_name() -> String {
    let typed = std::env::args().next().filter(|name| name.contains('/'));
    typed.unwrap_or_else(|| "tenure".to_owned())
}

/// Prints the error and its remedy.
pub(crate) fn print_error(format: Format, cli_error: &CliError) {
    if cli_error.code == crate::exit::OUTPUT_CLOSED {
        return;
    }
    match format {
        Format::Json => note(json_error(cli_error)),
        Format::People => {
            note(format_args!("{BAD}error:{BAD:#} {cli_error}"));
            if let Some(hint) = &cli_error.hint {
                note(format_args!("{BOLD}hint:{BOLD:#} {hint}"));
            }
        }
    }
}

fn json_error(cli_error: &CliError) -> String {
    serde_json::json!({
        "error": cli_error.code,
        "message": cli_error.message,
        "hint": cli_error.hint,
        "exitCode": cli_error.exit.code(),
    })
    .to_string()
}
