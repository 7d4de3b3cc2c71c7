//! One HTTP/1.1 connection that a test holds, so that it decides when the connection opens and ends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than any answer of a healthy server takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection that stays open.
pub(crate) struct Caller {
    stream: TcpStream,
    key: String,
}

impl Caller {
    pub(crate) fn connect(ready: &Value) -> Caller {
        Caller::try_connect(ready).unwrap()
    }

    /// Fails if the server is gone.
    pub(crate) fn try_connect(ready: &Value) -> std::io::Result<Caller> {
        let address = ready["url"].as_str().unwrap().strip_prefix("http://").unwrap();
        let stream = TcpStream::connect(address.parse::<SocketAddr>().unwrap())?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Caller { stream, key: ready["apiKey"].as_str().unwrap().to_owned() })
    }

    /// The head of the answer, and the part of its body that arrived with it.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> std::io::Result<String> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        );
        self.stream.write_all(head.as_bytes())?;
        let mut answer = [0; 4096];
        let read = self.stream.read(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
    }

    pub(crate) fn submit(&mut self) -> String {
        self.ask("POST", "/v1/runs", r#"{"kind": "k", "queue": "q"}"#).unwrap()
    }
}
