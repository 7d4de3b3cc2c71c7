//! The seal of a golden file: a digest of everything before it, and an HMAC if there is a key.
//!
//! The digest finds accidents: a cut file, a merge gone wrong. Only the HMAC finds intent, so a file without one is called
//! unsigned wherever it is used. A key that is empty is a mistake and never "no key" (W-12).

use std::fmt;
use std::path::PathBuf;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::exit::{CliError, Exit};

/// Names the key in the environment.
const VARIABLE: &str = "TENURE_EXPORT_KEY";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct KeyArguments {
    /// File with the key of the files' signatures [default: the variable TENURE_EXPORT_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl KeyArguments {
    /// The key, if there is one. White space around it is not part of it: editors end files with a line break.
    pub(crate) fn read(&self) -> Result<Option<Key>, CliError> {
        if let Some(file) = &self.key_file {
            let text = std::fs::read(file).map_err(|error| {
                let message = format!("cannot read the key {}: {error}", file.display());
                CliError::new(Exit::Failed, "file_unusable", message).hint("check --key-file")
            })?;
            return Key::new(&text, &file.display().to_string()).map(Some);
        }
        let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
        Key::new(text.as_encoded_bytes(), VARIABLE).map(Some)
    }
}

/// A key that signs golden files.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key(Vec<u8>);

impl Key {
    fn new(bytes: &[u8], origin: &str) -> Result<Key, CliError> {
        let bytes = bytes.trim_ascii();
        if bytes.is_empty() {
            let message =
                format!("the key in {origin} is empty, so that anybody could sign with it");
            return Err(CliError::usage("export_key_empty", message).hint(
                "write a random key, such as 32 bytes of `openssl rand -hex 32`, or give none",
            ));
        }
        Ok(Key(bytes.to_vec()))
    }

    fn hmac(&self, text: &str) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.chain_update(text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The last line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Seal {
    /// Of every byte before this line, its line break included.
    sha256: String,
    /// Of the same bytes. Absent in an unsigned file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hmac_sha256: Option<String>,
}

/// What a seal says about its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sealed {
    /// Signed with the key that was given.
    Signed,
    /// Signed, but there is no key to check it with.
    Unchecked,
    /// Whole, and anybody may have written it.
    Unsigned,
    /// Not the text that was sealed, or not with this key.
    Changed,
}

impl Seal {
    pub(crate) fn of(text: &str, key: Option<&Key>) -> Seal {
        let hmac = key.map(|key| hex(&key.hmac(text).finalize().into_bytes()));
        Seal { sha256: hex(&Sha256::digest(text)), hmac_sha256: hmac }
    }

    pub(crate) fn check(&self, text: &str, key: Option<&Key>) -> Sealed {
        if self.sha256 != hex(&Sha256::digest(text)) {
            return Sealed::Changed;
        }
        match (&self.hmac_sha256, key) {
            (None, _) => Sealed::Unsigned,
            (Some(_), None) => Sealed::Unchecked,
            (Some(hmac), Some(key)) => {
                let is_right =
                    bytes(hmac).is_some_and(|it| key.hmac(text).verify_slice(&it).is_ok());
                if is_right { Sealed::Signed } else { Sealed::Changed }
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::new(text.as_bytes(), "a test").unwrap()
    }

    #[test]
    fn a_seal_tells_the_text_and_the_key_from_others() {
        let (one, other) = (key("one"), key("other"));
        let signed = Seal::of("text", Some(&one));
        assert_eq!(signed.check("text", Some(&one)), Sealed::Signed);
        assert_eq!(signed.check("text", None), Sealed::Unchecked);
        assert_eq!(signed.check("text", Some(&other)), Sealed::Changed);
        assert_eq!(signed.check("Text", Some(&one)), Sealed::Changed);
        let unsigned = Seal::of("text", None);
        assert_eq!(unsigned.check("text", Some(&one)), Sealed::Unsigned);
        assert_eq!(unsigned.check("Text", None), Sealed::Changed);
    }

    #[test]
    fn a_forged_digest_does_not_replace_the_signature() {
        let one = key("one");
        let forged = Seal {
            hmac_sha256: Seal::of("text", Some(&one)).hmac_sha256,
            ..Seal::of("Text", None)
        };
        assert_eq!(forged.check("Text", Some(&one)), Sealed::Changed);
        let cut = Seal { hmac_sha256: Some("ab".to_owned()), ..Seal::of("text", None) };
        assert_eq!(cut.check("text", Some(&one)), Sealed::Changed);
    }

    #[test]
    fn an_empty_key_is_refused_and_not_taken_for_none() {
        // W-12: white space is as empty as nothing.
        for empty in ["", "\n", " \t\n"] {
            assert_eq!(Key::new(empty.as_bytes(), "a test").unwrap_err().code, "export_key_empty");
        }
        assert_eq!(key("one\n"), key("one"));
    }
}
