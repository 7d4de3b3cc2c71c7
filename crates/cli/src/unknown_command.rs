//! What to suggest instead of a command that does not exist, or that lacks its run.
//!
//! The parser suggests whatever looks alike, such as `restore` for `retry`, which replaces a store. So its suggestions
//! are replaced: by a command of the same name one level deeper, by the command that other queues call so, or by one
//! that differs by a typing mistake.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, CommandFactory};

use crate::args::Arguments;

/// Parses the command line. Ends the process for `--help` and for a command line that the parser refuses.
pub(crate) fn matches() -> ArgMatches {
    let command = Arguments::command();
    command.clone().try_get_matches().unwrap_or_else(|error| corrected(error, &command).exit())
}

fn corrected(error: clap::Error, command: &Command) -> clap::Error {
    match error.kind() {
        ErrorKind::InvalidSubcommand => with_likely_commands(error, command),
        ErrorKind::MissingRequiredArgument => with_way_to_a_run(error),
        ErrorKind::UnknownArgument => with_likely_flag(error),
        _ => error,
    }
}

/// The parser suggests whatever looks alike. A flag that another command calls so is named instead.
fn with_likely_flag(mut error: clap::Error) -> clap::Error {
    let typed = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    let typed = typed.split('=').next().unwrap_or_default();
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    if let Some((_, _, tip)) = FLAGS_ELSEWHERE
        .iter()
        .find(|(command, flag, _)| *flag == typed && usage.contains(&format!("tenure {command}")))
    {
        error.remove(ContextKind::SuggestedArg);
        let tips = ContextValue::StyledStrs(vec![(*tip).into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// A command, a flag that it does not have and that another one has, and what to use instead.
const FLAGS_ELSEWHERE: [(&str, &str, &str); 3] = [
    (
        "dev",
        "--listen",
        "`tenure dev` listens on loopback only: use --port, or `tenure serve --listen`",
    ),
    ("serve", "--port", "use --listen, such as --listen 127.0.0.1:7400"),
    ("approvals", "--state", "pending approvals are listed unless you give --closed"),
];

/// The parser names only what it misses, and the usage that it prints leaves out filters.
fn with_way_to_a_run(mut error: clap::Error) -> clap::Error {
    let is_run = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.iter().any(|name| name == "<RUN>"),
        _ => false,
    };
    if !is_run {
        return error;
    }
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let tip = match ["runs cancel", "runs retry"].iter().any(|verb| usage.contains(verb)) {
        true => "name a run, or choose runs with --queue, --kind, --state or --label",
        false => "`tenure runs list` shows the ids of runs",
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

fn with_likely_commands(mut error: clap::Error, command: &Command) -> clap::Error {
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
        likely.extend(called_elsewhere(typed).map(str::to_owned));
    }
    if likely.is_empty() {
        likely.extend(mistyped.map(str::to_owned));
    }
    if likely.is_empty() {
        likely.extend(mistyped_verbs);
    }
    likely.truncate(SUGGESTIONS_MAX);
    likely
}

/// The command for a word that people bring from other queues and services.
fn called_elsewhere(typed: &str) -> Option<&'static str> {
    Some(match typed {
        "add" | "enqueue" | "publish" | "push" | "send" | "trigger" => "submit",
        "job" | "jobs" | "ls" | "ps" | "task" | "tasks" | "workflow" | "workflows" => "runs list",
        "describe" | "inspect" | "logs" | "result" => "runs show",
        "kill" | "purge" | "stop" | "terminate" => "runs cancel",
        "consume" | "exec" | "process" => "work",
        "start" | "up" => "dev",
        "daemon" | "server" => "serve",
        "cron" | "crons" | "beat" | "timers" => "schedules list",
        "webhook" | "webhooks" | "receivers" => "endpoints list",
        "dlq" | "deadletter" | "deadletters" | "dead" | "stuck" => "inbox",
        "check" | "health" | "info" | "ping" | "status" => "doctor",
        "dump" | "export" => "backup",
        _ => return None,
    })
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
    fn words_of_other_queues_lead_to_commands_that_exist() {
        assert_eq!(suggested("enqueue"), ["submit"]);
        assert_eq!(suggested("status"), ["doctor"]);
        assert_eq!(suggested("ps"), ["runs list"]);
        assert_eq!(suggested("revoke"), ["keys revoke"], "a verb of Tenure comes first");
        let words = ["push", "jobs", "logs", "kill", "consume", "start", "server", "ping", "dump"];
        for word in words {
            let command = called_elsewhere(word).unwrap();
            let parsed = command
                .split(' ')
                .try_fold(Arguments::command(), |group, name| group.find_subcommand(name).cloned());
            assert!(parsed.is_some(), "{word} leads to {command}");
        }
    }

    fn refused(typed: &[&str]) -> String {
        let command = Arguments::command();
        let typed = ["tenure"].iter().chain(typed);
        let error = command.clone().try_get_matches_from(typed).unwrap_err();
        corrected(error, &command).to_string()
    }

    #[test]
    fn a_command_without_its_run_says_how_to_choose_one() {
        for verb in ["cancel", "retry"] {
            let said = refused(&["runs", verb]);
            assert!(said.contains("tip: name a run, or choose runs with --queue"), "{said}");
        }
        for typed in [&["runs", "show"][..], &["explain"]] {
            let said = refused(typed);
            assert!(said.contains("tip: `tenure runs list` shows the ids"), "{said}");
        }
        let other = refused(&["submit", "k"]);
        assert!(!other.contains("tip:"), "{other}");
    }

    #[test]
    fn a_flag_of_another_command_leads_to_the_right_one() {
        for typed in
            [&["dev", "--listen", "127.0.0.1:7630"][..], &["dev", "--listen=127.0.0.1:7630"]]
        {
            let said = refused(typed);
            assert!(
                said.contains("tip: `tenure dev` listens on loopback only: use --port"),
                "{said}"
            );
            assert!(!said.contains("similar argument"), "{said}");
        }
        let said = refused(&["serve", "--port", "7630"]);
        assert!(said.contains("tip: use --listen"), "{said}");
        for (command, flag, tip) in FLAGS_ELSEWHERE {
            let command = Arguments::command().find_subcommand(command).cloned().unwrap();
            let has = |name: &str| command.get_arguments().any(|it| it.get_long() == Some(name));
            assert!(!has(flag.trim_start_matches('-')), "{flag} exists");
            let named = tip.split("--").nth(1).unwrap();
            let named = named.split([',', '`', ' ']).next().unwrap();
            assert!(has(named), "{tip}");
        }
    }

    #[test]
    fn only_typing_mistakes_are_corrected() {
        assert_eq!(suggested("run"), ["runs"]);
        assert_eq!(suggested("subimt"), ["submit"]);
        assert_eq!(suggested("worker"), ["workers", "work"]);
        for typed in ["destroy", "frobnicate", "x"] {
            assert_eq!(suggested(typed), [] as [&str; 0], "{typed}");
        }
    }
}
