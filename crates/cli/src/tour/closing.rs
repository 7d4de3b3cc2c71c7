//! The end of the tour: commands with which a person does the same by hand, on the data of the tour.

use super::processes::QUEUE;
use super::{Chapter, SHORT_LEASE_MS, Tour};
use crate::exit::CliError;
use crate::output::{self, BOLD, FAINT};

impl Tour {
    pub(super) fn print_closing(&self, chapter: Option<Chapter>) -> Result<(), CliError> {
        let me = output::program_name();
        let dev = format!("{me} dev --store sqlite:{}", self.server.store().display());
        let first = (dev, "terminal 1: a server on the data of this tour");
        let steps = match chapter {
            Some(Chapter::Durable) => durable_by_hand(&me),
            Some(Chapter::Leases) | None => leases_by_hand(&me),
        };
        let steps = std::iter::once(first)
            .chain(steps)
            .map(|(command, why)| format!("  {command}\n      {FAINT}{why}{FAINT:#}\n"));
        self.say.aside(format_args!(
            "\n{BOLD}Now by hand.{BOLD:#} The data of this tour stays in {}\n{}",
            self.server.folder.display(),
            steps.collect::<String>().trim_end()
        ))?;
        self.say.aside(format_args!("\n{BOLD}More.{BOLD:#} {}", more(&me, chapter)))
    }
}

fn leases_by_hand(me: &str) -> Vec<(String, &'static str)> {
    vec![
        (
            format!("{me} work --queue demo --name alice --exec sleep -- 600"),
            "terminal 2: a worker that takes its time",
        ),
        (
            format!("{me} submit nap --queue demo --lease-ms {SHORT_LEASE_MS}"),
            "terminal 3: something to do",
        ),
        (
            "pkill -KILL -f 'work --queue demo --name alice'".to_owned(),
            "kill the worker with SIGKILL",
        ),
        (
            format!("{me} work --queue demo --name bob --exec true"),
            "terminal 2: another one takes over",
        ),
        (format!("{me} runs list"), "who did it; `runs show RUN` draws the timeline"),
    ]
}

fn durable_by_hand(me: &str) -> Vec<(String, &'static str)> {
    vec![
        (
            format!("{me} tour-orders --queue {QUEUE} --name dora"),
            "terminal 2: the worker of this tour; kill it and start it again whenever you like",
        ),
        (
            format!(
                "run=$({me} submit order --queue {QUEUE} --lease-ms {SHORT_LEASE_MS} --input '{{\"id\": 8, \"cents\": 300}}')"
            ),
            "terminal 3: an order",
        ),
        (format!("{me} runs show $run"), "it sleeps, and then waits for a signal"),
        (format!("{me} runs signal $run approve --data '\"you\"'"), "approve it"),
        (format!("{me} runs watch $run"), "it ships"),
    ]
}

fn more(me: &str, chapter: Option<Chapter>) -> String {
    match chapter {
        Some(Chapter::Durable) => format!("{me} tour leases: a killed worker, retries, cancels"),
        Some(Chapter::Leases) | None => {
            format!("{me} tour durable: an order that sleeps, takes a signal and is replayed")
        }
    }
}
