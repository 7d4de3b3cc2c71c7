//! The byte stream of a connection: the socket, plain or under TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::tls::Certificates;

/// The first byte of a TLS connection: a record that holds a handshake.
const TLS_HANDSHAKE: u8 = 22;

/// The answer to a client that speaks plain HTTP on a TLS port.
const SPEAK_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\
    Connection: close\r\nContent-Length: 42\r\n\r\nThis port speaks TLS: say https, not http.";

/// One type for both, so that everything above is compiled once.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Does the TLS handshake within its time; `None` if it fails, which is the client's problem.
    pub(super) async fn handshake(
        socket: TcpStream,
        certificates: &Certificates,
        within: Duration,
    ) -> Option<Self> {
        certificates.check_files().await;
        match tokio::time::timeout(within, handshake(socket, certificates)).await {
            Ok(Ok(stream)) => stream.map(|stream| Stream::Tls(Box::new(stream))),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a handshake failed");
                None
            }
            Err(_) => {
                tracing::debug!("a handshake took too long");
                None
            }
        }
    }
}

async fn handshake(
    mut socket: TcpStream,
    certificates: &Certificates,
) -> io::Result<Option<TlsStream<TcpStream>>> {
    let mut first = [0];
    let read = socket.peek(&mut first).await?;
    if read == 1 && first != [TLS_HANDSHAKE] {
        socket.write_all(SPEAK_TLS).await?;
        socket.shutdown().await?;
        return Ok(None);
    }
    certificates.acceptor().accept(socket).await.map(Some)
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(socket) => socket.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }
}
