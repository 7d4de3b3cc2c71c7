//! The store detects and reports the database's durability, whatever the settings; and it does not open where
//! row-level security does not separate scopes.

use pgserver::Server;
use store::postgres::{Missing, Options};
use store::{FailureKind, PostgresStore, Store};
use tokio_postgres::Client;

use super::options;
use super::private::client;

/// Changes settings of the whole server with SQL, and waits until new sessions use them.
pub(super) async fn set(client: &Client, settings: &[(&str, &str)]) {
    for (name, value) in settings {
        client.batch_execute(&format!("ALTER SYSTEM SET {name} = '{value}'")).await.unwrap();
    }
    client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    for (name, value) in settings {
        let shown =
            format!("SELECT setting FROM pg_file_settings WHERE name = '{name}' AND applied");
        loop {
            let row = client.query_one(&format!("SHOW {name}"), &[]).await.unwrap();
            let listed = client.query(&shown, &[]).await.unwrap();
            if row.get::<_, &str>(0) == *value && !listed.is_empty() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_combination_is_found_and_told() {
    // F35, S2-104: the report names which acknowledgements a crash or a failover could lose, and what to do about it.
    let server = Server::builder().start().unwrap();
    let client = client(&server).await;
    drop(PostgresStore::open(&server.conninfo("postgres"), options(None)).await.unwrap());
    // Read-only: a write would wait for a standby that is configured but absent.
    let looking = || Options { missing: Missing::Refuse, ..options(None) };
    let open = async || PostgresStore::open(&server.conninfo("postgres"), looking()).await.unwrap();
    let mut met = Vec::new();
    for fsync in ["on", "off"] {
        for pages in ["on", "off"] {
            for commit in ["on", "off", "local", "remote_write", "remote_apply"] {
                for standbys in ["", "s1"] {
                    set(
                        &client,
                        &[
                            ("fsync", fsync),
                            ("full_page_writes", pages),
                            ("synchronous_commit", commit),
                            ("synchronous_standby_names", standbys),
                        ],
                    )
                    .await;
                    let store = open().await;
                    let found = store.durability();
                    let is_safe = standbys == "s1" && ["on", "remote_apply"].contains(&commit);
                    let promises = [
                        ("fsync", fsync == "on"),
                        ("full_page_writes", pages == "on"),
                        ("synchronous_commit", commit != "off"),
                        ("synchronous_standby", is_safe),
                    ];
                    assert_eq!(*store.status().promises, promises, "{found:?}");
                    let warnings = found.warnings();
                    let told =
                        |word: &str| warnings.iter().any(|warning| warning.starts_with(word));
                    assert_eq!(told("fsync"), fsync == "off", "{found:?}: {warnings:?}");
                    assert_eq!(told("full_page"), pages == "off", "{found:?}: {warnings:?}");
                    assert_eq!(told("synchronous_commit"), commit == "off", "{found:?}");
                    // The configured standby is absent.
                    let is_stuck = standbys == "s1" && !["off", "local"].contains(&commit);
                    assert_eq!(told("commits wait for more"), is_stuck, "{found:?}: {warnings:?}");
                    let failover = warnings.iter().filter(|it| it.contains("failover")).count();
                    let expected = usize::from(!is_safe) + usize::from(is_stuck);
                    assert_eq!(failover, expected, "{found:?}: {warnings:?}");
                    assert!(warnings.iter().all(|warning| warning.contains("; ")), "{warnings:?}");
                    met.push(warnings);
                }
            }
        }
    }
    assert_eq!(met.len(), 40);
    assert!(
        met.iter().any(|warnings| warnings.len() == 1)
            && met.iter().any(|warnings| warnings.len() == 4)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_whose_scopes_are_open_is_not_opened() {
    // the check at every start fails for each way in which row-level security can be missing.
    let server = Server::builder().without_fsync().start().unwrap();
    let client = client(&server).await;
    let open = async || PostgresStore::open(&server.conninfo("postgres"), options(None)).await;
    drop(open().await.unwrap());
    let plain =
        ["inputs", "live", "done", "attempts", "history", "refused", "keys", "api_keys", "audit"];
    let tables =
        plain.into_iter().chain(["checkpoints", "children", "signals", "waits", "messages"]);
    let mut ways: Vec<(String, String)> = Vec::new();
    for table in tables {
        let alter = |how: &str| format!("ALTER TABLE tenure.{table} {how} ROW LEVEL SECURITY");
        ways.push((alter("DISABLE"), alter("ENABLE")));
    }
    ways.push((
        "CREATE POLICY open ON tenure.done USING (true)".to_owned(),
        "DROP POLICY open ON tenure.done".to_owned(),
    ));
    ways.push((
        "ALTER ROLE tenure_rows BYPASSRLS".to_owned(),
        "ALTER ROLE tenure_rows NOBYPASSRLS".to_owned(),
    ));
    ways.push((
        "ALTER TABLE tenure.keys OWNER TO tenure_rows".to_owned(),
        "ALTER TABLE tenure.keys OWNER TO postgres; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON tenure.keys TO tenure_rows"
            .to_owned(),
    ));
    for (open_it, close_it) in ways {
        client.batch_execute(&open_it).await.unwrap();
        let refused = open().await.err().expect(&open_it);
        assert_eq!(refused.kind, FailureKind::Closed, "{open_it}: {refused:?}");
        client.batch_execute(&close_it).await.unwrap();
        drop(open().await.expect(&close_it));
    }
}
