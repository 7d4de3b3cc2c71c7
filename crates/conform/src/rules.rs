//! Which rule of a case speaks about an item.
//!
//! A rule takes the first item that its pick fits, the n-th, or each. It counts the items itself: an item that arrives
//! twice counts twice, since a repeated call is what most rules are about.

use crate::case::{Answer, Pick, Rule};
use crate::log::{Entry, Log, fits};

#[derive(Debug)]
pub(crate) struct Rules {
    rules: Vec<(Rule, usize)>,
}

impl Rules {
    pub(crate) fn new(rules: &[Rule]) -> Rules {
        Rules { rules: rules.iter().map(|rule| (rule.clone(), 0)).collect() }
    }

    /// The answer that a rule has for this item. The first rule that speaks about it counts.
    pub(crate) fn answer(&mut self, entry: &Entry, log: &Log) -> Option<Answer> {
        let mut found = None;
        for (rule, seen) in &mut self.rules {
            if !is_in_force(rule, log) || !fits(&rule.on, entry) {
                continue;
            }
            *seen += 1;
            let speaks = match (rule.on.every, rule.on.nth, rule.on.from) {
                (_, Some(nth), _) => *seen == nth,
                (_, None, Some(from)) => *seen >= from,
                (true, None, None) => true,
                (false, None, None) => *seen == 1,
            };
            if speaks && found.is_none() {
                found = Some(rule.answer.clone());
            }
        }
        found
    }
}

fn is_in_force(rule: &Rule, log: &Log) -> bool {
    let is_seen = |pick: &Pick| !log.all(pick).is_empty();
    rule.after.as_ref().is_none_or(is_seen) && !rule.until.as_ref().is_some_and(is_seen)
}
