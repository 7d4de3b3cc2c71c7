//! Tests of recurrences: against an independent expectation, by properties, and by what errors say.

mod errors;
mod expectation;
mod intervals;
mod properties;
