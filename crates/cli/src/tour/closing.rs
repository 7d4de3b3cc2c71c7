//! The end of the tour: commands with which a person does the same by hand, on the data of the tour.

use clap::ValueEnum;

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
            Some(Chapter::Leases) | None => leases_by_hand(&me),
            Some(Chapter::Durable) => durable_by_hand(&me),
            Some(Chapter::Plan) => plan_by_hand(&me, &self.server.folder.display().to_string()),
            Some(Chapter::Budget) => budget_by_hand(&me),
            Some(Chapter::Approval) => approval_by_hand(&me),
            Some(Chapter::Prove) => prove_by_hand(&me, &self.server.store().display().to_string()),
            Some(Chapter::Webhooks) => webhooks_by_hand(&me),
            Some(Chapter::Topology) => {
                topology_by_hand(&me, &self.server.folder.display().to_string())
            }
        };
        let steps = std::iter::once(first)
            .chain(steps)
            .map(|(command, why)| format!("  {command}\n      {FAINT}{why}{FAINT:#}\n"));
        self.say.aside(format_args!(
            "\n{BOLD}Now by hand.{BOLD:#} The data of this tour stays in {}\n{}",
            self.server.folder.display(),
            steps.collect::<String>().trim_end()
        ))?;
        self.say.aside(format_args!("\n{BOLD}More.{BOLD:#}\n{}", more(&me, chapter)))
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

/// The worker of this tour, in a second terminal.
fn worker(me: &str, why: &'static str) -> (String, &'static str) {
    (format!("{me} tour-orders --queue {QUEUE} --name dora"), why)
}

fn webhooks_by_hand(me: &str) -> Vec<(String, &'static str)> {
    vec![
        (format!("{me} endpoints"), "terminal 2: where calls go"),
        (format!("{me} effects"), "what was sent; `effects show EFFECT` has every try"),
        (
            format!("{me} endpoints create mine http://127.0.0.1:8098/ --retry-base 1s"),
            "a receiver of your own, which hears of the ends of runs",
        ),
        (format!("{me} submit nap --queue demo"), "something to do"),
        (format!("{me} work --queue demo --exec true"), "and a worker; then `effects` again"),
    ]
}

fn topology_by_hand(me: &str, folder: &str) -> Vec<(String, &'static str)> {
    vec![
        (
            format!("{me} topology list"),
            "terminal 2: what is in force; `topology show NAME` has it",
        ),
        (format!("{me} inbox"), "what waits for you"),
        (format!("{me} claims"), "who works on what"),
        (
            format!("{me} topology plan {folder}/agent-review.yaml"),
            "change the file, see what would change, and `topology apply` it",
        ),
    ]
}

fn durable_by_hand(me: &str) -> Vec<(String, &'static str)> {
    vec![
        worker(
            me,
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

fn plan_by_hand(me: &str, folder: &str) -> Vec<(String, &'static str)> {
    vec![
        worker(me, "terminal 2: the worker of this tour"),
        (format!("{me} plan check {folder}/plan.yaml"), "terminal 3: change the file and check it"),
        (format!("{me} submit --plan {folder}/plan.yaml --wait"), "run it"),
    ]
}

fn budget_by_hand(me: &str) -> Vec<(String, &'static str)> {
    vec![
        worker(me, "terminal 2: the worker of this tour"),
        (
            format!(
                "run=$({me} submit agent --queue {QUEUE} --input '\"fences\"' --budget tokens=1000)"
            ),
            "terminal 3: an agent that needs 2000 tokens",
        ),
        (format!("{me} runs watch $run"), "it halts at its third thought"),
        (format!("{me} runs continue $run --budget tokens=1000"), "it goes on where it halted"),
    ]
}

fn approval_by_hand(me: &str) -> Vec<(String, &'static str)> {
    vec![
        worker(me, "terminal 2: the worker of this tour"),
        (
            format!(
                "{me} submit payout --queue {QUEUE} --input '{{\"to\": \"you\", \"cents\": 100}}'"
            ),
            "terminal 3: a payout that needs two approvals",
        ),
        (
            format!("you=$({me} keys create --role approver)"),
            "a key that may approve; make another one for the second person",
        ),
        (format!("{me} approvals"), "what waits; `approvals show ID` has the digest"),
        (
            format!("{me} approvals approve ID --digest DIGEST --key $you"),
            "or `reject`, with a --comment",
        ),
    ]
}

fn prove_by_hand(me: &str, store: &str) -> Vec<(String, &'static str)> {
    vec![
        (format!("{me} runs list"), "terminal 2: the runs of this tour"),
        (format!("{me} prove RUN --store sqlite:{store}"), "the story of one, checked"),
        (format!("{me} prove RUN --store sqlite:{store} --export run.bundle"), "for an auditor"),
        (format!("{me} prove --bundle run.bundle"), "what the auditor does"),
    ]
}

/// Every chapter but the one that was just seen.
fn more(me: &str, chapter: Option<Chapter>) -> String {
    let others = Chapter::value_variants().iter().filter(|other| Some(**other) != chapter);
    let others = others.filter_map(Chapter::to_possible_value);
    let lines = others.map(|value| {
        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
        format!("  {me} tour {:<9} {FAINT}{help}{FAINT:#}\n", value.get_name())
    });
    lines.collect::<String>().trim_end().to_owned()
}
