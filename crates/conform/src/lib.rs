//! The conformance kit: proves that an SDK does what the contract asks of a client or worker.
//!
//! A [`case`](Case) is a file. It says what a model coordinator offers, how the wire breaks, and what is judged; the kit
//! starts a *subject*, a small program of the SDK under test, and judges what it did on the wire and what its code marked.
//! A case does not say in which order an SDK makes its calls or how it batches them, so one set of cases serves every
//! language.
//!
//! Invariants:
//! - A case has its own coordinator, port and process; nothing is shared between cases.
//! - A case is performed once. What differs from time to time is a defect of the case or of the SDK.
//! - Every case names a fault in the wire that makes it fail, and `--fault` shows that it does.

mod case;
mod cases;
mod command;
mod coordinator;
mod fault;
mod http;
mod judge;
mod known_failing;
mod live;
mod log;
mod model;
mod performance;
mod push;
mod rules;
mod runner;
mod signed;
mod subject;
mod summary;
mod value;

pub use case::Case;
pub use cases::{CaseError, all as all_cases, is_like};
pub use command::{Arguments, Failure, Format, Verdict, run};
pub use known_failing::KnownFailing;
pub use live::{Live, perform as perform_live};
pub use performance::{Outcome, Setup, perform};
pub use runner::{perform_all, width};
