//! HTTP/1.1 on loopback, with answers that may break off.
//!
//! A framework answers every request. Here an answer may be none (the connection is closed) or half of one, so hyper is
//! used directly.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

/// A request with its whole body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    pub(crate) query: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    /// Which address of the coordinator was called, from 1.
    pub(crate) address: usize,
}

impl Request {
    pub(crate) fn get(path: &str) -> Request {
        Request::new("GET", path, Bytes::new())
    }

    pub(crate) fn post(path: &str, body: &serde_json::Value) -> Request {
        let mut request = Request::new("POST", path, Bytes::from(body.to_string()));
        request.headers.push(("content-type".to_owned(), "application/json".to_owned()));
        request
    }

    fn new(method: &str, path: &str, body: Bytes) -> Request {
        let (method, path) = (method.to_owned(), path.to_owned());
        Request { method, path, query: String::new(), headers: Vec::new(), body, address: 1 }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn bearer(&self) -> &str {
        self.header("authorization").and_then(|it| it.strip_prefix("Bearer ")).unwrap_or_default()
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

/// What becomes of an answer.
#[derive(Debug)]
pub(crate) enum Reply {
    Whole(Response),
    /// The connection breaks off in the middle of the body.
    Half(Response),
    /// The connection is closed without an answer.
    None,
}

/// Answers the requests at an address, until the returned handle is dropped.
pub(crate) fn serve<F, Fut>(listener: TcpListener, address: usize, answer: F) -> Server
where
    F: Fn(Request) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Reply> + Send + 'static,
{
    let answer = Arc::new(answer);
    let task = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    if let Ok((stream, _)) = accepted {
                        connections.spawn(connection(stream, address, Arc::clone(&answer)));
                    }
                }
                Some(_) = connections.join_next() => {}
            }
        }
    });
    Server { task }
}

/// Ends its connections when it is dropped.
pub(crate) struct Server {
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) async fn listen() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await
}

async fn connection<F, Fut>(stream: TcpStream, address: usize, answer: Arc<F>)
where
    F: Fn(Request) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Reply> + Send + 'static,
{
    // Milliseconds are judged: no answer may wait for a full segment.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let answer = Arc::clone(&answer);
        async move {
            let request = whole(request, address).await.map_err(io::Error::other)?;
            match answer(request).await {
                Reply::Whole(response) => Ok(written(response)),
                Reply::Half(response) => Ok(broken(response)),
                Reply::None => Err(io::Error::other("the wire is cut here")),
            }
        }
    });
    // A connection that ends is what half of the cases are about.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn whole(request: hyper::Request<Incoming>, address: usize) -> Result<Request, hyper::Error> {
    let (parts, body) = request.into_parts();
    let headers = parts.headers.iter().map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    Ok(Request {
        method: parts.method.as_str().to_owned(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: headers.collect(),
        body: body.collect().await?.to_bytes(),
        address,
    })
}

type Body = BoxBody<Bytes, io::Error>;

fn head(response: &Response) -> hyper::http::response::Builder {
    let builder = hyper::Response::builder().status(response.status);
    response.headers.iter().fold(builder, |builder, (name, value)| builder.header(name, value))
}

fn written(response: Response) -> hyper::Response<Body> {
    let builder = head(&response);
    let body = Full::new(response.body).map_err(|never: Infallible| match never {}).boxed();
    builder.body(body).expect("the headers are the kit's own")
}

/// Promises the whole body and sends half of it.
fn broken(response: Response) -> hyper::Response<Body> {
    let half = response.body.slice(..response.body.len() / 2);
    let builder = head(&response).header("content-length", response.body.len());
    let parts = [Ok(Frame::data(half)), Err(io::Error::other("the wire is cut here"))];
    builder
        .body(BodyExt::boxed(StreamBody::new(stream::iter(parts))))
        .expect("the headers are the kit's own")
}

/// Makes one call on a connection of its own.
pub(crate) async fn call(authority: &str, request: Request) -> io::Result<Response> {
    let stream = TcpStream::connect(authority).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let target = match request.query.is_empty() {
        true => request.path.clone(),
        false => format!("{}?{}", request.path, request.query),
    };
    let builder = hyper::Request::builder().method(request.method.as_str()).uri(target);
    let builder = builder.header("host", authority);
    let kept = request.headers.iter().filter(|(name, _)| !is_of_connection(name));
    let builder = kept.fold(builder, |builder, (name, value)| builder.header(name, value));
    let request = builder.body(Full::new(request.body)).map_err(io::Error::other)?;
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    connection.abort();
    let headers = parts.headers.iter().filter(|(name, _)| !is_of_connection(name.as_str()));
    let headers = headers.map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    Ok(Response { status: parts.status.as_u16(), headers: headers.collect(), body })
}

fn is_of_connection(name: &str) -> bool {
    matches!(
        name,
        "host" | "connection" | "content-length" | "transfer-encoding" | "keep-alive" | "date"
    )
}
