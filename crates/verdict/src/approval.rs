//! Approvals: decisions of people that a task waits for.
//!
//! An approval belongs to a task. It says who may decide, how many must agree, until when, and what is approved: the
//! decision names the digest of what its caller saw. The task's own row has the open approvals, so deciding one is a
//! request about the task, and no other row can disagree with it. An object of type approval is the index by which people
//! find it; it follows from the decision ([`changes`]) and is written in the same commit.
//!
//! What comes of an approval reaches its task as a signal with a name that no client can send ([`signal_name`]), so a wait
//! for an approval is a wait for a signal, and replay needs nothing new. [`open`] and [`Approval::vote`] are all that
//! another rule needs to ask for one.
//!
//! Invariants:
//! - one vote for each key, and never the key that holds the lease of the asking attempt, nor one under which the work was done
//!   that is decided about;
//! - one rejection rejects; as many approvals as the quorum approve;
//! - an approval closes once: decided, expired, or withdrawn because its task no longer waits for it;
//! - it outlives the wait that asked for it: whatever else wakes the task, the votes stay, and the next wait either asks
//!   for the same or withdraws it.

use crate::bounds::next;
use crate::event::{Event, Subject};
use crate::id::{Digest, Json, Name, TaskId, Text};
use crate::run::{RunEvent, Wait};
use crate::task::Task;
use crate::time::{Span, Time};

/// Maximum open approvals of one task: each is part of its row.
pub const OPEN_MAX: usize = 16;

/// Maximum bytes of the text that people decide about: more than a person reads at once, and small enough for every list.
pub const CONTENT_MAX: usize = 64 * 1024;

/// Maximum bytes of the contents that one task asks about at once: they are part of its row, which every decision about it reads.
pub const CONTENTS_MAX: usize = 2 * CONTENT_MAX;

/// Maximum roles and keys that an approval names together.
pub const DECIDERS_MAX: usize = 32;

/// Maximum quorum: each vote is part of the task's row.
pub const QUORUM_MAX: u32 = 32;

/// What the names of the signals begin with that tell a task what came of its approvals.
const SIGNAL: &str = "#approval:";

/// The role that decides where an approval names neither roles nor keys.
pub const DEFAULT_ROLE: &str = "approver";

/// What is asked of whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Roles of API keys whose holders may decide.
    pub roles: Vec<Name>,
    /// API keys whose holders may decide, whatever their roles.
    pub keys: Vec<Name>,
    /// How many must approve.
    pub quorum: u32,
    pub expires_at: Option<Time>,
    /// The same as a span from the opening, where no time is given.
    pub expires_in: Option<Span>,
    /// What counts as decided at the expiry; without it the outcome is that it expired.
    pub default: Option<Decision>,
    /// For people: what it is about.
    pub subject: Option<Text>,
    /// The digest of what is approved.
    pub digest: Option<Digest>,
    /// What is approved, as text; at most [`CONTENT_MAX`] bytes.
    pub content: Option<Text>,
    /// The stage whose output is what is approved: its text is the content, and its digest is filled in when people are asked.
    pub shows: Option<Name>,
    /// API keys under which the work was done that is decided about. None of them may vote.
    pub done_by: Vec<Name>,
}

/// An approval that a wait is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ApprovalCall {
    /// The key of the wait's item.
    pub item: Name,
    pub terms: Terms,
    /// The API key under which the asking attempt was leased.
    pub asked_by: Option<Name>,
}

impl ApprovalCall {
    /// What people are shown, in bytes.
    pub fn content_bytes(&self) -> usize {
        self.terms.content.as_ref().map_or(0, |content| content.as_str().len())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    Approved,
    Rejected,
}

impl Decision {
    pub const fn name(self) -> &'static str {
        match self {
            Decision::Approved => "APPROVED",
            Decision::Rejected => "REJECTED",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Decision::Approved, Decision::Rejected].into_iter().find(|it| it.name() == name)
    }
}

/// What came of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    Approved,
    Rejected,
    /// Nobody decided in time, and there is no default.
    Expired,
    /// Its task no longer waits for it.
    Withdrawn,
}

impl Outcome {
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Approved => "APPROVED",
            Outcome::Rejected => "REJECTED",
            Outcome::Expired => "EXPIRED",
            Outcome::Withdrawn => "WITHDRAWN",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        let all = [Outcome::Approved, Outcome::Rejected, Outcome::Expired, Outcome::Withdrawn];
        all.into_iter().find(|it| it.name() == name)
    }
}

impl From<Decision> for Outcome {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Approved => Outcome::Approved,
            Decision::Rejected => Outcome::Rejected,
        }
    }
}

/// An open approval, in the row of its task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Approval {
    /// Its place among all approvals of the task, from 1.
    pub number: u32,
    /// The key of the item that waits for it.
    pub key: Name,
    /// The key of the wait that first asked for it; `None` if no wait did.
    pub wait: Option<Name>,
    pub terms: Terms,
    pub expires_at: Option<Time>,
    pub asked_by: Option<Name>,
    pub opened_at: Time,
    pub votes: Vec<Vote>,
}

/// The word of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Vote {
    pub key: Name,
    pub decision: Decision,
    /// A JSON text, kept byte for byte.
    pub comment: Option<Json>,
    pub at: Time,
}

/// The open approvals of a task, and how many it ever had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Approvals {
    pub opened: u32,
    pub open: Vec<Approval>,
}

/// A caller decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecideCall {
    pub number: u32,
    /// The API key of the caller, and its roles.
    pub key: Name,
    pub roles: Vec<Name>,
    pub decision: Decision,
    /// The digest of what the caller saw.
    pub digest: Option<Digest>,
    pub comment: Option<Json>,
}

/// Why a vote is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VoteRefusal {
    NotFound,
    Closed,
    /// The caller saw something else than what is to be approved.
    DigestMismatch,
    AlreadyVoted,
    /// The approval names neither the key nor a role of it.
    NotNamed,
    /// The key holds the lease of the asking attempt, or did the work that is decided about.
    OwnWork,
}

impl VoteRefusal {
    pub const fn name(self) -> &'static str {
        match self {
            VoteRefusal::NotFound => "approval_not_found",
            VoteRefusal::Closed => "approval_closed",
            VoteRefusal::DigestMismatch => "approval_digest_mismatch",
            VoteRefusal::AlreadyVoted => "already_voted",
            VoteRefusal::NotNamed | VoteRefusal::OwnWork => "approval_forbidden",
        }
    }
}

impl Approval {
    /// What a vote comes to: the vote to record, and the outcome if it decides.
    pub fn vote(
        &self,
        call: &DecideCall,
        now: Time,
    ) -> Result<(Vote, Option<Outcome>), VoteRefusal> {
        if self.is_expired(now) {
            return Err(VoteRefusal::Closed);
        }
        self.check(call)?;
        let DecideCall { key, decision, comment, .. } = call.clone();
        let approved = self.votes.iter().filter(|vote| vote.decision == Decision::Approved).count();
        let is_enough = approved as u32 + 1 >= self.terms.quorum;
        let outcome = match decision {
            Decision::Rejected => Some(Outcome::Rejected),
            Decision::Approved => is_enough.then_some(Outcome::Approved),
        };
        Ok((Vote { key, decision, comment, at: now }, outcome))
    }

    fn check(&self, call: &DecideCall) -> Result<(), VoteRefusal> {
        let Terms { roles, keys, digest, done_by, .. } = &self.terms;
        let is_named = match (roles.is_empty(), keys.is_empty()) {
            (true, true) => call.roles.iter().any(|role| role.as_str() == DEFAULT_ROLE),
            _ => keys.contains(&call.key) || roles.iter().any(|role| call.roles.contains(role)),
        };
        if !is_named {
            Err(VoteRefusal::NotNamed)
        } else if self.asked_by.as_ref() == Some(&call.key) || done_by.contains(&call.key) {
            Err(VoteRefusal::OwnWork)
        } else if call.digest != *digest {
            Err(VoteRefusal::DigestMismatch)
        } else if self.votes.iter().any(|vote| vote.key == call.key) {
            Err(VoteRefusal::AlreadyVoted)
        } else {
            Ok(())
        }
    }

    pub fn is_expired(&self, now: Time) -> bool {
        self.expires_at.is_some_and(|at| at.has_come(now))
    }

    /// What the expiry comes to.
    pub fn at_expiry(&self) -> Outcome {
        self.terms.default.map_or(Outcome::Expired, Outcome::from)
    }

    /// The id by which people name it.
    pub fn id(&self, task: TaskId) -> Name {
        approval_id(task, self.number)
    }

    /// Whether a wait asks for it again: the same of the same people, under the same key, which still may not decide. A
    /// time that was given as a span counts from the first time.
    pub(crate) fn is_asked_again(&self, call: &ApprovalCall) -> bool {
        self.key == call.item && self.terms == call.terms && self.asked_by == call.asked_by
    }

    /// Whether its task may still need it: it has not ended, and it waits for nothing, or for this too.
    pub(crate) fn is_armed(&self, task: &Task) -> bool {
        let is_awaited = |wait: &Wait| wait.items.iter().any(|item| item.key == self.key);
        let is_left = self.wait.is_some()
            && crate::decide::open_wait(task).is_some_and(|wait| !is_awaited(wait));
        task.closing().is_none() && !is_left
    }
}

/// Text of an approval's id: it names the task, so nothing is looked up to find the task.
pub fn approval_id(task: TaskId, number: u32) -> Name {
    let task = task.to_string();
    let ulid = task.strip_prefix("task_").unwrap_or(&task);
    Name::from(format!("appr_{ulid}-{number}"))
}

/// Reads what [`approval_id`] wrote.
pub fn parse_approval_id(text: &str) -> Option<(TaskId, u32)> {
    let (ulid, number) = text.strip_prefix("appr_")?.rsplit_once('-')?;
    let task = TaskId::parse(&format!("task_{ulid}"))?;
    let number: u32 = number.parse().ok()?;
    (approval_id(task, number).as_str() == text).then_some((task, number))
}

/// The name of the signal that tells a task what came of an approval. Clients cannot send it: their names have no `#`.
pub fn signal_name(item: &Name) -> Name {
    Name::from(format!("{SIGNAL}{item}"))
}

/// Whether the signal of this name tells what came of an approval.
pub fn is_told_by(signal: &Name) -> bool {
    signal.as_str().starts_with(SIGNAL)
}

/// Opens an approval for a task: the one event that a decision adds.
pub fn open(task: &Task, call: &ApprovalCall, wait: Option<&Name>, place: u32, now: Time) -> Event {
    let opened = task.run.as_ref().map_or(0, |run| run.approvals.opened);
    let expires_in = call.terms.expires_in.map(|span| now.plus(span));
    let approval = Approval {
        number: opened.saturating_add(place).saturating_add(1),
        key: call.item.clone(),
        wait: wait.cloned(),
        expires_at: call.terms.expires_at.or(expires_in),
        terms: call.terms.clone(),
        asked_by: call.asked_by.clone(),
        opened_at: now,
        votes: Vec::new(),
    };
    Event::Run(Box::new(RunEvent::ApprovalOpened(Box::new(approval))))
}

/// What a task is told: `{"outcome":…,"digest":…,"votes":[…]}`, without the digest if there is none. Keys need no escapes,
/// and comments are JSON already.
pub(crate) fn told(outcome: Outcome, about: Option<&Digest>, votes: &[Vote]) -> Json {
    let vote = |vote: &Vote| {
        let (key, decision, at) = (&vote.key, vote.decision.name(), vote.at.millis());
        let comment = vote.comment.as_ref().map_or("null", |comment| comment.as_str());
        format!(r#"{{"key":"{key}","decision":"{decision}","atMs":{at},"comment":{comment}}}"#)
    };
    let votes: Vec<String> = votes.iter().map(vote).collect();
    let about = about.map_or_else(String::new, |digest| format!(r#""digest":"{digest}","#));
    let (outcome, votes) = (outcome.name(), votes.join(","));
    Json::from(format!(r#"{{"outcome":"{outcome}",{about}"votes":[{votes}]}}"#))
}

impl Approvals {
    pub fn find(&self, number: u32) -> Option<&Approval> {
        self.open.iter().find(|approval| approval.number == number)
    }

    /// The open approval that expires first.
    pub fn next_expiry(&self) -> Option<Time> {
        self.open.iter().filter_map(|approval| approval.expires_at).min()
    }

    pub(crate) fn note_opened(&mut self, approval: &Approval) {
        self.opened = next(self.opened);
        self.open.push(approval.clone());
    }

    pub(crate) fn note_vote(&mut self, number: u32, vote: &Vote) {
        let approval = self.open.iter_mut().find(|approval| approval.number == number);
        approval.expect("only an open approval is voted on").votes.push(vote.clone());
    }

    pub(crate) fn note_closed(&mut self, number: u32) {
        self.open.retain(|approval| approval.number != number);
    }
}

/// How the index of an approval changes with a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalChange {
    /// With the votes so far.
    pub approval: Approval,
    /// `None` while it is open.
    pub outcome: Option<Outcome>,
    /// Grows by one with each decision that changes it, from 1.
    pub revision: u32,
    /// The key whose vote it was.
    pub by: Option<Name>,
}

/// What a decision with these events did to the approvals of a task, in order of their numbers.
pub fn changes(before: &[Approval], after: &Subject, events: &[Event]) -> Vec<ApprovalChange> {
    let still: &[Approval] = match after.live().and_then(|task| task.run.as_ref()) {
        Some(run) => &run.approvals.open,
        None => &[],
    };
    let (mut opened, mut votes, mut closed) = (Vec::new(), Vec::new(), Vec::new());
    for event in events {
        let Event::Run(event) = event else { continue };
        match &**event {
            RunEvent::ApprovalOpened(approval) => opened.push(&**approval),
            RunEvent::ApprovalVoted { number, vote } => votes.push((*number, &**vote)),
            RunEvent::ApprovalClosed { number, outcome } => closed.push((*number, *outcome)),
            _ => {}
        }
    }
    let change = |(approval, revision): (&Approval, u32)| {
        let number = approval.number;
        let vote = votes.iter().find(|(of, _)| *of == number).map(|(_, vote)| (*vote).clone());
        let is_open = still.iter().any(|it| it.number == number);
        let outcome = closed.iter().find(|(of, _)| *of == number).map(|(_, outcome)| *outcome);
        let outcome = outcome.or((!is_open).then_some(Outcome::Withdrawn));
        let is_changed = revision == 1 || vote.is_some() || outcome.is_some();
        let by = vote.as_ref().map(|vote| vote.key.clone());
        let mut approval = approval.clone();
        approval.votes.extend(vote);
        is_changed.then_some(ApprovalChange { approval, outcome, revision, by })
    };
    // Opening is the first revision, and each vote that did not decide is one.
    let old = before.iter().map(|approval| (approval, 2 + approval.votes.len() as u32));
    old.chain(opened.into_iter().map(|approval| (approval, 1))).filter_map(change).collect()
}
