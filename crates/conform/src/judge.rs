//! Judges the log of a case: each judgement holds, is still open, or is broken.
//!
//! A judgement that waits for something to happen is open until it did. One that forbids something holds until it is
//! broken, so a case is watched for a while after everything it waits for has happened.

use serde_json::Value;

use crate::case::Expect;
use crate::log::{Entry, Log, Sort, describe};
use crate::value::{self, at, difference};

/// What a judgement says about the log so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    Holds,
    /// What it waits for has not happened yet.
    Open(String),
    /// Nothing that follows can mend it.
    Broken(String),
}

/// Judges one expectation. `variable` knows the ids that the model made.
pub(crate) fn judge(
    expect: &Expect,
    log: &Log,
    variable: &dyn Fn(&str) -> Option<Value>,
) -> Judged {
    if let Some(pick) = &expect.count {
        return count(expect, log.all(pick).len(), &describe(pick));
    }
    if let Some(pick) = &expect.with {
        let expected = value::filled(expect.members.as_ref().unwrap_or(&Value::Null), variable);
        return with(&expected, &log.all(pick), &describe(pick));
    }
    if let Some(pick) = &expect.never {
        return never(expect, log, &log.all(pick), &describe(pick));
    }
    if let Some(picks) = &expect.order {
        let firsts =
            picks.iter().map(|pick| (describe(pick), log.all(pick).first().map(|it| it.at_ms)));
        return order(&firsts.collect::<Vec<_>>());
    }
    if let Some([first, second]) = &expect.before {
        return before((&log.all(first), &describe(first)), (&log.all(second), &describe(second)));
    }
    if let Some(pick) = &expect.gap {
        return gap(expect, &log.all(pick), &describe(pick));
    }
    if let Some([first, second]) = &expect.within {
        return within(
            expect,
            (&log.all(first), &describe(first)),
            (&log.all(second), &describe(second)),
        );
    }
    for (pick, relation) in [
        (&expect.same, Relation::Same),
        (&expect.differ, Relation::Differ),
        (&expect.rising, Relation::Rising),
    ] {
        if let Some(pick) = pick {
            return related(expect, &log.all(pick), &describe(pick), relation);
        }
    }
    if let Some(said) = &expect.says {
        return says(&value::filled(said, variable), log);
    }
    if let Some(code) = &expect.exit {
        return exit(code, log);
    }
    if let Some(task) = &expect.gone {
        return gone(task, log);
    }
    if let Some(ways) = &expect.any {
        return any(ways.iter().map(|way| judge(way, log, variable)).collect());
    }
    Judged::Broken("the case has a judgement that judges nothing".to_owned())
}

/// One way is enough. All that was wrong is told if none holds.
fn any(ways: Vec<Judged>) -> Judged {
    if ways.contains(&Judged::Holds) {
        return Judged::Holds;
    }
    let is_open = ways.iter().any(|way| matches!(way, Judged::Open(_)));
    let told = ways.into_iter().filter_map(|way| match way {
        Judged::Holds => None,
        Judged::Open(why) | Judged::Broken(why) => Some(why),
    });
    let told = told.collect::<Vec<_>>().join("; nor: ");
    if is_open { Judged::Open(told) } else { Judged::Broken(told) }
}

fn count(expect: &Expect, seen: usize, what: &str) -> Judged {
    let least = expect.is.or(expect.at_least).unwrap_or(0);
    let most = expect.is.or(expect.at_most).unwrap_or(usize::MAX);
    if seen > most {
        return Judged::Broken(format!("{seen} × {what}, expected at most {most}"));
    }
    if seen < least {
        return Judged::Open(format!("{seen} × {what}, expected {least}"));
    }
    Judged::Holds
}

fn with(expected: &Value, found: &[&Entry], what: &str) -> Judged {
    if found.is_empty() {
        return Judged::Open(format!("there was no {what}"));
    }
    let wrong = found.iter().find_map(|entry| {
        difference(expected, &entry.members)
            .map(|why| format!("{what} at {:.0} ms: {why}", entry.at_ms))
    });
    wrong.map_or(Judged::Holds, Judged::Broken)
}

fn never(expect: &Expect, log: &Log, found: &[&Entry], what: &str) -> Judged {
    let Some(after) = &expect.after else {
        return match found.first() {
            None => Judged::Holds,
            Some(entry) => {
                Judged::Broken(format!("{what} at {:.0} ms, expected none", entry.at_ms))
            }
        };
    };
    let Some(start) = log.all(after).first().map(|entry| entry.at_ms) else {
        return Judged::Open(format!("there was no {}", describe(after)));
    };
    match found.iter().find(|entry| entry.at_ms > start) {
        None => Judged::Holds,
        Some(entry) => {
            let late = entry.at_ms - start;
            Judged::Broken(format!("{what} came {late:.0} ms after {}", describe(after)))
        }
    }
}

fn order(firsts: &[(String, Option<f64>)]) -> Judged {
    for pair in firsts.windows(2) {
        match (pair[0].1, pair[1].1) {
            (Some(first), Some(second)) if first > second => {
                return Judged::Broken(format!("{} came before {}", pair[1].0, pair[0].0));
            }
            (None, Some(_)) => {
                return Judged::Broken(format!("{} came without {}", pair[1].0, pair[0].0));
            }
            _ => {}
        }
    }
    match firsts.iter().find(|first| first.1.is_none()) {
        Some((what, _)) => Judged::Open(format!("there was no {what}")),
        None => Judged::Holds,
    }
}

fn before(first: (&[&Entry], &str), second: (&[&Entry], &str)) -> Judged {
    let (Some(last), Some(then)) = (first.0.last(), second.0.first()) else {
        let missing = if first.0.is_empty() { first.1 } else { second.1 };
        return Judged::Open(format!("there was no {missing}"));
    };
    if last.at_ms <= then.at_ms {
        return Judged::Holds;
    }
    let late = last.at_ms - then.at_ms;
    Judged::Broken(format!("{} came {late:.0} ms after {}", first.1, second.1))
}

fn gap(expect: &Expect, found: &[&Entry], what: &str) -> Judged {
    if found.len() < 2 {
        return Judged::Open(format!("{} × {what}, expected at least 2", found.len()));
    }
    let gaps = found.windows(2).map(|pair| pair[1].at_ms - pair[0].at_ms);
    gaps.map(|gap| span(expect, gap, what)).find(|it| *it != Judged::Holds).unwrap_or(Judged::Holds)
}

fn within(expect: &Expect, first: (&[&Entry], &str), second: (&[&Entry], &str)) -> Judged {
    let (Some(start), Some(end)) = (first.0.first(), second.0.first()) else {
        let missing = if first.0.is_empty() { first.1 } else { second.1 };
        return Judged::Open(format!("there was no {missing}"));
    };
    span(expect, end.at_ms - start.at_ms, &format!("{} after {}", second.1, first.1))
}

fn span(expect: &Expect, ms: f64, what: &str) -> Judged {
    if expect.max_ms.is_some_and(|max| ms > max as f64) {
        let max = expect.max_ms.unwrap_or_default();
        return Judged::Broken(format!("{what}: {ms:.0} ms, expected at most {max}"));
    }
    if expect.min_ms.is_some_and(|min| ms < min as f64) {
        let min = expect.min_ms.unwrap_or_default();
        return Judged::Broken(format!("{what}: {ms:.0} ms, expected at least {min}"));
    }
    Judged::Holds
}

#[derive(Clone, Copy)]
enum Relation {
    Same,
    Differ,
    Rising,
}

fn related(expect: &Expect, found: &[&Entry], what: &str, relation: Relation) -> Judged {
    if found.len() < 2 {
        return Judged::Open(format!("{} × {what}, expected at least 2", found.len()));
    }
    let names = expect.members.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
    for name in names.iter().filter_map(Value::as_str) {
        let values: Vec<&Value> = found.iter().map(|entry| at(&entry.members, name)).collect();
        let wrong = match relation {
            Relation::Same => values.windows(2).any(|pair| pair[0] != pair[1]).then_some("differs"),
            Relation::Differ => {
                let is_twice = |(n, value): (usize, &&Value)| values[..n].contains(value);
                values.iter().enumerate().any(is_twice).then_some("is the same twice")
            }
            Relation::Rising => {
                let numbers: Vec<f64> = values.iter().filter_map(|it| it.as_f64()).collect();
                numbers.windows(2).any(|pair| pair[1] < pair[0]).then_some("shrinks")
            }
        };
        if let Some(wrong) = wrong {
            let all: Vec<String> = values.iter().take(4).map(|it| short(it)).collect();
            return Judged::Broken(format!("`{name}` of {what} {wrong}: {}", all.join(", ")));
        }
    }
    Judged::Holds
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.len() > 120 { format!("{} bytes", text.len()) } else { text }
}

fn says(expected: &Value, log: &Log) -> Judged {
    let is_it = |entry: &&Entry| {
        entry.sort == Sort::Event && entry.name == "said" && entry.members["id"] == expected["id"]
    };
    match log.entries.iter().find(is_it) {
        None => Judged::Open(format!("the client has not answered call {}", expected["id"])),
        Some(entry) => match difference(expected, &entry.members) {
            None => Judged::Holds,
            Some(why) => Judged::Broken(format!("the answer to call {}: {why}", expected["id"])),
        },
    }
}

fn exit(code: &Value, log: &Log) -> Judged {
    let exits: Vec<&Entry> = log
        .entries
        .iter()
        .filter(|entry| entry.sort == Sort::Event && entry.name == "exit")
        .collect();
    if exits.is_empty() {
        return Judged::Open("the subject has not ended".to_owned());
    }
    let wrong = exits.iter().find_map(|entry| difference(code, &entry.members["code"]));
    wrong.map_or(Judged::Holds, |why| Judged::Broken(format!("the exit code: {why}")))
}

fn gone(task: &str, log: &Log) -> Judged {
    let is_end = |entry: &&Entry| entry.name == "leaseEnd" && entry.of.as_deref() == Some(task);
    let Some(end) = log.entries.iter().find(is_end) else {
        return Judged::Open(format!("the lease of {task} has not ended"));
    };
    let is_empty = |name: &str| end.members[name].as_array().is_none_or(Vec::is_empty);
    if is_empty("marked") {
        return Judged::Broken(format!("the code of {task} marked no pid"));
    }
    if is_empty("alive") {
        return Judged::Holds;
    }
    let alive = &end.members["alive"];
    Judged::Broken(format!("processes {alive} of {task} are alive after the end of its lease"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn log(entries: &[(f64, Sort, &str, Value)]) -> Log {
        let mut log = Log::new();
        for (at_ms, sort, name, members) in entries {
            let (sort, name, of) = (*sort, (*name).to_owned(), Some("t".to_owned()));
            let entry =
                Entry { at_ms: *at_ms, sort, name, of, attempt: Some(1), members: members.clone() };
            log.entries.push(entry);
        }
        log
    }

    fn judged(expect: Value, log: &Log) -> Judged {
        judge(&serde_json::from_value(expect).unwrap(), log, &|_| None)
    }

    fn is_broken(judged: &Judged) -> bool {
        matches!(judged, Judged::Broken(_))
    }

    #[test]
    fn a_count_is_open_below_and_broken_above() {
        let one = log(&[(1.0, Sort::Item, "report", json!({}))]);
        let expect = |n: usize| json!({"count": {"item": "report", "of": "t"}, "is": n});
        assert_eq!(judged(expect(1), &one), Judged::Holds);
        assert!(matches!(judged(expect(2), &one), Judged::Open(_)));
        assert!(is_broken(&judged(expect(0), &one)));
    }

    #[test]
    fn what_must_not_follow_is_judged_from_the_moment_that_it_speaks_of() {
        let late = log(&[
            (1.0, Sort::Mark, "began", json!({})),
            (5.0, Sort::Event, "leaseEnd", json!({})),
            (6.0, Sort::Mark, "done", json!({})),
        ]);
        let expect =
            |mark: &str| json!({"never": {"mark": mark, "of": "t"}, "after": {"leaseEnd": "t"}});
        assert_eq!(judged(expect("began"), &late), Judged::Holds);
        assert!(is_broken(&judged(expect("done"), &late)));
        assert!(matches!(judged(expect("done"), &log(&[])), Judged::Open(_)));
    }

    #[test]
    fn times_and_members_are_compared_between_neighbours() {
        let two = log(&[
            (100.0, Sort::Item, "submit", json!({"key": "a"})),
            (200.0, Sort::Item, "submit", json!({"key": "b"})),
        ]);
        let pick = json!({"item": "submit"});
        assert_eq!(judged(json!({"gap": pick, "minMs": 100, "maxMs": 100}), &two), Judged::Holds);
        assert!(is_broken(&judged(json!({"gap": pick, "maxMs": 99}), &two)));
        assert!(is_broken(&judged(json!({"same": pick, "members": ["key"]}), &two)));
        assert_eq!(judged(json!({"differ": pick, "members": ["key"]}), &two), Judged::Holds);
    }
}
