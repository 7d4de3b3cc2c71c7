//! The people of a run in memory: what they say of approvals, and when.
//!
//! They decide as the coordinator's rules have it: one vote for each, one rejection rejects, the quorum approves, and the
//! expiry decides what they did not. Who may decide is not looked at: that is a matter of the coordinator's keys.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::approvals::ApprovalTerms;
use wire::{ApprovalDecision, ApprovalOutcome, Time};

use crate::approval::{Approval, Vote};
use crate::key;
use crate::operation::later;

/// Nobody decides in the instant in which they are asked.
const READING: Duration = Duration::from_millis(1);

/// What somebody will say, as soon as the approval of this name is open and the time has come.
struct Word {
    name: String,
    vote: Vote,
}

#[derive(Default)]
pub(super) struct People {
    words: Vec<Word>,
    /// When each approval was asked for.
    asked: BTreeMap<String, Time>,
}

impl People {
    pub(super) fn say(&mut self, name: &str, vote: Vote) {
        self.words.push(Word { name: name.to_owned(), vote });
        self.words.sort_by_key(|word| word.vote.at);
    }

    pub(super) fn asked(&mut self, key: &str, now: Time) {
        self.asked.entry(key.to_owned()).or_insert(now);
    }

    /// What came of an approval by now.
    pub(super) fn outcome(&self, key: &str, terms: &ApprovalTerms, now: Time) -> Option<Approval> {
        let votes = self.votes(key, terms);
        let votes: Vec<Vote> = votes.into_iter().filter(|vote| vote.at <= now).collect();
        let outcome = decided(&votes, terms).or_else(|| expired(terms, now))?;
        Some(Approval { outcome, votes })
    }

    /// The next instant at which something is said or time ends.
    pub(super) fn next(&self, key: &str, terms: &ApprovalTerms, now: Time) -> Option<Time> {
        let votes = self.votes(key, terms);
        let words = votes.into_iter().map(|vote| vote.at);
        words.chain(terms.expires_at).filter(|at| *at > now).min()
    }

    /// An approval is over: what was said of it is not said again.
    pub(super) fn over(&mut self, key: &str, approval: &Approval) {
        let name = key::approval_name(key).unwrap_or_default();
        for vote in &approval.votes {
            let said = |word: &Word| word.name == name && word.vote.key == vote.key;
            if let Some(place) = self.words.iter().position(said) {
                self.words.remove(place);
            }
        }
    }

    /// The votes on an approval, up to the one that decides it.
    fn votes(&self, key: &str, terms: &ApprovalTerms) -> Vec<Vote> {
        let name = key::approval_name(key).unwrap_or_default();
        let Some(asked) = self.asked.get(key) else { return Vec::new() };
        let earliest = later(*asked, READING);
        let mut votes: Vec<Vote> = Vec::new();
        for word in self.words.iter().filter(|word| word.name == name) {
            let vote = Vote { at: word.vote.at.max(earliest), ..word.vote.clone() };
            let is_late = terms.expires_at.is_some_and(|end| end <= vote.at);
            let is_second = votes.iter().any(|earlier| earlier.key == vote.key);
            if decided(&votes, terms).is_none() && !is_late && !is_second {
                votes.push(vote);
            }
        }
        votes
    }
}

fn decided(votes: &[Vote], terms: &ApprovalTerms) -> Option<ApprovalOutcome> {
    let count = |decision| votes.iter().filter(|vote| vote.decision == decision).count();
    let quorum = terms.quorum.unwrap_or(1) as usize;
    if count(ApprovalDecision::Rejected) > 0 {
        return Some(ApprovalOutcome::Rejected);
    }
    (count(ApprovalDecision::Approved) >= quorum).then_some(ApprovalOutcome::Approved)
}

fn expired(terms: &ApprovalTerms, now: Time) -> Option<ApprovalOutcome> {
    terms.expires_at.filter(|end| *end <= now)?;
    Some(match terms.default {
        None => ApprovalOutcome::Expired,
        Some(ApprovalDecision::Approved) => ApprovalOutcome::Approved,
        Some(ApprovalDecision::Rejected) => ApprovalOutcome::Rejected,
    })
}
