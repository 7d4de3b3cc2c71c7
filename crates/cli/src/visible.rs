//! Text of others on a terminal: what people decide about must be what they see.
//!
//! A terminal obeys control characters, and some letters are invisible or turn the order of the others. They are written as escapes
//! here, so that nothing moves the cursor, hides a word or shows another one. JSON is indented by its text and not by its values, so
//! that no number is rounded on the way to the reader.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use wire::names::is_deceptive;

/// Content up to this length is one line.
const LINE_CHARS_MAX: usize = 80;

/// The text with every such letter as an escape. Line breaks stay if `keeps_lines`.
fn escaped(text: &str, keeps_lines: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' if keeps_lines => shown.push('\n'),
            letter if is_deceptive(letter) => shown.extend(letter.escape_unicode()),
            letter => shown.push(letter),
        }
    }
    shown
}

/// A sentence of others, on one line.
pub(crate) fn sentence(text: &str) -> String {
    escaped(text, false)
}

/// What is to be approved, for people: a text as its lines, any other JSON indented.
pub(crate) fn content(canonical: &str) -> String {
    if let Ok(text) = serde_json::from_str::<String>(canonical) {
        return escaped(&text, true);
    }
    let text = if canonical.chars().count() > LINE_CHARS_MAX {
        indented(canonical)
    } else {
        canonical.to_owned()
    };
    escaped(&text, true)
}

/// The SHA-256 of the text, as 64 hexadecimal digits: what a decision about it quotes.
pub(crate) fn digest(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::with_capacity(64), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("a string takes everything");
        digits
    })
}

/// The same JSON text with line breaks between its members, which are no part of any value.
fn indented(json: &str) -> String {
    let (mut shown, mut depth, mut is_text, mut is_escaped) = (String::new(), 0, false, false);
    let mut letters = json.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_empty = matches!((letter, letters.peek()), ('{', Some('}')) | ('[', Some(']')));
        match letter {
            _ if is_text => {
                is_text = letter != '"' || is_escaped;
                is_escaped = letter == '\\' && !is_escaped;
                shown.push(letter);
            }
            '{' | '[' if is_empty => {
                shown.push(letter);
                shown.extend(letters.next());
            }
            '{' | '[' => {
                depth += 1;
                shown.push(letter);
                new_line(&mut shown, depth);
            }
            '}' | ']' => {
                depth -= 1;
                new_line(&mut shown, depth);
                shown.push(letter);
            }
            ',' => {
                shown.push(letter);
                new_line(&mut shown, depth);
            }
            ':' => shown.push_str(": "),
            letter => {
                is_text = letter == '"';
                shown.push(letter);
            }
        }
    }
    shown
}

fn new_line(shown: &mut String, depth: usize) {
    shown.push('\n');
    shown.extend(std::iter::repeat_n(' ', 2 * depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_moves_the_cursor_or_hides_a_word() {
        assert_eq!(sentence("pay\u{1b}[2K\n1"), r"pay\u{1b}[2K\u{a}1");
        assert_eq!(content(r#""two\nlines\u202e""#), "two\nlines\\u{202e}");
        assert_eq!(content("{\"a\":\"\u{202e}\"}"), r#"{"a":"\u{202e}"}"#);
        for letter in ['\u{61c}', '\u{ad}', '\u{3164}', '\u{2800}', '\u{34f}', '\u{e0100}'] {
            assert!(sentence(&letter.to_string()).starts_with(r"\u{"), "{letter:?}");
        }
        assert_eq!(sentence("Zoë zahlt 5 €, ✓"), "Zoë zahlt 5 €, ✓");
    }

    #[test]
    fn long_json_is_indented_without_changing_a_value() {
        let items = "1234567890123456789012345678901234567890";
        let json = format!(r#"{{"a":[{items},[],{{}}],"b":"x, {{\"y\": 1}}","c":1.50}}"#);
        let expected = format!(
            "{{\n  \"a\": [\n    {items},\n    [],\n    {{}}\n  ],\n  \"b\": \"x, {{\\\"y\\\": 1}}\",\n  \"c\": 1.50\n}}"
        );
        assert_eq!(content(&json), expected);
    }

    #[test]
    fn the_digest_is_that_of_the_text() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest(""), empty);
    }
}
