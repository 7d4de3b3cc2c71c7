//! A pass over a body before serde reads it: checks the grammar of JSON, and what serde does not
//! check.
//!
//! Refused: nesting deeper than [`DEPTH_MAX`], two members of one name in one object, numbers beyond every
//! double, text that is not Unicode; and, outside of opaque JSON, integers that parsers round. The recursion is never
//! deeper than [`DEPTH_MAX`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use crate::check::FieldError;
use crate::limits::{DEPTH_MAX, INTEGER_MAX, PAYLOAD_DEPTH_MAX};

/// How to handle text that is not Unicode, outside of opaque JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeText {
    Refused,
    /// A report must never fail because of its content: what is not Unicode becomes U+FFFD.
    Repaired,
}

/// Members whose content belongs to the user and is never changed.
const OPAQUE: [&str; 4] = ["input", "output", "partialProgress", "payload"];
/// The same in each item of a list: the list, and the member of its items.
const OPAQUE_IN_ITEMS: [(&str, &str); 2] = [("steps", "result"), ("children", "input")];
/// How much deeper such a member is than a member of the body: the list and its item.
const ITEM_LEVELS: usize = 2;

/// Below this many members a linear comparison is faster than hashing.
const LINEAR_MEMBERS_MAX: usize = 16;

/// Enough of a member's name to find it again.
const NAME_CHARS_SHOWN: usize = 64;

/// Checks the body; returns a repaired copy if its free text needed repair.
pub(super) fn scan(bytes: &[u8], free_text: FreeText) -> Result<Option<Vec<u8>>, FieldError> {
    let mut scan = Scan::new(bytes, free_text);
    scan.body()?;
    // Within one string, bytes are checked after escapes.
    scan.repairs.sort_by_key(|(range, _)| range.start);
    Ok((!scan.repairs.is_empty()).then(|| apply(bytes, &scan.repairs)))
}

/// The path of the value at an error position of a body that [`scan`] accepted.
pub(super) fn path_at(bytes: &[u8], offset: usize) -> String {
    let mut scan = Scan::new(bytes, FreeText::Repaired);
    scan.lookup = Some(PathLookup { offset, path: String::new() });
    // If the scan fails, the path found so far is the best available.
    let _ = scan.body();
    scan.lookup.map_or_else(String::new, |lookup| lookup.path)
}

fn apply(bytes: &[u8], repairs: &[(Range<usize>, &'static str)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut copied = 0;
    for (range, text) in repairs {
        out.extend_from_slice(&bytes[copied..range.start]);
        out.extend_from_slice(text.as_bytes());
        copied = range.end;
    }
    out.extend_from_slice(&bytes[copied..]);
    out
}

enum Step<'a> {
    Member(Cow<'a, str>),
    Index(usize),
}

struct PathLookup {
    offset: usize,
    path: String,
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    path: Vec<Step<'a>>,
    free_text: FreeText,
    repairs: Vec<(Range<usize>, &'static str)>,
    lookup: Option<PathLookup>,
}

type Scanned = Result<(), FieldError>;

impl<'a> Scan<'a> {
    fn new(bytes: &'a [u8], free_text: FreeText) -> Scan<'a> {
        Scan { bytes, at: 0, path: Vec::new(), free_text, repairs: Vec::new(), lookup: None }
    }

    fn body(&mut self) -> Scanned {
        self.skip_space();
        self.value()?;
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.broken("has data after its end")),
        }
    }

    fn value(&mut self) -> Scanned {
        let start = self.at;
        self.lookup_value(start);
        match self.peek() {
            Some(b'{') => self.nested(Scan::object)?,
            Some(b'[') => self.nested(Scan::array)?,
            Some(b'"') => self.string().map(|_| ())?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal("true")?,
            Some(b'f') => self.literal("false")?,
            Some(b'n') => self.literal("null")?,
            Some(b'N' | b'I') => {
                return Err(self.fault("is not JSON: NaN and Infinity are not allowed"));
            }
            Some(_) => return Err(self.broken("is not valid JSON: a value is expected")),
            None => return Err(self.broken("ends too early: a value is expected")),
        }
        self.lookup_end();
        Ok(())
    }

    fn nested(&mut self, inside: fn(&mut Scan<'a>) -> Scanned) -> Scanned {
        // The path is as long as the number of open containers.
        let deeper = if self.is_opaque_in_item() { ITEM_LEVELS } else { 0 };
        if self.path.len() >= DEPTH_MAX + deeper {
            return Err(FieldError::new(
                first_member(&self.path),
                format!("is nested too deeply; at most {PAYLOAD_DEPTH_MAX} levels are allowed"),
            ));
        }
        self.at += 1;
        self.skip_space();
        inside(self)
    }

    fn object(&mut self) -> Scanned {
        if self.eat(b'}') {
            return Ok(());
        }
        let mut names = Names::default();
        loop {
            let name = self.member_name()?;
            self.path.push(Step::Member(name.clone()));
            if !names.insert(name) {
                return Err(self.fault("appears twice in the same object; send it once"));
            }
            self.value()?;
            self.path.pop();
            self.skip_space();
            match self.bump() {
                Some(b',') => self.skip_space(),
                Some(b'}') => return Ok(()),
                _ => return Err(self.broken("is not valid JSON: `,` or `}` is expected")),
            }
        }
    }

    fn member_name(&mut self) -> Result<Cow<'a, str>, FieldError> {
        if self.peek() != Some(b'"') {
            return Err(self.broken("is not valid JSON: a member name in quotes is expected"));
        }
        let name = self.string()?;
        self.skip_space();
        if !self.eat(b':') {
            return Err(self.broken("is not valid JSON: `:` is expected"));
        }
        self.skip_space();
        Ok(name)
    }

    fn array(&mut self) -> Scanned {
        if self.eat(b']') {
            return Ok(());
        }
        for index in 0.. {
            self.path.push(Step::Index(index));
            self.value()?;
            self.path.pop();
            self.skip_space();
            match self.bump() {
                Some(b',') => self.skip_space(),
                Some(b']') => break,
                _ => return Err(self.broken("is not valid JSON: `,` or `]` is expected")),
            }
        }
        Ok(())
    }

    /// The text of a string; exact where it matters, which is for member names.
    fn string(&mut self) -> Result<Cow<'a, str>, FieldError> {
        let start = self.at;
        self.at += 1;
        let mut escaped = false;
        loop {
            self.skip_plain_text();
            match self.bump() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => {
                    self.at -= 1;
                    return Err(self.broken("has a bare control character in a string; escape it"));
                }
                None => return Err(self.broken("ends within a string")),
            }
        }
        self.string_text(start..self.at, escaped)
    }

    /// Skips to the next quote, escape or control character: most of a body is the text of strings.
    fn skip_plain_text(&mut self) {
        let rest = &self.bytes[self.at..];
        let stop = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
        self.at += stop.unwrap_or(rest.len());
    }

    fn string_text(
        &mut self,
        quoted: Range<usize>,
        escaped: bool,
    ) -> Result<Cow<'a, str>, FieldError> {
        let inner = &self.bytes[quoted.start + 1..quoted.end - 1];
        let Ok(text) = std::str::from_utf8(inner) else {
            self.repair_bytes(quoted.start + 1, inner)?;
            return Ok(String::from_utf8_lossy(inner));
        };
        match escaped {
            false => Ok(Cow::Borrowed(text)),
            // A lone surrogate is already recorded for repair; the raw text then serves as the
            // name.
            true => {
                Ok(serde_json::from_slice(&self.bytes[quoted])
                    .map_or(Cow::Borrowed(text), Cow::Owned))
            }
        }
    }

    fn repair_bytes(&mut self, start: usize, inner: &[u8]) -> Scanned {
        let mut at = start;
        for chunk in inner.utf8_chunks() {
            at += chunk.valid().len();
            let invalid = chunk.invalid().len();
            if invalid > 0 {
                self.repair(at..at + invalid, "\u{fffd}", "is not UTF-8")?;
            }
            at += invalid;
        }
        Ok(())
    }

    fn escape(&mut self) -> Scanned {
        match self.bump() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(()),
            Some(b'u') => self.unicode_escape(),
            _ => Err(self.broken("has an unknown escape in a string")),
        }
    }

    fn unicode_escape(&mut self) -> Scanned {
        let start = self.at - 2;
        let lone = match self.hex4()? {
            0xd800..=0xdbff => !self.low_surrogate_follows()?,
            0xdc00..=0xdfff => true,
            _ => false,
        };
        if !lone {
            return Ok(());
        }
        let message = "has half of a surrogate pair in a string; send whole characters";
        self.repair(start..start + 6, "\\ufffd", message)
    }

    fn low_surrogate_follows(&mut self) -> Result<bool, FieldError> {
        if !self.bytes[self.at..].starts_with(b"\\u") {
            return Ok(false);
        }
        let before = self.at;
        self.at += 2;
        let low = matches!(self.hex4()?, 0xdc00..=0xdfff);
        if !low {
            self.at = before;
        }
        Ok(low)
    }

    fn hex4(&mut self) -> Result<u32, FieldError> {
        let digits = self.bytes.get(self.at..self.at + 4).unwrap_or_default();
        let text = std::str::from_utf8(digits).unwrap_or_default();
        if text.len() != 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(self.broken("has a \\u escape without four hexadecimal digits"));
        }
        self.at += 4;
        Ok(u32::from_str_radix(text, 16).expect("four hexadecimal digits are a number"))
    }

    /// Repairs free text if requested; never repairs names and opaque JSON.
    fn repair(&mut self, range: Range<usize>, text: &'static str, message: &str) -> Scanned {
        if self.free_text == FreeText::Refused || self.is_opaque() {
            return Err(self.fault(message));
        }
        self.repairs.push((range, text));
        Ok(())
    }

    /// Whether the value being scanned belongs to the user.
    fn is_opaque(&self) -> bool {
        let is_member = matches!(self.path.first(), Some(Step::Member(name)) if OPAQUE.contains(&name.as_ref()));
        is_member || self.is_opaque_in_item()
    }

    fn is_opaque_in_item(&self) -> bool {
        match &self.path[..] {
            [Step::Member(list), Step::Index(_), Step::Member(name), ..] => {
                OPAQUE_IN_ITEMS.contains(&(list.as_ref(), name.as_ref()))
            }
            _ => false,
        }
    }

    fn number(&mut self) -> Scanned {
        let start = self.at;
        self.eat(b'-');
        let whole = self.digits();
        let leading_zero = whole > 1 && self.bytes[self.at - whole] == b'0';
        if whole == 0 || leading_zero {
            return Err(self.broken("has a malformed number"));
        }
        let integer_end = self.at;
        self.fraction_and_exponent()?;
        let text = std::str::from_utf8(&self.bytes[start..self.at])
            .expect("a number was read as ASCII digits and signs");
        match self.at == integer_end {
            true => self.integer(text),
            false => self.float(text),
        }
    }

    fn fraction_and_exponent(&mut self) -> Scanned {
        if self.eat(b'.') && self.digits() == 0 {
            return Err(self.broken("has a malformed number"));
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _sign = self.eat(b'+') || self.eat(b'-');
            if self.digits() == 0 {
                return Err(self.broken("has a malformed number"));
            }
        }
        Ok(())
    }

    /// An integer of the user is kept with all its digits, and what its reader makes of it is the user's choice.
    fn integer(&self, text: &str) -> Scanned {
        if self.is_opaque() {
            return self.float(text);
        }
        let magnitude = text.strip_prefix('-').unwrap_or(text).parse::<u64>();
        match magnitude {
            Ok(0..=INTEGER_MAX) => Ok(()),
            _ => Err(self.fault(&format!(
                "is an integer beyond ±{INTEGER_MAX}, the largest that every JSON parser keeps exactly"
            ))),
        }
    }

    fn float(&self, text: &str) -> Scanned {
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(()),
            _ => Err(self.fault("is too large for a JSON number; send it as a string")),
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn literal(&mut self, word: &str) -> Scanned {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.broken("is not valid JSON: a value is expected"));
        }
        self.at += word.len();
        Ok(())
    }

    fn lookup_value(&mut self, start: usize) {
        if self.lookup.as_ref().is_some_and(|lookup| start <= lookup.offset) {
            self.set_lookup_path(self.path.len());
        }
    }

    /// A value that ended before the position is not at fault: its container is, until the next
    /// value.
    fn lookup_end(&mut self) {
        let passed = self.lookup.as_ref().is_some_and(|lookup| self.at < lookup.offset);
        if passed {
            self.set_lookup_path(self.path.len().saturating_sub(1));
        }
    }

    fn set_lookup_path(&mut self, depth: usize) {
        let path = render(&self.path[..depth]);
        if let Some(lookup) = &mut self.lookup {
            lookup.path = path;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn bump(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += usize::from(byte.is_some());
        byte
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// A fault in the value being scanned.
    fn fault(&self, message: &str) -> FieldError {
        FieldError::new(render(&self.path), message)
    }

    /// A fault in the text itself: the offset says more than the path.
    fn broken(&self, message: &str) -> FieldError {
        let before = &self.bytes[..self.at.min(self.bytes.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
        FieldError::new("", format!("{message} (line {line}, column {column})"))
    }
}

fn render(path: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Member(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.extend(name.chars().take(NAME_CHARS_SHOWN));
            }
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

fn first_member(path: &[Step<'_>]) -> String {
    render(&path[..path.len().min(1)])
}

/// The member names of one object.
#[derive(Default)]
struct Names<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Names<'a> {
    /// False if the name was already present.
    fn insert(&mut self, name: Cow<'a, str>) -> bool {
        if self.few.contains(&name) {
            return false;
        }
        if self.few.len() < LINEAR_MEMBERS_MAX {
            self.few.push(name);
            return true;
        }
        self.many.insert(name)
    }
}
