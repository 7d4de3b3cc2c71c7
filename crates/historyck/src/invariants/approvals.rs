//! Approvals: what people were told about their votes.

use std::collections::BTreeMap;

use crate::event::{EventKind, Vote};
use crate::finding::{Finding, Invariant};
use crate::history::{History, findings_for};

/// The acknowledged votes on each approval, with the index of the event. An answer that was lost is not among them, so
/// there may have been more.
fn votes<'e>(history: &History<'e>) -> BTreeMap<&'e str, Vec<(usize, &'e Vote)>> {
    let mut votes: BTreeMap<&str, Vec<(usize, &Vote)>> = BTreeMap::new();
    for (place, event) in history.events.iter().enumerate() {
        if let EventKind::Vote(vote) = &event.what {
            votes.entry(&vote.approval).or_default().push((place, vote));
        }
    }
    votes
}

pub(super) fn one_decision(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::E7);
    for (approval, votes) in votes(history) {
        let mut first: BTreeMap<&str, usize> = BTreeMap::new();
        for (place, vote) in &votes {
            if let Some(earlier) = first.insert(&vote.key, *place) {
                let why = format!("{} voted twice on {approval}", vote.key);
                found.report(None, vec![earlier, *place], why);
            }
        }
        let decided: Vec<usize> =
            votes.iter().filter(|(_, vote)| vote.outcome.is_some()).map(|it| it.0).collect();
        if decided.len() > 1 {
            let why = format!("{} votes decided {approval}", decided.len());
            found.report(None, decided, why);
        }
        let approving: Vec<usize> =
            votes.iter().filter(|(_, vote)| vote.approves).map(|it| it.0).collect();
        let quorum = votes.iter().map(|(_, vote)| vote.quorum as usize).max().unwrap_or(0);
        if approving.len() > quorum {
            let why = format!("{} approvals of {approval}, {quorum} are enough", approving.len());
            found.report(None, approving, why);
        }
    }
}
