//! Output of the tour: numbered acts and aligned lines for people, one JSON line per step for
//! scripts.

use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;

use crate::exit::CliError;
use crate::output::{self, BOLD, FAINT, Format};

/// Wide enough for the longest word at the start of a line.
const WORD_WIDTH: usize = 10;

pub(crate) struct Narrator {
    format: Format,
    act: AtomicU32,
}

impl Narrator {
    pub(crate) fn new(format: Format) -> Narrator {
        Narrator { format, act: AtomicU32::new(0) }
    }

    pub(crate) fn act(&self, title: &str) -> Result<(), CliError> {
        let act = self.act.fetch_add(1, Ordering::Relaxed) + 1;
        match self.format {
            Format::People => output::line(format_args!("\n{BOLD}{act}  {title}{BOLD:#}")),
            Format::Json => output::json_line(&json!({ "act": act, "title": title })),
        }
    }

    pub(crate) fn tell(&self, word: &str, text: impl Display) -> Result<(), CliError> {
        match self.format {
            Format::People => {
                output::line(format_args!("   {FAINT}{word:<WORD_WIDTH$}{FAINT:#} {text}"))
            }
            Format::Json => {
                let text = text.to_string();
                let plain = anstream::adapter::strip_str(&text).to_string();
                let act = self.act.load(Ordering::Relaxed);
                output::json_line(&json!({ "act": act, "step": word, "text": plain }))
            }
        }
    }

    /// Text that only people need.
    pub(crate) fn aside(&self, text: impl Display) -> Result<(), CliError> {
        match self.format {
            Format::People => output::line(text),
            Format::Json => Ok(()),
        }
    }
}
