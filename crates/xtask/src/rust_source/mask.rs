//! Splits a Rust text into code and comments of the same length.

use super::is_identifier_byte;

/// Returns (code, comments). String contents belong to neither.
pub(super) fn split(text: &str) -> (String, String) {
    let mut code = blank(text);
    let mut comments = blank(text);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let piece = piece_at(bytes, at);
        let end = piece.end();
        match piece {
            Piece::Comment(_) => copy(&mut comments, bytes, at, end),
            Piece::Code(_) => copy(&mut code, bytes, at, end),
            Piece::Quoted(_) => {
                copy(&mut code, bytes, at, at + 1);
                copy(&mut code, bytes, end - 1, end);
            }
        }
        at = end;
    }
    let whole = "pieces begin and end at ASCII bytes, so a mask is whole characters";
    (String::from_utf8(code).expect(whole), String::from_utf8(comments).expect(whole))
}

/// One lexical element, with the offset after it.
enum Piece {
    Comment(usize),
    Quoted(usize),
    Code(usize),
}

impl Piece {
    fn end(&self) -> usize {
        match *self {
            Self::Comment(end) | Self::Quoted(end) | Self::Code(end) => end,
        }
    }
}

fn piece_at(bytes: &[u8], at: usize) -> Piece {
    let rest = &bytes[at..];
    let after_identifier = at > 0 && is_identifier_byte(bytes[at - 1]);
    if rest.starts_with(b"//") {
        return Piece::Comment(at + line_length(rest));
    }
    if rest.starts_with(b"/*") {
        return Piece::Comment(at + block_comment_length(rest));
    }
    if let Some(length) = raw_string_length(rest).filter(|_| !after_identifier) {
        return Piece::Quoted(at + length);
    }
    match rest[0] {
        b'"' => Piece::Quoted(at + string_length(rest)),
        b'\'' => character_length(rest).map_or(Piece::Code(at + 1), |n| Piece::Quoted(at + n)),
        byte if is_identifier_byte(byte) => Piece::Code(at + identifier_length(rest)),
        _ => Piece::Code(at + 1),
    }
}

fn blank(text: &str) -> Vec<u8> {
    text.bytes().map(|byte| if byte == b'\n' { b'\n' } else { b' ' }).collect()
}

fn copy(mask: &mut [u8], bytes: &[u8], from: usize, to: usize) {
    mask[from..to].copy_from_slice(&bytes[from..to]);
}

fn line_length(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// `r"…"`, `br#"…"#` and the like. A prefix that starts an identifier is not one.
fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let prefix = [b"r".as_slice(), b"br", b"cr"]
        .into_iter()
        .find(|p| rest.starts_with(p) && matches!(rest.get(p.len()), Some(b'"' | b'#')))?;
    let hashes = rest[prefix.len()..].iter().take_while(|byte| **byte == b'#').count();
    let open = prefix.len() + hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = &rest[open + 1..];
    let end = body.windows(close.len()).position(|window| window == close);
    Some(end.map_or(rest.len(), |at| open + 1 + at + close.len()))
}

fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a character literal, or `None` if the quote begins a lifetime.
fn character_length(rest: &[u8]) -> Option<usize> {
    let first = *rest.get(1)?;
    if first == b'\\' {
        let close = rest.iter().skip(3).position(|byte| *byte == b'\'')?;
        return Some(3 + close + 1);
    }
    let width = match first {
        0..0x80 => 1,
        0x80..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

fn identifier_length(rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| is_identifier_byte(**byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_not_code() {
        let (code, comments) =
            split("let a = \"now // x\"; // why /* y\nlet b = 1; /* c /* d */ e */ f");
        assert_eq!(
            code.split_whitespace().collect::<Vec<_>>().join(" "),
            "let a = \" \"; let b = 1; f"
        );
        assert!(comments.contains("// why /* y"));
        assert!(comments.contains("/* c /* d */ e */"));
        assert!(!comments.contains("// x"));
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes() {
        let (code, _) = split("let a = r#\"quote \" in }\"#; done(br\"{\")");
        assert!(code.contains("; done("));
        assert!(!code.contains(['{', '}']));
    }

    #[test]
    fn lifetimes_are_code_and_characters_are_not() {
        let (code, _) = split("fn f<'a>(x: &'a str) { g('{', '\\'', '\\u{7b}', 'ü', b'}') }");
        assert_eq!(code.matches('{').count(), 1);
        assert_eq!(code.matches('}').count(), 1);
        assert!(code.contains("<'a>"));
    }

    #[test]
    fn masks_keep_every_line_in_its_place() {
        let text = "a // b\n\"c\nd\"\n/* e\n*/ f";
        let (code, comments) = split(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.matches('\n').count(), 4);
        assert_eq!(comments.matches('\n').count(), 4);
    }
}
