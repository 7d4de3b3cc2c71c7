//! The console's files: what a browser gets, what it may do with it, and that a server can leave them out.

use std::sync::Arc;

use coordinator::{ServeOptions, Server, serve};
use reqwest::header::HeaderMap;
use storetest::{ManualClock, MemoryStore};

use super::test_server::{PATIENCE, browser};

struct Served {
    server: Server,
    http: reqwest::Client,
    _folder: tempfile::TempDir,
}

impl Served {
    async fn start(has_console: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = MemoryStore::new(Arc::new(ManualClock::default()));
        let mut options =
            ServeOptions::new("127.0.0.1:0".parse().unwrap(), folder.path().join("signing.key"));
        options.has_console = has_console;
        let server = serve(store, options).await.unwrap();
        let redirects = reqwest::redirect::Policy::none();
        let http = browser().timeout(PATIENCE).redirect(redirects).build().unwrap();
        Self { server, http, _folder: folder }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, Vec<u8>) {
        let url = format!("http://{}{path}", self.server.local_addr());
        let request =
            headers.iter().fold(self.http.get(url), |it, (name, value)| it.header(*name, *value));
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        (status, headers, response.bytes().await.unwrap().to_vec())
    }

    async fn page(&self, path: &str) -> String {
        let (status, headers, body) = self.get(path, &[]).await;
        assert_eq!(status, 200, "{path}");
        assert_eq!(headers["content-type"], "text/html; charset=utf-8", "{path}");
        String::from_utf8(body).unwrap()
    }
}

/// The address of a file in the page, such as `app.js?v=0123456789ab`.
fn address<'a>(page: &'a str, name: &str) -> &'a str {
    let start = page.find(name).expect(name);
    page[start..].split('"').next().unwrap()
}

#[tokio::test]
async fn every_page_leads_back_to_the_root_of_the_console() {
    let served = Served::start(true).await;
    let (status, headers, _) = served.get("/console", &[]).await;
    // Relative: the server does not know the prefix of a proxy.
    assert_eq!((status, headers["location"].to_str().unwrap()), (308, "console/"));
    for (path, base) in [
        ("/console/", "./"),
        ("/console/runs", "./"),
        ("/console/runs/run_01M7", "../"),
        ("/console/runs/run_01M7/history?sel=entry-3", "../../"),
        ("/console/queues/a.b", "../"),
    ] {
        let page = served.page(path).await;
        assert!(page.contains(&format!("<base href=\"{base}\">")), "{path}: {page}");
        assert!(page.contains("<script type=\"module\" src=\"app.js?v="), "{path}: {page}");
    }
}

#[tokio::test]
async fn every_answer_forbids_what_the_console_does_not_need() {
    let served = Served::start(true).await;
    for path in ["/console", "/console/", "/console/runs/x", "/console/app.js", "/console/icon.svg"]
    {
        let (_, headers, _) = served.get(path, &[]).await;
        let policy = headers["content-security-policy"].to_str().unwrap();
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(headers[name], value, "{path}");
        }
        assert!(
            !headers.contains_key("set-cookie")
                && !headers.contains_key("access-control-allow-origin")
        );
    }
}

#[tokio::test]
async fn files_are_compressed_and_cached_by_what_they_are() {
    let served = Served::start(true).await;
    let page = served.page("/console/").await;
    for (name, media_type) in
        [("app.js", "text/javascript; charset=utf-8"), ("app.css", "text/css; charset=utf-8")]
    {
        let versioned = format!("/console/{}", address(&page, name));
        let (status, headers, plain) = served.get(&versioned, &[]).await;
        assert_eq!((status, headers["content-type"].to_str().unwrap()), (200, media_type));
        assert!(headers["cache-control"].to_str().unwrap().contains("immutable"), "{name}");
        let (_, packed_headers, packed) =
            served.get(&versioned, &[("accept-encoding", "br, gzip")]).await;
        assert_eq!(packed_headers["content-encoding"], "gzip");
        assert!(packed.len() * 2 < plain.len() && packed.starts_with(&[0x1f, 0x8b]), "{name}");
        // The two spellings are two representations: a cache must not mix them up.
        assert_ne!(headers["etag"], packed_headers["etag"]);
        assert_eq!(headers["vary"], "accept-encoding");
        let (_, refused, whole) = served.get(&versioned, &[("accept-encoding", "gzip;q=0")]).await;
        assert!(!refused.contains_key("content-encoding") && whole == plain);
        let known = headers["etag"].to_str().unwrap();
        let (status, _, nothing) = served.get(&versioned, &[("if-none-match", known)]).await;
        assert_eq!((status, nothing.len()), (304, 0));
        // Any other version may be another file: it is asked for again.
        let (_, other, _) = served.get(&format!("/console/{name}?v=000000000000"), &[]).await;
        assert_eq!(other["cache-control"], "no-cache");
    }
    let (_, headers, _) = served.get("/console/runs", &[]).await;
    assert_eq!(headers["cache-control"], "no-cache");
    let known = headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(served.get("/console/runs", &[("if-none-match", &known)]).await.0, 304);
    // The same page at another depth has another base.
    assert_eq!(served.get("/console/runs/x", &[("if-none-match", &known)]).await.0, 200);
}

#[tokio::test]
async fn what_is_no_file_and_no_page_is_not_there() {
    let served = Served::start(true).await;
    for path in ["/console/other.js", "/console/app.js.map", "/consoles", "/console/a//b"] {
        let (status, headers, _) = served.get(path, &[]).await;
        assert!(status == 404 || status == 400, "{path}: {status}");
        assert_eq!(headers["content-type"], "application/problem+json", "{path}");
    }
    // A page is no way around the key: the API asks for one as before.
    assert_eq!(served.get("/v1/runs", &[]).await.0, 401);
}

#[tokio::test]
async fn a_server_can_leave_the_console_out() {
    let served = Served::start(false).await;
    let of_sessions = ["/console/api/session", "/console/api/v1/session", "/console/api/livez"];
    let files = ["/console", "/console/", "/console/app.js", "/console/runs"];
    for path in files.into_iter().chain(of_sessions) {
        assert_eq!(served.get(path, &[]).await.0, 404, "{path}");
    }
    assert_eq!(served.get("/livez", &[]).await.0, 200);
}
