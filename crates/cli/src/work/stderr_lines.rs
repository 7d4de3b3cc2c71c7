//! What a program writes to its standard error, as lines of a log.
//!
//! Bytes become lines of bounded length, whatever they are: what is not UTF-8 is replaced, colours are left out, and of a
//! line that overwrites itself (a progress bar) its last form is taken.

use wire::limits::LOG_TEXT_BYTES_MAX;

/// Called for each line while the program runs.
pub(crate) type TextHandler = Box<dyn FnMut(&str) + Send>;

pub(crate) struct StderrLines {
    begun: Vec<u8>,
    handler: TextHandler,
}

impl StderrLines {
    pub(crate) fn new(handler: TextHandler) -> Self {
        Self { begun: Vec::new(), handler }
    }

    /// Takes bytes, and hands over the lines that are whole. A very long line is handed over in pieces.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                _ => self.begun.push(*byte),
            }
            if self.begun.len() >= LOG_TEXT_BYTES_MAX {
                self.end_line();
            }
        }
    }

    /// The last line, if the program did not end it.
    pub(crate) fn finish(&mut self) {
        self.end_line();
    }

    fn end_line(&mut self) {
        let text = plain(&String::from_utf8_lossy(&std::mem::take(&mut self.begun)));
        if !text.trim().is_empty() {
            (self.handler)(&text);
        }
    }
}

/// The text without colours and control characters.
fn plain(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let line = line.rsplit('\r').next().unwrap_or(line);
    let shown = anstream::adapter::strip_str(line).to_string();
    shown.chars().filter(|c| !c.is_control() || *c == '\t').collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn lines_of(chunks: &[&[u8]]) -> Vec<String> {
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        let mut lines =
            StderrLines::new(Box::new(move |text| heard.lock().unwrap().push(text.to_owned())));
        chunks.iter().for_each(|chunk| lines.take(chunk));
        lines.finish();
        said.lock().unwrap().clone()
    }

    #[test]
    fn bytes_become_lines_wherever_they_are_cut() {
        let lines = lines_of(&[b"on", b"e\ntwo\r\n\n  \nthr", "\u{e9}".as_bytes(), b"\n", b"rest"]);
        assert_eq!(lines, ["one", "two", "thr\u{e9}", "rest"]);
    }

    #[test]
    fn what_is_no_text_is_made_one() {
        assert_eq!(lines_of(&[b"\xff\xfe\0x\n"]), ["\u{fffd}\u{fffd}x"]);
        assert_eq!(lines_of(&[b"\x1b[31mred\x1b[0m\tend\n"]), ["red\tend"]);
        assert_eq!(lines_of(&[b"10 %\r20 %\r100 %\r\n"]), ["100 %"]);
    }

    #[test]
    fn a_line_without_end_is_handed_over_in_pieces() {
        let lines = lines_of(&[&vec![b'x'; 3 * LOG_TEXT_BYTES_MAX + 1]]);
        let lengths: Vec<usize> = lines.iter().map(String::len).collect();
        assert_eq!(lengths, [LOG_TEXT_BYTES_MAX, LOG_TEXT_BYTES_MAX, LOG_TEXT_BYTES_MAX, 1]);
    }
}
