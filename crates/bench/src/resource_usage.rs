//! Which processes' resource usage is recorded while a load runs.

use tokio::time::Instant;

use crate::database::Engine;
use crate::error::BenchError;
use crate::measurement::Measurement;
use crate::process::{Usage, rss_mib};

/// Servers that we started, and the database they share. Usage of other servers is unknown.
#[derive(Clone, Default)]
pub(crate) struct Monitored {
    pub(crate) servers: Vec<u32>,
    pub(crate) database: Option<Engine>,
}

/// Usage between two moments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResourceUsage {
    pub(crate) server: Option<Usage>,
    pub(crate) database: Option<Usage>,
    /// Of this process: the load, or the engine together with it.
    pub(crate) own: Usage,
    /// Whether the CPU time of the database can be measured.
    is_database_here: bool,
}

/// A snapshot of everything that is watched.
pub(crate) struct UsageMeter {
    monitored: Monitored,
    began: Instant,
    then: ResourceUsage,
}

impl Monitored {
    pub(crate) async fn begin(&self) -> Result<UsageMeter, BenchError> {
        let then = self.sample().await?;
        Ok(UsageMeter { monitored: self.clone(), began: Instant::now(), then })
    }

    async fn sample(&self) -> Result<ResourceUsage, BenchError> {
        let database = match &self.database {
            Some(database) => Some(database.usage().await?),
            None => None,
        };
        let is_server_ours = !self.servers.is_empty();
        Ok(ResourceUsage {
            server: is_server_ours.then(|| Usage::of_all(&self.servers)),
            database,
            own: Usage::own(),
            is_database_here: self.database.as_ref().is_some_and(Engine::is_here),
        })
    }

    /// Of all servers together.
    pub(crate) fn rss_mib(&self) -> Option<f64> {
        self.servers.iter().map(|pid| rss_mib(*pid)).sum()
    }
}

impl UsageMeter {
    pub(crate) async fn end(&self) -> Result<(std::time::Duration, ResourceUsage), BenchError> {
        let elapsed = self.began.elapsed();
        let now = self.monitored.sample().await?;
        let since = |now: Option<Usage>, then: Option<Usage>| Some(now?.since(&then?));
        let used = ResourceUsage {
            server: since(now.server, self.then.server),
            database: since(now.database, self.then.database),
            own: now.own.since(&self.then.own),
            ..now
        };
        Ok((elapsed, used))
    }
}

impl ResourceUsage {
    /// Adds the usage per task, for `count` tasks, to a row. Bytes are those of the WAL for a
    /// database, else what the server wrote.
    pub(crate) fn put(&self, row: Measurement, count: u64) -> Measurement {
        let each = count.max(1) as f64;
        let writer = self.database.or(self.server);
        let database = self.database.filter(|_| self.is_database_here);
        Measurement {
            cpu_micros_per_lifecycle: self.server.map(|used| used.cpu_micros / each),
            database_micros_per_lifecycle: database.map(|used| used.cpu_micros / each),
            bytes_per_lifecycle: writer.map(|used| used.written_bytes / each),
            client_micros_per_lifecycle: Some(self.own.cpu_micros / each),
            ..row
        }
    }

    /// The engine alone has no separate process: its usage is that of this process.
    pub(crate) fn as_engine(self) -> Self {
        Self { server: Some(self.own), ..self }
    }
}
