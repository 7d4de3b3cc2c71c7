//! Links that log a browser in to the console: from `tenure dev`, and from `tenure console` for any server.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::home::{Home, Process, wait_until};

/// What a browser's page is answered that takes the code out of the link: the status, and who it is then.
fn log_in(link: &str) -> (u16, Value) {
    let (status, _, body) = answer(link);
    (status, body)
}

/// The same with the head of the answer.
fn answer(link: &str) -> (u16, String, Value) {
    let (address, code) =
        link.strip_prefix("http://").unwrap().split_once("/console/#code=").unwrap();
    let body = json!({"code": code}).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /console/api/session HTTP/1.1\r\nhost: {address}\r\nsec-fetch-site: same-origin\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, head.to_owned(), serde_json::from_str(body).unwrap())
}

fn link(home: &Home, arguments: &[&str]) -> String {
    let ran = home.run(&[&["console"], arguments].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 1, "a link and nothing else: {ran:?}");
    ran.stdout.trim().to_owned()
}

#[test]
fn a_link_logs_in_once_as_the_key_that_asked() {
    let home = Home::new();
    let _server = home.serve();
    let first = link(&home, &[]);
    assert!(first.starts_with(&format!("{}/console/#code=", home.profile_url())), "{first}");
    let (status, answer) = log_in(&first);
    assert_eq!(status, 200, "{answer}");
    assert!(answer["session"]["may"].as_array().unwrap().contains(&json!("keys.write")));
    let (status, answer) = log_in(&first);
    assert_eq!((status, &answer["error"]), (401, &json!("console_code_invalid")));
    let made = home.json(&["keys", "create", "--role", "reader", "--name", "ann", "--json"]);
    let reader = link(&home, &["--key", made["secret"].as_str().unwrap()]);
    let (_, answer) = log_in(&reader);
    assert_eq!(answer["session"]["name"], "ann");
    assert_eq!(answer["session"]["keyId"], made["key"]["keyId"]);
    let machine = home.json(&["console", "--json"]);
    assert!(machine["expiresAt"].is_string());
    assert_eq!(log_in(machine["url"].as_str().unwrap()).0, 200);
}

#[test]
fn a_development_server_prints_a_link() {
    let home = Home::new();
    let mut server = Process::start(home.tenure(&["dev", "--json", "--port", "0"]));
    let ready = server.line();
    let (status, answer) = log_in(ready["consoleUrl"].as_str().unwrap());
    assert_eq!(status, 200, "{answer}");
    let key = ready["apiKey"].as_str().unwrap().split('_').nth(1).unwrap();
    assert_eq!(answer["session"]["keyId"], key);
}

#[test]
fn a_server_without_the_console_makes_no_links() {
    let home = Home::new();
    let arguments =
        ["serve", "--json", "--listen", "127.0.0.1:0", "--write-profile", "--no-console"];
    let mut server = Process::start(home.tenure(&arguments));
    server.line();
    let ran = home.run(&["console"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{ran:?}");
    assert!(ran.stderr.contains("without the console"), "{ran:?}");
}

#[test]
fn no_log_and_no_audit_has_a_secret_of_a_session() {
    let home = Home::new();
    let log = home.path().join("log");
    let arguments = ["serve", "--json", "--listen", "127.0.0.1:0", "--write-profile"];
    let mut command = home.tenure(&arguments);
    command.stderr(File::create(&log).unwrap());
    let mut server = Process::start(command);
    server.line();
    let made = home.json(&["keys", "create", "--role", "reader", "--json"]);
    let key = made["secret"].as_str().unwrap().to_owned();
    let link = link(&home, &["--key", &key]);
    let (status, head, body) = answer(&link);
    assert_eq!(status, 200, "{body}");
    let sealed =
        head.lines().find_map(|line| line.split_once("tenure_")?.1.split_once('=')).unwrap().1;
    let sealed = sealed.split(';').next().unwrap().to_owned();
    // What is refused is written down, too.
    assert_eq!(log_in(&link).0, 401);
    let mut audit = String::new();
    for action in ["console.login", "console_code_invalid"] {
        wait_until(action, || {
            audit = home.run(&["audit", "--json"]).stdout;
            audit.contains(action)
        });
    }
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("draining"), "it was written to the end: {log}");
    let code = link.split_once("#code=").unwrap().1;
    let secret = key.split('_').nth(2).unwrap();
    let page_token = body["pageToken"].as_str().unwrap();
    for (what, secret) in
        [("code", code), ("secret", secret), ("page token", page_token), ("cookie", &sealed)]
    {
        assert!(secret.len() > 20, "{what}: {secret}");
        assert!(!log.contains(secret) && !audit.contains(secret), "the {what} is in a log");
    }
}
