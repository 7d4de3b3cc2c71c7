//! Whether a connection leads directly to the server, or to a pooler in front of it.
//!
//! The peer that accepts a connection sends the client a process id and a secret for cancel requests. The server
//! sends the id of the process that serves the connection, which a query can also read. A pooler sends ids that it
//! made up, because it must find the client that cancels: they have nothing to do with the process that answers. So
//! equal ids mean that there is no pooler in between.
//!
//! The driver does not expose the id, but sends it in a cancel request, through any stream that it is given. Here
//! that stream leads back to this process, and no server receives the request.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::{Client, Error};

/// The answer to a request for TLS.
const YES: &[u8] = b"S";

/// A cancel request: its length, a code, the process id, the secret; four bytes each.
const REQUEST_BYTES: usize = 16;
const CODE: [u8; 4] = 80_877_102_u32.to_be_bytes();

/// Far more than the two short messages that are sent.
const STREAM_BYTES: usize = 256;

pub(in crate::postgres) async fn is_direct(client: &Client) -> Result<bool, Error> {
    let Some(told) = announced_pid(client).await else { return Ok(false) };
    let rows = client.query_typed("SELECT pg_backend_pid()", &[]).await?;
    let serving: i32 = rows[0].try_get(0)?;
    Ok(told == serving)
}

/// The process id that the connection received when it was made.
async fn announced_pid(client: &Client) -> Option<i32> {
    let (ours, mut theirs) = tokio::io::duplex(STREAM_BYTES);
    theirs.write_all(YES).await.ok()?;
    client.cancel_token().cancel_query_raw(ours, PlaintextTls).await.ok()?;
    let mut sent = Vec::new();
    theirs.read_to_end(&mut sent).await.ok()?;
    pid_in_cancel_request(&sent)
}

/// Parses the last message, the cancel request; a request for TLS may precede it.
fn pid_in_cancel_request(sent: &[u8]) -> Option<i32> {
    let request = sent.last_chunk::<REQUEST_BYTES>()?;
    let number = request[8..12].try_into().ok()?;
    (request[4..8] == CODE).then_some(i32::from_be_bytes(number))
}

/// Stands in for TLS without encryption: the stream never leaves this process.
struct PlaintextTls;

impl TlsConnect<DuplexStream> for PlaintextTls {
    type Stream = PlaintextStream;
    type Error = io::Error;
    type Future = Ready<io::Result<PlaintextStream>>;

    fn connect(self, stream: DuplexStream) -> Self::Future {
        ready(Ok(PlaintextStream(stream)))
    }
}

struct PlaintextStream(DuplexStream);

impl TlsStream for PlaintextStream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for PlaintextStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for PlaintextStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: i32) -> Vec<u8> {
        let parts = [16_u32.to_be_bytes(), CODE, number.to_be_bytes(), [7; 4]];
        parts.concat()
    }

    #[test]
    fn the_number_is_found_behind_a_question_for_tls_too() {
        let question = [0, 0, 0, 8, 4, 210, 22, 47];
        assert_eq!(pid_in_cancel_request(&request(4711)), Some(4711));
        assert_eq!(pid_in_cancel_request(&[&question[..], &request(-3)].concat()), Some(-3));
    }

    #[test]
    fn whatever_is_no_request_has_no_number() {
        assert_eq!(pid_in_cancel_request(b""), None);
        assert_eq!(pid_in_cancel_request(&request(1)[1..]), None);
        let mut other = request(1);
        other[7] ^= 1;
        assert_eq!(pid_in_cancel_request(&other), None);
    }
}
