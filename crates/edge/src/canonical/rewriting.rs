//! The slow path of canonical JSON, which the shapes define for coordinators and SDKs alike.

pub(super) use wire::canonical::rewrite;
