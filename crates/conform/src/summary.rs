//! What came of a run of the kit: a table by group, findings, JSON lines, JUnit.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::known_failing::KnownFailing;
use crate::performance::Outcome;

/// How an outcome counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Passed,
    Failed,
    /// It failed, as it is known to.
    KnownFailing,
    /// It passed, although it is said to fail.
    Mended,
}

impl Standing {
    #[must_use]
    pub(crate) fn of(outcome: &Outcome, known: &KnownFailing) -> Standing {
        match (outcome.passed(), known.has(&outcome.case)) {
            (true, false) => Standing::Passed,
            (false, false) => Standing::Failed,
            (false, true) => Standing::KnownFailing,
            (true, true) => Standing::Mended,
        }
    }

    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Standing::Passed => "passed",
            Standing::Failed => "failed",
            Standing::KnownFailing => "known-failing",
            Standing::Mended => "passes, but is on the list",
        }
    }

    #[must_use]
    pub(crate) fn is_good(self) -> bool {
        matches!(self, Standing::Passed | Standing::KnownFailing)
    }
}

#[must_use]
pub(crate) fn group_of(case: &str) -> &str {
    case.split('/').next().unwrap_or(case)
}

/// One row for each group, and the sum.
#[must_use]
pub(crate) fn table(outcomes: &[Outcome], known: &KnownFailing) -> String {
    let mut rows: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for outcome in outcomes {
        let place = match Standing::of(outcome, known) {
            Standing::Passed => 0,
            Standing::Failed => 1,
            Standing::KnownFailing => 2,
            Standing::Mended => 3,
        };
        rows.entry(group_of(&outcome.case)).or_default()[place] += 1;
    }
    let sum = rows.values().fold([0; 4], |sum, row| std::array::from_fn(|n| sum[n] + row[n]));
    let mut text = format!(
        "{:<10} {:>7} {:>7} {:>14} {:>7}\n",
        "group", "passed", "failed", "known-failing", "mended"
    );
    for (group, row) in rows.into_iter().chain([("sum", sum)]) {
        let [passed, failed, known, mended] = row;
        writeln!(text, "{group:<10} {passed:>7} {failed:>7} {known:>14} {mended:>7}")
            .expect("a text can be written to");
    }
    text
}

#[must_use]
pub(crate) fn line(outcome: &Outcome, known: &KnownFailing) -> Value {
    json!({
        "case": outcome.case,
        "standing": Standing::of(outcome, known).word(),
        "tookMs": outcome.took.as_millis() as u64,
        "findings": outcome.findings,
        "log": outcome.log,
    })
}

/// The report that continuous integration reads.
#[must_use]
pub(crate) fn junit(outcomes: &[Outcome], known: &KnownFailing) -> String {
    let failed = outcomes.iter().filter(|it| !Standing::of(it, known).is_good()).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"tenure conform\" tests=\"{}\" failures=\"{failed}\">\n",
        outcomes.len()
    );
    for outcome in outcomes {
        let (name, seconds) = (escaped(&outcome.case), outcome.took.as_secs_f64());
        let group = escaped(group_of(&outcome.case));
        write!(text, "  <testcase classname=\"{group}\" name=\"{name}\" time=\"{seconds:.3}\"")
            .expect("a text can be written to");
        text.push_str(&match Standing::of(outcome, known) {
            Standing::Passed => "/>\n".to_owned(),
            Standing::KnownFailing => "><skipped message=\"known-failing\"/></testcase>\n".to_owned(),
            Standing::Mended => {
                "><failure message=\"it passes: take it off the list of known failures\"/></testcase>\n".to_owned()
            }
            Standing::Failed => {
                let why = escaped(&outcome.findings.join("; "));
                let log = escaped(&outcome.log.join("\n"));
                format!("><failure message=\"{why}\">{log}</failure></testcase>\n")
            }
        });
    }
    text.push_str("</testsuite>\n");
    text
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(character),
            // XML has no way to write the other control characters.
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn outcome(case: &str, findings: &[&str]) -> Outcome {
        Outcome {
            case: case.to_owned(),
            findings: findings.iter().map(|it| (*it).to_owned()).collect(),
            took: Duration::from_millis(5),
            log: vec!["<poll>\u{1b}".to_owned()],
        }
    }

    #[test]
    fn a_report_is_xml_whatever_the_subject_wrote() {
        let told = junit(&[outcome("worker/echo", &["a \"b\" & <c>"])], &KnownFailing::default());
        assert!(told.contains("failures=\"1\""));
        assert!(told.contains("message=\"a &quot;b&quot; &amp; &lt;c&gt;\""), "{told}");
        assert!(told.contains("&lt;poll&gt;\u{fffd}"), "{told}");
    }

    #[test]
    fn the_table_counts_by_group() {
        let outcomes = [outcome("worker/echo", &[]), outcome("client/many", &["no"])];
        let told = table(&outcomes, &KnownFailing::default());
        let rows: Vec<Vec<&str>> = told.lines().map(|it| it.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["client", "0", "1", "0", "0"]);
        assert_eq!(rows[3], ["sum", "1", "1", "0", "0"]);
    }
}
