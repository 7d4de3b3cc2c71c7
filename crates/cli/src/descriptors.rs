//! How many connections the system lets a server have.
//!
//! Every connection is an open file, and so is everything that the store needs. A server that took the last one for
//! a connection could not open its store's next file, so that some are kept back.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is kept back: the store with its log, each of its readers, the listeners, the runtime, a certificate while it
/// is read, the connections to a database and to a collector. Twice what an idle server was seen to have.
const KEPT_BACK: u64 = 48;

/// Fewer do not serve anybody, whatever they cost.
const SEATS_MIN: u64 = 8;

/// As many seats as are wanted and the system allows, which is asked for all it gives.
pub(crate) fn seats(wanted: usize) -> usize {
    let Some(limit) = raised() else { return wanted };
    let seats = seats_of(limit, wanted);
    if seats < wanted {
        tracing::warn!(
            connections = seats,
            open_files = limit,
            "fewer connections than usual, because this process may have few files open; raise `ulimit -n`"
        );
    }
    seats
}

fn seats_of(limit: u64, wanted: usize) -> usize {
    let allowed = limit.saturating_sub(KEPT_BACK).max(SEATS_MIN);
    usize::try_from(allowed).unwrap_or(wanted).min(wanted)
}

/// How many files may be open, after asking for the most that this user is given. `None` where there is no limit.
fn raised() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let more = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, more) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit of open files stays as it is");
            limit.current
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_store_needs_is_kept_back() {
        assert_eq!(seats_of(65_536, 4_096), 4_096);
        assert_eq!(seats_of(1_024, 4_096), 976);
        assert_eq!(seats_of(64, 4_096), 16);
        assert_eq!(seats_of(10, 4_096), 8);
    }
}
