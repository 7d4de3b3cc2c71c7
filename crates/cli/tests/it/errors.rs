//! Errors before anything is decided: each has one sentence, one remedy, one exit code.

use std::net::TcpListener;

use crate::home::Home;

#[test]
fn no_server_is_one_sentence_and_the_remedy() {
    let home = Home::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    let ran = home.run(&["queues", "--url", &url, "--key", "k"]);
    ran.assert_error(6, "unreachable", "no server answers at", "tenure dev");
    let ran = home.run(&["work", "--queue", "q", "--exec", "true", "--url", &url, "--key", "k"]);
    assert_eq!(ran.code, 6, "{ran:?}");
}

#[test]
fn no_key_is_one_sentence_and_the_remedy() {
    let ran = Home::new().run(&["queues"]);
    ran.assert_error(5, "no_key", "there is no API key", "tenure dev");
}

#[test]
fn a_wrong_key_is_one_sentence_and_the_remedy() {
    let home = Home::new();
    let _server = home.serve();
    let ran = home.run(&["queues", "--key", "tnr_wrong"]);
    ran.assert_error(5, "unauthenticated", "key", "--key");
    let ran = home.run(&["work", "--queue", "q", "--exec", "true", "--key", "tnr_wrong"]);
    assert_eq!(ran.code, 5, "{ran:?}");
}

#[test]
fn what_is_not_there_is_not_found() {
    let home = Home::new();
    let _server = home.serve();
    for verb in ["show", "watch", "cancel", "history", "record"] {
        let ran = home.run(&["runs", verb, "run_01ARZ3NDEKTSV4RRFFQ69G5FAV"]);
        ran.assert_error(3, "run_not_found", "run", "runs list");
    }
}

#[test]
fn bad_input_is_refused_before_it_is_sent() {
    let home = Home::new();
    let ran = home.run(&["submit", "k", "--queue", "q", "--input", "{name: Ada}", "--key", "k"]);
    ran.assert_error(2, "invalid_input", "not valid JSON", "quote");
}

#[test]
fn what_the_server_finds_invalid_names_the_member() {
    let home = Home::new();
    let _server = home.serve();
    let ran = home.run(&["submit", "k", "--queue", "white space"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("queue") && ran.stderr.contains("[invalid_argument]"), "{ran:?}");
}

#[test]
fn errors_are_json_where_data_would_be() {
    let ran = Home::new().run(&["queues", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((error["error"].as_str(), error["exitCode"].as_i64()), (Some("no_key"), Some(5)));
    assert_eq!(ran.stdout, "");
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let home = Home::new();
    for arguments in
        [&["nonsense"][..], &["submit", "k"], &["submit", "k", "--queue", "q", "--delay", "soon"]]
    {
        assert_eq!(home.run(arguments).code, 2, "{arguments:?}");
    }
}

#[test]
fn a_taken_port_is_one_sentence_and_the_remedy() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    home.run(&["dev", "--port", &port]).assert_error(4, "port_taken", "already in use", "--port");
    let listen = format!("127.0.0.1:{port}");
    home.run(&["serve", "--listen", &listen]).assert_error(
        4,
        "port_taken",
        "already in use",
        "--listen",
    );
}

#[test]
fn a_second_server_on_the_same_file_is_refused_with_the_owner() {
    // Two processes open one file: the second is told which process holds it.
    let home = Home::new();
    let server = home.serve();
    let ran = home.run(&["serve", "--listen", "127.0.0.1:0"]);
    let owner = format!("process {}", server.child.id());
    ran.assert_error(4, "store_closed", &owner, "stop that process");
    let store = home.store();
    home.run(&["verify", "--store", store.to_str().unwrap()]).assert_error(
        4,
        "store_closed",
        &owner,
        "stop",
    );
}

#[test]
fn an_address_others_could_reach_is_refused() {
    let ran = Home::new().run(&["serve", "--listen", "0.0.0.0:7400"]);
    ran.assert_error(2, "not_loopback", "0.0.0.0", "127.0.0.1");
}

#[test]
fn a_file_that_is_no_database_or_a_newer_one_is_refused() {
    let home = Home::new();
    let file = home.path().join("notes.db");
    std::fs::write(&file, "not a database, but long enough to look at: ".repeat(100)).unwrap();
    let store = format!("sqlite:{}", file.display());
    let ran = home.run(&["serve", "--listen", "127.0.0.1:0", "--store", &store]);
    ran.assert_error(4, "store_closed", "is not a database", "a separate file");
}

#[test]
fn a_newer_database_is_refused_with_the_remedy() {
    let home = Home::new();
    drop(home.serve());
    raise_version(&home);
    let ran = home.run(&["dev", "--port", "0"]);
    ran.assert_error(4, "store_closed", "has format 2", "newer Tenure");
}

/// The row that a newer version would leave in the table of migrations.
fn raise_version(home: &Home) {
    let sql = "INSERT INTO refinery_schema_history (version, name, applied_on, checksum) \
               VALUES (2, 'later', '2026-01-01T00:00:00Z', '1')";
    let connection = rusqlite::Connection::open(home.store()).unwrap();
    connection.execute(sql, []).unwrap();
}

#[test]
fn a_store_of_another_kind_is_refused() {
    let ran = Home::new().run(&["serve", "--store", "mysql://db/tenure"]);
    ran.assert_error(2, "unknown_store", "mysql", "sqlite:PATH");
}

#[test]
fn an_address_that_is_not_quite_one_becomes_no_file_and_shows_no_password() {
    // A typing error neither creates an empty store nor prints a secret.
    for said in [
        "mysql://root:secret@db/tenure",
        "POSTGRES://root:secret@db/tenure",
        "postgres:tenure:secret",
        "host=db dbname=tenure password=secret",
    ] {
        let home = Home::new();
        let ran = home.run(&["serve", "--listen", "127.0.0.1:0", "--store", said]);
        ran.assert_error(2, "unknown_store", "is not a store", "postgres://USER:PASSWORD@HOST");
        assert!(!ran.stderr.contains("secret"), "{ran:?}");
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "{said}");
    }
}

#[test]
fn what_works_on_files_only_says_so() {
    let commands =
        [("backup", "copy.db", "sqlite:PATH"), ("prune", "--older-than=30d", "--retain-for")];
    for (verb, target, hint) in commands {
        let ran = Home::new().run(&[verb, target, "--store", "postgres://db/tenure"]);
        ran.assert_error(2, "sqlite_only", "PostgreSQL", hint);
    }
}

#[test]
fn an_interrupted_server_ends_well() {
    let home = Home::new();
    let mut server = home.serve();
    server.signal("INT");
    assert_eq!(server.exit_code(), 0);
}
