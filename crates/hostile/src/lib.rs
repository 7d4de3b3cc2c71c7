//! What must hold for any bytes at all.
//!
//! Each target is a function of bytes that panics when something is broken. The fuzzer in `fuzz/`
//! drives it with inputs of its own, and the tests here replay the inputs that are kept in
//! `fuzz/corpus`, with the stable toolchain. A target says what holds, not only that nothing
//! panics: what is accepted must be accepted again, what was not issued must not be believed.

mod answers;
mod body;
mod canonical;
mod cursor;
mod decisions;
mod token;

pub use answers::answers;
pub use body::body;
pub use canonical::canonical;
pub use cursor::cursor;
pub use decisions::decisions;
pub use token::token;

/// The name of a corpus, and what must hold for each input in it.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: &[Target] = &[
    ("answers", answers),
    ("body", body),
    ("canonical", canonical),
    ("cursor", cursor),
    ("decisions", decisions),
    ("token", token),
];
