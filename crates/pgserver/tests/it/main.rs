//! Servers start as configured, can be broken, and leave nothing behind.
//!
//! Few and long tests: creating a server takes a second or two.

use std::path::Path;

use pgserver::{Error, Server, Shared, Stop};

fn is_served(server: &Server) -> bool {
    server.sql("postgres", "SELECT 1").is_ok_and(|said| said == "1")
}

#[test]
fn a_server_has_the_settings_asked_for_and_survives_being_stopped_and_killed() {
    let server = Server::builder().set("max_connections", "42").set("search_path", "o'clock");
    let server = server.on_a_port().start().unwrap();
    assert_eq!(server.sql("postgres", "SHOW max_connections").unwrap(), "42");
    assert_eq!(server.sql("postgres", "SHOW search_path").unwrap(), "o'clock");
    assert!(std::net::TcpStream::connect(("127.0.0.1", server.port())).is_ok());
    server
        .sql("postgres", "CREATE TABLE public.kept (n int); INSERT INTO public.kept VALUES (7)")
        .unwrap();
    server.set("work_mem", "1234kB").unwrap();
    for stop in [Stop::Fast, Stop::Immediate] {
        server.stop(stop).unwrap();
        assert!(!is_served(&server));
        server.start().unwrap();
    }
    server.kill().unwrap();
    assert!(!is_served(&server));
    server.start().unwrap();
    assert_eq!(server.sql("postgres", "SELECT n FROM public.kept").unwrap(), "7");
    assert_eq!(server.sql("postgres", "SHOW work_mem").unwrap(), "1234kB");
    let refused = server.sql("postgres", "SELECT nonsense").unwrap_err();
    assert!(refused.to_string().contains("nonsense"), "{refused}");
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let started = Server::builder().set("shared_preload_libraries", "no_such_library").start();
    let Some(Error::NoStart { log, .. }) = started.err() else { panic!("it cannot start") };
    assert!(log.contains("no_such_library"), "{log}");
}

#[test]
fn a_standby_takes_over_and_is_followed_in_turn() {
    let mut first = Server::builder().start().unwrap();
    let second = first.standby("beta").unwrap();
    first.set("synchronous_standby_names", "beta").unwrap();
    first.until_followed("sync").unwrap();
    first.sql("postgres", "CREATE DATABASE kept").unwrap();
    first.kill().unwrap();
    second.promote().unwrap();
    assert_eq!(second.sql("kept", "SELECT pg_is_in_recovery()").unwrap(), "f");
    // Commits would wait for the standby that is now the primary.
    second.set("synchronous_standby_names", "alpha").unwrap();
    first.follow(&second, "alpha").unwrap();
    second.until_followed("sync").unwrap();
    assert_eq!(first.sql("kept", "SELECT pg_is_in_recovery()").unwrap(), "t");
}

#[test]
fn nothing_is_left_of_a_server() {
    let server = Server::builder().without_fsync().start().unwrap();
    let (folder, data) = (server.folder().to_owned(), server.data().to_owned());
    drop(server);
    assert!(!folder.exists());
    let works_there =
        |process: &Path| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == data);
    let left =
        std::fs::read_dir("/proc").unwrap().flatten().find(|entry| works_there(&entry.path()));
    assert!(left.is_none(), "{left:?}");
}

#[test]
fn everybody_who_gives_the_same_name_shares_a_server() {
    let one = Shared::find_or_start("a test of sharing").unwrap();
    let other = Shared::find_or_start("a test of sharing").unwrap();
    assert_eq!(one.conninfo("postgres"), other.conninfo("postgres"));
    assert!(std::os::unix::net::UnixStream::connect(one.folder().join(".s.PGSQL.5432")).is_ok());
}
