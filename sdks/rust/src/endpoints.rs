//! The addresses of the coordinators of one store. Any of them can serve a call; when one does not
//! answer, the client moves on to the next.
//!
//! A client stays with an endpoint for as long as it answers, so that connections are reused.
//! Clients start at a random endpoint, which spreads the load; they do not move back to a
//! coordinator that returned.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Url;

use crate::Error;
use crate::client::{DEFAULT_URL, random_hex};

/// More than any installation has; a longer list is not a list of addresses.
const ENDPOINTS_MAX: usize = 64;

/// Cheap to clone; all clones switch endpoints together.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints {
    bases: Arc<[Url]>,
    current: Arc<AtomicUsize>,
}

impl Endpoints {
    /// Parses one address, or several with commas between them.
    pub(crate) fn parse(list: &str) -> Result<Endpoints, Error> {
        let bases: Vec<Url> =
            list.split(',').map(|url| base(url.trim())).collect::<Result<_, _>>()?;
        let first = &bases[0];
        let is_alike = |base: &Url| base.path() == first.path() && base.scheme() == first.scheme();
        if bases.len() > ENDPOINTS_MAX || !bases.iter().all(is_alike) {
            let why = "the addresses of one store's coordinators differ in host and port only, and are \
                 at most 64";
            return Err(Error::Setup(format!("{why}: `{list}`")));
        }
        let current = if bases.len() == 1 { 0 } else { random_index()? % bases.len() };
        Ok(Endpoints { bases: bases.into(), current: Arc::new(AtomicUsize::new(current)) })
    }

    /// The URL from which every call's address is built; [`Endpoints::url_at`] then replaces the
    /// endpoint.
    pub(crate) fn base(&self) -> &Url {
        &self.bases[0]
    }

    pub(crate) fn is_multiple(&self) -> bool {
        self.bases.len() > 1
    }

    /// The index of the endpoint to use now.
    pub(crate) fn current_index(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// The same URL at another endpoint.
    pub(crate) fn url_at(&self, url: &Url, number: usize) -> Url {
        let mut url = url.clone();
        if !self.is_multiple() {
            return url;
        }
        let endpoint = &self.bases[number % self.bases.len()];
        url.set_host(endpoint.host_str()).expect("a base has a host");
        url.set_port(endpoint.port()).expect("an http address may have a port");
        url
    }

    /// Records that the endpoint gave no decision: calls use the next one from now on, unless
    /// another call has already switched.
    pub(crate) fn advance_past(&self, number: usize) {
        let next = number.wrapping_add(1);
        // The first call to fail switches for all clones.
        let _ = self.current.compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

fn base(url: &str) -> Result<Url, Error> {
    let base = Url::parse(url).ok();
    base.filter(|base| matches!(base.scheme(), "http" | "https") && base.has_host()).ok_or_else(
        || {
            Error::Setup(format!(
                "`{url}` is not an address such as {DEFAULT_URL}; only http and https are supported"
            ))
        },
    )
}

fn random_index() -> Result<usize, Error> {
    let hex = random_hex()?;
    Ok(usize::from_str_radix(&hex[..8], 16).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_goes_to_the_next_endpoint_once_however_many_were_refused_at_one() {
        let endpoints = Endpoints::parse("http://a:1/x, http://b/x,http://c:3/x").unwrap();
        let url = Url::parse("http://a:1/x/v1/runs?n=1").unwrap();
        endpoints.current.store(0, Ordering::Relaxed);
        assert_eq!(
            endpoints.url_at(&url, endpoints.current_index()).as_str(),
            "http://a:1/x/v1/runs?n=1"
        );
        endpoints.advance_past(0);
        endpoints.advance_past(0);
        assert_eq!(
            endpoints.url_at(&url, endpoints.current_index()).as_str(),
            "http://b/x/v1/runs?n=1"
        );
        endpoints.advance_past(1);
        endpoints.advance_past(2);
        assert_eq!(
            endpoints.url_at(&url, endpoints.current_index()).as_str(),
            "http://a:1/x/v1/runs?n=1"
        );
    }

    #[test]
    fn lists_that_are_no_endpoints_of_one_store_are_refused() {
        for list in
            ["", "http://a,", "http://a,ftp://b", "http://a/x,http://b/y", "http://a,https://b"]
        {
            assert!(matches!(Endpoints::parse(list), Err(Error::Setup(_))), "{list}");
        }
    }
}
