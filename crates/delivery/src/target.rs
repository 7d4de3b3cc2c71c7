//! A URL that may be called, as far as its text says. The same parsed form is checked and used.
//!
//! The parser of the `url` crate reads what browsers read: it drops tabs, turns backslashes round and accepts numbers as
//! addresses. What a reader could take for something else is therefore refused before it is parsed, and what is judged is
//! the parsed form.

use std::net::{IpAddr, SocketAddr};

use url::{Host, Url};

use crate::address::is_public;
use crate::egress::{Egress, PORTS};

/// Maximum bytes of a URL: what common servers accept in a request line.
pub const URL_MAX: usize = 2_048;

/// Names that mean something inside only.
const INNER_NAMES: [&str; 13] = [
    "localhost",
    "local",
    "internal",
    "intranet",
    "home.arpa",
    "localdomain",
    "onion",
    "test",
    "lan",
    "home",
    "corp",
    "private",
    "svc",
];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the text is not a URL of at most {URL_MAX} printable ASCII characters")]
    Text,
    #[error("the scheme is not https")]
    Scheme,
    #[error("a URL with a user or a password")]
    Credentials,
    #[error("a URL with a fragment")]
    Fragment,
    #[error("the port is not allowed")]
    Port,
    #[error("the host is not a public name")]
    Host,
    #[error("the address is not public, or not allowed")]
    Address,
    #[error("the name has no address, or too many")]
    Resolution,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    url: Url,
}

impl Target {
    /// Judges the text of a URL. A name is judged again when it is resolved.
    pub fn parse(text: &str, egress: &Egress) -> Result<Self, Refused> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
        if text.len() > URL_MAX || !text.bytes().all(is_plain) {
            return Err(Refused::Text);
        }
        let url = Url::parse(text).map_err(|_| Refused::Text)?;
        let target = Self { url };
        target.check_shape(text)?;
        target.check_host(egress)?;
        Ok(target)
    }

    fn check_shape(&self, text: &str) -> Result<(), Refused> {
        let url = &self.url;
        // `https:host` and `https:///host` mean the same to the parser, and something else to other readers.
        let rest = text.get(url.scheme().len()..).unwrap_or_default();
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Scheme);
        }
        if !rest.starts_with("://") || rest.starts_with(":///") {
            return Err(Refused::Text);
        }
        let authority = rest.trim_start_matches("://");
        let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') || !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::Credentials);
        }
        if url.fragment().is_some() { Err(Refused::Fragment) } else { Ok(()) }
    }

    fn check_host(&self, egress: &Egress) -> Result<(), Refused> {
        match self.url.host() {
            Some(Host::Ipv4(address)) => self.check_address(IpAddr::V4(address), egress),
            Some(Host::Ipv6(address)) => self.check_address(IpAddr::V6(address), egress),
            Some(Host::Domain(name)) => self.check_name(name, egress),
            None => Err(Refused::Host),
        }
    }

    fn check_name(&self, name: &str, egress: &Egress) -> Result<(), Refused> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_label = |label: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !label.is_empty() && label.len() <= 63 && label.bytes().all(is_allowed)
        };
        if name.len() > 253 || !name.split('.').all(is_label) {
            return Err(Refused::Host);
        }
        // A name of an allowed range may be anything: its addresses are judged when it is resolved.
        if !egress.allowed.is_empty() {
            return Ok(());
        }
        let is_inner = |inner: &&str| {
            let head = name.strip_suffix(*inner);
            head.is_some_and(|head| head.is_empty() || head.ends_with('.'))
        };
        if !name.contains('.') || INNER_NAMES.iter().any(is_inner) {
            return Err(Refused::Host);
        }
        self.check_terms(false)
    }

    /// Whether this address, which the URL has or which its name was resolved to, may be called.
    pub(crate) fn check_address(&self, address: IpAddr, egress: &Egress) -> Result<(), Refused> {
        let is_allowed = egress.allows(address);
        if egress.is_own(SocketAddr::new(address, self.port()))
            || !(is_allowed || is_public(address))
        {
            return Err(Refused::Address);
        }
        self.check_terms(is_allowed)
    }

    /// Plain text and other ports are for allowed ranges only.
    fn check_terms(&self, is_allowed: bool) -> Result<(), Refused> {
        if !is_allowed && !self.is_tls() {
            return Err(Refused::Scheme);
        }
        if !is_allowed && !PORTS.contains(&self.port()) { Err(Refused::Port) } else { Ok(()) }
    }

    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    pub(crate) fn port(&self) -> u16 {
        self.url.port_or_known_default().expect("http and https have a port")
    }

    pub(crate) fn host(&self) -> Host<&str> {
        self.url.host().expect("a target has a host")
    }

    /// The `Host` header: the port is left out where it is the scheme's.
    pub(crate) fn authority(&self) -> String {
        let host = self.host();
        self.url.port().map_or_else(|| host.to_string(), |port| format!("{host}:{port}"))
    }

    pub(crate) fn path_and_query(&self) -> String {
        match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        }
    }
}
