//! Answers have a limit in bytes: what a tool says is read by a model, whose context is small and dear.
//!
//! An answer within the limit keeps its bytes. Of a larger one, small members stay whole, long texts and lists lose their
//! ends, and the member `cut` says where and how much.

use serde_json::{Map, Value};

/// Some eight thousand tokens: several screens, and a small part of the context of any model.
pub(super) const ANSWER_BYTES_MAX: usize = 32 * 1024;
/// Room for `cut`.
const NOTES_BYTES: usize = 4 * 1024;
/// More places than this are cut without being named.
const NOTES_MAX: usize = 12;
const PATH_CHARS_MAX: usize = 120;
/// The least that a value gets: a number, or the beginning of a word.
const SHARE_MIN: usize = 32;
/// Marks the end of a text that was cut.
const ELLIPSIS: &str = "…";

/// Members that say where the next page begins. After a page that was cut they would skip what is missing.
const CONTINUATIONS: [&str; 3] = ["nextCursor", "nextAfter", "cursor"];

/// The answer, cut if it is too large.
pub(super) fn bounded(answer: String) -> String {
    if answer.len() <= ANSWER_BYTES_MAX {
        return answer;
    }
    let value: Value = serde_json::from_str(&answer).expect("answers are JSON");
    let mut cutter = Cutter::default();
    let mut cut = cutter.shrink(value, ANSWER_BYTES_MAX - NOTES_BYTES, "");
    if let Value::Object(members) = &mut cut {
        cutter.annotate(members);
    }
    cut.to_string()
}

#[derive(Default)]
struct Cutter {
    notes: Vec<String>,
    is_page_cut: bool,
}

impl Cutter {
    fn shrink(&mut self, value: Value, budget: usize, path: &str) -> Value {
        if size(&value) <= budget {
            return value;
        }
        match value {
            Value::String(text) => self.text(text, budget, path),
            Value::Array(items) => self.items(items, budget, path),
            Value::Object(members) => self.members(members, budget, path),
            small => small,
        }
    }

    fn text(&mut self, text: String, budget: usize, path: &str) -> Value {
        let (mut used, mut end) = (2 + ELLIPSIS.len(), 0);
        for (place, letter) in text.char_indices() {
            used += size(&Value::from(letter.to_string())) - 2;
            if used > budget {
                break;
            }
            end = place + letter.len_utf8();
        }
        self.note(path, format!("the first {end} of {} bytes of text", text.len()));
        Value::from(format!("{}{ELLIPSIS}", &text[..end]))
    }

    /// Whole items from the beginning; of a list whose first item is too large, a part of that one.
    fn items(&mut self, items: Vec<Value>, budget: usize, path: &str) -> Value {
        let total = items.len();
        let mut left = budget.saturating_sub(2);
        let mut kept = Vec::new();
        for item in items {
            let bytes = size(&item) + 1;
            if bytes <= left {
                left -= bytes;
                kept.push(item);
                continue;
            }
            if kept.is_empty() && left > SHARE_MIN {
                kept.push(self.shrink(item, left, &format!("{path}/0")));
            }
            break;
        }
        if kept.len() < total {
            self.is_page_cut |= path.matches('/').count() == 1;
            self.note(path, format!("the first {} of {total} items", kept.len()));
        }
        Value::Array(kept)
    }

    /// Every member gets the same share; what small ones do not need goes to the larger ones.
    fn members(&mut self, members: Map<String, Value>, budget: usize, path: &str) -> Value {
        let total = members.len();
        let mut left = budget.saturating_sub(2);
        let mut waiting = Vec::new();
        for (name, value) in members {
            let bytes = size(&Value::from(name.as_str())) + 2;
            if left < bytes + SHARE_MIN {
                break;
            }
            left -= bytes + SHARE_MIN;
            waiting.push((size(&value), name, value));
        }
        if waiting.len() < total {
            self.note(path, format!("{} of {total} members", waiting.len()));
        }
        left += waiting.len() * SHARE_MIN;
        waiting.sort_by_key(|(bytes, ..)| *bytes);
        let mut kept = Map::new();
        let mut others = waiting.len();
        for (bytes, name, value) in waiting {
            let share = left / others;
            let value = self.shrink(value, share, &format!("{path}/{name}"));
            left -= bytes.min(share);
            others -= 1;
            kept.insert(name, value);
        }
        Value::Object(kept)
    }

    fn note(&mut self, path: &str, what: String) {
        let path: String = path.chars().take(PATH_CHARS_MAX).collect();
        self.notes.push(format!("{path}: {what}"));
    }

    fn annotate(self, members: &mut Map<String, Value>) {
        let Cutter { mut notes, is_page_cut } = self;
        let further = notes.len().saturating_sub(NOTES_MAX);
        notes.truncate(NOTES_MAX);
        if further > 0 {
            notes.push(format!("and {further} more places"));
        }
        if is_page_cut {
            for name in CONTINUATIONS {
                members.remove(name);
            }
            notes.push("call again with a smaller limit to see the rest of this page".to_owned());
        }
        members.insert("cut".to_owned(), notes.into());
    }
}

fn size(value: &Value) -> usize {
    value.to_string().len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cut(value: &Value) -> Value {
        let text = bounded(value.to_string());
        assert!(text.len() <= ANSWER_BYTES_MAX, "{} bytes", text.len());
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn an_answer_within_the_limit_keeps_its_bytes() {
        let text = r#"{"output":12345678901234567890123,  "b":1.0}"#.to_owned();
        assert_eq!(bounded(text.clone()), text);
    }

    #[test]
    fn a_large_member_is_cut_and_small_ones_stay() {
        let long = "é\u{1}".repeat(100_000);
        let answer = cut(&json!({"runId": "run_1", "state": "succeeded", "output": long}));
        assert_eq!((&answer["runId"], &answer["state"]), (&json!("run_1"), &json!("succeeded")));
        assert!(answer["output"].as_str().unwrap().ends_with(ELLIPSIS));
        let note = answer["cut"][0].as_str().unwrap();
        assert!(note.starts_with("/output: the first ") && note.contains("of 300000 bytes"));
        // More than half of the limit is used: little is lost beside what must be.
        assert!(answer.to_string().len() > ANSWER_BYTES_MAX / 2);
    }

    #[test]
    fn a_page_that_was_cut_does_not_say_where_the_next_one_begins() {
        let runs: Vec<Value> =
            (0..100).map(|n| json!({"runId": n, "goal": "x".repeat(1_000)})).collect();
        let answer = cut(&json!({"runs": runs, "nextCursor": "c"}));
        let kept = answer["runs"].as_array().unwrap();
        assert!(
            (10..100).contains(&kept.len())
                && kept.iter().all(|run| run["goal"] == runs[0]["goal"])
        );
        assert!(answer.get("nextCursor").is_none());
        assert!(answer["cut"].to_string().contains("a smaller limit"), "{}", answer["cut"]);
        // A list inside a payload is no page.
        let inner = cut(&json!({"output": {"list": runs}, "cursor": "c"}));
        assert_eq!(inner["cursor"], "c");
    }

    #[test]
    fn nothing_grows_beyond_the_limit() {
        let many: Map<String, Value> =
            (0..50_000).map(|n| (format!("member {n}"), json!("x"))).collect();
        assert!(cut(&json!({"output": many}))["cut"].to_string().contains("of 50000 members"));
        let mut deep = json!("x".repeat(40_000));
        for _ in 0..30 {
            deep = json!({"a": deep, "b": ["y".repeat(10_000)]});
        }
        cut(&json!({"output": deep}));
        let name = "n".repeat(60_000);
        cut(&json!({"output": {name: 1}}));
        cut(&json!({"output": vec![vec!["z".repeat(3_000); 20]; 20]}));
    }
}
