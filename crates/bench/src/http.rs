//! A minimal HTTP/1.1 connection. The load runs on the cores of the server that it measures, so
//! every microsecond it takes is missing from the server.
//!
//! One request at a time, kept alive, answers with a Content-Length.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::BenchError;

/// Room for an answer's head and a single task; a larger answer grows it once.
const BUFFER_BYTES: usize = 4 * 1024;

pub(crate) struct Connection {
    stream: TcpStream,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

/// The offsets of an answer's parts in the buffer.
struct Head {
    status: u16,
    body: usize,
    length: usize,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, BenchError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (outgoing, incoming) = (Vec::new(), Vec::with_capacity(BUFFER_BYTES));
        Ok(Self { stream, outgoing, incoming })
    }

    pub(crate) async fn post(
        &mut self,
        path: &str,
        credential: &str,
        body: &str,
    ) -> Result<&[u8], BenchError> {
        let length = body.len();
        self.ask(format!(
            "POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {credential}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await
    }

    pub(crate) async fn get(&mut self, path: &str, credential: &str) -> Result<&[u8], BenchError> {
        self.ask(format!(
            "GET {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {credential}\r\n\r\n"
        ))
        .await
    }

    /// Sends a request and returns the body of a successful answer.
    async fn ask(&mut self, request: String) -> Result<&[u8], BenchError> {
        self.outgoing.clear();
        self.outgoing.extend_from_slice(request.as_bytes());
        self.stream.write_all(&self.outgoing).await?;
        self.incoming.clear();
        let head = self.head().await?;
        while self.incoming.len() < head.body + head.length {
            self.receive().await?;
        }
        let body = &self.incoming[head.body..head.body + head.length];
        if !(200..300).contains(&head.status) {
            let body = String::from_utf8_lossy(body).into_owned();
            return Err(BenchError::Answer { status: head.status, body });
        }
        Ok(body)
    }

    async fn head(&mut self) -> Result<Head, BenchError> {
        loop {
            self.receive().await?;
            let end = self.incoming.windows(4).position(|window| window == b"\r\n\r\n");
            if let Some(end) = end {
                return Ok(read_head(&self.incoming[..end], end + 4)?);
            }
        }
    }

    async fn receive(&mut self) -> Result<(), BenchError> {
        if self.stream.read_buf(&mut self.incoming).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(())
    }
}

fn read_head(head: &[u8], body: usize) -> io::Result<Head> {
    let strange = || io::Error::from(io::ErrorKind::InvalidData);
    let text = std::str::from_utf8(head).map_err(|_| strange())?;
    let status = text.get(9..12).and_then(|status| status.parse().ok()).ok_or_else(strange)?;
    let lengths = text.lines().filter_map(|line| line.split_once(": "));
    let length = lengths
        .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .find_map(|(_, value)| value.parse().ok())
        .ok_or_else(strange)?;
    Ok(Head { status, body, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_status_and_length() {
        let head = read_head(b"HTTP/1.1 201 Created\r\nContent-Length: 17\r\nx: y", 99).unwrap();
        assert_eq!((head.status, head.body, head.length), (201, 99, 17));
        assert!(read_head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked", 9).is_err());
    }
}
