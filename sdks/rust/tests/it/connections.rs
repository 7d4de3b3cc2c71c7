//! Connections are kept for the next call, as long as the server keeps them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure::{Client, Error, Retries};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

const VERSION: &str = r#"{"version":"0.0.1","api":"v1"}"#;

/// A server that answers so many calls on each connection and then closes it.
struct Server {
    url: String,
    opened: Arc<AtomicUsize>,
    /// One for each connection that it has closed.
    closed: Arc<Semaphore>,
}

impl Server {
    async fn start(calls: usize, answer: String) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (opened, closed) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (count, told) = (Arc::clone(&opened), Arc::clone(&closed));
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                for _ in 0..calls {
                    read_head(&mut stream).await;
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
                drop(stream);
                told.add_permits(1);
            }
        });
        Server { url, opened, closed }
    }

    fn client(&self) -> Client {
        Client::new(&self.url, "key").unwrap().with_retries(Retries::NONE)
    }

    /// Waits until a connection was closed and the client's runtime has looked at its sockets.
    async fn until_closed(&self) {
        self.closed.acquire().await.unwrap().forget();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }
}

async fn read_head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
}

fn answer(more: &str) -> String {
    let length = VERSION.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n{more}\r\n{VERSION}")
}

#[tokio::test]
async fn calls_that_follow_each_other_share_a_connection() {
    let server = Server::start(3, answer("")).await;
    let client = server.client();
    for _ in 0..3 {
        client.version().await.unwrap();
    }
    assert_eq!(server.opened.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_not_used() {
    // Without a repetition: the call would fail.
    for more in ["", "connection: close\r\n"] {
        let server = Server::start(1, answer(more)).await;
        let client = server.client();
        for opened in 1..=3 {
            client.version().await.unwrap();
            server.until_closed().await;
            assert_eq!(server.opened.load(Ordering::Relaxed), opened);
        }
    }
}

#[tokio::test]
async fn half_an_answer_is_none() {
    let whole = answer("");
    for length in [0, 12, whole.len() - 1] {
        let server = Server::start(1, whole[..length].to_owned()).await;
        let failed = server.client().version().await.unwrap_err();
        let Error::Unreachable { source, .. } = &failed else { panic!("{failed:?}") };
        assert!(!source.is_connect(), "{failed}");
    }
}

#[tokio::test]
async fn an_answer_in_pieces_and_without_a_length_is_read_to_its_end() {
    let (first, rest) = VERSION.split_at(10);
    let pieces = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:x}\r\n{rest}\r\n0\r\n\r\n",
        first.len(),
        rest.len(),
    );
    let to_the_end = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{VERSION}");
    for answer in [pieces, to_the_end] {
        let server = Server::start(1, answer).await;
        server.client().version().await.unwrap();
    }
}

#[tokio::test]
async fn where_nothing_listens_nothing_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(&url, "key").unwrap().with_retries(Retries::NONE);
    let failed = client.version().await.unwrap_err();
    let Error::Unreachable { source, .. } = &failed else { panic!("{failed:?}") };
    assert!(source.is_connect());
    assert!(failed.to_string().starts_with("no server answers at http://127.0.0.1:"), "{failed}");
}

/// As in `main`, which is no task of the runtime's threads: there the answer to a task that has done enough comes at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_task_that_has_done_much_in_its_turn_lets_others_run() {
    // What a task may do in one turn, and more: from then on each resource of the runtime asks it to come back later.
    const DONE_MAX: usize = 140;
    let server = Server::start(usize::MAX, answer("")).await;
    let client = server.client();
    for done in 0..=DONE_MAX {
        for _ in 0..done {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            sender.send(()).unwrap();
            receiver.await.unwrap();
        }
        client.version().await.unwrap();
    }
    assert_eq!(server.opened.load(Ordering::Relaxed), 1);
}
