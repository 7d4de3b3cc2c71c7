//! `tenure recovery …`: what may be done about runs that failed alike, and what was done.

use std::time::Duration;

use comfy_table::Cell;
use tenure::Client;
use wire::recovery::{
    CandidateView, DecideCandidate, EscalationTerms, ListCandidates, RecoveryPolicyView,
    SetRecoveryPolicy,
};
use wire::{ApprovalDecision, CandidateState, RecoveryAction, RecoveryEvaluator, limits};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::{duration, server};

/// More candidates than a person reads.
const LIMIT_MAX: usize = 10_000;

/// A screen of them.
const HISTORY_DEFAULT: u32 = 20;

/// The maximum page size of the server.
const PAGE: u32 = *limits::PAGE_ITEMS.end() as u32;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// List the candidates: what failed alike, and what is done about it
    List {
        /// Only candidates in this state, such as escalated
        #[arg(long, value_name = "STATE", value_parser = state)]
        state: Option<CandidateState>,
    },
    /// Show a candidate with its evidence
    Show {
        #[arg(value_name = "CANDIDATE")]
        id: String,
    },
    /// Show what became of a candidate, the newest first
    History {
        #[arg(value_name = "CANDIDATE")]
        id: String,
        /// How many changes
        #[arg(long, value_name = "N", default_value_t = HISTORY_DEFAULT)]
        limit: u32,
    },
    /// Decide what is done about a candidate: a vote about its approval, or another action; needs a key with the role approver
    /// or admin
    Decide {
        #[arg(value_name = "CANDIDATE")]
        id: String,
        /// retry, continue, notify or skip
        #[arg(value_name = "ACTION", value_parser = action)]
        action: RecoveryAction,
        /// Why, for the record
        #[arg(long, value_name = "TEXT")]
        comment: Option<String>,
    },
    /// List the policies of the workspace
    Policies,
    /// Say what recovery may do for which runs; needs a key with the role admin
    Set(Set),
    /// Delete a policy; nothing more is done under it
    Delete {
        #[arg(value_name = "POLICY")]
        policy: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    /// The name of the policy, which is made or replaced
    #[arg(value_name = "POLICY")]
    policy: String,
    /// Only runs of this queue
    #[arg(long, short, value_name = "QUEUE")]
    queue: Option<String>,
    /// Only runs of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// What may be done: retry, continue, notify, escalate [default: retry,notify,escalate]
    #[arg(long, value_name = "ACTIONS", value_delimiter = ',', value_parser = action)]
    actions: Option<Vec<RecoveryAction>>,
    /// How many candidates one failure signature may have [default: 1]
    #[arg(long, value_name = "N")]
    attempts: Option<u32>,
    /// How many runs one candidate may submit [default: 100]
    #[arg(long, value_name = "N")]
    runs_max: Option<u32>,
    /// What each of these runs may cost at most, in millionths
    #[arg(long, value_name = "MICROS")]
    cost_micros: Option<u64>,
    /// How long a candidate may be acted on, such as 4h [default: 1d]
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    expires: Option<Duration>,
    /// Who evaluates candidates: builtIn or workers [default: builtIn]
    #[arg(long, value_name = "WHO", value_parser = evaluator)]
    evaluator: Option<RecoveryEvaluator>,
    /// Whose keys decide about what is escalated, by role [default: approver,admin]
    #[arg(long, value_name = "ROLES", value_delimiter = ',')]
    approver_roles: Vec<String>,
    /// Which keys decide about what is escalated, by id
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    approver_keys: Vec<String>,
    /// How many of them must agree [default: 1]
    #[arg(long, value_name = "N")]
    quorum: Option<u32>,
    /// How long they may take, such as 4h [default: as long as the candidate may be acted on]
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    decide_within: Option<Duration>,
    /// What counts when that time is over: approved or rejected [default: nothing is done]
    #[arg(long, value_name = "DECISION", value_parser = decision)]
    by_default: Option<ApprovalDecision>,
}

fn decision(text: &str) -> Result<ApprovalDecision, String> {
    text.to_uppercase().parse().map_err(|_| "write approved or rejected".to_owned())
}

fn action(text: &str) -> Result<RecoveryAction, String> {
    text.parse().map_err(|_| "write retry, continue, notify, escalate or skip".to_owned())
}

fn evaluator(text: &str) -> Result<RecoveryEvaluator, String> {
    text.parse().map_err(|_| "write builtIn or workers".to_owned())
}

fn state(text: &str) -> Result<CandidateState, String> {
    let words: Vec<&str> = CandidateState::ALL.iter().map(|state| state.as_str()).collect();
    text.parse().map_err(|_| format!("write one of {}", words.join(", ")))
}

pub(crate) async fn run(client: Client, format: Format, verb: Verb) -> CommandResult {
    match verb {
        Verb::List { state } => list(&client, format, state).await,
        Verb::Show { id } => {
            let shown = client.recovery().get(&id).await.map_err(server::cli_error)?;
            print_candidate(format, &shown)
        }
        Verb::History { id, limit } => history(&client, format, &id, limit).await,
        Verb::Decide { id, action, comment } => {
            let decision = DecideCandidate { action, comment };
            let decided = client.recovery().decide(&id, action).with(decision).await;
            print_candidate(format, &decided.map_err(server::cli_error)?)
        }
        Verb::Policies => policies(&client, format).await,
        Verb::Set(set) => {
            let (name, policy) = set.into_request();
            let made = client.recovery().set_policy(&name, &policy).await;
            print_policies(format, &[made.map_err(server::cli_error)?])
        }
        Verb::Delete { policy } => {
            let deleted = client.recovery().delete_policy(&policy).await;
            let deleted = deleted.map_err(server::cli_error)?;
            match format {
                Format::Json => output::json(&deleted)?,
                Format::People => output::note(format!("{} is deleted", deleted.name)),
            }
            Ok(Exit::Done)
        }
    }
}

impl Set {
    fn into_request(self) -> (String, SetRecoveryPolicy) {
        let Set { policy, queue, kind, actions, attempts, runs_max, cost_micros, .. } = self;
        let Set { expires, evaluator, approver_roles, approver_keys, quorum, .. } = self;
        let Set { decide_within, by_default, .. } = self;
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let expires_ms = expires.map(millis);
        let terms = EscalationTerms {
            roles: approver_roles,
            keys: approver_keys,
            quorum,
            expires_ms: decide_within.map(millis),
            default: by_default,
        };
        let approval = (terms != EscalationTerms::default()).then_some(terms);
        let request = SetRecoveryPolicy {
            queue,
            kind,
            actions,
            attempts,
            runs_max,
            cost_micros,
            expires_ms,
            evaluator,
            approval,
        };
        (policy, request)
    }
}

async fn policies(client: &Client, format: Format) -> CommandResult {
    let found = client.recovery().policies().await.map_err(server::cli_error)?.policies;
    if found.is_empty() && format == Format::People {
        output::note(
            "there are no policies, so nothing is recovered; `tenure recovery set` makes one",
        );
        return Ok(Exit::Done);
    }
    print_policies(format, &found)
}

fn print_policies(format: Format, policies: &[RecoveryPolicyView]) -> CommandResult {
    if format == Format::Json {
        output::json(&policies)?;
        return Ok(Exit::Done);
    }
    let heads = [
        "POLICY",
        "QUEUE",
        "KIND",
        "ACTIONS",
        "ATTEMPTS",
        "RUNS",
        "EXPIRES",
        "EVALUATOR",
        "APPROVAL",
    ];
    let mut table = output::table(&heads);
    for policy in policies {
        let actions = policy.actions.iter().map(|action| action.as_str());
        table.add_row([
            Cell::new(&policy.name),
            Cell::new(policy.queue.as_deref().unwrap_or("every")),
            Cell::new(policy.kind.as_deref().unwrap_or("every")),
            Cell::new(actions.collect::<Vec<_>>().join(",")),
            Cell::new(policy.attempts),
            Cell::new(policy.runs_max),
            Cell::new(duration::format_exact(policy.expires_ms)),
            Cell::new(policy.evaluator.as_str()),
            Cell::new(approval(&policy.approval)),
        ]);
    }
    output::print_table(&table)?;
    Ok(Exit::Done)
}

/// Who decides about what is escalated, in a cell.
fn approval(terms: &EscalationTerms) -> String {
    let who = [&terms.roles[..], &terms.keys[..]].concat().join(",");
    format!("{} of {who}", terms.quorum.unwrap_or(1))
}

async fn list(client: &Client, format: Format, state: Option<CandidateState>) -> CommandResult {
    let mut page = ListCandidates { state, cursor: None, limit: Some(PAGE) };
    let mut candidates = Vec::new();
    loop {
        let next = client.recovery().list().with(page.clone()).await.map_err(server::cli_error)?;
        candidates.extend(next.candidates);
        page.cursor = next.cursor;
        if page.cursor.is_none() || candidates.len() >= LIMIT_MAX {
            break;
        }
    }
    if format == Format::Json {
        output::json(&candidates)?;
        return Ok(Exit::Done);
    }
    if candidates.is_empty() {
        output::note("there are no candidates");
        return Ok(Exit::Done);
    }
    let heads = ["CANDIDATE", "STATE", "QUEUE", "KIND", "REASON", "RUNS", "ACTION", "LAST"];
    let mut table = output::table(&heads);
    for candidate in &candidates {
        let chosen = candidate.chosen.as_ref().map(|chosen| chosen.action.as_str());
        table.add_row([
            Cell::new(&candidate.candidate_id),
            Cell::new(candidate.state.as_str()),
            Cell::new(&candidate.queue),
            Cell::new(&candidate.kind),
            Cell::new(&candidate.reason),
            Cell::new(candidate.count),
            Cell::new(chosen.unwrap_or_default()),
            Cell::new(candidate.last_at),
        ]);
    }
    output::print_table(&table)?;
    Ok(Exit::Done)
}

fn print_candidate(format: Format, candidate: &CandidateView) -> CommandResult {
    match format {
        Format::Json => output::json(candidate)?,
        Format::People => describe(candidate)?,
    }
    Ok(Exit::Done)
}

fn describe(it: &CandidateView) -> Result<(), CliError> {
    output::line(format_args!("{}  {}", it.candidate_id, it.state.as_str()))?;
    output::line(format_args!("failed   {} on {}: {}", it.kind, it.queue, it.reason))?;
    let category = it.category.as_deref().unwrap_or("no category");
    output::line(format_args!("message  {} ({category})", it.pattern))?;
    let CandidateView { count, runs, attempts, forked, refused, .. } = it;
    output::line(format_args!(
        "runs     {runs} of {count} in all, from {} to {}",
        it.first_at, it.last_at
    ))?;
    let suggestion = &it.suggestion;
    output::line(format_args!(
        "suggests {} with confidence {:.2}: {}",
        suggestion.action.as_str(),
        suggestion.confidence,
        suggestion.because
    ))?;
    output::line(format_args!(
        "policy   {}, attempt {attempts}, until {}",
        it.policy, it.expires_at
    ))?;
    if let Some(question) = &it.question {
        let (approval, action) = (&question.approval_id, question.action.as_str());
        output::line(format_args!("asked    {action}, approval {approval}"))?;
        output::line(format_args!("about    {}", question.asked))?;
        output::line(format_args!("digest   {}", question.digest))?;
    }
    if let Some(chosen) = &it.chosen {
        let by = chosen.key_id.as_deref().unwrap_or("recovery");
        let comment = chosen.comment.as_ref().map(|text| format!(": {text}"));
        let comment = comment.unwrap_or_default();
        output::line(format_args!("chosen   {} by {by}{comment}", chosen.action.as_str()))?;
    }
    let last = it.last_refusal.as_ref().map(|code| format!(", {code}")).unwrap_or_default();
    output::line(format_args!("so far   {forked} submitted, {refused} refused{last}"))?;
    for sample in &it.samples {
        output::line(format_args!("  {}  {}  {}", sample.run_id, sample.at, sample.message))?;
    }
    Ok(())
}

async fn history(client: &Client, format: Format, id: &str, limit: u32) -> CommandResult {
    let history = client.recovery().history(id).limit(limit).await.map_err(server::cli_error)?;
    if format == Format::Json {
        output::json(&history.entries)?;
        return Ok(Exit::Done);
    }
    let mut table = output::table(&["AT", "BY", "STATE", "ACTION", "RUNS", "SUBMITTED", "REFUSED"]);
    for entry in &history.entries {
        let it = &entry.candidate;
        let chosen = it.chosen.as_ref().map(|chosen| chosen.action.as_str());
        table.add_row([
            Cell::new(entry.at),
            Cell::new(entry.key_id.as_deref().unwrap_or("recovery")),
            Cell::new(it.state.as_str()),
            Cell::new(chosen.unwrap_or_default()),
            Cell::new(it.runs),
            Cell::new(it.forked),
            Cell::new(it.refused),
        ]);
    }
    output::print_table(&table)?;
    Ok(Exit::Done)
}
