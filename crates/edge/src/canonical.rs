//! Digests of JSON that do not depend on the order and spacing of its members: SHA-256 over the
//! canonical form of JSON (RFC 8785), with one addition.
//!
//! RFC 8785 knows numbers only as doubles, and would make integers equal that differ in their last digits. Here an
//! integer is written with all its digits, however many there are. For integers up to 2^53 that is the form of
//! RFC 8785. A number with a fraction or an exponent counts as the double that is nearest to it.
//!
//! Most programs write compact JSON with integers, and many sort its members. Such text is already
//! canonical and is only scanned; everything else is written again ([`rewriting`]).

mod rewriting;

use ring::digest::{SHA256, digest};
use serde::Serialize;
use serde_json::Value;
use verdict::Digest;

/// Room for the usual members of a request.
const USUAL_BYTES: usize = 256;

/// An object whose members are added in the order of their names.
pub struct Canonical {
    text: Vec<u8>,
}

impl Canonical {
    pub fn object() -> Self {
        let mut text = Vec::with_capacity(USUAL_BYTES);
        text.push(b'{');
        Self { text }
    }

    fn name(&mut self, name: &str) {
        if self.text.len() > 1 {
            self.text.push(b',');
        }
        self.text.push(b'"');
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b"\":");
    }

    /// Adds text, an integer, null, or a list of them: their usual spelling is the canonical one.
    pub fn scalar(&mut self, name: &str, value: &impl Serialize) {
        self.name(name);
        serde_json::to_writer(&mut self.text, value).expect("a scalar can be written");
    }

    /// The same, or no member at all.
    pub fn optional(&mut self, name: &str, value: Option<&impl Serialize>) {
        if let Some(value) = value {
            self.scalar(name, value);
        }
    }

    /// Adds any value.
    pub fn value(&mut self, name: &str, value: &impl Serialize) {
        self.name(name);
        let tree = serde_json::to_value(value).expect("what was parsed can be written again");
        write_tree(&mut self.text, &tree);
    }

    /// Adds JSON that was checked when it was received.
    pub fn json(&mut self, name: &str, json: &wire::Json) {
        self.name(name);
        let text = json.text().as_bytes();
        match value(text, 0) {
            Some(end) if end == text.len() => self.text.extend_from_slice(text),
            _ => self.rewrite(json.text()),
        }
    }

    fn rewrite(&mut self, json: &str) {
        let start = self.text.len();
        if rewriting::rewrite(&mut self.text, json).is_err() {
            // A number beyond every double, which only a program that embeds the coordinator can submit.
            self.text.truncate(start);
            self.text.extend_from_slice(json.as_bytes());
        }
    }

    pub fn digest(mut self) -> Digest {
        self.text.push(b'}');
        let digest = digest(&SHA256, &self.text);
        Digest::from_bytes(digest.as_ref().try_into().expect("SHA-256 makes 32 bytes"))
    }
}

fn write_tree(text: &mut Vec<u8>, tree: &Value) {
    serde_json_canonicalizer::to_writer(tree, text).expect("a JSON tree has a canonical form");
}

/// Where the value at `at` ends, if it is certainly canonical.
fn value(text: &[u8], at: usize) -> Option<usize> {
    match *text.get(at)? {
        b'{' => object(text, at + 1),
        b'[' => array(text, at + 1),
        b'"' => string(text, at + 1),
        b't' => word(text, at, b"true"),
        b'f' => word(text, at, b"false"),
        b'n' => word(text, at, b"null"),
        _ => integer(text, at),
    }
}

fn object(text: &[u8], mut at: usize) -> Option<usize> {
    if text.get(at) == Some(&b'}') {
        return Some(at + 1);
    }
    let mut before: Option<&[u8]> = None;
    loop {
        let (name, end) = member_name(text, at)?;
        if before.is_some_and(|before| before >= name) || text.get(end) != Some(&b':') {
            return None;
        }
        before = Some(name);
        at = value(text, end + 1)?;
        match text.get(at)? {
            b',' => at += 1,
            b'}' => return Some(at + 1),
            _ => return None,
        }
    }
}

/// ASCII names have the same order in every encoding.
fn member_name(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let start = at + 1;
    let rest = text.get(at).filter(|byte| **byte == b'"').map(|_| &text[start..])?;
    let length = rest.iter().position(|byte| *byte == b'"')?;
    let name = &rest[..length];
    let is_plain = name.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'\\');
    is_plain.then_some((name, start + length + 1))
}

fn array(text: &[u8], mut at: usize) -> Option<usize> {
    if text.get(at) == Some(&b']') {
        return Some(at + 1);
    }
    loop {
        at = value(text, at)?;
        match text.get(at)? {
            b',' => at += 1,
            b']' => return Some(at + 1),
            _ => return None,
        }
    }
}

/// Accepts the escapes with a one-letter form, which is the canonical one; text with any other escape
/// takes the slow path.
fn string(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let rest = text.get(at..)?;
        at += rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))?;
        match (text[at], text.get(at + 1)) {
            (b'"', _) => return Some(at + 1),
            (b'\\', Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't')) => at += 2,
            _ => return None,
        }
    }
}

fn word(text: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    text[at..].starts_with(word).then_some(at + word.len())
}

/// Only integers, of any length: other numbers have several spellings.
fn integer(text: &[u8], at: usize) -> Option<usize> {
    let is_negative = text[at] == b'-';
    let start = at + usize::from(is_negative);
    let digits = text[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let end = start + digits;
    let is_plain = match text.get(start)? {
        b'0' => digits == 1 && !is_negative,
        _ => digits > 0,
    };
    let goes_on = matches!(text.get(end), Some(b'.' | b'e' | b'E'));
    (is_plain && !goes_on).then_some(end)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    fn through_a_tree(text: &str) -> Vec<u8> {
        let tree: Value = serde_json::from_str(text).unwrap();
        serde_json_canonicalizer::to_vec(&tree).unwrap()
    }

    fn is_canonical(text: &str) -> bool {
        value(text.as_bytes(), 0) == Some(text.len())
    }

    #[test]
    fn what_is_taken_as_it_is_is_what_a_tree_would_be_written_as() {
        let taken = [
            "null",
            "true",
            "false",
            "0",
            "-1",
            "999999999999999",
            "9007199254740991",
            "-9007199254740991",
            r#""""#,
            r#""é\n\"\\ € 😀 \u007f""#.replace("\\u007f", "\u{7f}").as_str(),
            r#"{}"#,
            r#"[]"#,
            r#"{"a":[1,{"b":null,"c":""}],"aa":{},"b":"x"}"#,
            r#"{"A":1,"_":2,"a":3}"#,
        ]
        .map(str::to_owned);
        for text in taken {
            assert!(is_canonical(&text), "{text}");
            assert_eq!(through_a_tree(&text), text.as_bytes(), "{text}");
        }
    }

    #[test]
    fn what_is_spelled_otherwise_is_not_taken_as_it_is() {
        let others = [
            "-0",
            "1.0",
            "1e3",
            "1E3",
            "-",
            " 1",
            "1 ",
            r#"{ }"#,
            r#"[1, 2]"#,
            r#"{"b":1,"a":2}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"é":1}"#,
            r#"{"\n":1}"#,
            r#""\u0041""#,
            r#""\/""#,
            r#"{"a":1}{}"#,
            "",
            "tru",
            r#"{"a"}"#,
            r#"["#,
            r#"{"a":"#,
            r#""\"#,
        ];
        for text in others {
            assert!(!is_canonical(text), "{text}");
        }
    }

    fn of(text: &str) -> Digest {
        let mut said = Canonical::object();
        said.json("a", &wire::Json::from_text(text.to_owned()).unwrap());
        said.digest()
    }

    #[test]
    fn integers_count_by_all_their_digits() {
        // A double holds neither of these, and 64 bits hold only the first pair.
        for (one, other) in [
            ("12345678901234567890", "12345678901234567891"),
            ("-123456789012345678901234567890", "-123456789012345678901234567891"),
        ] {
            assert_ne!(of(one), of(other));
            let compact = format!(r#"{{"a":[{one}],"b":1}}"#);
            let spelled = format!(r#"{{ "b": 1.0, "a": [ {one} ] }}"#);
            assert_eq!(of(&compact), of(&spelled));
            assert_ne!(of(&spelled), of(&spelled.replace(one, other)));
        }
        assert_eq!(of("1e20"), of("100000000000000000000"), "the same value");
    }

    #[test]
    fn what_is_written_again_is_what_a_tree_would_be_written_as() {
        for text in [
            r#" {"b" : [ 1.50 , -0, 1E3, true,null ], "a":{"\u20ac":"\u0041","é":"\/","\ud83d\ude00":2, "\ufb33":3}} "#,
            r#"[ [ ] , { } , "" , 0.1e-7 , -1.0 , 9007199254740991 ]"#,
        ] {
            let mut written = Vec::new();
            rewriting::rewrite(&mut written, text.trim()).unwrap();
            assert_eq!(written, through_a_tree(text), "{text}");
        }
    }

    #[test]
    fn a_number_beyond_every_double_has_a_digest_too() {
        assert_ne!(of("[ 1e400 ]"), of("[ 1e401 ]"));
    }

    #[test]
    fn an_object_has_the_digest_of_its_canonical_form() {
        let mut said = Canonical::object();
        said.scalar("a", &"x\u{1}\"");
        said.optional("b", None::<&u64>);
        said.optional("c", Some(&7));
        said.value("d", &serde_json::json!({"z": 1.50, "a": [1, 2]}));
        said.json("e", &wire::Json::from_text(r#"{"b": 1.0, "a": "\u0041"}"#.to_owned()).unwrap());
        said.json("f", &wire::Json::from_text(r#"{"a":1}"#.to_owned()).unwrap());
        let text =
            r#"{"f":{"a":1},"e":{"b":1,"a":"A"},"d":{"z":1.5,"a":[1,2]},"c":7,"a":"x\u0001\""}"#;
        let wanted = Digest::from_bytes(Sha256::digest(through_a_tree(text)).into());
        assert_eq!(said.digest(), wanted);
    }
}
