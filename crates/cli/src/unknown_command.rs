//! What to suggest instead of a command that does not exist.
//!
//! The parser suggests whatever looks alike, such as `restore` for `retry`, which replaces a store. So its suggestions
//! are replaced: by a command of the same name one level deeper, or by one that differs by a typing mistake.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, CommandFactory};

use crate::args::Arguments;

/// Parses the command line. Ends the process for `--help` and for a command line that the parser refuses.
pub(crate) fn matches() -> ArgMatches {
    let command = Arguments::command();
    command.clone().try_get_matches().unwrap_or_else(|error| corrected(error, &command).exit())
}

fn corrected(mut error: clap::Error, command: &Command) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let typed = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(typed)) => typed.clone(),
        _ => return error,
    };
    error.remove(ContextKind::SuggestedSubcommand);
    let likely = likely(command, &typed);
    if !likely.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(likely));
    }
    error
}

/// Commands that were probably meant, at every level.
fn likely(command: &Command, typed: &str) -> Vec<String> {
    let top = || command.get_subcommands().filter(|it| !it.is_hide_set());
    let deeper = top().flat_map(|group| {
        let verbs = group.get_subcommands().filter(move |verb| verb.get_name() == typed);
        verbs.map(move |verb| format!("{} {}", group.get_name(), verb.get_name()))
    });
    let mistyped = top().map(Command::get_name).filter(|name| is_mistyped(typed, name));
    let verbs = top().flat_map(|group| group.get_subcommands().map(move |verb| (group, verb)));
    let mistyped_verbs = verbs
        .filter(|(_, verb)| is_mistyped(typed, verb.get_name()))
        .map(|(group, verb)| format!("{} {}", group.get_name(), verb.get_name()));
    let mut likely: Vec<String> = deeper.collect();
    if likely.is_empty() {
        likely.extend(mistyped.map(str::to_owned));
    }
    if likely.is_empty() {
        likely.extend(mistyped_verbs);
    }
    likely.truncate(SUGGESTIONS_MAX);
    likely
}

/// More would be a list of commands, which `--help` has.
const SUGGESTIONS_MAX: usize = 3;

/// Whether one is the other with a mistake in every third letter at most, or without its ending.
fn is_mistyped(typed: &str, name: &str) -> bool {
    let mistakes = (typed.len() / 3).max(1);
    let is_cut = |short: &str, long: &str| short.len() >= 3 && long.starts_with(short);
    strsim::damerau_levenshtein(typed, name) <= mistakes
        || is_cut(typed, name)
        || is_cut(name, typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggested(typed: &str) -> Vec<String> {
        likely(&Arguments::command(), typed)
    }

    #[test]
    fn a_verb_of_a_group_is_named_with_its_group() {
        assert_eq!(suggested("retry"), ["runs retry"]);
        assert_eq!(suggested("watch"), ["runs watch"]);
        assert_eq!(suggested("cancel"), ["runs cancel"]);
        assert!(suggested("list").contains(&"runs list".to_owned()));
        assert!(!suggested("list").contains(&"limits".to_owned()));
    }

    #[test]
    fn only_typing_mistakes_are_corrected() {
        assert_eq!(suggested("run"), ["runs"]);
        assert_eq!(suggested("subimt"), ["submit"]);
        assert_eq!(suggested("worker"), ["workers", "work"]);
        for typed in ["delete", "status", "start", "x"] {
            assert_eq!(suggested(typed), [] as [&str; 0], "{typed}");
        }
    }
}
