//! What an acknowledged commit survives, as the database says itself. Found at every start, told to people and
//! to whoever collects metrics; nothing is decided by it.

use tokio_postgres::Client;

use super::rows::Columns;
use super::trouble::Trouble;

/// What the database says about how durable an acknowledged commit is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durability {
    pub server: String,
    pub fsync: bool,
    pub full_page_writes: bool,
    /// `on`, `off`, `local`, `remote_write` or `remote_apply`.
    pub synchronous_commit: String,
    /// Which standbys a commit waits for; empty for none.
    pub synchronous_standbys: String,
}

impl Durability {
    /// Whether a commit waits until it is on the database's own disk.
    pub fn waits_for_disk(&self) -> bool {
        self.synchronous_commit != "off"
    }

    /// Whether a commit waits until a standby has it on its disk, too.
    pub fn waits_for_standby(&self) -> bool {
        !self.synchronous_standbys.is_empty()
            && matches!(self.synchronous_commit.as_str(), "on" | "remote_apply")
    }

    /// Each promise by name, and whether it is given.
    pub fn promises(&self) -> Vec<(&'static str, bool)> {
        vec![
            ("fsync", self.fsync),
            ("full_page_writes", self.full_page_writes),
            ("synchronous_commit", self.waits_for_disk()),
            ("synchronous_standby", self.waits_for_standby()),
        ]
    }

    /// What an acknowledgement does not survive, with the remedy behind a semicolon; empty when it survives
    /// all of it.
    pub fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        if !self.fsync {
            warnings.push(
                "fsync is off, so that a crash of the database's machine can lose acknowledged work and \
                 damage the database; set fsync = on",
            );
        }
        if !self.full_page_writes {
            warnings.push(
                "full_page_writes is off, so that a crash of the database's machine can damage the \
                 database; set full_page_writes = on",
            );
        }
        if !self.waits_for_disk() {
            warnings.push(
                "synchronous_commit is off, so that a crash of the database can lose what was acknowledged \
                 in the last moments; set synchronous_commit = on",
            );
        }
        warnings.extend(self.failover_warning());
        warnings
    }

    fn failover_warning(&self) -> Option<&'static str> {
        if self.waits_for_standby() {
            return None;
        }
        if self.synchronous_standbys.is_empty() {
            return Some(
                "no commit waits for a standby, so that a failover can lose the last acknowledged work; \
                 name standbys in synchronous_standby_names where that matters",
            );
        }
        Some(match self.synchronous_commit.as_str() {
            "remote_write" => {
                "a commit waits until a standby has received it, but not until it is on its disk, so that \
                 a failover after both machines lost power can lose acknowledged work; \
                 set synchronous_commit = on"
            }
            _ => {
                "standbys are named, but commits do not wait for them, so that a failover can lose the last \
                 acknowledged work; set synchronous_commit = on"
            }
        })
    }
}

pub(super) async fn find(client: &Client) -> Result<Durability, Trouble> {
    let sql = "SELECT current_setting('server_version'), current_setting('fsync'), \
        current_setting('full_page_writes'), current_setting('synchronous_commit'), \
        current_setting('synchronous_standby_names')";
    let rows = client.query_typed(sql, &[]).await?;
    let mut columns = Columns::of(&rows[0]);
    Ok(Durability {
        server: columns.take()?,
        fsync: columns.take::<&str>()? == "on",
        full_page_writes: columns.take::<&str>()? == "on",
        synchronous_commit: columns.take()?,
        synchronous_standbys: columns.take()?,
    })
}
