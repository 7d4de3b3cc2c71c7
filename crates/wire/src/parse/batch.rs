//! Splits a batch without validating its items, so that one invalid item does not fail the others.
//!
//! Reads only the outer object, and the brackets and strings of the items; everything else about an
//! item is checked when the item is parsed separately.

use crate::check::FieldError;
use crate::limits::BATCH_ITEMS_MAX;

/// The bytes of each item of the array under `member`, which must be the only member.
pub(super) fn split<'a>(bytes: &'a [u8], member: &str) -> Result<Vec<&'a [u8]>, FieldError> {
    let mut cursor = Cursor { bytes, at: 0 };
    let mut items = None;
    cursor.members(|cursor, name| {
        if name != member {
            let name: String = name.chars().take(64).collect();
            let message = format!("is not a member of this request: expected only `{member}`");
            return Err(FieldError::new(name, message));
        }
        if items.is_some() {
            return Err(FieldError::new(member, "appears twice"));
        }
        items = Some(cursor.items(member)?);
        Ok(())
    })?;
    cursor.end()?;
    let items = items.ok_or_else(|| FieldError::new(member, "is missing"))?;
    if items.is_empty() || items.len() > BATCH_ITEMS_MAX {
        let message = format!("must have 1 to {BATCH_ITEMS_MAX} items, but has {}", items.len());
        return Err(FieldError::new(member, message));
    }
    Ok(items)
}

/// Whether the outer object has such a member; false if the body is not an object.
pub(super) fn has_member(bytes: &[u8], member: &str) -> bool {
    let mut found = false;
    let mut cursor = Cursor { bytes, at: 0 };
    // A later fault in the body does not matter here: parsing finds it again and explains it.
    let _ = cursor.members(|cursor, name| {
        found |= name == member;
        // The member was found, so the rest need not be read.
        if found { Err(cursor.broken()) } else { cursor.skip_value().map(|_| ()) }
    });
    found
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn members(
        &mut self,
        mut each: impl FnMut(&mut Self, &str) -> Result<(), FieldError>,
    ) -> Result<(), FieldError> {
        self.expect(b'{')?;
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.expect(b':')?;
            each(self, &name)?;
            if !self.eat(b',') {
                return self.expect(b'}');
            }
        }
    }

    fn items(&mut self, member: &str) -> Result<Vec<&'a [u8]>, FieldError> {
        if !self.eat(b'[') {
            return Err(FieldError::new(member, "must be an array"));
        }
        let mut items = Vec::new();
        if self.eat(b']') {
            return Ok(items);
        }
        loop {
            items.push(self.skip_value()?);
            if !self.eat(b',') {
                self.expect(b']')?;
                return Ok(items);
            }
        }
    }

    /// Skips one value by its brackets and strings alone; at least one byte long.
    fn skip_value(&mut self) -> Result<&'a [u8], FieldError> {
        self.skip_space();
        let start = self.at;
        let mut depth = 0usize;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'"' => self.skip_string()?,
                b'{' | b'[' => depth += 1,
                b'}' | b']' | b',' if depth == 0 => break,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
        match &self.bytes[start..self.at] {
            [] => Err(self.broken()),
            value => Ok(value),
        }
    }

    fn string(&mut self) -> Result<String, FieldError> {
        self.skip_space();
        let start = self.at;
        if self.bytes.get(start) != Some(&b'"') {
            return Err(self.broken());
        }
        self.skip_string()?;
        self.at += 1;
        serde_json::from_slice(&self.bytes[start..self.at]).map_err(|_| self.broken())
    }

    /// Skips from an opening quote to its closing one.
    fn skip_string(&mut self) -> Result<(), FieldError> {
        self.at += 1;
        while let Some(rest) = self.bytes.get(self.at..) {
            let Some(stop) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) else {
                break;
            };
            self.at += stop;
            if self.bytes[self.at] == b'"' {
                return Ok(());
            }
            self.at += 2;
        }
        self.at = self.bytes.len();
        Err(self.broken())
    }

    fn expect(&mut self, byte: u8) -> Result<(), FieldError> {
        if self.eat(byte) { Ok(()) } else { Err(self.broken()) }
    }

    fn eat(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn end(&mut self) -> Result<(), FieldError> {
        self.skip_space();
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.broken()) }
    }

    fn skip_space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn broken(&self) -> FieldError {
        let at = self.at.min(self.bytes.len());
        FieldError::new("", format!("is not valid JSON near byte {at}"))
    }
}
