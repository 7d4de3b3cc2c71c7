//! Connections, made only to addresses that were checked.

use std::io;
use std::net::SocketAddr;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// An address that [`crate::check`] let pass. Nothing else can make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedAddress(SocketAddr);

impl CheckedAddress {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self(address)
    }

    pub fn get(self) -> SocketAddr {
        self.0
    }
}

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub trait Dial: Send + Sync {
    fn dial(&self, address: CheckedAddress) -> BoxFuture<'_, io::Result<Box<dyn Stream>>>;
}

#[derive(Clone, Copy, Debug)]
pub struct TcpDialer;

impl Dial for TcpDialer {
    fn dial(&self, address: CheckedAddress) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = TcpStream::connect(address.get()).await?;
            // A small request is one packet: nothing follows that it could wait for.
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}
