//! The run that recovery submits for one that failed: a retry or a fork as a client would ask for it, with the limits of the
//! policy, and linked to the run that failed by the same labels.

use edge::digests;
use store::{DynBrowse, Failure, TaskKey};
use verdict::recovery::{Action, Terms, fork_key, may_fork_again};
use verdict::redrive::Repeat;
use verdict::{Budget, Name, Time};
use wire::Code;
use wire::names::RECOVERED_LABEL;
use wire::requests::ForkRun;

use crate::forks::{self, ForkCall, ForkSource};
use crate::http::seed_of;
use crate::item::Submission;
use crate::retries::{self, RetryCall, RunSource};

/// The submission, or the code of the refusal.
pub(super) async fn submission(
    browse: &DynBrowse,
    key: &TaskKey,
    action: Action,
    terms: &Terms,
    now: Time,
) -> Result<Result<Submission, Name>, Failure> {
    let refused = |code: Code| Ok(Err(Name::from(code.as_str())));
    let Some(source) = retries::find(browse, key).await? else {
        return refused(Code::RunNotFound);
    };
    let recovered = recovered(&source);
    if !may_fork_again(recovered, terms) {
        return refused(Code::RecoveryOutOfScope);
    }
    let submission = match action {
        Action::Continue => continued(browse, key, source, now).await?,
        _ => retried(key, source, now),
    };
    Ok(submission.map(|submission| limited(submission, recovered + 1, terms)))
}

fn retried(key: &TaskKey, source: RunSource, now: Time) -> Result<Submission, Name> {
    // A policy that allows `retry` does not ask for recorded work to be done again.
    let repeat = Repeat::Unrecorded;
    let call = RetryCall { key: Some(fork_key(key.id)), traceparent: None, repeat };
    let code = |code: Code| Name::from(code.as_str());
    match retries::retry(source, call, now) {
        None => Err(code(Code::RunNotRetryable)),
        Some(retry) => retry.map_err(|refused| code(refused.code())),
    }
}

async fn continued(
    browse: &DynBrowse,
    key: &TaskKey,
    source: RunSource,
    now: Time,
) -> Result<Result<Submission, Name>, Failure> {
    let RunSource { found, submitted, .. } = source;
    let seed = submitted.policy.seed.unwrap_or_else(|| seed_of(key.id));
    let call = ForkCall {
        key: Some(fork_key(key.id)),
        traceparent: None,
        budget: None,
        from_step: None,
        fingerprint: digests::fork(key.id, &ForkRun::default()),
    };
    let forked = forks::fork(browse, ForkSource { found, submitted, seed }, call, now).await?;
    Ok(forked.and_then(Result::ok).ok_or_else(|| Name::from(Code::RunNotForkable.as_str())))
}

/// How often the line of a run was recovered before.
fn recovered(source: &RunSource) -> u32 {
    let label = source.found.spec.labels.get(RECOVERED_LABEL);
    label.and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn limited(mut submission: Submission, recovered: u32, terms: &Terms) -> Submission {
    submission.spec.labels.insert(RECOVERED_LABEL.to_owned(), recovered.to_string());
    if let Some(most) = terms.cost_micros {
        let mut budget: Box<Budget> = submission.budget.take().unwrap_or_default();
        let own = budget.limits.cost_micros.unwrap_or(most);
        budget.limits.cost_micros = Some(own.min(most));
        submission.budget = Some(budget);
    }
    submission
}
