//! What the coordinator does for recovery beside its batches: it evaluates candidates whose policy leaves that to it, and submits the
//! runs of actions that were decided.
//!
//! Both may be repeated and may happen in several coordinators at once: an evaluation needs its lease, the key of a submitted run
//! names the run that failed, and a failed run is counted in the commit that closes its note. What a coordinator leaves behind when
//! it dies is found by the next scan.

use std::collections::BTreeSet;
use std::time::Duration;

use store::recovery::{candidate_of, failed_run_of, of_round, policy_of};
use store::{Browse, Failure, ObjectFilter, TaskKey};
use tokio_util::sync::CancellationToken;
use verdict::recovery::{
    Action, Candidate, CandidateState, Evaluator, ForkOutcome, KIND_BUILT_IN, QUEUE_BUILT_IN,
    RecoveryPolicy, Terms, automatic, policy_key,
};
use verdict::request::{Outcome, Report};
use verdict::{Answer, Digest, Json, Name, Object, ObjectType, Refusal, Scope, TaskId};
use wire::Code;
use wire::recovery::EvaluationOutput;

use super::{action_view, forking};
use crate::coordinator::Coordinator;
use crate::item::{Granted, Poll, RecoveryCall, RecoveryItem, RequestError};
use crate::tenant_turns::TenantTurns;

/// How often the store is scanned where other coordinators recover too, and where none does.
const SCAN_SHARED: Duration = Duration::from_secs(2);
const SCAN_ALONE: Duration = Duration::from_secs(15);

/// The pause after a refusal of the store, or of a quota.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// Candidates read at once.
const PAGE: usize = 500;

/// Failed runs that are carried out together: their submissions share a batch.
const SLICE: usize = 64;

/// Evaluations leased at once, and how long a poll waits for them: where candidates are read beside the batches, the first look may
/// come too early.
const LEASES_MAX: usize = 64;
const POLL_WAIT: Duration = Duration::from_secs(1);

/// The name under which the coordinator leases evaluations.
const WORKER: &str = "tenure-recovery";

pub(crate) struct Recoverer {
    coordinator: Coordinator,
}

/// How far a round was carried out.
enum Executed {
    /// There is more, for the candidate as it is now.
    InPart(Candidate),
    /// As far as it can be; `is_left` if something must wait.
    Whole { is_left: bool },
}

/// Why a look ended early.
enum Interrupted {
    Store(Failure),
    Refused(RequestError),
}

impl From<Failure> for Interrupted {
    fn from(failure: Failure) -> Self {
        Interrupted::Store(failure)
    }
}

impl From<RequestError> for Interrupted {
    fn from(error: RequestError) -> Self {
        Interrupted::Refused(error)
    }
}

impl Recoverer {
    pub(crate) fn new(coordinator: Coordinator) -> Self {
        Self { coordinator }
    }

    /// Recovers until `closing` is cancelled. What is under way then is found again by the next start.
    pub(crate) async fn run(self, closing: CancellationToken) {
        while !closing.is_cancelled() {
            let pause = tokio::select! {
                biased;
                () = closing.cancelled() => return,
                pause = self.look() => pause,
            };
            tokio::select! {
                biased;
                () = closing.cancelled() => return,
                () = self.coordinator.recovery().changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does what is to be done, and says when to look again if nothing changes.
    async fn look(&self) -> Duration {
        // Without a policy there is nothing to do, and a scan would be for nothing.
        if self.coordinator.recovery().snapshot().is_empty() {
            return SCAN_ALONE;
        }
        match self.look_at_candidates().await {
            Ok(true) => REFUSED_PAUSE,
            Ok(false) if self.coordinator.store().status().writers > 1 => SCAN_SHARED,
            Ok(false) => SCAN_ALONE,
            Err(Interrupted::Store(failure)) => {
                tracing::warn!(error = %failure, "cannot look for recovery candidates");
                REFUSED_PAUSE
            }
            Err(Interrupted::Refused(error)) => {
                tracing::warn!(%error, "cannot carry on with recovery");
                REFUSED_PAUSE
            }
        }
    }

    /// Whether something is left that could not be done now.
    async fn look_at_candidates(&self) -> Result<bool, Interrupted> {
        let (mut after, mut is_left) = (None, false);
        let mut pending: BTreeSet<Scope> = BTreeSet::new();
        let mut executing = TenantTurns::default();
        loop {
            let filter = ObjectFilter {
                object_type: Some(ObjectType::RecoveryCandidate),
                is_pending: true,
                after,
                limit: PAGE,
                ..ObjectFilter::default()
            };
            let page = self.coordinator.browse().objects(&filter).await?;
            for object in &page {
                let Some(candidate) = candidate_of(object) else { continue };
                let scope = &object.key.scope;
                match candidate.state {
                    CandidateState::Executing => {
                        executing.push(&scope.tenant, (scope.clone(), candidate));
                    }
                    _ if self.is_ours(scope, &candidate) => {
                        pending.insert(scope.clone());
                    }
                    _ => {}
                }
            }
            after = page.last().map(|last| last.key.clone());
            if page.len() < PAGE {
                break;
            }
        }
        for scope in pending {
            self.evaluate(&scope).await?;
        }
        while let Some((scope, candidate)) = executing.pop() {
            match self.execute(&scope, candidate).await? {
                Executed::InPart(candidate) => {
                    executing.push(&scope.tenant.clone(), (scope, candidate));
                }
                Executed::Whole { is_left: some } => is_left |= some,
            }
        }
        Ok(is_left)
    }

    fn is_ours(&self, scope: &Scope, candidate: &Candidate) -> bool {
        let known = self.coordinator.recovery().snapshot();
        let policy = known.get(scope).and_then(|of_scope| of_scope.get(&candidate.policy));
        policy.is_some_and(|policy| policy.terms.evaluator == Evaluator::BuiltIn)
    }

    /// Leases evaluations of a scope and reports what they name.
    async fn evaluate(&self, scope: &Scope) -> Result<(), Interrupted> {
        let poll = Poll {
            scope: scope.clone(),
            worker: WORKER.into(),
            queues: vec![QUEUE_BUILT_IN.into()],
            kinds: Some(vec![KIND_BUILT_IN.into()]),
            max: LEASES_MAX,
            until: tokio::time::Instant::now() + POLL_WAIT,
            poll: None,
            build: None,
        };
        for granted in self.coordinator.lease(poll).await? {
            let action = self.action(&granted).await?;
            let answered = self.coordinator.report(granted.key(), report(&granted, action)).await?;
            // The policy has changed since: whatever it says now, nothing may be done.
            if let Answer::Refused(Refusal::Recovery(_)) = answered.answer {
                let skip = report(&granted, Action::Skip);
                self.coordinator.report(granted.key(), skip).await?;
            }
        }
        Ok(())
    }

    /// What the built-in evaluation names for the candidate as it is now.
    async fn action(&self, granted: &Granted) -> Result<Action, Failure> {
        let TaskKey { scope, id } = granted.key();
        let filter = ObjectFilter {
            scope: Some(scope.clone()),
            object_type: Some(ObjectType::RecoveryCandidate),
            unique_key: Some(id.to_string().into()),
            limit: 1,
            ..ObjectFilter::default()
        };
        let found = self.coordinator.browse().objects(&filter).await?;
        let Some(candidate) = found.first().and_then(candidate_of) else { return Ok(Action::Skip) };
        let policy = self.policy(&scope, &candidate.policy).await?;
        let action = policy.map(|policy| automatic(candidate.round.suggestion, &policy.terms));
        Ok(action.unwrap_or(Action::Skip))
    }

    async fn policy(&self, scope: &Scope, name: &Name) -> Result<Option<RecoveryPolicy>, Failure> {
        let filter = ObjectFilter::one(&policy_key(scope, name));
        let found = self.coordinator.browse().objects(&filter).await?;
        Ok(found.first().and_then(policy_of).filter(|policy| !policy.is_deleted))
    }

    /// Submits the next runs of a round. Between two slices other tenants have their turn.
    async fn execute(&self, scope: &Scope, candidate: Candidate) -> Result<Executed, Interrupted> {
        let round = candidate.round.task;
        let policy = self.policy(scope, &candidate.policy).await?;
        let filter = of_round(scope, round, SLICE);
        let page = self.coordinator.browse().objects(&filter).await?;
        let slice = Slice { scope, candidate: &candidate, policy: policy.as_ref() };
        let outcomes = self.submit(slice, &page).await?;
        let is_cut = outcomes.len() < page.len();
        let call = RecoveryCall::Executed {
            candidate: candidate.signature.id(),
            round,
            outcomes,
            is_last: page.len() < SLICE && !is_cut,
        };
        let item = RecoveryItem { scope: scope.clone(), call, by: None };
        let answered = self.coordinator.recover(item).await?;
        let Answer::Recovery(answer) = answered.answer else {
            return Ok(Executed::Whole { is_left: false });
        };
        let candidate = answer.candidate;
        let goes_on = candidate.state == CandidateState::Executing
            && candidate.round.task == round
            && !is_cut;
        Ok(if goes_on { Executed::InPart(candidate) } else { Executed::Whole { is_left: is_cut } })
    }

    /// What came of each failed run, up to the first that must wait.
    async fn submit(
        &self,
        slice: Slice<'_>,
        page: &[Object],
    ) -> Result<Vec<(TaskId, ForkOutcome)>, Interrupted> {
        let chosen = slice.candidate.round.chosen.as_ref();
        let action = chosen.map_or(Action::Skip, |chosen| chosen.action);
        let mut room = slice.candidate.room(slice.policy, self.coordinator.now());
        let mut outcomes = Vec::with_capacity(page.len());
        for note in page {
            let Some(run) = failed_run_of(note).map(|failed| failed.run) else { continue };
            let key = TaskKey { scope: slice.scope.clone(), id: run };
            let outcome = match slice.policy.filter(|_| room > 0 && action.forks()) {
                None => ForkOutcome::Refused(Code::RecoveryOutOfScope.as_str().into()),
                Some(policy) => match self.fork(&key, action, &slice.terms(policy)).await? {
                    None => break,
                    Some(outcome) => outcome,
                },
            };
            room -= u32::from(matches!(outcome, ForkOutcome::Forked(_)));
            outcomes.push((run, outcome));
        }
        Ok(outcomes)
    }

    /// Submits one run; `None` if it must wait.
    async fn fork(
        &self,
        key: &TaskKey,
        action: Action,
        terms: &Terms,
    ) -> Result<Option<ForkOutcome>, Interrupted> {
        let (browse, now) = (self.coordinator.browse(), self.coordinator.now());
        let submission = forking::submission(browse, key, action, terms, now).await?;
        let submission = match submission {
            Ok(submission) => submission,
            Err(code) => return Ok(Some(ForkOutcome::Refused(code))),
        };
        let reply = self.coordinator.submit(vec![submission]).await.pop();
        let answered = reply.expect("one submission has one reply")?;
        Ok(match answered.answer {
            Answer::Accepted { task, .. } => Some(ForkOutcome::Forked(task)),
            Answer::Refused(Refusal::QuotaReached { .. }) => None,
            Answer::Refused(refusal) => Some(ForkOutcome::Refused(refusal.name().into())),
            _ => Some(ForkOutcome::Refused(Code::Internal.as_str().into())),
        })
    }
}

/// The round whose runs are submitted, and the policy as it is now.
#[derive(Clone, Copy)]
struct Slice<'a> {
    scope: &'a Scope,
    candidate: &'a Candidate,
    policy: Option<&'a RecoveryPolicy>,
}

impl Slice<'_> {
    /// Within which its runs are submitted.
    fn terms(&self, policy: &RecoveryPolicy) -> Terms {
        self.candidate.bounds(&policy.terms)
    }
}

fn report(granted: &Granted, action: Action) -> Report {
    let action = action_view(action);
    let output = EvaluationOutput { action, confidence: None, comment: None, propose: None };
    let output = serde_json::to_string(&output).expect("an output has only text keys");
    Report {
        caller: granted.caller(),
        digest: Digest::of(&[output.as_bytes()]),
        outcome: Outcome::Succeeded { output: Some(Json::from(output)) },
        claims: None,
        by: None,
    }
}
