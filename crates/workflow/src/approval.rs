//! Waiting for the word of people: who may decide, how many must agree, until when, and about what.
//!
//! The coordinator knows the keys of people and counts their votes; here is only the question and its answer. A rejection
//! and an expiry are values, like everything that people decide.
//!
//! Invariant: what is approved is part of the operation's identity. Code that asks about something else than what the
//! record says was decided stops as a divergence, before anything is executed.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::approvals::{ApprovalTerms, CONTENT_BYTES_MAX};
use wire::{ApprovalDecision, ApprovalOutcome, Json, Time};

use crate::command::Checkpoint;
use crate::flow::Flow;
use crate::key::OperationKind;
use crate::operation::Made;
use crate::stop::SourceLine;
use crate::wait::{Ask, Boxed, WaitCall, waits};
use crate::{Digest, Failure};

/// What came of an approval, and who decided what and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Approval {
    pub outcome: ApprovalOutcome,
    /// In the order in which they came. Empty if time decided.
    pub votes: Vec<Vote>,
}

impl Approval {
    /// Whether as many as were asked for approved it, or time did so by default.
    #[must_use]
    pub fn is_approved(&self) -> bool {
        self.outcome == ApprovalOutcome::Approved
    }

    /// The first comment, of the rejection if there is one.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        let rejected = |vote: &&Vote| vote.decision == ApprovalDecision::Rejected;
        let rejection = self.votes.iter().find(rejected);
        let mut votes = rejection.into_iter().chain(&self.votes);
        votes.find_map(|vote| vote.comment.as_deref())
    }
}

/// The word of one person.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Vote {
    /// The id of the API key under which it came.
    pub key: String,
    pub decision: ApprovalDecision,
    pub at: Time,
    pub comment: Option<String>,
}

/// What a task is told: the value of the signal that the coordinator sends.
#[derive(Serialize, Deserialize)]
pub(crate) struct Told {
    outcome: ApprovalOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
    votes: Vec<ToldVote>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToldVote {
    key: String,
    decision: ApprovalDecision,
    at_ms: i64,
    comment: Option<String>,
}

impl Told {
    /// The value in which the coordinator tells this.
    pub(crate) fn of(approval: &Approval, digest: Option<Digest>) -> Json {
        let vote = |vote: &Vote| {
            let Vote { key, decision, at, comment } = vote.clone();
            ToldVote { key, decision, at_ms: at.as_ms(), comment }
        };
        let (outcome, votes) = (approval.outcome, approval.votes.iter().map(vote).collect());
        Json::from_value(&Told { outcome, digest, votes }).expect("texts have a JSON form")
    }
}

/// The digest of what was decided about, in the value that tells what came of an approval.
#[must_use]
pub fn decided_digest(told: &Json) -> Option<Digest> {
    told.read::<Told>().ok()?.digest
}

/// An approval that is asked for when it is awaited.
#[must_use = "an approval is asked for when it is awaited"]
pub struct ApprovalCall {
    made: Made,
    terms: ApprovalTerms,
    within: Option<Duration>,
    about: Result<Option<Digest>, Failure>,
}

impl ApprovalCall {
    pub(crate) fn new(flow: &Flow, name: String, at: SourceLine) -> ApprovalCall {
        let made = Made::new(flow, OperationKind::Approval, name, at);
        ApprovalCall { made, terms: ApprovalTerms::default(), within: None, about: Ok(None) }
    }

    /// Roles of API keys whose holders may decide. Without roles and keys: `approver`.
    pub fn roles<T: Into<String>>(mut self, roles: impl IntoIterator<Item = T>) -> Self {
        self.terms.roles = roles.into_iter().map(T::into).collect();
        self
    }

    /// Ids of API keys whose holders may decide.
    pub fn keys<T: Into<String>>(mut self, keys: impl IntoIterator<Item = T>) -> Self {
        self.terms.keys = keys.into_iter().map(T::into).collect();
        self
    }

    /// How many must approve; 1 unless this says otherwise. One rejection rejects.
    pub fn quorum(mut self, quorum: u32) -> Self {
        self.terms.quorum = Some(quorum);
        self
    }

    /// How long people may take. After that the outcome is [`ApprovalOutcome::Expired`].
    pub fn within(mut self, span: Duration) -> Self {
        self.within = Some(span);
        self.terms.default = None;
        self
    }

    /// How long people may take, and what counts as decided after that.
    pub fn within_or(mut self, span: Duration, decision: ApprovalDecision) -> Self {
        self.within = Some(span);
        self.terms.default = Some(decision);
        self
    }

    /// For people: what it is about.
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.terms.subject = Some(subject.into());
        self
    }

    /// What exactly is approved. People decide about its digest, and a replay that asks about another value stops.
    pub fn about<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        self.terms.content = None;
        let digest = self.made.flow.shared.digest_of(value);
        self.about = digest.map(Some).map_err(|error| Failure::named("INPUT_UNWRITABLE", error));
        self
    }

    /// The same for what has no JSON form: the SHA-256 of a file, a commit.
    pub fn about_digest(mut self, digest: Digest) -> Self {
        self.terms.content = None;
        self.about = Ok(Some(digest));
        self
    }

    /// What exactly is approved, shown to those who decide: up to 64 KiB of JSON. Beyond that it is the same as
    /// [`about`](ApprovalCall::about), and so it is under a codec, because the coordinator must not read what the codec hides.
    pub fn content<T: Serialize + ?Sized>(self, value: &T) -> Self {
        let mut asked = self.about(value);
        asked.terms.content = Json::from_value(value).ok();
        let is_short = |text: String| text.len() <= CONTENT_BYTES_MAX;
        let is_shown =
            !asked.made.flow.shared.is_sealed() && asked.terms.content_text().is_some_and(is_short);
        if !is_shown {
            asked.terms.content = None;
        }
        asked
    }

    fn into_wait_call<'m>(self) -> WaitCall<'m, Approval> {
        let ApprovalCall { made, mut terms, within, about } = self;
        if let Ok(Some(digest)) = &about {
            terms.digest = Some(digest.to_string());
        }
        let ask = Ask::Approval(Box::new(terms), within);
        let wait = WaitCall::new(made, ask, |told| read(told.expect("an approval has no timer")));
        WaitCall { identity: about, ..wait }
    }
}

waits!([] ApprovalCall, Approval);

impl IntoFuture for ApprovalCall {
    type Output = Result<Approval, Failure>;
    type IntoFuture = Boxed<'static, Result<Approval, Failure>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.into_wait_call().wait())
    }
}

fn read(told: Checkpoint) -> Result<Approval, Failure> {
    let Checkpoint { key, result, .. } = told;
    let Told { outcome, digest: _, votes } =
        result.unwrap_or_default().read().map_err(|error| {
            Failure::data(format!("what came of approval `{key}` cannot be read: {error}"))
        })?;
    let vote = |vote: ToldVote| {
        let ToldVote { key, decision, at_ms, comment } = vote;
        Vote { key, decision, at: Time::from_ms(at_ms), comment }
    };
    Ok(Approval { outcome, votes: votes.into_iter().map(vote).collect() })
}
