//! Errors of creating, starting and controlling a server.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("PostgreSQL is not installed: apt-get install postgresql")]
    Missing,
    #[error("pgbouncer is not installed: apt-get install pgbouncer")]
    PoolerMissing,
    #[error("{command} could not be started")]
    Start { command: String, source: std::io::Error },
    #[error("{command} failed ({status}): {said}")]
    Failed { command: String, status: std::process::ExitStatus, said: String },
    /// With the end of the server's log.
    #[error("the server does not start; the end of its log:\n{log}")]
    NoStart { log: String, source: Box<Error> },
    #[error("waited in vain for {0}")]
    Waited(String),
    #[error("{} could not be used", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error(
        "a small volume cannot be mounted: allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)"
    )]
    NoVolume,
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }
}
