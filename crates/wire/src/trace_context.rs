//! W3C trace context: which span of which trace a message belongs to.
//!
//! Parsed as the recommendation requires: an invalid value is ignored and never a reason to refuse
//! a request, and a later version is parsed by the members that this version knows. Written as
//! version 00.

use std::fmt;

/// The flag by which the originator of a trace says that it is collected.
const SAMPLED: u8 = 1;

/// Length of a `traceparent` of version 00.
const TEXT_BYTES: usize = 55;

/// A position in a trace, as the header `traceparent` spells it.
///
/// ```
/// let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let context = wire::TraceContext::parse(text).expect("it is valid");
/// assert_eq!(context.to_string(), text);
/// assert!(context.is_sampled());
/// assert_eq!(wire::TraceContext::parse("nonsense"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    pub trace: u128,
    pub span: u64,
    pub flags: u8,
}

impl TraceContext {
    /// A new trace that is to be collected.
    pub fn root(trace: u128, span: u64) -> Self {
        Self { trace: trace.max(1), span: span.max(1), flags: SAMPLED }
    }

    /// Parses a `traceparent`. `None` if it is not valid: hex digits that are not lower case, ids
    /// of zeros, the forbidden version `ff`, more members than version 00 has.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.split_at_checked(TEXT_BYTES)?;
        let mut members = head.split('-');
        let version = hex(members.next()?, 2)?;
        let trace = hex(members.next()?, 32)?;
        let span = hex(members.next()?, 16)?;
        let flags = hex(members.next()?, 2)?;
        let is_known = version == 0 && rest.is_empty();
        let is_later = (1..0xff).contains(&version) && (rest.is_empty() || rest.starts_with('-'));
        let is_valid = (is_known || is_later) && trace != 0 && span != 0;
        is_valid.then_some(Self { trace, span: span as u64, flags: flags as u8 })
    }

    /// Whether the originator of the trace wants it collected.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Another span of the same trace.
    #[must_use]
    pub fn with_span(self, span: u64) -> Self {
        // Zero is not a valid id.
        Self { span: span.max(1), ..self }
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_whole = text.len() == digits && is_hex;
    is_whole.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_is_read_and_written_as_w3c_says() {
        let context = TraceContext::parse(GIVEN).expect("it is valid");
        assert_eq!(context.to_string(), GIVEN);
        assert_eq!(context.with_span(0).span, 1);
        let quiet = TraceContext::parse(&GIVEN.replace("-01", "-00")).expect("it is valid");
        assert!(context.is_sampled() && !quiet.is_sampled());
    }

    #[test]
    fn what_is_not_valid_is_nothing() {
        let zero_trace = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        let zero_span = "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01";
        let more = format!("{GIVEN}-x");
        let forbidden = GIVEN.replace("00-", "ff-");
        for text in ["", "x", "00-0-0-01", zero_trace, zero_span, &more, &forbidden] {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
        assert_eq!(TraceContext::parse(&GIVEN.to_uppercase()), None);
        assert_eq!(TraceContext::parse(&"é".repeat(40)), None);
    }

    #[test]
    fn a_later_version_is_read_by_what_this_one_knows() {
        for later in [GIVEN.replacen("00-", "cc-", 1), GIVEN.replacen("00-", "01-", 1) + "-what"] {
            let read = TraceContext::parse(&later).expect("a later version");
            assert_eq!(read.to_string(), GIVEN);
        }
        assert_eq!(TraceContext::parse(&(GIVEN.replacen("00-", "01-", 1) + ".what")), None);
    }
}
