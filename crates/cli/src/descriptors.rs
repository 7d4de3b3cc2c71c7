//! How many connections the file descriptor limit allows a server.
//!
//! Every connection is an open file, and so is everything that the store needs. A server that used
//! its last descriptor for a connection could not open the store's next file, so some descriptors
//! are reserved.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The reserved descriptors: the store with its WAL, each of its readers, the listeners, the
/// runtime, a certificate while it is read, the connections to a database and to a collector. Twice
/// what an idle server was seen to use.
const RESERVED_FILES: u64 = 48;

/// Calls that the server makes: a thousand pushes and twice as many deliveries at once. With a low limit they get half.
const OUTGOING_FILES: u64 = 3_072;

/// A server is of no use with fewer.
const CONNECTIONS_MIN: u64 = 8;

/// The wanted number of connections, or as many as the system allows after raising the limit.
pub(crate) fn connection_limit(wanted: usize) -> usize {
    let Some(limit) = raise_file_limit() else { return wanted };
    let connection_limit = connections_within(limit, wanted);
    if connection_limit < wanted {
        tracing::warn!(
            connections = connection_limit,
            open_files = limit,
            "accepting fewer connections because the limit of open files is low; raise `ulimit -n`"
        );
    }
    connection_limit
}

fn connections_within(limit: u64, wanted: usize) -> usize {
    let files = limit.saturating_sub(RESERVED_FILES);
    let allowed = (files - OUTGOING_FILES.min(files / 2)).max(CONNECTIONS_MIN);
    usize::try_from(allowed).unwrap_or(wanted).min(wanted)
}

/// The limit on open files, after raising it to the maximum for this user. `None` if there is no
/// limit.
fn raise_file_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let more = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, more) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::debug!(%error, "cannot raise the limit of open files");
            limit.current
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_store_needs_is_kept_back() {
        assert_eq!(connections_within(65_536, 4_096), 4_096);
        assert_eq!(connections_within(7_000, 4_096), 3_880, "calls have their descriptors");
        assert_eq!(connections_within(1_024, 4_096), 488);
        assert_eq!(connections_within(64, 4_096), 8);
        assert_eq!(connections_within(10, 4_096), 8);
    }
}
