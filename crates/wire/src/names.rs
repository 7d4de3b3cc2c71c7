//! The text rules: what a name, a label value or a key may be, and how free text is repaired.
//!
//! Names that break the rule are refused. Free text of reports is repaired instead: a failure
//! report must not fail because of its content.

use std::borrow::Cow;

#[cfg(not(feature = "museum"))]
use crate::faultpoint;
use crate::limits::{IDEMPOTENCY_KEY_CHARS_MAX, LABEL_VALUE_CHARS_MAX, NAME_BYTES_MAX};

/// Kinds, queues, task keys, label names, worker ids: `[A-Za-z0-9._:/-]{1,128}`.
pub fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_name_byte)
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'/' | b'-')
}

/// Keys of steps, children and waits: names that may also contain `#`, which numbers the uses of one name.
pub fn is_step_key(text: &str) -> bool {
    let is_key_byte = |byte| is_name_byte(byte) || byte == b'#';
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_key_byte)
}

/// The label that links a retry to the run it repeats: its value is that run's id. So that lists find all retries of a
/// run, the link is a label and not a member of its own.
pub const RETRY_OF_LABEL: &str = "tenure.retry-of";

/// The label that links a fork to the run whose records it began with.
pub const FORK_OF_LABEL: &str = "tenure.fork-of";

/// The label of a run that continues another one, and of a child that starts again with it: its value is the id of the task with
/// which the line began.
pub const ORIGIN_LABEL: &str = "tenure.origin";

/// The label of a run that a schedule submitted: its value is the id of the schedule.
pub const SCHEDULE_LABEL: &str = "tenure.schedule";

/// What ids of schedules begin with, and their names do not.
pub const SCHEDULE_ID_PREFIX: &str = "sched_";

/// What the flow keys begin with that an operator's configuration gives to the runs of a queue or kind.
pub const OPERATOR_FLOW_PREFIXES: [&str; 2] = ["queue:", "kind:"];

/// Whether a flow key is one of those.
pub fn is_operator_flow(key: &str) -> bool {
    OPERATOR_FLOW_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// What the idempotency keys of scheduled runs begin with, and those of clients do not.
pub const FIRING_KEY_PREFIX: &str = "sched/";

/// What the idempotency keys of runs that recovery submits begin with, and those of clients do not.
pub const RECOVERY_KEY_PREFIX: &str = "recovery/";

/// What the queues and kinds of the server's own tasks begin with (evaluations, events, gates), and those of clients do not.
pub const RESERVED_NAME_PREFIX: &str = "tenure.";

/// What the types of the server's own events begin with: ends of runs and of child tasks, approvals, and what recovery did. No
/// worker sends an effect of such a type, because receivers take it for the server's word.
pub const OWN_EFFECT_TYPES: [&str; 5] =
    ["run.", "task.", "approval.", "recovery.", RESERVED_NAME_PREFIX];

/// What the idempotency keys of events and work orders begin with, and those of clients do not.
pub const TOPOLOGY_KEY_PREFIX: &str = "topology/";

/// The label of the events and work orders of a deployment: its value is the name of the deployment.
pub const DEPLOYMENT_LABEL: &str = "tenure.deployment";

/// The label of a run that recovery submitted: its value says how often that was done to its line.
pub const RECOVERED_LABEL: &str = "tenure.recovered";

/// Labels that begin with this are set by the server alone: what they say can be relied on.
pub const RESERVED_LABEL_PREFIX: &str = "tenure.";

/// Up to 256 characters, none of them a control character.
pub fn is_label_value(text: &str) -> bool {
    text.chars().count() <= LABEL_VALUE_CHARS_MAX && !text.chars().any(char::is_control)
}

/// 1 to 255 printable characters.
pub fn is_idempotency_key(text: &str) -> bool {
    let chars = text.chars().count();
    (1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&chars) && text.chars().all(is_printable)
}

/// Control characters and line and paragraph separators are invisible and cannot be sent in a
/// header.
fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Whether a letter moves the cursor of a terminal, hides letters or changes their order: in what people decide about, and in what
/// they are told of it, it is shown as an escape or not at all.
pub fn is_deceptive(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        // The Arabic letter mark turns the order; soft hyphens, joiners, fillers and blank patterns show nothing.
        || matches!(letter, '\u{61c}' | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
        || matches!(letter, '\u{180b}'..='\u{180f}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}')
        || matches!(letter, '\u{e0000}'..='\u{e0fff}')
}

/// Makes free text storable: NUL, which PostgreSQL cannot store, becomes U+FFFD, and text longer
/// than `bytes_max` is cut at a character boundary.
///
/// ```
/// assert_eq!(wire::names::repair_text("a\0b", 100), "a\u{fffd}b");
/// assert_eq!(wire::names::repair_text("né", 2), "n");
/// ```
pub fn repair_text(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.contains('\0') && !faultpoint::mutant(16) {
        // Cut first: the replacement is longer than NUL, and only the remaining text needs
        // replacing.
        let repaired = cut(text, bytes_max).replace('\0', "\u{fffd}");
        return Cow::Owned(cut(&repaired, bytes_max).to_owned());
    }
    Cow::Borrowed(cut(text, bytes_max))
}

fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_at_the_limit_and_not_beyond() {
        assert!(is_name(&"a".repeat(128)));
        assert!(!is_name(&"a".repeat(129)));
        assert!(!is_name(""));
        assert!(is_name("A-z0.9_x:y/z"));
        for odd in ["a b", "a\0", "é", "a\n", "a%2f", "a\\b", "a\u{202e}b"] {
            assert!(!is_name(odd), "{odd:?}");
        }
    }

    #[test]
    fn label_values_count_characters_not_bytes() {
        assert!(is_label_value(""));
        assert!(is_label_value(&"é".repeat(256)));
        assert!(!is_label_value(&"é".repeat(257)));
        assert!(!is_label_value("a\tb"));
        assert!(!is_label_value("a\u{85}b"));
    }

    #[test]
    fn idempotency_keys_are_one_to_255_printable_characters() {
        assert!(!is_idempotency_key(""));
        assert!(is_idempotency_key(&"k".repeat(255)));
        assert!(!is_idempotency_key(&"k".repeat(256)));
        assert!(is_idempotency_key("order 7 / ü"));
        assert!(!is_idempotency_key("a\u{2028}b"));
        assert!(!is_idempotency_key("a\0b"));
    }

    #[test]
    fn free_text_is_repaired_and_cut_between_characters() {
        assert!(matches!(repair_text("plain", 5), Cow::Borrowed("plain")));
        assert_eq!(repair_text("plain!", 5), "plain");
        assert_eq!(repair_text("\0\0", 6), "\u{fffd}\u{fffd}");
        assert_eq!(repair_text("\0\0", 5), "\u{fffd}");
        assert_eq!(repair_text("ééé", 5), "éé");
        assert_eq!(repair_text("é", 0), "");
    }
}
