//! One-time codes: each stands for a key, once and for a few minutes.
//!
//! They are in the memory of the coordinator that made them, as digests: a code that is lost costs a command, and one
//! that outlived a restart could be taken twice. A code is taken before it is known whether its key is still valid, so
//! no answer tells a second try from a wrong one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use verdict::{Digest, Name, Span, Time};

use crate::admit::hex;
use crate::ids::Entropy;

/// Long enough to change the window and find the browser; too short to find it in a history of the shell.
pub(crate) const CODE_LIFE: Span = Span::from_secs(5 * 60);

/// 128 bits: cannot be guessed in its life, or in any.
const CODE_BYTES: usize = 16;

/// A person needs one. The oldest of a key makes room.
const CODES_PER_KEY: usize = 8;

/// What many people need in five minutes; less than a tenth of a megabyte. Beyond it none is made: no key may take the
/// codes of another, and no tenant is held up by another.
const CODES_PER_TENANT: usize = 512;

/// What a code stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeFor {
    pub(crate) key: Name,
    pub(crate) tenant: Name,
    /// The secret that the key had: a rotation ends the code, too.
    pub(crate) secret: Digest,
}

#[derive(Default)]
pub(crate) struct LoginCodes {
    /// By the digest of the code.
    codes: Mutex<HashMap<Digest, Code>>,
}

struct Code {
    stands_for: CodeFor,
    made_at: Time,
    ends_at: Time,
}

/// There are as many codes of the tenant as one coordinator keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyCodes;

impl LoginCodes {
    /// A new code, and when it ends.
    pub(crate) fn make(
        &self,
        stands_for: CodeFor,
        entropy: &mut dyn Entropy,
        now: Time,
    ) -> Result<(String, Time), TooManyCodes> {
        let mut bytes = [0; CODE_BYTES];
        entropy.fill(&mut bytes);
        let (text, ends_at) = (hex(&bytes), now.plus(CODE_LIFE));
        let mut codes = self.codes();
        codes.retain(|_, code| !code.ends_at.has_come(now));
        let of_key = codes.iter().filter(|(_, code)| code.stands_for.key == stands_for.key);
        let of_key: Vec<(Time, Digest)> = of_key.map(|(it, code)| (code.made_at, *it)).collect();
        if of_key.len() >= CODES_PER_KEY
            && let Some((_, oldest)) = of_key.iter().min()
        {
            codes.remove(oldest);
        }
        let of_tenant = codes.values().filter(|code| code.stands_for.tenant == stands_for.tenant);
        if of_tenant.count() >= CODES_PER_TENANT {
            return Err(TooManyCodes);
        }
        codes.insert(digest(&text), Code { stands_for, made_at: now, ends_at });
        Ok((text, ends_at))
    }

    /// What the code stands for. It stands for nothing afterwards.
    pub(crate) fn take(&self, text: &str, now: Time) -> Option<CodeFor> {
        let taken = self.codes().remove(&digest(text))?;
        (!taken.ends_at.has_come(now)).then_some(taken.stands_for)
    }

    fn codes(&self) -> MutexGuard<'_, HashMap<Digest, Code>> {
        self.codes.lock().expect("no code panics while it holds the codes")
    }
}

fn digest(text: &str) -> Digest {
    Digest::of(&[b"tenure console code", text.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SeededEntropy;

    fn of(key: &str) -> CodeFor {
        CodeFor { key: key.into(), tenant: "t".into(), secret: Digest::of(&[b"s"]) }
    }

    #[test]
    fn a_code_is_taken_once_and_in_time() {
        let (codes, mut entropy) = (LoginCodes::default(), SeededEntropy::new(1));
        let now = Time::from_millis(1_000);
        let (text, ends_at) = codes.make(of("a"), &mut entropy, now).unwrap();
        assert_eq!(text.len(), 32);
        assert_eq!(codes.take("", now), None);
        assert_eq!(codes.take(&text, now), Some(of("a")));
        assert_eq!(codes.take(&text, now), None);
        let (text, _) = codes.make(of("a"), &mut entropy, now).unwrap();
        assert_eq!(codes.take(&text, ends_at), None);
        assert_eq!(codes.take(&text, now), None, "it was tried");
    }

    #[test]
    fn a_key_has_a_few_and_a_tenant_has_a_bound() {
        let (codes, mut entropy) = (LoginCodes::default(), SeededEntropy::new(2));
        let at = |n: usize| Time::from_millis(n as i64);
        let mut made = Vec::new();
        for n in 0..=CODES_PER_KEY {
            made.push(codes.make(of("a"), &mut entropy, at(n)).unwrap().0);
        }
        let (first, rest) = made.split_first().unwrap();
        assert_eq!(codes.take(first, at(9)), None, "the oldest made room");
        assert!(rest.iter().all(|text| codes.take(text, at(9)).is_some()));
        for n in 0..CODES_PER_TENANT {
            codes.make(of(&n.to_string()), &mut entropy, at(0)).unwrap();
        }
        assert_eq!(codes.make(of("b"), &mut entropy, at(0)), Err(TooManyCodes));
        let other = CodeFor { tenant: "other".into(), ..of("c") };
        assert!(codes.make(other, &mut entropy, at(0)).is_ok(), "another tenant is not held up");
        let later = at(0).plus(CODE_LIFE);
        assert!(codes.make(of("b"), &mut entropy, later).is_ok(), "ended ones make room");
    }
}
