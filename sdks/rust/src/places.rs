//! Where the coordinators of one store listen: any of them may be asked, and the next one is when one does
//! not answer.
//!
//! A place is kept for as long as it answers, so that connections are used again. Clients begin at a place
//! drawn at random, which spreads them; nothing moves them back to a coordinator that returned.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Url;

use crate::Error;
use crate::client::{DEFAULT_URL, random_hex};

/// More than any installation has; a longer list is something else than addresses.
const PLACES_MAX: usize = 64;

/// Cheap to clone; all clones move on together.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    bases: Arc<[Url]>,
    at: Arc<AtomicUsize>,
}

impl Places {
    /// One address, or several with commas between them.
    pub(crate) fn parse(list: &str) -> Result<Places, Error> {
        let bases: Vec<Url> =
            list.split(',').map(|url| base(url.trim())).collect::<Result<_, _>>()?;
        let first = &bases[0];
        let is_alike = |base: &Url| base.path() == first.path() && base.scheme() == first.scheme();
        if bases.len() > PLACES_MAX || !bases.iter().all(is_alike) {
            let why = "the addresses of one store's coordinators differ in host and port only, and are \
                 at most 64";
            return Err(Error::Setup(format!("{why}: `{list}`")));
        }
        let at = if bases.len() == 1 { 0 } else { drawn()? % bases.len() };
        Ok(Places { bases: bases.into(), at: Arc::new(AtomicUsize::new(at)) })
    }

    /// What every address of a call is made from; [`Places::chosen`] then says whom it goes to.
    pub(crate) fn base(&self) -> &Url {
        &self.bases[0]
    }

    pub(crate) fn are_several(&self) -> bool {
        self.bases.len() > 1
    }

    /// The number of the place to ask now.
    pub(crate) fn now(&self) -> usize {
        self.at.load(Ordering::Relaxed)
    }

    /// The same address at a place.
    pub(crate) fn chosen(&self, url: &Url, number: usize) -> Url {
        let place = &self.bases[number % self.bases.len()];
        let mut url = url.clone();
        url.set_host(place.host_str()).expect("a base has a host");
        url.set_port(place.port()).expect("an http address may have a port");
        url
    }

    /// That place gave no decision: the next one is asked from now on, unless somebody moved on already.
    pub(crate) fn leave(&self, number: usize) {
        let next = number.wrapping_add(1);
        // Whoever was first has moved on for everybody.
        let _ = self.at.compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

fn base(url: &str) -> Result<Url, Error> {
    let base = Url::parse(url).ok();
    base.filter(|base| matches!(base.scheme(), "http" | "https") && base.has_host()).ok_or_else(
        || {
            Error::Setup(format!(
                "`{url}` is not an address such as {DEFAULT_URL}; only http and https are spoken"
            ))
        },
    )
}

fn drawn() -> Result<usize, Error> {
    let hex = random_hex()?;
    Ok(usize::from_str_radix(&hex[..8], 16).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_goes_to_the_next_place_once_however_many_were_refused_at_one() {
        let places = Places::parse("http://a:1/x, http://b/x,http://c:3/x").unwrap();
        let url = Url::parse("http://a:1/x/v1/runs?n=1").unwrap();
        places.at.store(0, Ordering::Relaxed);
        assert_eq!(places.chosen(&url, places.now()).as_str(), "http://a:1/x/v1/runs?n=1");
        places.leave(0);
        places.leave(0);
        assert_eq!(places.chosen(&url, places.now()).as_str(), "http://b/x/v1/runs?n=1");
        places.leave(1);
        places.leave(2);
        assert_eq!(places.chosen(&url, places.now()).as_str(), "http://a:1/x/v1/runs?n=1");
    }

    #[test]
    fn lists_that_are_no_places_of_one_store_are_refused() {
        for list in
            ["", "http://a,", "http://a,ftp://b", "http://a/x,http://b/y", "http://a,https://b"]
        {
            assert!(matches!(Places::parse(list), Err(Error::Setup(_))), "{list}");
        }
    }
}
