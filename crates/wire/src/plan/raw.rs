//! JSON as text, one level at a time: members and items keep their bytes, so that numbers and spellings survive.

use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::Json;

/// One level of a value.
pub(super) enum Level<'a> {
    Object(Vec<(String, &'a RawValue)>),
    Array(Vec<&'a RawValue>),
    Scalar,
}

pub(super) fn level(text: &str) -> Level<'_> {
    struct OneLevel;
    impl<'de> Visitor<'de> for OneLevel {
        type Value = Level<'de>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object or an array")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Level<'de>, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(Level::Object(members))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Level<'de>, A::Error> {
            let mut found = Vec::new();
            while let Some(item) = items.next_element()? {
                found.push(item);
            }
            Ok(Level::Array(found))
        }
    }
    if !matches!(text.trim_start().as_bytes().first(), Some(b'{' | b'[')) {
        return Level::Scalar;
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    // A name with half of a surrogate pair is valid JSON and no text. A server refuses such a body before; here it is data.
    deserializer.deserialize_any(OneLevel).unwrap_or(Level::Scalar)
}

/// The string that the text is, if it is one.
pub(super) fn string(text: &str) -> Option<String> {
    serde_json::from_str(text).ok()
}

/// Finds places inside of values by JSON pointer (RFC 6901). Each level is parsed once, however many pointers lead through it, and
/// what is parsed and looked through is counted.
pub(super) struct Places<'a> {
    /// By where their text is.
    levels: HashMap<(*const u8, usize), Rc<Level<'a>>>,
    work_left: usize,
}

/// Finding the place costs more work than is left.
pub(super) struct TooCostly;

impl<'a> Places<'a> {
    /// `work` is how many bytes may be parsed, and members be compared, in all.
    pub(super) fn new(work: usize) -> Self {
        Self { levels: HashMap::new(), work_left: work }
    }

    /// The value at the pointer. `None` if the value has no such place.
    pub(super) fn find(
        &mut self,
        value: &'a Json,
        pointer: &str,
    ) -> Result<Option<&'a str>, TooCostly> {
        let mut text = value.text();
        for token in tokens(pointer) {
            let level = self.level(text)?;
            let found = match &*level {
                Level::Object(members) => {
                    self.spend(members.len())?;
                    member(members, &token)
                }
                Level::Array(items) => index(&token).and_then(|at| items.get(at).copied()),
                Level::Scalar => None,
            };
            let Some(found) = found else { return Ok(None) };
            text = found.get();
        }
        Ok(Some(text))
    }

    fn level(&mut self, text: &'a str) -> Result<Rc<Level<'a>>, TooCostly> {
        let place = (text.as_ptr(), text.len());
        if let Some(known) = self.levels.get(&place) {
            return Ok(Rc::clone(known));
        }
        self.spend(text.len())?;
        let parsed = Rc::new(level(text));
        self.levels.insert(place, Rc::clone(&parsed));
        Ok(parsed)
    }

    fn spend(&mut self, work: usize) -> Result<(), TooCostly> {
        self.work_left = self.work_left.checked_sub(work).ok_or(TooCostly)?;
        Ok(())
    }
}

/// An index has no leading zero and no sign.
fn index(token: &str) -> Option<usize> {
    let is_canonical = token == "0" || !token.starts_with(['0', '+']);
    token.parse().ok().filter(|_| is_canonical)
}

fn tokens(pointer: &str) -> impl Iterator<Item = String> + '_ {
    pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~"))
}

/// Whether the text is a JSON pointer: empty, or parts that begin with `/` and escape `~` as `~0` or `~1`.
pub(super) fn is_pointer(text: &str) -> bool {
    let is_escaped = |rest: &str| rest.starts_with(['0', '1']);
    (text.is_empty() || text.starts_with('/')) && text.split('~').skip(1).all(is_escaped)
}

/// Reads a value that may be absent from a list of members.
pub(super) fn member<'a>(members: &[(String, &'a RawValue)], name: &str) -> Option<&'a RawValue> {
    members.iter().find(|(member, _)| member == name).map(|(_, value)| *value)
}

/// For types that keep text: reads them from a value that was checked.
pub(super) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}
