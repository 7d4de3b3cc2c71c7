//! What the server says beside its answers.
//!
//! A COMMIT that waits for its standby can be made to stop waiting: `pg_cancel_backend`, or a tool that cancels what
//! takes long. The server then answers that it has committed, and adds a warning that the standby may not have it.
//! Whoever did not read the warning would acknowledge what a failover still loses. So it is read here, before the
//! answer it belongs to: a connection hands on one message after the other, in the order in which they came.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::error::DbError;
use tokio_postgres::{AsyncMessage, Connection};

/// The routine of the server that waits for standbys. Its words are in the language of the server, its name is not.
const SYNC_REP_WAIT: &str = "SyncRepWaitForLSN";

/// Reads and writes the socket of a connection until it ends, and says when a wait for standbys was cut short.
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
