//! A database that cannot be used: every command says what is wrong with it and what to do.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::path::Path;

use pgserver::Server;

use crate::home::{CommandOutput, Home, Process, wait_until};
use crate::operate_backup::stop;

/// Connections over TCP need a password.
fn server() -> Server {
    let guard = |data: &Path| {
        let rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
        std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
    };
    let server = Server::builder().without_fsync().on_a_port().prepare(guard).start().unwrap();
    let prepare = [
        "CREATE ROLE person LOGIN PASSWORD 'right'",
        "CREATE ROLE crowded LOGIN PASSWORD 'right' CONNECTION LIMIT 0",
        "CREATE DATABASE reading",
        "ALTER DATABASE reading SET default_transaction_read_only = on",
        "REVOKE CREATE ON DATABASE postgres FROM public",
    ];
    for sql in prepare {
        server.sql("postgres", sql).unwrap();
    }
    server
}

#[test]
fn each_reason_why_a_database_is_closed_is_told_with_its_remedy() {
    // S2-104: the command that starts a server and the maintenance commands print the same message.
    let (home, server) = (Home::new(), server());
    let at = |who: &str, database: &str| {
        format!("postgres://{who}@127.0.0.1:{}/{database}", server.port())
    };
    let closed = |store: &str, sentence: &str, hint: &str| {
        let serve = home.run(&["serve", "--listen", "127.0.0.1:0", "--store", store]);
        serve.assert_error(4, "store_closed", sentence, hint);
        let raise = home.run(&["epoch", "raise", "--store", store]);
        raise.assert_error(4, "store_closed", sentence, hint);
    };
    closed(&at("person:wrong", "postgres"), "rejected user and password", "check both");
    closed(&at("person", "postgres"), "requires a password", "USER:PASSWORD@HOST");
    closed(&at("person:right", "absent"), "no such database", "createdb");
    closed(&at("person:right", "reading"), "accepts writes", "name the primary");
    closed(&at("crowded:right", "postgres"), "accepts no more connections", "max_connections");
    closed(
        "postgres://person:right@127.0.0.1:1/postgres",
        "no server answers",
        "check that it runs",
    );
    closed("postgres://person@%2Fnowhere/postgres", "no server answers", "check that it runs");
    let serve = |store: &str| home.run(&["serve", "--listen", "127.0.0.1:0", "--store", store]);
    let may_not = serve(&at("person:right", "postgres"));
    says(
        &may_not,
        "error: the database's user has no permission to prepare it: permission denied to create role [store_closed]\n\
         hint: as an administrator run: CREATE ROLE tenure_rows NOLOGIN; GRANT tenure_rows TO person; \
         GRANT CREATE ON DATABASE postgres TO person; then start again\n",
    );
    let plain = serve(&format!("{}?sslmode=verify-full", at("person:right", "postgres")));
    plain.assert_error(4, "database_untrusted", "does not support TLS", "ssl = on");
    says(
        &plain,
        "error: the database does not support TLS [database_untrusted]\n\
         hint: enable it there (ssl = on), or set sslmode=disable if you trust the network\n",
    );
    let bench =
        home.run(&["bench", "--seconds", "0.1", "--store", &at("person:wrong", "postgres")]);
    bench.assert_error(4, "store_closed", "rejected user and password", "check both");
    for ran in [may_not, plain, bench] {
        assert!(!ran.stderr.contains("right") && !ran.stderr.contains("wrong"), "{ran:?}");
    }
}

/// Serves a database until it has created an API key, which is sealed in its audit.
fn serve_once(home: &Home, store: &str) {
    let arguments = ["serve", "--json", "--listen", "127.0.0.1:0", "--store", store];
    let mut server = Process::start(home.tenure(&arguments));
    server.line();
    stop(server);
}

/// The state files of this home with this ending.
fn state_files(home: &Home, ending: &str) -> Vec<String> {
    let folder = std::fs::read_dir(home.path().join("state/tenure")).unwrap();
    let names = folder.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(ending)).collect();
    names.sort();
    names
}

#[test]
fn two_databases_served_from_one_machine_have_keys_and_anchors_of_their_own() {
    // X11, X45: with one file for both, each would mistake the other's audit anchor for its own.
    let (home, server) = (Home::new(), Server::builder().without_fsync().start().unwrap());
    server.sql("postgres", "CREATE DATABASE second").unwrap();
    let stores = [server.url("postgres"), server.url("second")];
    serve_once(&home, &stores[0]);
    // As an earlier version left it: one name for all databases.
    let first = state_files(&home, ".key").remove(0);
    let at = |name: &str| home.path().join("state/tenure").join(name);
    let anchor = first.replace(".key", ".anchor");
    std::fs::rename(at(&first), at("postgres.key")).unwrap();
    std::fs::rename(at(&anchor), at("postgres.anchor")).unwrap();
    for store in &stores {
        serve_once(&home, store);
    }
    let keys = state_files(&home, ".key");
    assert_eq!(keys.len(), 3, "the old name, and one for each database: {keys:?}");
    assert!(keys.contains(&first), "{keys:?}");
    assert_eq!(std::fs::read(at(&first)).unwrap(), std::fs::read(at("postgres.key")).unwrap());
    assert_eq!(state_files(&home, ".anchor").len(), 3);
    for store in &stores {
        let audit = home.json(&["audit", "verify", "--json", "--store", store]);
        assert_eq!(audit["findings"], serde_json::json!([]), "{audit}");
        assert_eq!(audit["anchored"], true, "{audit}");
        let checks = home.run(&["doctor", "--json", "--store", store]);
        assert!(checks.stdout.contains("postgres-"), "it names the key file: {checks:?}");
    }
}

/// Asserts that the output contains the text exactly.
fn says(ran: &CommandOutput, text: &str) {
    assert_eq!((ran.code, ran.stderr.as_str()), (4, text));
    assert_eq!(ran.stdout, "");
}

/// A server that answers but is not a database. It reads until the caller hangs up: closing a socket that holds
/// unread bytes resets the connection, and a reset overtakes the answer.
fn web() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut caller in listener.incoming().map_while(Result::ok) {
            let _ = caller.read(&mut [0; 64]);
            let _ = caller.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
            let _ = caller.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut caller, &mut std::io::sink());
        }
    });
    port
}

#[test]
fn an_address_that_leads_to_no_database_says_how_it_is_wrong() {
    // S2-104: what is wrong, and what to write instead; never the password, never only the driver's
    // message.
    let home = Home::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("127.0.0.1:{}", silent.local_addr().unwrap().port());
    let web = format!("127.0.0.1:{}", web());
    for (place, sentence, hint) in [
        (silent.as_str(), "did not answer within five seconds", "check host and port"),
        (web.as_str(), "does not speak the PostgreSQL protocol", "check host and port"),
        ("nowhere.invalid", "host in the address of the database is unknown", "%40"),
        ("", "names no host", "postgres://USER:PASSWORD@HOST:PORT/DATABASE"),
        ("h:port", "is not a PostgreSQL address", "postgres://USER:PASSWORD@HOST:PORT/DATABASE"),
    ] {
        let store = format!("postgres://person:secret@{place}/x");
        let ran = home.run(&["verify", "--store", &store]);
        ran.assert_error(4, "store_closed", sentence, hint);
        assert!(!ran.stderr.contains("secret"), "{ran:?}");
    }
    let store = "postgres://person@h/x?sslmode=verify-full&sslrootcert=/none.pem";
    says(
        &home.run(&["verify", "--store", store]),
        "error: /none.pem cannot be read: No such file or directory (os error 2) [store_closed]\n\
         hint: check the path in the address, and its mode\n",
    );
}

#[test]
fn a_database_that_is_used_otherwise_is_left_alone() {
    // S2-104, S2-108: a schema of that name with other content, a store of another owner, of a
    // newer version, none at all.
    let (home, server) = (Home::new(), Server::builder().without_fsync().start().unwrap());
    let prepare = [
        "CREATE ROLE person LOGIN",
        "CREATE DATABASE other",
        "CREATE DATABASE empty",
        "CREATE DATABASE kept",
    ];
    for sql in prepare {
        server.sql("postgres", sql).unwrap();
    }
    let serve = |store: &str| home.run(&["serve", "--listen", "127.0.0.1:0", "--store", store]);
    server.sql("other", "CREATE SCHEMA tenure CREATE TABLE live (a int)").unwrap();
    let migrate = |to: &str| home.run(&["migrate", "--from", "sqlite:a.db", "--to", to]);
    serve_once(&home, "sqlite:a.db");
    let text = "error: the schema tenure of this database does not hold a store [store_closed]\n\
        hint: give Tenure a separate database, or remove that schema\n";
    says(&serve(&server.url("other")), text);
    says(&migrate(&server.url("other")), text);
    assert_eq!(server.sql("other", "SELECT count(*) FROM tenure.live").unwrap(), "0");
    says(
        &home.run(&["verify", "--store", &server.url("empty")]),
        "error: this database has no store [store_closed]\n\
         hint: check the name of the database in the address: only `tenure serve` creates a store\n",
    );

    let kept = server.url("kept");
    serve_once(&home, &kept);
    let another = kept.replace("postgres@", "person@").replace("user=postgres", "user=person");
    assert_ne!(another, kept);
    says(
        &home.run(&["coordinators", "--store", &another]),
        "error: the store in this database belongs to another user: permission denied for schema tenure \
         [store_closed]\n\
         hint: use the address with the user that created it and owns the schema tenure\n",
    );
    let newer = "INSERT INTO tenure.migrations (version, name, digest) VALUES (2, 'later', '7')";
    server.sql("kept", newer).unwrap();
    serve(&kept).assert_error(4, "store_closed", "has format 2", "start the newer Tenure");
}

#[test]
fn nobody_waits_for_a_standby_that_is_not_there() {
    // F35, S2-104: a command that would wait for ever reports it at once, whichever command it is.
    let (home, server) = (Home::new(), Server::builder().start().unwrap());
    let store = server.url("postgres");
    serve_once(&home, &store);
    server.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 's1'").unwrap();
    server.sql("postgres", "SELECT pg_reload_conf()").unwrap();
    let asks = "SHOW synchronous_standby_names";
    wait_until("the setting is in force", || server.sql("postgres", asks).unwrap() == "s1");
    let served = home.run(&["serve", "--listen", "127.0.0.1:0", "--store", &store]);
    served.assert_error(4, "store_closed", "synchronous standbys", "synchronous_standby_names");
    let raised = home.run(&["epoch", "raise", "--store", &store]);
    raised.assert_error(4, "store_closed", "synchronous standbys", "synchronous_standby_names");
    let looked = home.run(&["doctor", "--store", &store]);
    let said = looked.stdout;
    assert!(
        said.contains("warn  durability   commits wait for more synchronous standbys"),
        "{said}"
    );
    assert!(!said.contains("failover to it loses none"), "{said}");
}

#[test]
fn what_was_brought_back_is_not_held_against_a_later_end_of_the_audit() {
    // S3-24, X45: after its epoch is raised, and not before.
    let (home, server) = (Home::new(), Server::builder().without_fsync().start().unwrap());
    server.sql("postgres", "CREATE DATABASE kept").unwrap();
    let (kept, copy) = (server.url("kept"), server.url("copy"));
    serve_once(&home, &kept);
    server.sql("postgres", "CREATE DATABASE copy TEMPLATE kept").unwrap();
    let arguments = ["serve", "--json", "--new-key", "--listen", "127.0.0.1:0", "--store", &kept];
    let mut later = Process::start(home.tenure(&arguments));
    later.line();
    stop(later);
    let cut = home.run(&["verify", "--store", &copy]);
    assert!(cut.code == 1 && cut.stdout.contains("the audit was truncated"), "{cut:?}");
    home.json(&["epoch", "raise", "--json", "--store", &copy]);
    let whole = home.run(&["verify", "--store", &copy]);
    assert_eq!(whole.code, 0, "{whole:?}");
}
