//! Creates the stores of a measurement: files in a folder, or databases on a server.
//!
//! Every store is new and empty, and is removed when the next one is created. Other content of the
//! folder or the server is not touched.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use crate::database::Databases;
use crate::error::BenchError;

/// A store, by the address that `serve` takes.
#[derive(Clone, Debug)]
pub(crate) enum StoreLocation {
    File(PathBuf),
    Database(String),
}

impl StoreLocation {
    pub(crate) fn address(&self) -> String {
        match self {
            StoreLocation::File(path) => format!("sqlite:{}", path.display()),
            StoreLocation::Database(url) => url.clone(),
        }
    }
}

pub(crate) struct StoreFactory {
    scratch: Scratch,
    pub(crate) databases: Option<Databases>,
    made: RefCell<u32>,
}

impl StoreFactory {
    /// Stores are files in `folder`, which selects the disk.
    pub(crate) fn files(folder: &Path) -> Result<Self, BenchError> {
        let scratch = Scratch::new(folder)?;
        Ok(Self { scratch, databases: None, made: RefCell::default() })
    }

    /// Stores are databases on the server at `url`.
    pub(crate) async fn databases(url: &str) -> Result<Self, BenchError> {
        let scratch = Scratch::new(&std::env::temp_dir())?;
        let databases = Some(Databases::of(url).await?);
        Ok(Self { scratch, databases, made: RefCell::default() })
    }

    /// Creates a store that does not exist yet, or an empty database; earlier ones are removed.
    pub(crate) async fn create_store(&self) -> Result<StoreLocation, BenchError> {
        let number = {
            let mut made = self.made.borrow_mut();
            *made += 1;
            *made
        };
        match &self.databases {
            None => {
                self.scratch.clear()?;
                Ok(StoreLocation::File(self.scratch.folder.join(format!("{number}.db"))))
            }
            Some(databases) => databases.create(number).await.map(StoreLocation::Database),
        }
    }

    /// Where servers keep the files that belong to a store.
    pub(crate) fn state_dir(&self) -> &Path {
        &self.scratch.folder
    }

    /// Removes the last store and what it left on a server. The folder's content is removed with
    /// this value.
    pub(crate) async fn clean_up(&self) -> Result<(), BenchError> {
        match &self.databases {
            Some(databases) => databases.clean_up().await,
            None => Ok(()),
        }
    }
}

/// A temporary folder.
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    fn new(parent: &Path) -> io::Result<Self> {
        let folder = parent.join(format!("tenure-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    fn clear(&self) -> io::Result<()> {
        std::fs::remove_dir_all(&self.folder)?;
        std::fs::create_dir_all(&self.folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // There is no caller to report to; the folder's name says what it was.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
