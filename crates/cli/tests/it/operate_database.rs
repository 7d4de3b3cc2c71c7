//! A database that cannot be used: whoever starts a command learns what is wrong with it and what to do.

use std::path::Path;

use pgserver::Server;

use crate::home::{Home, Process};
use crate::operate_backup::stop;

/// Who comes over TCP needs a password.
fn server() -> Server {
    let guard = |data: &Path| {
        let rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
        std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
    };
    let server = Server::builder().careless().on_a_port().prepare(guard).start().unwrap();
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
    // S2-104: by the command that starts a server and by those that look after a store, in the same words.
    let (home, server) = (Home::new(), server());
    let at = |who: &str, database: &str| {
        format!("postgres://{who}@127.0.0.1:{}/{database}", server.port())
    };
    let closed = |store: &str, sentence: &str, hint: &str| {
        let serve = home.run(&["serve", "--listen", "127.0.0.1:0", "--store", store]);
        serve.complains(4, "store_closed", sentence, hint);
        let raise = home.run(&["epoch", "raise", "--store", store]);
        raise.complains(4, "store_closed", sentence, hint);
    };
    closed(&at("person:wrong", "postgres"), "this user with this password", "check both");
    closed(&at("person", "postgres"), "asks for a password", "USER:PASSWORD@HOST");
    closed(&at("person:right", "absent"), "no such database", "createdb");
    closed(&at("person:right", "reading"), "takes writes", "name the primary");
    closed(&at("crowded:right", "postgres"), "takes no more connections", "max_connections");
    closed("postgres://person:right@127.0.0.1:1/postgres", "nobody answers", "see that it runs");
    closed("postgres://person@%2Fnowhere/postgres", "nobody answers", "see that it runs");
    let serve = |store: &str| home.run(&["serve", "--listen", "127.0.0.1:0", "--store", store]);
    let may_not = serve(&at("person:right", "postgres"));
    may_not.complains(4, "store_closed", "may not prepare it", "CREATE ROLE tenure_rows");
    let plain = serve(&format!("{}?sslmode=verify-full", at("person:right", "postgres")));
    plain.complains(4, "database_untrusted", "does not speak TLS", "ssl = on");
    let bench =
        home.run(&["bench", "--seconds", "0.1", "--store", &at("person:wrong", "postgres")]);
    bench.complains(4, "store_closed", "this user with this password", "check both");
    for ran in [may_not, plain, bench] {
        assert!(!ran.stderr.contains("right") && !ran.stderr.contains("wrong"), "{ran:?}");
    }
}

/// Serves a database until it has made an API key, which is sealed in its audit.
fn serve_once(home: &Home, store: &str) {
    let arguments = ["serve", "--json", "--listen", "127.0.0.1:0", "--store", store];
    let mut server = Process::start(home.tenure(&arguments));
    server.line();
    stop(server);
}

/// The files of this home's state that end so.
fn state_files(home: &Home, ending: &str) -> Vec<String> {
    let folder = std::fs::read_dir(home.path().join("state/tenure")).unwrap();
    let names = folder.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(ending)).collect();
    names.sort();
    names
}

#[test]
fn two_databases_served_from_one_machine_have_keys_and_anchors_of_their_own() {
    // X11, X45: with one file for both, each would take the other's end of the audit for its own.
    let (home, server) = (Home::new(), Server::builder().careless().start().unwrap());
    server.sql("postgres", "CREATE DATABASE second").unwrap();
    let stores = [server.url("postgres"), server.url("second")];
    serve_once(&home, &stores[0]);
    // As a version before left it: one name for all databases.
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
