//! Sessions of the console: how a browser gets one, what a call needs beside the cookie, and when it is over.

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use verdict::Span;

use super::test_server::{Response, TestServer, both, seconds};

/// What a browser has after a login.
#[derive(Clone, Debug)]
pub(super) struct Browser {
    /// `name=text`, as it is sent back.
    pub(super) cookie: String,
    pub(super) page_token: String,
    /// The attributes of the cookie.
    pub(super) attributes: Vec<String>,
    pub(super) session: Value,
}

pub(super) const LOGIN: &str = "/console/api/session";
const LOGOUT: &str = "/logout";
const LIFE: Span = Span::from_secs(12 * 3600);

/// As the console's own page makes it, in every browser that is trustworthy about loopback.
pub(super) fn own_page(request: RequestBuilder) -> RequestBuilder {
    request.header("sec-fetch-site", "same-origin")
}

impl Browser {
    pub(super) async fn try_login(api: &TestServer, body: Value) -> Response {
        api.send(own_page(api.request("POST", LOGIN)).json(&body)).await
    }

    pub(super) async fn log_in(api: &TestServer, key: &str) -> Self {
        let got = Self::try_login(api, json!({"key": key})).await;
        assert_eq!(got.status, 200, "{got:?}");
        Self::of(&got)
    }

    pub(super) fn of(got: &Response) -> Self {
        let line = got.headers["set-cookie"].to_str().unwrap();
        let mut parts = line.split("; ").map(str::to_owned);
        Self {
            cookie: parts.next().unwrap(),
            attributes: parts.collect(),
            page_token: got.text("pageToken"),
            session: got.body["session"].clone(),
        }
    }

    pub(super) fn call(&self, api: &TestServer, method: &str, path: &str) -> RequestBuilder {
        let request = own_page(api.request(method, &format!("/console/api{path}")));
        request.header("cookie", &self.cookie).header("x-tenure-session", &self.page_token)
    }

    pub(super) async fn get(&self, api: &TestServer, path: &str) -> Response {
        api.send(self.call(api, "GET", path)).await
    }

    async fn post(&self, api: &TestServer, path: &str, body: Value) -> Response {
        api.send(self.call(api, "POST", path).json(&body)).await
    }

    async fn log_out(&self, api: &TestServer) -> Response {
        api.send(self.call(api, "POST", LOGOUT)).await
    }
}

pub(super) async fn code(api: &TestServer, key: &str) -> String {
    let made = api.post("/v1/console-codes", key, json!({})).await;
    assert_eq!(made.status, 201, "{made:?}");
    let code = made.text("code");
    assert_eq!(made.text("path"), format!("/console/#code={code}"));
    code
}

async fn key(api: &TestServer, wanted: Value) -> (String, String) {
    let made = api.post("/v1/keys", &api.admin_key, wanted).await;
    (made.body["key"]["keyId"].as_str().unwrap().to_owned(), made.text("secret"))
}

#[tokio::test]
async fn a_key_is_shown_once_and_a_session_does_what_the_key_may() {
    for api in both().await {
        let browser = Browser::log_in(&api, &api.key).await;
        for attribute in ["HttpOnly", "SameSite=Strict", "Max-Age=43200"] {
            assert!(browser.attributes.iter().any(|it| it == attribute), "{browser:?}");
        }
        // The browser derives the path from where it logged in, behind any prefix; and plain HTTP on loopback is no reason to lose it.
        let other = ["Path", "Domain", "Secure"];
        assert!(!browser.attributes.iter().any(|it| other.iter().any(|name| it.starts_with(name))));
        let secret = api.key.split('_').nth(2).unwrap();
        assert!(!format!("{browser:?}").contains(secret), "the key is nowhere in it");
        let made = browser.post(&api, "/v1/runs", json!({"kind": "k", "queue": "q"})).await;
        assert_eq!(made.status, 201, "{made:?}");
        let listed = browser.get(&api, "/v1/runs").await.ok();
        assert_eq!(listed["runs"][0]["runId"], made.body["runId"]);
        let itself = browser.get(&api, "/v1/session").await.ok();
        assert_eq!(itself["keyId"], browser.session["keyId"]);
        assert_eq!(itself["expiresAt"], browser.session["expiresAt"]);
        for open in ["/livez", "/readyz", "/version", "/metrics"] {
            assert_eq!(browser.get(&api, open).await.status, 200, "{open}");
        }
    }
}

#[tokio::test]
async fn a_session_opens_nothing_but_what_people_do() {
    for api in both().await {
        let browser = Browser::log_in(&api, &api.key).await;
        // X10: no browser is a worker; and a session that made codes would outlive itself.
        for path in ["/v1/leases", "/v1/reports", "/v1/console-codes"] {
            let got = browser.post(&api, path, json!({})).await;
            assert!([404, 405].contains(&got.status), "{path}: {got:?}");
        }
        // The interface of programs reads no cookie.
        let request = own_page(api.request("GET", "/v1/runs"));
        let request = request.header("cookie", &browser.cookie);
        let got = api.send(request.header("x-tenure-session", &browser.page_token)).await;
        got.problem(401, "unauthenticated");
        // And the console's takes no key.
        let request = own_page(api.request("GET", "/console/api/v1/runs")).bearer_auth(&api.key);
        api.send(request).await.problem(401, "session_required");
        let got = browser.get(&api, "/v1/nothing").await;
        got.problem(404, "not_found");
        assert_eq!(browser.get(&api, "").await.status, 404);
        let got = browser.get(&api, "/v1/runs").await;
        assert_eq!(got.headers["cross-origin-resource-policy"], "same-origin");
        assert_eq!(got.headers["x-content-type-options"], "nosniff");
        assert!(!got.headers.contains_key("access-control-allow-origin"));
        let got = Browser::try_login(&api, json!({"key": "x"})).await;
        assert!(got.headers["content-security-policy"].to_str().unwrap().contains("trusted-types"));
    }
}

#[tokio::test]
async fn a_cookie_alone_is_nothing() {
    for api in both().await {
        // A page on another port of this host sends the strict cookie along: it has no token, and the browser says so.
        let browser = Browser::log_in(&api, &api.key).await;
        let other = Browser::log_in(&api, &api.client_key).await;
        let call = || own_page(api.request("GET", "/console/api/v1/runs"));
        let cookie = || call().header("cookie", &browser.cookie);
        let token = "x-tenure-session";
        for refused in [
            cookie(),
            cookie().header(token, ""),
            cookie().header(token, &other.page_token),
            cookie().header(token, &browser.page_token).header(token, &browser.page_token),
            call().header(token, &browser.page_token),
            call().header("cookie", &other.cookie).header(token, &browser.page_token),
        ] {
            let got = api.send(refused).await;
            got.problem(401, "session_required").has("message", "log in to the console");
        }
        // What another program set under the same name stands in nobody's way.
        let name = browser.cookie.split('=').next().unwrap();
        let lines = format!("a=b; {name}=x; {}; {}", other.cookie, browser.cookie);
        let got = call().header("cookie", lines).header(token, &browser.page_token);
        assert_eq!(api.send(got).await.status, 200);
    }
}

#[tokio::test]
async fn only_pages_of_this_console_call() {
    for api in both().await {
        let browser = Browser::log_in(&api, &api.key).await;
        let with = |site: Option<&str>, method: &str, path: &str| {
            let request = api.request(method, path).header("cookie", &browser.cookie);
            let request = request.header("x-tenure-session", &browser.page_token);
            site.map_or(request.try_clone().unwrap(), |site| request.header("sec-fetch-site", site))
        };
        // Another port of the host is `same-site`.
        for site in [Some("same-site"), Some("cross-site"), Some("none"), None] {
            for (method, path) in [
                ("GET", "/console/api/v1/runs"),
                ("POST", "/console/api/v1/runs"),
                ("POST", LOGIN),
                ("POST", "/console/api/logout"),
            ] {
                let request = with(site, method, path).header("origin", api.url(""));
                let body = json!({"kind": "k", "queue": "q"});
                let request = if method == "POST" { request.json(&body) } else { request };
                api.send(request).await.problem(403, "foreign_page");
            }
        }
        assert_eq!(browser.get(&api, "/v1/runs").await.ok()["runs"], json!([]), "nothing was done");
        // A name that resolves to this machine is not this machine.
        let request = browser.call(&api, "GET", "/v1/runs").header("host", "evil.example");
        api.send(request).await.problem(403, "foreign_page");
        // Nothing answers the question before a call with a foreign header.
        let asked =
            api.request("OPTIONS", "/console/api/v1/runs").header("origin", "http://a.example");
        let got =
            api.send(asked.header("access-control-request-headers", "x-tenure-session")).await;
        assert!(got.status >= 400 && !got.headers.contains_key("access-control-allow-headers"));
    }
}

#[tokio::test]
async fn a_changed_cookie_opens_nothing() {
    for api in both().await {
        let browser = Browser::log_in(&api, &api.key).await;
        let (name, text) = browser.cookie.split_once('=').unwrap();
        let changed =
            |text: String| Browser { cookie: format!("{name}={text}"), ..browser.clone() };
        let flip = |at: usize| {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            String::from_utf8(bytes).unwrap()
        };
        let mut texts: Vec<String> = (0..text.len()).step_by(7).map(flip).collect();
        texts.extend((0..text.len()).step_by(13).map(|at| text[..at].to_owned()));
        texts.extend([format!("{text}AAAA"), "A".repeat(3_000), "%00".to_owned()]);
        for text in texts {
            let got = changed(text.clone()).get(&api, "/v1/runs").await;
            got.problem(401, "session_required").has("message", "log in to the console");
        }
        assert_eq!(browser.get(&api, "/v1/runs").await.status, 200);
    }
}

#[tokio::test]
async fn a_session_ends_with_its_key() {
    for api in both().await {
        for (how, why) in
            [("revoke", "revoked"), ("rotate", "rotated"), ("expire", "expired"), ("wait", "end")]
        {
            let (id, secret) = match how {
                "expire" => {
                    let now = api.get("/v1/session").await.text("serverTime");
                    let now: wire::Time = serde_json::from_value(json!(now)).unwrap();
                    let end = wire::Time::from_ms(now.as_ms() + 1_000);
                    key(&api, json!({"roles": ["reader"], "expiresAt": end})).await
                }
                _ => key(&api, json!({"roles": ["reader"]})).await,
            };
            let browser = Browser::log_in(&api, &secret).await;
            assert_eq!(browser.get(&api, "/v1/runs").await.status, 200);
            let verb = |verb: &str, body| {
                let path = format!("/v1/keys/{id}/{verb}");
                let (api, admin) = (&api, &api.admin_key);
                async move { api.post(&path, admin, body).await.ok() }
            };
            match how {
                "revoke" => drop(verb("revoke", json!({})).await),
                "rotate" => drop(verb("rotate", json!({"overlapMs": 0})).await),
                "expire" => api.clock.advance(seconds(1)),
                _ => api.clock.advance(LIFE),
            }
            // At the next call, with the reason, because the caller has both the cookie and the token.
            let got = browser.get(&api, "/v1/runs").await;
            got.problem(401, "session_required");
            assert!(got.text("message").contains(why), "{how}: {got:?}");
        }
    }
}

#[tokio::test]
async fn a_session_of_an_old_secret_ends_with_the_overlap() {
    for api in both().await {
        let (id, old) = key(&api, json!({"roles": ["reader"]})).await;
        let overlap = json!({"overlapMs": 60_000});
        api.post(&format!("/v1/keys/{id}/rotate"), &api.admin_key, overlap).await.ok();
        let by_key = Browser::log_in(&api, &old).await;
        let made = code(&api, &old).await;
        let by_code = Browser::of(&Browser::try_login(&api, json!({"code": made})).await);
        for browser in [&by_key, &by_code] {
            assert_eq!(browser.get(&api, "/v1/runs").await.status, 200);
        }
        api.clock.advance(seconds(60));
        for browser in [&by_key, &by_code] {
            browser.get(&api, "/v1/runs").await.problem(401, "session_required");
        }
    }
}

#[tokio::test]
async fn who_logs_out_is_out_with_cookie_and_token() {
    // A cookie without a path belongs to the folder of the address that sets it.
    assert_eq!(
        LOGIN.rsplit_once('/').unwrap().0,
        format!("/console/api{LOGOUT}").rsplit_once('/').unwrap().0
    );
    for api in both().await {
        let browser = Browser::log_in(&api, &api.key).await;
        let other = Browser::log_in(&api, &api.key).await;
        let got = browser.log_out(&api).await;
        assert_eq!(got.status, 204);
        let cleared = got.headers["set-cookie"].to_str().unwrap();
        assert!(cleared.contains("=; ") && cleared.contains("Max-Age=0"), "{cleared}");
        browser.get(&api, "/v1/runs").await.problem(401, "session_required");
        assert_eq!(other.get(&api, "/v1/runs").await.status, 200, "another browser stays");
        assert_eq!(browser.log_out(&api).await.status, 204, "also if it is over already");
        let entries = wait_for_audit(&api, "console.logout").await;
        assert_eq!((entries["console.login"], entries["console.logout"]), (2, 1));
    }
}

/// How many entries of each action the audit has, once this one is there. They are written beside the answers.
async fn wait_for_audit(api: &TestServer, action: &str) -> std::collections::BTreeMap<String, u32> {
    loop {
        let log = api.get_as("/v1/audit", &api.admin_key).await.ok();
        let mut counts = std::collections::BTreeMap::new();
        for entry in log["entries"].as_array().unwrap() {
            *counts.entry(entry["action"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
        let logins = counts.get("console.login").copied().unwrap_or(0);
        if counts.contains_key(action) && logins == 2 {
            return counts;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_login_in_the_same_browser_replaces_its_session() {
    for api in both().await {
        let first = Browser::log_in(&api, &api.key).await;
        let again = first.call(&api, "POST", "/session").json(&json!({"key": api.key}));
        let second = Browser::of(&api.send(again).await);
        assert_eq!(second.get(&api, "/v1/runs").await.status, 200);
        first.get(&api, "/v1/runs").await.problem(401, "session_required");
    }
}

#[tokio::test]
async fn a_code_is_taken_once_and_in_time() {
    for api in both().await {
        let login = |code: &str| {
            let body = json!({"code": code});
            let api = &api;
            async move { Browser::try_login(api, body).await }
        };
        let (id, secret) = key(&api, json!({"roles": ["reader"], "name": "ann"})).await;
        let first = code(&api, &secret).await;
        let browser = Browser::of(&login(&first).await);
        assert_eq!(browser.session["keyId"], json!(id));
        assert_eq!(browser.session["name"], "ann");
        assert_eq!(browser.get(&api, "/v1/runs").await.status, 200);
        let replayed = login(&first).await;
        let made_up = login(&"0".repeat(32)).await;
        for got in [&replayed, &made_up] {
            got.problem(401, "console_code_invalid");
            assert!(!got.headers.contains_key("set-cookie"));
        }
        assert_eq!(replayed.body["message"], made_up.body["message"]);
        // Too late, and it is not given back.
        let late = code(&api, &secret).await;
        api.clock.advance(seconds(300));
        login(&late).await.problem(401, "console_code_invalid");
        // A page that is none of ours does not use it up.
        let kept = code(&api, &secret).await;
        let foreign = api.request("POST", LOGIN).header("sec-fetch-site", "same-site");
        api.send(foreign.json(&json!({"code": kept}))).await.problem(403, "foreign_page");
        assert_eq!(login(&kept).await.status, 200);
        // A code ends with its key.
        let last = code(&api, &secret).await;
        api.post(&format!("/v1/keys/{id}/revoke"), &api.admin_key, json!({})).await.ok();
        login(&last).await.problem(401, "console_code_invalid");
        api.post("/v1/console-codes", &secret, json!({})).await.problem(401, "unauthenticated");
    }
}

#[tokio::test]
async fn a_key_has_few_codes_and_the_oldest_makes_room() {
    for api in both().await {
        let mut codes = Vec::new();
        for _ in 0..9 {
            codes.push(code(&api, &api.client_key).await);
            api.clock.advance(Span::from_millis(1));
        }
        let mut statuses = Vec::new();
        for code in codes {
            statuses.push(Browser::try_login(&api, json!({"code": code})).await.status);
        }
        assert_eq!(statuses, [[401].as_slice(), &[200; 8]].concat());
    }
}

#[tokio::test]
async fn a_key_has_few_sessions_and_the_oldest_makes_room() {
    for api in both().await {
        let mut browsers = Vec::new();
        for _ in 0..33 {
            browsers.push(Browser::log_in(&api, &api.client_key).await);
            api.clock.advance(Span::from_millis(1));
        }
        let other = Browser::log_in(&api, &api.key).await;
        let mut statuses = Vec::new();
        for browser in &browsers {
            statuses.push(browser.get(&api, "/v1/runs").await.status);
        }
        assert_eq!(statuses, [[401].as_slice(), &[200; 32]].concat());
        assert_eq!(other.get(&api, "/v1/runs").await.status, 200);
    }
}

#[tokio::test]
async fn a_session_reads_at_a_rate_of_its_own() {
    for api in both().await {
        let limits = json!({"tenantId": "default", "requestsPerSecond": 1, "burst": 1});
        api.post("/v1/limits", &api.admin_key, limits).await.ok();
        api.get("/v1/runs").await;
        api.get("/v1/runs").await.problem(429, "too_many_requests");
        // A tenant at its limit can look at why, and does not do more than before.
        let browser = Browser::log_in(&api, &api.key).await;
        for _ in 0..100 {
            assert_eq!(browser.get(&api, "/v1/queues").await.status, 200);
        }
        let got = browser.get(&api, "/v1/queues").await;
        got.problem(429, "too_many_requests");
        assert!(got.headers.contains_key("retry-after"));
        let run = json!({"kind": "k", "queue": "q"});
        browser.post(&api, "/v1/runs", run).await.problem(429, "too_many_requests");
        let other = Browser::log_in(&api, &api.key).await;
        assert_eq!(other.get(&api, "/v1/queues").await.status, 200);
    }
}

#[tokio::test]
async fn a_login_says_what_is_wrong_with_it() {
    for api in both().await {
        let typo = format!("{}0", &api.key[..api.key.len() - 1]);
        for (body, status, code) in [
            (json!({"key": typo}), 401, "unauthenticated"),
            (json!({"key": ""}), 401, "unauthenticated"),
            (json!({"code": ""}), 401, "console_code_invalid"),
            (json!({}), 400, "invalid_argument"),
            (json!({"key": api.key, "code": "x"}), 400, "invalid_argument"),
            (json!({"key": 1}), 400, "invalid_argument"),
            (json!({"token": "x"}), 400, "invalid_argument"),
            (json!([]), 400, "invalid_argument"),
            (json!({"key": "x".repeat(2_000)}), 413, "body_too_large"),
        ] {
            if typo == api.key {
                continue;
            }
            Browser::try_login(&api, body).await.problem(status, code);
        }
        let form = own_page(api.request("POST", LOGIN)).header("content-type", "text/plain");
        let got = api.send(form.body(json!({"key": api.key}).to_string())).await;
        got.problem(415, "unsupported_media_type");
        let got = api.send(own_page(api.request("GET", LOGIN))).await;
        assert!(got.status == 405 || got.status == 404, "{got:?}");
    }
}

#[tokio::test]
async fn a_session_sees_its_own_tenant_only() {
    for api in both().await {
        let mine = api.submit(json!({"goal": "canary"})).await;
        let theirs = Browser::log_in(&api, &api.foreign_key).await;
        assert_eq!(theirs.session["tenantId"], "other");
        let listed = theirs.get(&api, "/v1/runs").await.ok();
        assert_eq!(listed["runs"], json!([]));
        let got = theirs.get(&api, &format!("/v1/runs/{mine}")).await;
        got.problem(404, "run_not_found");
        let got = theirs.post(&api, &format!("/v1/runs/{mine}/cancel"), json!({})).await;
        got.problem(404, "run_not_found");
        // The cookie of one tenant with the token of another is neither.
        let own = Browser::log_in(&api, &api.key).await;
        let mixed = Browser { page_token: theirs.page_token.clone(), ..own };
        mixed.get(&api, "/v1/runs").await.problem(401, "session_required");
    }
}

#[tokio::test]
async fn a_session_does_what_its_roles_may_and_the_audit_names_the_key() {
    for api in both().await {
        let (id, secret) = key(&api, json!({"roles": ["reader"]})).await;
        let browser = Browser::log_in(&api, &secret).await;
        let run = api.submit(json!({})).await;
        let got = browser.post(&api, &format!("/v1/runs/{run}/cancel"), json!({})).await;
        got.problem(403, "forbidden");
        assert_eq!(api.state(&run).await, "queued");
        loop {
            let log = api.get_as("/v1/audit", &api.admin_key).await.ok();
            let entries = log["entries"].as_array().unwrap();
            if let Some(refused) = entries.iter().find(|it| it["action"] == "refused") {
                assert_eq!(refused["actor"], json!(id));
                assert_eq!(refused["object"], "POST /console/api/v1/runs/{run}/cancel");
                break;
            }
            tokio::task::yield_now().await;
        }
    }
}
