//! Whether a call to the console's API comes from a page of this console.
//!
//! A strict cookie does not say so: browsers count every port of a host as the same site, so a page of another program on
//! this machine sends it along. Three things do: `Sec-Fetch-Site`, which no page can forge; where browsers leave that
//! out, `Origin`; and a host name that is ours, so that a foreign name which resolves to this machine is none.
//! Nothing here answers a preflight, so no other page can add the header of the page token either.

use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Uri};
use wire::Code;

use super::api_error::ApiError;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Under which names a console may be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConsoleHosts {
    /// The listener is reachable from other machines, and the operator named no host.
    Any,
    /// The names of this machine, and that of the server's public address.
    Loopback { public: Option<String> },
}

impl ConsoleHosts {
    /// `public` is the address that the operator gave, if any.
    pub(crate) fn of(is_loopback: bool, public: Option<&str>) -> Self {
        if !is_loopback {
            return Self::Any;
        }
        let authority = public.and_then(|url| url.parse::<Uri>().ok()?.host().map(str::to_owned));
        Self::Loopback { public: authority }
    }

    fn include(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Loopback { public } => {
                is_this_machine(host)
                    || public.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(host))
            }
        }
    }
}

/// Refuses a call that no page of this console made.
pub(super) fn check(parts: &Parts, hosts: &ConsoleHosts) -> Result<(), ApiError> {
    let foreign = |message: &str| Err(ApiError::new(Code::ForeignPage, message));
    let Some(authority) = authority(parts) else {
        return foreign("send one Host header");
    };
    if !hosts.include(host_of(authority)) {
        return foreign(
            "the console is not served under this host name; open it under localhost, or start the server with --public-url",
        );
    }
    match one(&parts.headers, &SEC_FETCH_SITE) {
        Some("same-origin") => Ok(()),
        None if parts.headers.contains_key(SEC_FETCH_SITE) => foreign(NOT_OURS),
        Some(_) => foreign(NOT_OURS),
        // Browsers say where a call comes from wherever the connection is trustworthy, and loopback is.
        None if is_this_machine(host_of(authority)) => foreign(NOT_OURS),
        None if parts.method == Method::GET => Ok(()),
        None if is_own_origin(&parts.headers, authority) => Ok(()),
        None => foreign(NOT_OURS),
    }
}

const NOT_OURS: &str =
    "the call does not come from a page of this console; programs use /v1 with an API key";

/// The name and port that the call was sent to.
fn authority(parts: &Parts) -> Option<&str> {
    match parts.uri.authority() {
        // HTTP/2 has it in the address.
        Some(authority) => Some(authority.as_str()),
        None => one(&parts.headers, &HOST),
    }
}

/// The only value of a header; two are none, because two readers might pick different ones.
fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn is_own_origin(headers: &HeaderMap, authority: &str) -> bool {
    let Some((scheme, origin)) = one(headers, &ORIGIN).and_then(|it| it.split_once("://")) else {
        return false;
    };
    let default = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return false,
    };
    let plain = |text: &str| text.strip_suffix(default).unwrap_or(text).to_ascii_lowercase();
    plain(origin) == plain(authority)
}

/// The name without its port.
fn host_of(authority: &str) -> &str {
    if let Some(end) = authority.strip_prefix('[').and_then(|rest| rest.find(']')) {
        return &authority[..end + 2];
    }
    authority.split(':').next().unwrap_or(authority)
}

fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "[::1]"
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn allowed(method: &str, headers: &[(&str, &str)], hosts: &ConsoleHosts) -> bool {
        let request = Request::builder().method(method).uri("/console/api/v1/runs");
        let request = headers.iter().fold(request, |it, (name, value)| it.header(*name, *value));
        check(&request.body(()).unwrap().into_parts().0, hosts).is_ok()
    }

    const HERE: (&str, &str) = ("host", "127.0.0.1:7400");
    const SAME: (&str, &str) = ("sec-fetch-site", "same-origin");

    #[test]
    fn only_a_page_of_the_same_origin_calls_on_this_machine() {
        let hosts = ConsoleHosts::of(true, None);
        for host in ["127.0.0.1:7400", "localhost:7400", "LOCALHOST", "[::1]:7400", "[::1]"] {
            assert!(allowed("GET", &[("host", host), SAME], &hosts), "{host}");
        }
        for host in ["evil.example:7400", "127.0.0.1.evil.example", "[::2]", "localhost.", ""] {
            assert!(!allowed("GET", &[("host", host), SAME], &hosts), "{host}");
        }
        // Another port of the same host is the same site.
        for site in ["same-site", "cross-site", "none", "", "same-origin,same-origin"] {
            assert!(!allowed("GET", &[HERE, ("sec-fetch-site", site)], &hosts), "{site}");
        }
        let own = ("origin", "http://127.0.0.1:7400");
        for method in ["GET", "POST"] {
            assert!(!allowed(method, &[HERE], &hosts));
            assert!(!allowed(method, &[HERE, own], &hosts), "every browser says more");
        }
        assert!(!allowed("GET", &[HERE, HERE, SAME], &hosts));
        assert!(!allowed("GET", &[HERE, SAME, SAME], &hosts));
        assert!(!allowed("GET", &[SAME], &hosts));
    }

    #[test]
    fn a_public_name_is_ours_too() {
        let hosts = ConsoleHosts::of(true, Some("https://tenure.example/ops"));
        assert!(allowed("POST", &[("host", "tenure.example"), SAME], &hosts));
        assert!(allowed("POST", &[HERE, SAME], &hosts));
        assert!(!allowed("POST", &[("host", "other.example"), SAME], &hosts));
    }

    #[test]
    fn where_browsers_say_less_the_origin_of_a_change_has_to_be_ours() {
        let hosts = ConsoleHosts::of(false, None);
        let there = ("host", "10.1.2.3:7400");
        assert!(allowed("GET", &[there], &hosts), "the page token guards what is read");
        assert!(allowed("POST", &[there, ("origin", "http://10.1.2.3:7400")], &hosts));
        for origin in
            ["http://10.1.2.3:7401", "http://evil.example", "null", "file://10.1.2.3:7400"]
        {
            assert!(!allowed("POST", &[there, ("origin", origin)], &hosts), "{origin}");
        }
        assert!(!allowed("POST", &[there], &hosts));
        let proxied = [("host", "tenure.example"), ("origin", "https://tenure.example:443")];
        assert!(allowed("POST", &proxied, &hosts));
        assert!(!allowed("POST", &[there, ("sec-fetch-site", "same-site")], &hosts));
    }
}
