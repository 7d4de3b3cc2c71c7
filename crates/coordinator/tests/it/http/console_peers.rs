//! Sessions of the console at several coordinators of one database: each coordinator takes them, and they end with their key.

use coordinator::Server;
use reqwest::Response;
use serde_json::{Value, json};
use storetest::Database;

use super::shared::{post, two};
use super::test_server::browser;

/// A cookie with its page token.
struct Session {
    cookie: String,
    page_token: String,
}

async fn log_in(server: &Server, body: Value) -> Option<Session> {
    let url = format!("http://{}/console/api/session", server.local_addr());
    let request = browser().build().unwrap().post(url).header("sec-fetch-site", "same-origin");
    let got = request.json(&body).send().await.unwrap();
    if got.status() != 200 {
        return None;
    }
    let cookie = got.headers()["set-cookie"].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let body: Value = got.json().await.unwrap();
    Some(Session { cookie, page_token: body["pageToken"].as_str().unwrap().to_owned() })
}

impl Session {
    async fn call(&self, server: &Server, method: &str, path: &str) -> Response {
        let url = format!("http://{}/console/api{path}", server.local_addr());
        let request = browser().build().unwrap().request(method.parse().unwrap(), url);
        let request = request.header("sec-fetch-site", "same-origin");
        let request = request.header("cookie", &self.cookie);
        request.header("x-tenure-session", &self.page_token).send().await.unwrap()
    }

    async fn status(&self, server: &Server) -> u16 {
        self.call(server, "GET", "/v1/runs").await.status().as_u16()
    }
}

#[tokio::test]
async fn a_session_counts_at_every_coordinator_and_ends_with_its_key() {
    let (database, folder) = (Database::create(), tempfile::tempdir().unwrap());
    let key_file = folder.path().join("tenure.key");
    let ([one, peer], admin) = two(&database, &key_file).await;
    let (_, made) = post(&one, "/v1/keys", &admin, json!({"roles": ["reader"]})).await;
    let (id, secret) = (made["key"]["keyId"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let session = log_in(&one, json!({"key": secret})).await.expect("the key is valid");
    // The peer reads new keys within a second.
    while session.status(&peer).await == 401 {
        tokio::task::yield_now().await;
    }
    assert_eq!((session.status(&one).await, session.status(&peer).await), (200, 200));
    // Another key file would open nothing; a rotation of the signing keys is followed.
    post(&peer, "/v1/signing-keys/rotate", &admin, json!({})).await;
    let later = log_in(&peer, json!({"key": secret})).await.expect("the key is valid");
    assert_eq!((later.status(&one).await, session.status(&peer).await), (200, 200));
    // A code is known where it was made, and taken once.
    let (_, made) = post(&one, "/v1/console-codes", secret, json!({})).await;
    let code = json!({"code": made["code"]});
    assert!(log_in(&peer, code.clone()).await.is_none());
    let by_code = log_in(&one, code.clone()).await.expect("the code was not taken yet");
    assert_eq!(by_code.status(&peer).await, 200);
    assert!(log_in(&one, code).await.is_none());
    // Each coordinator ends it.
    assert_eq!(by_code.call(&peer, "POST", "/logout").await.status(), 204);
    assert_eq!(by_code.status(&peer).await, 401);
    post(&one, &format!("/v1/keys/{id}/revoke"), &admin, json!({})).await;
    assert_eq!(session.status(&one).await, 401);
    while session.status(&peer).await == 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(later.status(&peer).await, 401);
}

#[tokio::test]
async fn a_session_outlives_the_coordinator_that_began_it() {
    let (database, folder) = (Database::create(), tempfile::tempdir().unwrap());
    let key_file = folder.path().join("tenure.key");
    let ([one, peer], admin) = two(&database, &key_file).await;
    let session = log_in(&one, json!({"key": admin})).await.expect("the key is valid");
    one.shutdown().await;
    assert_eq!(session.status(&peer).await, 200);
}
