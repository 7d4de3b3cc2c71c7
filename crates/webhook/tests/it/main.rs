//! Signatures and their verification: our own vectors, mutations, and the reference packages of two languages.

mod reference;
mod verifying;
