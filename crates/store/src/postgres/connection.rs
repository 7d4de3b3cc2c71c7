//! Connections to the database: the servers an address names, TLS, the pools, and a transaction that owns its
//! connection until it ends.

pub(super) mod connect_errors;
pub(super) mod connections;
pub(super) mod direct;
pub(super) mod notices;
pub(super) mod server_list;
pub(super) mod session;
pub mod tls;
