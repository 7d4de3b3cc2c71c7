//! The server's notices, which it sends beside its answers.
//!
//! A COMMIT that waits for its standby can be cancelled: by `pg_cancel_backend`, or by a tool that cancels slow
//! statements. The server then answers that it has committed, and adds a warning that the standby may not have the
//! commit. Without that warning, a commit would be acknowledged that a failover can still lose. So the warning is
//! read here, before the answer it belongs to: a connection delivers messages one after the other, in the order in
//! which they arrive.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::error::DbError;
use tokio_postgres::{AsyncMessage, Connection};

/// The server routine that waits for standbys. Messages are in the language of the server, the name of a routine is
/// not.
const SYNC_REP_WAIT: &str = "SyncRepWaitForLSN";

/// Reads and writes the socket of a connection until it ends, and sets the flag when a wait for standbys was
/// cancelled.
pub(in crate::postgres) async fn drive<S, T>(
    mut connection: Connection<S, T>,
    is_standby_wait_cancelled: Arc<AtomicBool>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(AsyncMessage::Notice(notice)) if reports_cancelled_wait(&notice) => {
                tracing::warn!(warning = notice.message(), "a COMMIT did not wait for its standby");
                is_standby_wait_cancelled.store(true, Ordering::SeqCst);
            }
            Ok(AsyncMessage::Notice(notice)) => {
                tracing::debug!(notice = notice.message(), "notice of the database");
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "a connection to the database ended");
                return;
            }
        }
    }
}

fn reports_cancelled_wait(notice: &DbError) -> bool {
    notice.routine() == Some(SYNC_REP_WAIT)
}
