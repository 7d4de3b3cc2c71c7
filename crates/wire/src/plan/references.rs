//! References from the input of a step to outputs of earlier steps.
//!
//! An object with a member `$from` is a reference: `{"$from": "fetch", "path": "/body/0"}`. `path` is a JSON pointer into that step's
//! output; without it the reference is the whole output. `default` is taken where the step has no output or the output has
//! no such place; without it the referring step fails, because an output never changes. An object with the one
//! member `$literal` is replaced by the value of that member, in which nothing is a reference: so data that
//! contains `$from` or `$literal` can be passed too, and nothing that is read as a reference was meant as data.
//!
//! References are resolved on the text: what is not a reference keeps its bytes, and so does what is inserted.

use std::fmt;

use serde_json::value::RawValue;

use super::raw::{self, Level, Places, TooCostly};
use crate::Json;
use crate::limits::{PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX};

const FROM: &str = "$from";
const LITERAL: &str = "$literal";
const PATH: &str = "path";
const DEFAULT: &str = "default";

/// A reference in the input of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The step that is referred to.
    pub step: String,
    /// A JSON pointer into its output.
    pub path: String,
    pub default: Option<Json>,
    /// Where in the input the reference is, as a JSON pointer.
    pub place: String,
}

/// A reference that is not written as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub place: String,
    pub message: String,
}

/// What may be read of outputs to resolve one input: each level of an output that a path leads through counts once. Sixteen outputs of
/// the largest size, some ten milliseconds.
const WORK_MAX: usize = 16 * PAYLOAD_BYTES_MAX;

/// Why an input cannot be resolved. No repetition helps: outputs never change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    NoOutput(Reference),
    NoSuchPlace(Reference),
    /// With what was inserted, the input has more bytes than a payload may have.
    TooLarge,
    /// Finding what it refers to costs more than is allowed.
    TooCostly,
    /// With what was inserted, the input nests deeper than a payload may.
    TooDeep,
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unresolved::NoOutput(it) => write!(
                f,
                "the input refers at `{}` to the output of step `{}`, which has none; \
                 give the reference a `default`",
                it.place, it.step
            ),
            Unresolved::NoSuchPlace(it) => write!(
                f,
                "the input refers at `{}` to `{}` in the output of step `{}`, which has no such place; \
                 correct the path or give the reference a `default`",
                it.place, it.path, it.step
            ),
            Unresolved::TooLarge => write!(
                f,
                "the input has more than {PAYLOAD_BYTES_MAX} bytes once its references are resolved; \
                 refer to a part of the output"
            ),
            Unresolved::TooCostly => write!(
                f,
                "more than {WORK_MAX} bytes of outputs were read to find what the references are to; \
                 refer to fewer outputs, or to places less deep inside of them"
            ),
            Unresolved::TooDeep => write!(
                f,
                "the input has more than {PAYLOAD_DEPTH_MAX} levels once its references are resolved; \
                 refer to a part of the output"
            ),
        }
    }
}

impl std::error::Error for Unresolved {}

/// All references of an input, and all that look like one and are not. Stops below `depth_max` levels.
pub(super) fn find(input: &Json) -> (Vec<Reference>, Vec<Malformed>) {
    let (mut found, mut malformed) = (Vec::new(), Vec::new());
    if !input.text().contains('$') {
        return (found, malformed);
    }
    collect(input.text(), &mut String::new(), 1, &mut |result| match result {
        Ok(reference) => found.push(reference),
        Err(wrong) => malformed.push(wrong),
    });
    (found, malformed)
}

/// The references of an input that was checked.
pub fn of(input: &Json) -> Vec<Reference> {
    find(input).0
}

type Found<'a> = &'a mut dyn FnMut(Result<Reference, Malformed>);

fn collect(text: &str, place: &mut String, depth: usize, found: Found<'_>) {
    if depth > PAYLOAD_DEPTH_MAX {
        return;
    }
    match raw::level(text) {
        Level::Scalar => {}
        Level::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                inside(place, &index.to_string(), |place| {
                    collect(item.get(), place, depth + 1, found);
                });
            }
        }
        Level::Object(members) => match special(&members, place) {
            Some(Ok(Special::Literal(_))) => {}
            Some(Ok(Special::Reference(reference))) => found(Ok(reference)),
            Some(Err(wrong)) => found(Err(wrong)),
            None => {
                for (name, value) in &members {
                    let token = name.replace('~', "~0").replace('/', "~1");
                    inside(place, &token, |place| collect(value.get(), place, depth + 1, found));
                }
            }
        },
    }
}

fn inside(place: &mut String, token: &str, then: impl FnOnce(&mut String)) {
    let length = place.len();
    place.push('/');
    place.push_str(token);
    then(place);
    place.truncate(length);
}

/// An object that is not data.
enum Special<'a> {
    Reference(Reference),
    Literal(&'a RawValue),
}

fn special<'a>(
    members: &[(String, &'a RawValue)],
    place: &str,
) -> Option<Result<Special<'a>, Malformed>> {
    let has = |name: &str| members.iter().any(|(member, _)| member == name);
    let wrong = |message: &str| {
        Some(Err(Malformed { place: place.to_owned(), message: message.to_owned() }))
    };
    if has(LITERAL) {
        return match members {
            [(_, value)] => Some(Ok(Special::Literal(value))),
            _ => wrong("has members beside `$literal`; put them into its value"),
        };
    }
    if !has(FROM) {
        return None;
    }
    let is_known = |name: &str| matches!(name, FROM | PATH | DEFAULT);
    if let Some((unknown, _)) = members.iter().find(|(name, _)| !is_known(name)) {
        return wrong(&format!(
            "has the member `{unknown}` beside `$from`; a reference has `$from`, `path` and `default`, \
             and data with such members is wrapped in `$literal`"
        ));
    }
    if members.len() != [FROM, PATH, DEFAULT].into_iter().filter(|name| has(name)).count() {
        return wrong("has a member twice");
    }
    Some(reference(members, place).map(Special::Reference))
}

fn reference(members: &[(String, &RawValue)], place: &str) -> Result<Reference, Malformed> {
    let wrong = |message: &str| Malformed { place: place.to_owned(), message: message.to_owned() };
    let text = |name: &str| raw::member(members, name).map(|value| raw::string(value.get()));
    let step =
        text(FROM).flatten().ok_or_else(|| wrong("has a `$from` that is not the key of a step"))?;
    let path = match text(PATH) {
        None => String::new(),
        Some(Some(path)) if raw::is_pointer(&path) => path,
        Some(_) => return Err(wrong("has a `path` that is not a JSON pointer such as `/items/0`")),
    };
    let default = raw::member(members, DEFAULT).and_then(|value| raw::read(value.get()));
    Ok(Reference { step, path, default, place: place.to_owned() })
}

/// Whether the input must be resolved: it has references, or literals that are to be unwrapped.
pub fn has_any(input: &Json) -> bool {
    input.text().contains(FROM) || input.text().contains(LITERAL)
}

/// The input with every reference replaced. `output` gives the output of a step, if it has one. What it writes and what it reads is
/// bounded while it does so: a small input may refer to a large output very often.
pub fn resolve<'a>(
    input: &Json,
    output: impl Fn(&str) -> Option<&'a Json>,
) -> Result<Json, Unresolved> {
    if !input.text().contains('$') {
        return Ok(input.clone());
    }
    let places = Places::new(WORK_MAX);
    let mut resolver = Resolver { output: &output, places, text: String::new() };
    resolver.value(input.text(), &mut String::new())?;
    let text = resolver.text;
    if depth(&text) > PAYLOAD_DEPTH_MAX {
        return Err(Unresolved::TooDeep);
    }
    Ok(Json::from_text(text).expect("values of valid JSON make valid JSON"))
}

/// Writes an input with its references replaced.
struct Resolver<'f, 'a> {
    output: &'f dyn Fn(&str) -> Option<&'a Json>,
    places: Places<'a>,
    /// What is written so far.
    text: String,
}

impl Resolver<'_, '_> {
    fn value(&mut self, text: &str, place: &mut String) -> Result<(), Unresolved> {
        match raw::level(text) {
            Level::Scalar => self.push(text.trim()),
            Level::Array(items) => {
                self.push("[")?;
                for (index, item) in items.iter().enumerate() {
                    self.push(if index > 0 { "," } else { "" })?;
                    self.value(item.get(), place)?;
                }
                self.push("]")
            }
            Level::Object(members) => match special(&members, place) {
                Some(Ok(Special::Literal(value))) => self.push(value.get()),
                Some(Ok(Special::Reference(reference))) => self.insert(reference),
                // What was not checked is passed on as it is.
                Some(Err(_)) => self.push(text),
                None => self.members(&members, place),
            },
        }
    }

    fn members(
        &mut self,
        members: &[(String, &RawValue)],
        place: &mut String,
    ) -> Result<(), Unresolved> {
        self.push("{")?;
        for (index, (name, value)) in members.iter().enumerate() {
            self.push(if index > 0 { "," } else { "" })?;
            self.push(&serde_json::Value::from(name.as_str()).to_string())?;
            self.push(":")?;
            let token = name.replace('~', "~0").replace('/', "~1");
            let mut result = Ok(());
            inside(place, &token, |place| result = self.value(value.get(), place));
            result?;
        }
        self.push("}")
    }

    fn insert(&mut self, reference: Reference) -> Result<(), Unresolved> {
        let output = (self.output)(&reference.step);
        let found = match output {
            Some(output) => match self.places.find(output, &reference.path) {
                Ok(found) => Some(found),
                Err(TooCostly) => return Err(Unresolved::TooCostly),
            },
            None => None,
        };
        match (found, &reference.default) {
            (Some(Some(value)), _) => self.push(value),
            (Some(None) | None, Some(default)) => self.push(default.text()),
            (Some(None), None) => Err(Unresolved::NoSuchPlace(reference)),
            (None, None) => Err(Unresolved::NoOutput(reference)),
        }
    }

    fn push(&mut self, text: &str) -> Result<(), Unresolved> {
        let bytes = self.text.len() + text.len();
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(Unresolved::TooLarge);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// How many levels of objects and arrays a value has.
pub(super) fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_text => depth -= 1,
            _ => {}
        }
    }
    deepest
}
