//! Calls to receivers on loopback, friendly and hostile (X37, X39, X43).

#![expect(clippy::unwrap_used, reason = "in what tests share, too, a panic is the report")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use delivery::{ANSWER_MAX, Answered, EXCERPT_MAX, Egress, Outgoing, Roots, SendOutcome, Sender};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

fn loopback() -> Egress {
    Egress { allowed: vec!["127.0.0.0/8".parse().unwrap()], own: Vec::new() }
}

fn sender(roots: &Roots) -> Sender {
    Sender::new(loopback(), roots).unwrap()
}

/// A receiver that reads one request on each connection, hands it over, and answers with `answer`.
async fn receiver(answer: Vec<u8>) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, requests) = mpsc::channel(16);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            answer_once(stream, &answer, &seen).await;
        }
    });
    (address, requests)
}

async fn answer_once(mut stream: TcpStream, answer: &[u8], seen: &mpsc::Sender<String>) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.windows(6).any(|it| it == b"\"end\"}") {
        let Ok(length @ 1..) = stream.read(&mut buffer).await else { return };
        request.extend_from_slice(&buffer[..length]);
    }
    seen.send(String::from_utf8(request).unwrap()).await.ok();
    stream.write_all(answer).await.ok();
    stream.shutdown().await.ok();
}

fn outgoing(url: String) -> Outgoing {
    let headers = vec![("webhook-id", "eff_1".to_owned())];
    let (tenant, body) = ("default".to_owned(), Bytes::from_static(b"{\"a\": \"end\"}"));
    Outgoing { tenant, url, headers, body }
}

#[tokio::test]
async fn a_request_arrives_byte_for_byte() {
    let (address, mut requests) =
        receiver(b"HTTP/1.1 202 Accepted\r\nretry-after: 7\r\n\r\nfine\n".to_vec()).await;
    let url = format!("http://{address}/in?x=1");
    let outcome = sender(&Roots::Pem(Vec::new())).send(&outgoing(url)).await;
    let answered = Answered {
        status: 202,
        retry_after: Some("7".to_owned()),
        excerpt: "fine.".to_owned(),
        body: b"fine\n".to_vec(),
    };
    assert_eq!(outcome, SendOutcome::Answered(answered));
    let request = requests.recv().await.unwrap();
    assert!(request.starts_with("POST /in?x=1 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: {address}\r\n")), "{request}");
    assert!(request.contains("webhook-id: eff_1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"a\": \"end\"}"), "{request}");
}

#[tokio::test]
async fn redirects_are_answers_and_are_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let (elsewhere, mut never) = receiver(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()).await;
        let answer = format!(
            "HTTP/1.1 {status} Moved\r\nlocation: http://{elsewhere}/\r\ncontent-length: 0\r\n\r\n"
        );
        let (address, _requests) = receiver(answer.into_bytes()).await;
        let outcome =
            sender(&Roots::Pem(Vec::new())).send(&outgoing(format!("http://{address}/"))).await;
        assert!(
            matches!(&outcome, SendOutcome::Answered(it) if it.status == status),
            "{outcome:?}"
        );
        assert!(never.try_recv().is_err(), "the redirect was followed");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_cut() {
    let mut answer = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    answer.resize(ANSWER_MAX * 40, b'x');
    let (address, _requests) = receiver(answer).await;
    let outcome =
        sender(&Roots::Pem(Vec::new())).send(&outgoing(format!("http://{address}/"))).await;
    let SendOutcome::Answered(answered) = outcome else { panic!("{outcome:?}") };
    assert_eq!(answered.excerpt.len(), EXCERPT_MAX);
}

#[tokio::test]
async fn heads_that_are_too_large_are_no_status() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(100_000));
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(2 * ANSWER_MAX));
    for answer in [many, long, "nonsense\r\n\r\n".to_owned(), String::new()] {
        let (address, _requests) = receiver(answer.into_bytes()).await;
        let outcome =
            sender(&Roots::Pem(Vec::new())).send(&outgoing(format!("http://{address}/"))).await;
        assert_eq!(outcome, SendOutcome::Unanswered("the connection ended before a status"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_receiver_is_left_at_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sender = sender(&Roots::Pem(Vec::new())).with_total_limit(Duration::from_secs(3));
    let outcome = sender.send(&outgoing(format!("http://{address}/"))).await;
    assert_eq!(outcome, SendOutcome::Unanswered("no status in time"));
}

#[tokio::test]
async fn nobody_listening_is_known_to_have_received_nothing() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let outcome =
        sender(&Roots::Pem(Vec::new())).send(&outgoing(format!("http://{address}/"))).await;
    assert_eq!(outcome, SendOutcome::NotSent("no connection"));
}

/// A receiver with a certificate for `name`, and the certificate.
async fn tls_receiver(name: &str) -> (SocketAddr, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let settings = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(settings));
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut buffer = [0; 4096];
            if stream.read(&mut buffer).await.unwrap_or(0) == 0 {
                continue;
            }
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.ok();
            stream.shutdown().await.ok();
        }
    });
    (address, made.cert.pem().into_bytes())
}

#[tokio::test]
async fn certificates_are_verified_for_the_name() {
    let (address, pem) = tls_receiver("127.0.0.1").await;
    let (wrong_name, wrong_pem) = tls_receiver("example.com").await;
    let trusting = sender(&Roots::Pem(pem));
    let outcome = trusting.send(&outgoing(format!("https://{address}/"))).await;
    assert!(matches!(&outcome, SendOutcome::Answered(it) if it.status == 204), "{outcome:?}");
    for (sender, address) in [
        (sender(&Roots::Pem(wrong_pem)), wrong_name),
        (sender(&Roots::System), address),
        (sender(&Roots::Pem(Vec::new())), address),
    ] {
        let outcome = sender.send(&outgoing(format!("https://{address}/"))).await;
        assert_eq!(outcome, SendOutcome::NotSent("no TLS with this name"));
    }
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", plain.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = plain.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok();
    });
    let outcome = trusting.send(&outgoing(url)).await;
    assert!(matches!(outcome, SendOutcome::NotSent(_)), "TLS to a port without it: {outcome:?}");
}
