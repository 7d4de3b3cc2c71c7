//! Properties that must hold for any bytes.
//!
//! Each target is a function of bytes that panics when a property is broken. The fuzzer in `fuzz/` calls it with
//! generated inputs, and the tests here replay the inputs that are kept in `fuzz/corpus`, with the stable toolchain.
//! A target asserts more than the absence of panics: accepted input must be accepted again, and a token or cursor
//! that was not issued must be refused.

mod answers;
mod body;
mod canonical;
mod cursor;
mod decisions;
mod plan;
mod token;

pub use answers::answers;
pub use body::body;
pub use canonical::canonical;
pub use cursor::cursor;
pub use decisions::decisions;
pub use plan::plan;
pub use token::token;

/// The name of a corpus, and the property that must hold for each of its inputs.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: &[Target] = &[
    ("answers", answers),
    ("body", body),
    ("canonical", canonical),
    ("cursor", cursor),
    ("decisions", decisions),
    ("plan", plan),
    ("token", token),
];
