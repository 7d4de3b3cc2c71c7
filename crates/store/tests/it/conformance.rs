//! The SQLite engine passes the suite that the reference engine passes.

use std::sync::Arc;

use store::ManualClock;
use store::conformance::Fixture;
use store::sqlite::{Options, SqliteStore};
use tempfile::TempDir;

pub(crate) struct Sqlite {
    folder: TempDir,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().expect("a folder for the database") }
    }
}

impl Fixture for Sqlite {
    type Store = SqliteStore;

    async fn open(&mut self, clock: Arc<ManualClock>) -> SqliteStore {
        let path = self.folder.path().join("tenure.db");
        SqliteStore::open(path, Options::new(clock)).expect("the database opens")
    }
}

mod sqlite {
    use super::Sqlite;

    store::conformance_checks! { Sqlite::new() }
}
