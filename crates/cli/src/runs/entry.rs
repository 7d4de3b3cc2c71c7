//! One decision of a run's history, on one line.

use serde_json::Value;
use wire::answers::HistoryEntry;

use crate::duration;
use crate::output::{BUSY, FAINT, GOOD, WARN};

/// Wide enough for the longest kind of entry.
const KIND_WIDTH: usize = 16;

pub(crate) fn line(entry: &HistoryEntry) -> String {
    let style = match entry.kind.as_str() {
        "granted" | "started" => BUSY,
        "ended" => GOOD,
        "cancel_requested" | "cancel_signalled" | "extended" => WARN,
        _ => anstyle::Style::new(),
    };
    let attempt = entry.attempt.map(|n| format!("attempt {n}")).unwrap_or_default();
    let kind = entry.kind.replace('_', " ");
    format!(
        "{FAINT}{:>4}  {}{FAINT:#}  {style}{kind:<KIND_WIDTH$}{style:#} {attempt:<10} {}",
        entry.n,
        duration::clock_time(entry.at),
        details(entry),
    )
    .trim_end()
    .to_owned()
}

/// The details that matter to a reader; `--json` has all of them. Unknown kinds are printed in
/// full.
fn details(entry: &HistoryEntry) -> String {
    let of = |name: &str| member(entry, name);
    let parts = match entry.kind.as_str() {
        "submitted" => [of("kind"), of("queue").map(|queue| format!("on {queue}")), None, None],
        "granted" => [
            of("owner").map(|owner| format!("to {owner}")),
            of("fence").map(|fence| format!("fence {fence}")),
            None,
            None,
        ],
        "attempt_closed" => {
            let why =
                of("category").or(of("reason")).filter(|why| Some(why) != of("outcome").as_ref());
            [of("outcome"), why, of("message"), next(entry)]
        }
        "cancel_requested" => [of("cancelReason"), None, None, None],
        "ended" => [of("state"), of("reason"), of("cancelReason"), None],
        _ => [Some(everything(entry)), None, None, None],
    };
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn next(entry: &HistoryEntry) -> Option<String> {
    match pause_ms(entry) {
        Some(..=0) => Some("again at once".to_owned()),
        Some(pause) => Some(format!("again in {}", duration::format_ms(pause))),
        None => member(entry, "state").map(|state| format!("the run is {state}")),
    }
}

/// The members of a detail that fit on a line, as `name value`.
fn everything(entry: &HistoryEntry) -> String {
    let members: serde_json::Map<String, Value> = entry.detail.read().unwrap_or_default();
    let spelled: Vec<String> = members
        .iter()
        .filter_map(|(name, value)| Some(format!("{name} {}", scalar(value)?)))
        .collect();
    spelled.join(", ")
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.lines().next().unwrap_or_default().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A member of an entry's detail, as text.
pub(crate) fn member(entry: &HistoryEntry, name: &str) -> Option<String> {
    let members: serde_json::Map<String, Value> = entry.detail.read().ok()?;
    members.get(name).and_then(scalar)
}

/// How long the next attempt has to wait, if the entry decided that.
pub(crate) fn pause_ms(entry: &HistoryEntry) -> Option<i64> {
    let due: wire::Time = member(entry, "nextAttemptAt")?.parse().ok()?;
    Some(due.as_ms() - entry.at.as_ms())
}
