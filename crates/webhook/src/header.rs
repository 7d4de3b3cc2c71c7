//! The three headers of a signed message, and what an id may look like.

pub const HEADER_ID: &str = "webhook-id";
pub const HEADER_TIMESTAMP: &str = "webhook-timestamp";
pub const HEADER_SIGNATURE: &str = "webhook-signature";

/// Maximum characters of a message's id: ours have 68; receivers keep ids to recognise repeats.
const ID_MAX: usize = 128;

/// Whether a text can be the id of a message. A dot would let id and time be divided in two ways, with one signature.
pub fn is_message_id(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !text.is_empty() && text.len() <= ID_MAX && text.bytes().all(is_allowed)
}
