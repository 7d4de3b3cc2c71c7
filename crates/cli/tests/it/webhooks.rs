//! Webhooks from the command line: register, receive, verify with the SDK, repair. The server is killed in between.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tenure::webhooks::{Secret, Verifier};

use crate::home::{Home, Process, wait_until};

const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const DOWN: &str = "HTTP/1.1 503 Down\r\ncontent-length: 0\r\n\r\n";

fn serve(home: &Home) -> Process {
    let mut arguments = vec!["serve", "--json", "--listen", "127.0.0.1:0", "--write-profile"];
    arguments.extend(["--allow-private-receivers", "127.0.0.0/8, ::1/128"]);
    let mut server = Process::start(home.tenure(&arguments));
    server.line();
    server
}

/// The next request at the listener: its head in lower case and its body. It is answered with `answer`.
fn receive(listener: &TcpListener, answer: &str) -> (String, String) {
    let (mut stream, _) = listener.accept().unwrap();
    let request = read(&mut stream);
    stream.write_all(answer.as_bytes()).unwrap();
    request
}

fn read(stream: &mut TcpStream) -> (String, String) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(&head.to_lowercase(), "content-length");
            if length.parse() == Ok(body.len()) {
                return (head.to_owned(), body.to_owned());
            }
        }
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the request is whole");
        bytes.extend_from_slice(&buffer[..read]);
    }
}

fn header(head: &str, name: &str) -> String {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.to_owned()).unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "a receiver compares with the real clock")]
fn verify(secret: &str, head: &str, body: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let verifier = Verifier::new(Secret::parse(secret).unwrap());
    let value = |name: &str| header(head, name);
    let (id, timestamp) = (value("webhook-id"), value("webhook-timestamp"));
    verifier
        .verify(&id, &timestamp, &value("webhook-signature"), body.as_bytes(), now)
        .expect("what the server signs, the SDK verifies");
}

fn end_run(home: &Home) -> String {
    let id = home.submit(&["k", "--queue", "q", "--input", "7"]);
    assert_eq!(home.ended(&id)["state"], "succeeded");
    id
}

#[test]
fn a_server_that_is_killed_delivers_when_it_is_back() {
    // D1, D2, F05: the intent was in the commit of the end. W-8: tries follow the schedule and not one constant.
    let home = Home::new();
    let mut server = serve(&home);
    // Nobody listens there yet.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}/hooks");
    let create = ["endpoints", "create", "--json", "crm", &url, "--retry-base", "100ms"];
    let made = home.json(&create);
    let secret = made["secret"].as_str().unwrap();
    let worker = Process::start(home.tenure(&["work", "--json", "--queue", "q", "--exec", "cat"]));
    let run = end_run(&home);
    wait_until("a failed try", || {
        let effects = home.json(&["effects", "--json", "--run", &run]);
        effects[0]["tries"].as_u64().is_some_and(|tries| tries > 0)
    });
    drop(worker);
    server.signal("KILL");
    server.exit_code();
    let listener = TcpListener::bind(address).unwrap();
    let _server = serve(&home);
    let (head, body) = receive(&listener, OK);
    verify(secret, &head, &body);
    let said: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&said["type"], &said["data"]["runId"]), (&"run.succeeded".into(), &run.into()));
    assert_eq!(said["data"]["output"], 7);
    wait_until("the record of the delivery", || {
        home.json(&["effects", "--json", "--state", "delivered"]).as_array().unwrap().len() == 1
    });
}

#[test]
fn people_see_and_repair_what_did_not_arrive() {
    // S2-74: a dead letter stays until somebody decides.
    let home = Home::new();
    let _server = serve(&home);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let created = home.run(&["endpoints", "create", "crm", &url, "--max-tries", "1"]);
    assert!(created.stdout.starts_with("whsec_"), "{created:?}");
    assert!(created.stderr.contains("shown only once"), "{created:?}");
    let _worker = Process::start(home.tenure(&["work", "--json", "--queue", "q", "--exec", "cat"]));
    let run = end_run(&home);
    let (first, body) = receive(&listener, DOWN);
    let mut dead = Value::Null;
    wait_until("the dead letter", || {
        dead = home.json(&["effects", "list", "--json", "--run", &run, "--state", "dead"]);
        !dead.as_array().unwrap().is_empty()
    });
    let id = dead[0]["effectId"].as_str().unwrap();
    assert_eq!(id, header(&first, "webhook-id"));
    let shown = home.run(&["effects", "show", id]);
    for words in ["dead (tries_exhausted)", "its aggregate waits for it", "503", &run] {
        assert!(shown.stdout.contains(words), "{words}: {shown:?}");
    }
    // The person is told: by the inbox, with what to type, and by the doctor.
    let inbox = home.run(&["inbox"]);
    for words in
        ["run.succeeded to crm, 1 try, the last was answered 503  DEAD", &run, "waits behind it"]
    {
        assert!(inbox.stdout.contains(words), "{words}: {inbox:?}");
    }
    assert!(inbox.stdout.contains(&format!("→ tenure effects redrive {id}")), "{inbox:?}");
    assert_eq!(home.json(&["inbox", "--json"])["effects"][0]["effectId"], id);
    let checked = home.run(&["doctor"]);
    assert!(
        checked.stdout.contains("warn  deliveries   1 effect to crm not delivered"),
        "{checked:?}"
    );
    assert_eq!(home.run(&["effects", "redrive", id]).code, 0);
    let (second, again) = receive(&listener, OK);
    assert_eq!((header(&second, "webhook-id"), again), (id.to_owned(), body));
    wait_until("the record of the delivery", || {
        home.json(&["effects", "show", "--json", id])["state"] == "delivered"
    });
    let inbox = home.run(&["inbox"]);
    assert!(inbox.stderr.contains("nothing waits for a person"), "{inbox:?}");
    home.run(&["effects", "release", id]).assert_error(
        4,
        "effect_state_mismatch",
        "only a dead effect",
        "tenure effects",
    );
    let many = home.json(&["effects", "redrive", "--json", "--endpoint", "crm"]);
    assert_eq!(many["redriven"], 0);
    assert_eq!(home.json(&["endpoints", "disable", "--json", "crm"])["state"], "disabled");
    assert_eq!(home.json(&["endpoints", "enable", "--json", "crm"])["state"], "enabled");
    let listed = home.run(&["endpoints"]);
    assert!(listed.stdout.contains("crm") && listed.stdout.contains("run.*"), "{listed:?}");
    assert_eq!(home.json(&["endpoints", "delete", "--json", "crm"])["state"], "deleted");
    home.run(&["serve", "--allow-private-receivers", "localhost"]).assert_error(
        2,
        "receivers",
        "`localhost` is not a range",
        "prefix",
    );
}
