//! TLS over a real loopback socket, with certificates made for the test.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coordinator::admit::{NewKey, Role};
use coordinator::server::Limits;
use coordinator::{SeededEntropy, ServeError, ServeOptions, Server, StopReason, TlsFiles, serve};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use storetest::{ManualClock, MemoryStore};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use verdict::Scope;

use super::test_server::{browser_trusting, read_until_closed};

/// A server name that only the tests resolve.
const NAME: &str = "tenure.example";

/// A certificate authority.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }

    /// Writes a certificate for `name` and returns it as the server will present it.
    fn sign(&self, files: &TlsFiles, name: &str, years: std::ops::Range<i32>) -> Vec<u8> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        write_private(&files.key, &key.serialize_pem());
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        certificate.der().to_vec()
    }

    fn vouch(&self, files: &TlsFiles) -> Vec<u8> {
        self.sign(files, NAME, 2020..2100)
    }
}

fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn files(folder: &TempDir) -> TlsFiles {
    let path = |name: &str| folder.path().join(name);
    TlsFiles { certificate: path("server.pem"), key: path("server.key") }
}

struct Secure {
    server: Server,
    key: String,
    files: TlsFiles,
    _folder: TempDir,
}

async fn secure(folder: TempDir, limits: Limits) -> Secure {
    let key = NewKey::generate(&mut SeededEntropy::new(3), Scope::default(), &Role::ALL);
    let text = key.text().to_owned();
    let files = files(&folder);
    let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), folder.path().join("key"));
    options.new_keys = vec![key];
    options.tls = Some(files.clone());
    options.limits = limits;
    let store = MemoryStore::new(Arc::new(ManualClock::default()));
    let server = serve(store, options).await.unwrap();
    Secure { server, key: text, files, _folder: folder }
}

impl Secure {
    fn url(&self, path: &str) -> String {
        format!("https://{NAME}:{}{path}", self.server.local_addr().port())
    }

    /// The certificate that a new connection receives, and the negotiated protocol.
    async fn shown(&self, roots: RootCertStore, offers: &[&[u8]]) -> (Vec<u8>, Option<Vec<u8>>) {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = offers.iter().map(|offer| offer.to_vec()).collect();
        let socket = TcpStream::connect(self.server.local_addr()).await.unwrap();
        let name = ServerName::try_from(NAME).unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
        let (_, session) = stream.get_ref();
        let first: &CertificateDer<'_> = &session.peer_certificates().unwrap()[0];
        (first.to_vec(), session.alpn_protocol().map(<[u8]>::to_vec))
    }

    fn browser(&self, roots: RootCertStore) -> reqwest::ClientBuilder {
        browser_trusting(roots).resolve(NAME, self.server.local_addr())
    }

    async fn ready(&self, roots: RootCertStore) -> Value {
        let client = self.browser(roots).build().unwrap();
        client.get(self.url("/readyz")).send().await.unwrap().json().await.unwrap()
    }
}

#[tokio::test]
async fn work_is_done_over_tls_and_only_for_who_trusts_the_authority() {
    // X43: plaintext and a wrong authority fail; the right one works.
    let (authority, other) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    authority.vouch(&files(&folder));
    let api = secure(folder, Limits::default()).await;
    let client = api.browser(authority.roots()).build().unwrap();
    let post = |path: &str, bearer: &str, body: Value| {
        client.post(api.url(path)).bearer_auth(bearer).json(&body).send()
    };
    let run = json!({"kind": "k", "queue": "q"});
    assert_eq!(post("/v1/runs", &api.key, run).await.unwrap().status(), 201);
    let poll = json!({"workerId": "w1", "queues": ["q"], "max": 1});
    let leases: Value = post("/v1/leases", &api.key, poll).await.unwrap().json().await.unwrap();
    let lease = &leases["leases"][0];
    // The callback URL of workers is encrypted too.
    assert!(lease["callbackBaseUrl"].as_str().unwrap().starts_with("https://127.0.0.1:"));
    let path = format!("/v1/tasks/{}/completed", lease["taskId"].as_str().unwrap());
    let report = json!({"attempt": 1, "workerId": "w1", "outcome": "SUCCEEDED"});
    let answer = post(&path, lease["taskToken"].as_str().unwrap(), report).await.unwrap();
    assert_eq!(answer.json::<Value>().await.unwrap()["verdict"], "COMMITTED");

    let stranger = api.browser(other.roots()).build().unwrap();
    let refused = stranger.get(api.url("/livez")).send().await.unwrap_err();
    assert!(refused.is_connect(), "{refused:?}");
    assert_eq!(api.server.shutdown().await, StopReason::Drained);
}

#[tokio::test]
async fn expired_and_foreign_names_are_not_believed() {
    // X43
    for (name, years) in [(NAME, 2001..2002), ("elsewhere.example", 2020..2100)] {
        let authority = Authority::new();
        let folder = tempfile::tempdir().unwrap();
        authority.sign(&files(&folder), name, years);
        let api = secure(folder, Limits::default()).await;
        let client = api.browser(authority.roots()).build().unwrap();
        let refused = client.get(api.url("/livez")).send().await.unwrap_err();
        assert!(refused.is_connect(), "{name}: {refused:?}");
    }
}

#[tokio::test]
async fn the_client_chooses_between_both_protocols() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    authority.vouch(&files(&folder));
    let api = secure(folder, Limits::default()).await;
    type Protocols<'a> = &'a [&'a [u8]];
    let [h2, h1]: [&[u8]; 2] = [b"h2", b"http/1.1"];
    let offers: [(Protocols<'_>, Option<&[u8]>); 3] =
        [(&[h1, h2], Some(h2)), (&[h1], Some(h1)), (&[], None)];
    for (offered, agreed) in offers {
        let (_, protocol) = api.shown(authority.roots(), offered).await;
        assert_eq!(protocol.as_deref(), agreed, "{offered:?}");
    }
    let client = api.browser(authority.roots()).http2_prior_knowledge().build().unwrap();
    let answer = client.get(api.url("/livez")).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, reqwest::Version::HTTP_2));
}

#[tokio::test]
async fn a_new_certificate_is_shown_without_a_restart() {
    // X43: reload without restart, on request and automatically.
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let first = authority.vouch(&files(&folder));
    let api = secure(folder, Limits::default()).await;
    let shown = async || api.shown(authority.roots(), &[]).await.0;
    assert_eq!(shown().await, first);
    let second = authority.vouch(&api.files);
    api.server.reload_certificate().unwrap();
    assert_eq!(shown().await, second);
    let third = authority.vouch(&api.files);
    // Connections check the files once in a while; one of the next ones gets the change.
    while shown().await != third {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_broken_certificate_keeps_the_old_one_and_says_so() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let first = authority.vouch(&files(&folder));
    let api = secure(folder, Limits::default()).await;
    let is_ok = async || api.ready(authority.roots()).await["checks"][1]["ok"].clone();
    assert_eq!(is_ok().await, true);
    let good_key = std::fs::read_to_string(&api.files.key).unwrap();
    let other_key = KeyPair::generate().unwrap().serialize_pem();
    for (broken, says) in [("no PEM at all", "not PEM"), (other_key.as_str(), "together")] {
        write_private(&api.files.key, broken);
        let refused = api.server.reload_certificate().unwrap_err();
        assert!(refused.to_string().contains(says), "{refused}");
        assert_eq!(api.shown(authority.roots(), &[]).await.0, first);
        let ready = api.ready(authority.roots()).await;
        // Worth reporting, but no reason to redirect traffic.
        assert_eq!((&ready["ready"], &ready["checks"][1]["ok"]), (&json!(true), &json!(false)));
        let client = api.browser(authority.roots()).build().unwrap();
        let metrics = client.get(api.url("/metrics")).send().await.unwrap().text().await.unwrap();
        assert!(metrics.contains("tenure_certificate_stale 1"), "{metrics}");
    }
    write_private(&api.files.key, &good_key);
    api.server.reload_certificate().unwrap();
    assert_eq!(is_ok().await, true);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_stops_the_start() {
    let authority = Authority::new();
    let start = |files: TlsFiles, folder: &TempDir| {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut options = ServeOptions::new(listen, folder.path().join("key"));
        options.tls = Some(files);
        serve(MemoryStore::new(Arc::new(ManualClock::default())), options)
    };
    let folder = tempfile::tempdir().unwrap();
    let files = files(&folder);
    let says = async |files: &TlsFiles| match start(files.clone(), &folder).await {
        Err(ServeError::Tls(error)) => error.to_string(),
        _ => panic!("it must not start"),
    };
    assert!(says(&files).await.contains("cannot be read"));
    authority.vouch(&files);
    let key = std::fs::read_to_string(&files.key).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(says(&files).await.contains("chmod o="));
    write_private(&files.key, &key);
    std::fs::write(&files.certificate, "").unwrap();
    assert!(says(&files).await.contains("certificate"));
}

#[tokio::test]
async fn plaintext_and_noise_on_a_tls_port_hurt_nobody() {
    // X43
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let shown = authority.vouch(&files(&folder));
    let api = secure(folder, Limits::default()).await;
    let say = async |bytes: &[u8]| {
        let mut socket = TcpStream::connect(api.server.local_addr()).await.unwrap();
        let _ = socket.write_all(bytes).await;
        read_until_closed(&mut socket).await
    };
    let answer = say(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("https"), "{answer}");
    let noise: [&[u8]; 3] =
        [b"\x16\x03\x01\xff\xff", b"\x16garbage that is no hello at all", b"\0"];
    for bytes in noise {
        let answer = say_and_stop(api.server.local_addr(), bytes).await;
        assert!(!answer.contains("200"), "{answer}");
    }
    assert_eq!(api.shown(authority.roots(), &[]).await.0, shown);
}

/// Sends bytes, reads the answer, and sends nothing more.
async fn say_and_stop(address: SocketAddr, bytes: &[u8]) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let _ = socket.write_all(bytes).await;
    let _ = socket.shutdown().await;
    read_until_closed(&mut socket).await
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_ended() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    authority.vouch(&files(&folder));
    let short = Duration::from_millis(50);
    let api = secure(folder, Limits { handshake_within: short, ..Limits::default() }).await;
    for begun in [&b""[..], b"\x16\x03\x01"] {
        let mut socket = TcpStream::connect(api.server.local_addr()).await.unwrap();
        socket.write_all(begun).await.unwrap();
        // Nothing more is sent, and the client's side stays open: only the server can close it.
        assert_eq!(read_until_closed(&mut socket).await, "");
    }
}
