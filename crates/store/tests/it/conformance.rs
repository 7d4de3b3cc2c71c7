//! The SQLite engine passes the suite that the reference engine passes.

use std::path::PathBuf;
use std::sync::Arc;

use store::sqlite::{Options, SqliteStore};
use storetest::ManualClock;
use storetest::conformance::Fixture;
use tempfile::TempDir;

pub(crate) struct Sqlite {
    folder: TempDir,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().expect("a folder for the database") }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("tenure.db")
    }
}

impl Fixture for Sqlite {
    type Store = SqliteStore;

    async fn open(&mut self, clock: Arc<ManualClock>) -> SqliteStore {
        SqliteStore::open(self.path(), Options::new(clock)).expect("the database opens")
    }
}

mod sqlite {
    use super::Sqlite;

    storetest::conformance_checks! { Sqlite::new() }
}
