//! A server with a low limit on open files: callers wait or are refused, the store is never lost.

use std::process::Command;

use crate::caller::Caller;
use crate::home::{Home, Process, wait_until};

const FILES_MAX: usize = 64;
const CALLERS: usize = 200;

/// A server in a shell that may open only a few files.
fn serve(home: &Home) -> Process {
    let plain = home.tenure(&["serve", "--json", "--listen", "127.0.0.1:0", "--write-profile"]);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {FILES_MAX} && exec \"$0\" \"$@\"")]);
    command.arg(plain.get_program()).args(plain.get_args()).current_dir(home.path());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Process::start(command)
}

#[test]
fn when_files_run_out_the_store_goes_on_and_seats_come_back() {
    // F17, G4, C1: 200 callers where 64 files may be open.
    let home = Home::new();
    let mut server = serve(&home);
    let ready = server.line();
    let mut early = Caller::connect(&ready);
    assert!(early.submit().starts_with("HTTP/1.1 201"));
    let mut crowd: Vec<Caller> = (0..CALLERS).map(|_| Caller::connect(&ready)).collect();
    let asked = crowd.iter_mut().map(|caller| caller.ask("GET", "/v1/runs?limit=1", "{}"));
    let answered = asked.filter(|answer| answer.as_ref().is_ok_and(|it| !it.is_empty())).count();
    assert!(answered > 0 && answered < CALLERS, "{answered} of {CALLERS} have a seat");
    // Callers that have a connection notice nothing, whatever files the store needs.
    for _ in 0..20 {
        let submitted = early.submit();
        assert!(submitted.starts_with("HTTP/1.1 201"), "{submitted}");
        let listed = early.ask("GET", "/v1/queues", "").unwrap();
        assert!(listed.starts_with("HTTP/1.1 200"), "{listed}");
        let ready = early.ask("GET", "/readyz", "").unwrap();
        assert!(ready.starts_with("HTTP/1.1 200"), "{ready}");
    }
    drop(crowd);
    wait_until("a seat", || {
        Caller::connect(&ready).ask("GET", "/livez", "").is_ok_and(|it| it.contains(" 200 "))
    });
    assert_eq!(home.json(&["queues", "--json"])[0]["ready"], 21);
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    assert_eq!(home.run(&["verify"]).code, 0);
}
