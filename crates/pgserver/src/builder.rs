//! The configuration of a server before it starts.

use std::path::{Path, PathBuf};

use crate::{Result, Server};

/// Default settings of every server here: small, and with a log of fatal errors only.
const SETTINGS: [(&str, &str); 2] = [("shared_buffers", "32MB"), ("log_min_messages", "fatal")];

/// Commits do not wait for the disk.
const WITHOUT_FSYNC: [(&str, &str); 3] =
    [("fsync", "off"), ("full_page_writes", "off"), ("synchronous_commit", "off")];

/// Where a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// A socket in its folder, so no port conflict is possible.
    Socket,
    /// Also on 127.0.0.1, at a free port.
    Port,
}

/// A server that is not started yet. By default it is as durable as PostgreSQL's defaults.
#[must_use]
pub struct Builder<'prepare> {
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) listen: Listen,
    pub(crate) volume: Option<PathBuf>,
    pub(crate) prepare: Box<dyn FnOnce(&Path) + 'prepare>,
}

impl<'prepare> Builder<'prepare> {
    pub(crate) fn new() -> Self {
        let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Builder { settings, listen: Listen::Socket, volume: None, prepare: Box::new(|_| {}) }
    }

    /// A setting as in `postgresql.conf`; `ALTER SYSTEM` can change it later.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// For tests without a power loss: commits do not wait for the disk.
    pub fn without_fsync(self) -> Self {
        WITHOUT_FSYNC.iter().fold(self, |builder, (name, value)| builder.set(name, value))
    }

    /// Also listens on TCP, on 127.0.0.1 at a free port.
    pub fn on_a_port(mut self) -> Self {
        self.listen = Listen::Port;
        self
    }

    /// Puts its tables on another volume; its WAL and its log stay in its folder.
    pub fn on_volume(mut self, volume: &Path) -> Self {
        self.volume = Some(volume.to_owned());
        self
    }

    /// Called with the data folder, before the first start.
    pub fn prepare(mut self, prepare: impl FnOnce(&Path) + 'prepare) -> Self {
        self.prepare = Box::new(prepare);
        self
    }

    /// Creates an empty server and starts it.
    pub fn start(self) -> Result<Server> {
        Server::make(self)
    }
}
