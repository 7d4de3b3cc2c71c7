//! The tables in the code are the tables in the databases: names, types and whether NULL is allowed.

use std::sync::Arc;

use rusqlite::Connection;
use store::sqlite::{Options, SqliteStore};
use storetest::ManualClock;
use storetest::conformance::Fixture;

use crate::postgres::Postgres;

/// A column as a database describes it: name, type, and whether NULL is allowed.
type Described = (String, String, bool);

fn owned(columns: &[(&str, &str, bool)]) -> Vec<Described> {
    let own = |(name, kind, nullable): &(&str, &str, bool)| {
        ((*name).to_owned(), (*kind).to_owned(), *nullable)
    };
    columns.iter().map(own).collect()
}

#[test]
fn the_listed_columns_are_those_of_a_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    drop(SqliteStore::open(&path, Options::new(Arc::new(ManualClock::default()))).unwrap());
    let raw = Connection::open(&path).unwrap();
    // A primary key is never NULL, whether the schema says so or not.
    let sql =
        "SELECT name, type, \"notnull\" = 0 AND pk = 0 FROM pragma_table_info(?1) ORDER BY name";
    let mut statement = raw.prepare(sql).unwrap();
    for table in store::sqlite::table_columns() {
        let columns =
            statement.query_map([table.table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        let columns: Vec<Described> = columns.unwrap().map(Result::unwrap).collect();
        assert_eq!(owned(&table.columns), columns, "{}", table.table);
    }
}

#[tokio::test]
async fn the_listed_columns_are_those_of_a_new_database() {
    let mut fixture = Postgres::new();
    let _store = fixture.open(Arc::new(ManualClock::default())).await;
    let (client, connection) =
        tokio_postgres::connect(fixture.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let sql = "SELECT column_name::text, udt_name::text, is_nullable = 'YES' \
        FROM information_schema.columns WHERE table_schema = 'tenure' AND table_name = $1 \
        ORDER BY column_name::text COLLATE \"C\"";
    for table in store::postgres::table_columns() {
        let rows = client.query(sql, &[&table.table]).await.unwrap();
        let columns: Vec<Described> =
            rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        assert_eq!(owned(&table.columns), columns, "{}", table.table);
    }
}
