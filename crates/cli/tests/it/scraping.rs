//! `/metrics` of the binary: who may read it at which address, and the messages about it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::Value;

use crate::home::{Home, Process};

/// Sends a request over loopback to the server on this port.
fn get(port: u16, path: &str, key: Option<&str>) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let key = key.map_or_else(String::new, |key| format!("authorization: Bearer {key}\r\n"));
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{key}connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn port(url: &Value) -> u16 {
    let url = url.as_str().unwrap().strip_prefix("http://").unwrap();
    let address = url.split('/').next().unwrap();
    address.parse::<SocketAddr>().unwrap().port()
}

const OPEN: [&str; 5] = ["serve", "--json", "--listen", "0.0.0.0:0", "--insecure-plaintext"];

#[test]
fn beyond_loopback_metrics_need_a_key_or_a_listener_of_their_own() {
    // X46: started with the defaults, queried over loopback.
    let home = Home::new();
    let mut command = home.tenure(&OPEN);
    command.env("TENURE_METRICS_LISTEN", "127.0.0.1:0");
    let mut server = Process::start(command);
    let ready = server.line();
    let served = port(&ready["url"]);
    let refused = get(served, "/metrics", None);
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    assert!(refused.contains("--metrics-listen") && !refused.contains("tenure_tasks"), "{refused}");
    let scraped = get(served, "/metrics", ready["apiKey"].as_str());
    assert!(scraped.contains("tenure_tasks_ready 0\n"), "{scraped}");
    let opened = port(&ready["metricsUrl"]);
    assert!(ready["metricsUrl"].as_str().unwrap().ends_with("/metrics"), "{ready}");
    let scraped = get(opened, "/metrics", None);
    assert!(scraped.starts_with("HTTP/1.1 200") && scraped.contains("tenure_build"), "{scraped}");
    let other = get(opened, "/v1/runs", ready["apiKey"].as_str());
    assert!(other.starts_with("HTTP/1.1 404") && other.contains("nothing else"), "{other}");
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
}

#[test]
fn without_a_listener_for_metrics_there_is_none() {
    let home = Home::new();
    let mut server = Process::start(home.tenure(&OPEN));
    assert!(server.line()["metricsUrl"].is_null());
}

#[test]
fn a_listener_for_metrics_that_is_taken_is_told_with_its_own_flag() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--metrics-listen", &address];
    home.run(&arguments).assert_error(4, "port_taken", &address, "--metrics-listen");
}

#[test]
fn who_opens_metrics_to_a_network_is_warned() {
    let home = Home::new();
    let log = home.path().join("log");
    let mut command = home.tenure(&[
        "serve",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--metrics-listen",
        "0.0.0.0:0",
    ]);
    command.stderr(std::fs::File::create(&log).unwrap());
    let mut server = Process::start(command);
    server.line();
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("metrics beyond loopback without a key"), "{log}");
}
