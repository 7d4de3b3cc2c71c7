//! A run's attempts over time, one line each: number, owner, outcome, a bar, the reason.
//!
//! Built from the history, which contains open and closed attempts, and from the refused calls.

use wire::Time;
use wire::answers::{HistoryEntry, RefusedCall};

use super::entry::member;
use crate::duration;
use crate::output::{BAD, BUSY, FAINT, GOOD, WARN};

/// Width of the bar: fits beside the other columns on a narrow terminal.
const BAR: i64 = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttemptInterval {
    pub(crate) attempt: u32,
    pub(crate) owner: String,
    pub(crate) from: Time,
    /// Absent while the attempt is open.
    pub(crate) to: Option<Time>,
    pub(crate) outcome: String,
    pub(crate) reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timeline {
    pub(crate) intervals: Vec<AttemptInterval>,
    pub(crate) refused: Vec<RefusedCall>,
}

impl Timeline {
    pub(crate) fn of(entries: &[HistoryEntry], refused: &[RefusedCall]) -> Timeline {
        let mut timeline = Timeline { intervals: Vec::new(), refused: refused.to_vec() };
        for entry in entries {
            timeline.take(entry);
        }
        timeline
    }

    fn take(&mut self, entry: &HistoryEntry) {
        match entry.kind.as_str() {
            "granted" => {
                // The commit that grants the next stage may be the one that ended the stage before.
                if member(entry, "outcome").is_some() {
                    self.close(entry);
                }
                self.intervals.push(AttemptInterval {
                    attempt: entry.attempt.unwrap_or_default(),
                    owner: member(entry, "owner").unwrap_or_default(),
                    from: entry.at,
                    to: None,
                    outcome: String::new(),
                    reason: String::new(),
                });
            }
            "attempt_closed" => self.close(entry),
            // The stage that an attempt ended may lead to one that asks people.
            "approval_opened" if member(entry, "owner").is_some() => self.close(entry),
            _ => {}
        }
    }

    fn close(&mut self, entry: &HistoryEntry) {
        let open = self.intervals.iter_mut().rev().find(|interval| interval.to.is_none());
        let Some(interval) = open else { return };
        interval.to = Some(entry.at);
        interval.outcome = member(entry, "outcome").unwrap_or_default();
        interval.reason =
            [member(entry, "category"), member(entry, "reason"), member(entry, "message")]
                .into_iter()
                .flatten()
                .fold(Vec::new(), |mut words: Vec<String>, word| {
                    if !words.contains(&word) && word != interval.outcome {
                        words.push(word);
                    }
                    words
                })
                .join(", ");
    }

    /// The lines for a run that began at `from`, drawn up to `to`: its end, or now.
    pub(crate) fn lines(&self, from: Time, to: Time) -> Vec<String> {
        let owner = self.intervals.iter().map(|s| s.owner.len()).max().unwrap_or(0).max(6);
        let scale =
            format!("|{:-^1$}|", format!(" {} ", duration::between(from, to)), BAR as usize - 2);
        let head = format!("{FAINT}  #  {:<owner$}  {:<11}  {scale}{FAINT:#}", "worker", "outcome");
        let mut lines = vec![head];
        lines.extend(self.intervals.iter().map(|interval| interval.line(owner, from, to)));
        lines.extend(self.refused.iter().map(refusal));
        lines
    }
}

impl AttemptInterval {
    fn line(&self, owner: usize, from: Time, to: Time) -> String {
        let (style, outcome) = match self.outcome.as_str() {
            "" => (BUSY, "running"),
            "SUCCEEDED" => (GOOD, "SUCCEEDED"),
            "FAILED" => (BAD, "FAILED"),
            other => (WARN, other),
        };
        let bar = bar(self.from, self.to.unwrap_or(to), from, to);
        let took = duration::between(self.from, self.to.unwrap_or(to));
        format!(
            "{:>3}  {:<owner$}  {style}{outcome:<11}{style:#}  {style}{bar}{style:#}  {took:>7}  {}",
            self.attempt, self.owner, self.reason
        )
        .trim_end()
        .to_owned()
    }
}

fn refusal(call: &RefusedCall) -> String {
    let RefusedCall { attempt, worker_id, call, error, verdict, at } = call;
    let at = duration::clock_time(*at);
    format!(
        "{attempt:>3}  {worker_id}  {BAD}{verdict}{BAD:#}  its {call} at {at} was refused: {error}"
    )
}

/// At least one character, however short the attempt.
pub(crate) fn bar(start: Time, end: Time, from: Time, to: Time) -> String {
    let whole = (to.as_ms() - from.as_ms()).max(1);
    let column = |at: Time| ((at.as_ms() - from.as_ms()) * BAR / whole).clamp(0, BAR);
    let left = column(start).min(BAR - 1);
    let right = column(end).max(left + 1);
    let blank = |n: i64| " ".repeat(usize::try_from(n).unwrap_or(0));
    let marks = "━".repeat(usize::try_from(right - left).unwrap_or(1));
    format!("{}{marks}{}", blank(left), blank(BAR - right))
}

#[cfg(test)]
mod tests {
    use wire::Json;

    use super::*;

    fn entry(n: u64, at: i64, kind: &str, attempt: u32, detail: &str) -> HistoryEntry {
        HistoryEntry {
            n,
            at: Time::from_ms(at),
            kind: kind.to_owned(),
            attempt: Some(attempt),
            detail: Json::from_text(detail.to_owned()).unwrap(),
        }
    }

    #[test]
    fn an_attempt_that_led_to_a_question_has_ended() {
        let asked = r#"{"approval":1,"outcome":"SUCCEEDED","owner":"alice"}"#;
        let entries = [
            entry(2, 0, "granted", 1, r#"{"owner":"alice"}"#),
            entry(3, 1000, "approval_opened", 1, asked),
        ];
        let timeline = Timeline::of(&entries, &[]);
        let lines = timeline.lines(Time::from_ms(0), Time::from_ms(9000));
        assert!(lines[1].contains("SUCCEEDED") && lines[1].contains("1.0 s"), "{lines:?}");
    }

    #[test]
    fn an_attempt_that_led_to_the_next_stage_has_ended() {
        let next = r#"{"outcome":"SUCCEEDED","owner":"alice","stage":1,"step":"a"}"#;
        let entries =
            [entry(2, 0, "granted", 1, r#"{"owner":"alice"}"#), entry(3, 1000, "granted", 2, next)];
        let timeline = Timeline::of(&entries, &[]);
        let lines = timeline.lines(Time::from_ms(0), Time::from_ms(9000));
        assert!(lines[1].contains("SUCCEEDED") && lines[1].contains("1.0 s"), "{lines:?}");
        assert!(lines[2].contains("running"), "{lines:?}");
    }

    #[test]
    fn a_takeover_reads_from_left_to_right() {
        let entries = [
            entry(2, 0, "granted", 1, r#"{"owner":"alice"}"#),
            entry(
                3,
                2000,
                "attempt_closed",
                1,
                r#"{"outcome":"LOST","reason":"HEARTBEAT_TIMEOUT"}"#,
            ),
            entry(4, 2000, "granted", 2, r#"{"owner":"bob"}"#),
            entry(5, 4000, "attempt_closed", 2, r#"{"outcome":"SUCCEEDED"}"#),
        ];
        let late = RefusedCall {
            attempt: 1,
            worker_id: "alice".to_owned(),
            call: "report".to_owned(),
            error: "task_expired".to_owned(),
            verdict: wire::Verdict::Cancelled,
            at: Time::from_ms(4000),
        };
        let timeline = Timeline::of(&entries, &[late]);
        let lines = timeline.lines(Time::from_ms(0), Time::from_ms(4000));
        let plain: Vec<String> =
            lines.iter().map(|l| anstream::adapter::strip_str(l).to_string()).collect();
        assert_eq!(
            plain[1],
            format!(
                "  1  alice   LOST         {}{}    2.0 s  HEARTBEAT_TIMEOUT",
                "━".repeat(16),
                " ".repeat(16)
            )
        );
        assert_eq!(
            plain[2],
            format!("  2  bob     SUCCEEDED    {}{}    2.0 s", " ".repeat(16), "━".repeat(16))
        );
        assert!(
            plain[3].starts_with("  1  alice  CANCELLED  its report at")
                && plain[3].ends_with("was refused: task_expired"),
            "{}",
            plain[3]
        );
    }

    #[test]
    fn a_bar_never_vanishes_and_never_leaves_its_columns() {
        let at = Time::from_ms;
        for (start, end) in [(0, 0), (1000, 1000), (-50, 2000), (500, 499)] {
            let bar = bar(at(start.max(0)), at(end), at(0), at(1000));
            assert_eq!(bar.chars().count(), BAR as usize, "{start}..{end}");
            assert!(bar.contains('━'));
        }
    }
}
