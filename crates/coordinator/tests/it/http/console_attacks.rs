//! Sessions of the console under attack: what other programs, other installations and impatient ones get.

use serde_json::json;
use tokio::task::JoinSet;

use super::console_sessions::{Browser, LOGIN, code, own_page};
use super::test_server::{TestServer, both, seconds};

#[tokio::test]
async fn the_session_of_another_installation_opens_nothing() {
    let [one, other] = both().await;
    assert_eq!(one.key, other.key, "only the sealing keys tell the two apart");
    let theirs = Browser::log_in(&other, &other.key).await;
    let ours = Browser::log_in(&one, &one.key).await;
    let (name, _) = ours.cookie.split_once('=').unwrap();
    let (their_name, text) = theirs.cookie.split_once('=').unwrap();
    // Browsers keep the cookies of all ports of a host together.
    assert_ne!(name, their_name, "two servers of one machine do not log each other out");
    let renamed = Browser { cookie: format!("{name}={text}"), ..theirs.clone() };
    let got = renamed.get(&one, "/v1/runs").await;
    got.problem(401, "session_required").has("message", "log in to the console");
    assert_eq!(theirs.get(&other, "/v1/runs").await.status, 200);
}

#[tokio::test]
async fn a_rotation_keeps_sessions_for_two_hours_and_an_emergency_ends_them() {
    for api in both().await {
        let rotate = |emergency: bool| {
            api.post("/v1/signing-keys/rotate", &api.admin_key, json!({"emergency": emergency}))
        };
        let before = Browser::log_in(&api, &api.key).await;
        rotate(false).await.ok();
        let after = Browser::log_in(&api, &api.key).await;
        let name = |browser: &Browser| browser.cookie.split_once('=').unwrap().0.to_owned();
        assert_eq!(name(&before), name(&after), "a rotation is no other installation");
        assert_eq!(before.get(&api, "/v1/runs").await.status, 200);
        // As long as a task token lives, and half a minute.
        api.clock.advance(seconds(2 * 3_600 + 30));
        before.get(&api, "/v1/runs").await.problem(401, "session_required");
        assert_eq!(after.get(&api, "/v1/runs").await.status, 200);
        rotate(true).await.ok();
        after.get(&api, "/v1/runs").await.problem(401, "session_required");
        let again = Browser::log_in(&api, &api.key).await;
        assert_eq!(again.get(&api, "/v1/runs").await.status, 200);
    }
}

#[tokio::test]
async fn of_many_who_take_one_code_one_gets_it() {
    for api in both().await {
        let code = code(&api, &api.client_key).await;
        let mut logins = JoinSet::new();
        for _ in 0..16 {
            let request = own_page(api.request("POST", LOGIN)).json(&json!({"code": code}));
            logins.spawn(async move { request.send().await.unwrap().status().as_u16() });
        }
        let mut statuses = logins.join_all().await;
        statuses.sort_unstable();
        assert_eq!(statuses, [[200].as_slice(), &[401; 15]].concat());
    }
}

#[tokio::test]
async fn a_key_logs_in_as_often_as_people_do() {
    for api in both().await {
        // The clock stands still.
        let login = || Browser::try_login(&api, json!({"key": api.client_key}));
        for _ in 0..100 {
            assert_eq!(login().await.status, 200);
        }
        let got = login().await;
        got.problem(429, "too_many_requests");
        assert!(got.headers.contains_key("retry-after") && !got.headers.contains_key("set-cookie"));
        assert_eq!(Browser::try_login(&api, json!({"key": api.key})).await.status, 200);
        api.clock.advance(seconds(1));
        assert_eq!(login().await.status, 200);
    }
}

#[tokio::test]
async fn a_refused_login_leaves_the_session_of_before() {
    for api in both().await {
        let browser = Browser::log_in(&api, &api.client_key).await;
        let again = || browser.call(&api, "POST", "/session");
        let wrong = json!({"key": "tnr_x"});
        api.send(again().json(&wrong)).await.problem(401, "unauthenticated");
        assert_eq!(browser.get(&api, "/v1/runs").await.status, 200);
        // Not of the key that it has: its oldest sessions make room.
        for _ in 0..100 {
            Browser::log_in(&api, &api.key).await;
        }
        let got = api.send(again().json(&json!({"key": api.key}))).await;
        got.problem(429, "too_many_requests");
        assert_eq!(browser.get(&api, "/v1/runs").await.status, 200);
    }
}

#[tokio::test]
async fn a_session_reads_metrics_only_if_its_key_may() {
    for api in both().await {
        // They are open to every user of this machine; a browser may be behind a proxy on it.
        assert_eq!(api.send(api.request("GET", "/metrics")).await.status, 200);
        for (key, status) in [(&api.key, 200), (&api.client_key, 403), (&api.foreign_key, 403)] {
            let browser = Browser::log_in(&api, key).await;
            assert_eq!(browser.get(&api, "/metrics").await.status, status);
        }
    }
}

#[tokio::test]
async fn a_cookie_that_came_over_tls_goes_over_tls_alone() {
    for api in both().await {
        for (proto, is_secure) in [("https", true), ("http", false), ("HTTPS, http", false)] {
            let request = own_page(api.request("POST", LOGIN)).header("x-forwarded-proto", proto);
            let got = api.send(request.json(&json!({"key": api.key}))).await;
            let attributes = Browser::of(&got).attributes;
            assert_eq!(attributes.iter().any(|it| it == "Secure"), is_secure, "{proto}");
        }
    }
}

#[tokio::test]
async fn no_cache_keeps_what_a_session_reads() {
    for api in both().await {
        let browser = Browser::log_in(&api, &api.key).await;
        for path in ["/v1/runs", "/v1/session", "/v1/nothing"] {
            let got = browser.get(&api, path).await;
            assert_eq!(got.headers["cache-control"], "no-store", "{path}");
        }
        let got = Browser::try_login(&api, json!({"key": api.key})).await;
        assert_eq!(got.headers["cache-control"], "no-store");
    }
}

#[tokio::test]
async fn odd_spellings_lead_nowhere() {
    for api in both().await {
        let browser = Browser::log_in(&api, &api.key).await;
        let mut is_found = false;
        for path in [
            "/console/api/v1/runs",
            "/console/api//v1/runs",
            "/console/api/./v1/runs",
            "/console/api/../api/v1/runs",
            "/console/api/%76%31/runs",
            "/console/api/v1/runs/",
            "/console/api/console/api/v1/runs",
            "/console/api/console/",
            "/console/api/v1/leases",
            "/console/api/v1/tasks/x/heartbeat",
            "/v1/console/api/runs",
            "/v1/../console/api/v1/runs",
        ] {
            let status = raw_status(&api, &browser, path).await;
            match is_found {
                // The first one is the right one, so that the others are refused for their path.
                false => assert_eq!(status, 200, "{path}"),
                true => assert!([400, 401, 404, 405].contains(&status), "{path}: {status}"),
            }
            is_found = true;
        }
    }
}

/// What a call is answered whose path no client changes on the way.
async fn raw_status(api: &TestServer, browser: &Browser, path: &str) -> u16 {
    let Browser { cookie, page_token, .. } = browser;
    let host = api.url("").replace("http://", "");
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\nx-tenure-session: {page_token}\r\n\
         sec-fetch-site: same-origin\r\nconnection: close\r\n\r\n"
    );
    let answer = api.raw(request.as_bytes()).await;
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}
