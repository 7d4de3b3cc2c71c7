//! What a server shall be like, said before it starts.

use std::path::{Path, PathBuf};

use crate::{Result, Server};

/// Settings of every server here unless told otherwise: small, and silent but for what ends it.
const SETTINGS: [(&str, &str); 2] = [("shared_buffers", "32MB"), ("log_min_messages", "fatal")];

/// Nobody waits for the disk.
const WITHOUT_FSYNC: [(&str, &str); 3] =
    [("fsync", "off"), ("full_page_writes", "off"), ("synchronous_commit", "off")];

/// Where a server can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// A socket in its folder: no port can be taken.
    Socket,
    /// On 127.0.0.1 too, at a port that was free.
    Port,
}

/// A server that is not started yet. Durable as PostgreSQL is by default, unless told otherwise.
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

    /// For what does not lose power: nobody waits for the disk.
    pub fn without_fsync(self) -> Self {
        WITHOUT_FSYNC.iter().fold(self, |builder, (name, value)| builder.set(name, value))
    }

    /// Reached over TCP too, on 127.0.0.1 at a port that was free.
    pub fn on_a_port(mut self) -> Self {
        self.listen = Listen::Port;
        self
    }

    /// Its tables lie on another volume; its log of changes and its words stay in its folder.
    pub fn on_volume(mut self, volume: &Path) -> Self {
        self.volume = Some(volume.to_owned());
        self
    }

    /// Called with the folder of its data, before the first start.
    pub fn prepare(mut self, prepare: impl FnOnce(&Path) + 'prepare) -> Self {
        self.prepare = Box::new(prepare);
        self
    }

    /// Makes an empty server and starts it.
    pub fn start(self) -> Result<Server> {
        Server::make(self)
    }
}
