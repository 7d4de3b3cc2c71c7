//! From names to addresses. What a resolver answers is believed only after [`crate::check`].

use std::io;
use std::net::IpAddr;

use futures_util::future::BoxFuture;

pub trait Resolve: Send + Sync {
    /// All addresses of the name, of both families.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system. A lookup takes a blocking thread of the runtime until it has an answer, even if
/// it is dropped before.
#[derive(Clone, Copy, Debug)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
