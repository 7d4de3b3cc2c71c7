//! What an acknowledged commit survives, according to the database's settings. Read at every start, and reported to
//! operators and in metrics. It decides one thing: where commits wait for a standby that is not connected, no commit
//! could ever be acknowledged, so the store is not opened for writing.

use tokio_postgres::Client;

use super::primary::is_unknown;
use crate::failure::{Failure, FailureKind};
use crate::postgres::errors::StepError;
use crate::postgres::rows::Columns;

/// The database's settings that determine how durable an acknowledged commit is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durability {
    pub server: String,
    pub fsync: bool,
    pub full_page_writes: bool,
    /// `on`, `off`, `local`, `remote_write` or `remote_apply`.
    pub synchronous_commit: String,
    /// Which standbys a commit waits for; empty for none.
    pub synchronous_standbys: String,
    pub standbys: Standbys,
}

/// The standbys that are connected now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standbys {
    Visible {
        /// All standbys that replicate from this server.
        following: usize,
        /// Those among them that commits wait for.
        synchronous: usize,
    },
    /// The user may not read it, or the engine does not report it.
    NotVisible,
}

impl Durability {
    /// Whether a commit waits until it is on the database's own disk.
    pub fn waits_for_disk(&self) -> bool {
        self.synchronous_commit != "off"
    }

    /// Whether a commit also waits until it is on a standby's disk.
    pub fn waits_for_standby(&self) -> bool {
        !self.synchronous_standbys.is_empty()
            && matches!(self.synchronous_commit.as_str(), "on" | "remote_apply")
    }

    /// Whether no commit can complete, because it waits for more standbys than are connected.
    pub fn lacks_standbys(&self) -> bool {
        let waits = !self.synchronous_standbys.is_empty()
            && !matches!(self.synchronous_commit.as_str(), "off" | "local");
        match self.standbys {
            Standbys::Visible { synchronous, .. } => {
                waits && synchronous < standbys_needed(&self.synchronous_standbys)
            }
            Standbys::NotVisible => false,
        }
    }

    /// Each guarantee by name, and whether it holds.
    pub fn promises(&self) -> Vec<(&'static str, bool)> {
        vec![
            ("fsync", self.fsync),
            ("full_page_writes", self.full_page_writes),
            ("synchronous_commit", self.waits_for_disk()),
            ("synchronous_standby", self.waits_for_standby()),
        ]
    }

    /// The failures that an acknowledged commit does not survive, each with its remedy after a semicolon; empty if it
    /// survives all of them.
    pub fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        if !self.fsync {
            warnings.push(
                "fsync is off, so a crash of the database's machine can lose acknowledged work and \
                 damage the database; set fsync = on",
            );
        }
        if !self.full_page_writes {
            warnings.push(
                "full_page_writes is off, so a crash of the database's machine can damage the \
                 database; set full_page_writes = on",
            );
        }
        if !self.waits_for_disk() {
            warnings.push(
                "synchronous_commit is off, so a crash of the database can lose work that was acknowledged \
                 in the last moments; set synchronous_commit = on",
            );
        }
        if self.lacks_standbys() {
            warnings.push(STANDBYS_MISSING);
        }
        warnings.extend(self.failover_warning());
        warnings
    }

    /// Which acknowledged commits a failover to a standby could lose.
    pub fn failover(&self) -> &'static str {
        match self.failover_warning() {
            Some(warning) => warning.split_once("; ").map_or(warning, |(sentence, _)| sentence),
            None => {
                "every acknowledged commit is on a standby's disk, so a failover to it loses none"
            }
        }
    }

    fn failover_warning(&self) -> Option<&'static str> {
        if self.waits_for_standby() {
            return None;
        }
        let commit = self.synchronous_commit.as_str();
        Some(match (self.synchronous_standbys.is_empty(), self.standbys) {
            (true, Standbys::Visible { following: 0, .. }) => {
                "no standby is connected, so losing the database's disk loses all work since the last backup, \
                 and no commit waits for one, so a failover can lose the last acknowledged work; \
                 set up a standby and name it in synchronous_standby_names if that matters"
            }
            (true, _) => {
                "no commit waits for a standby, so a failover can lose the last acknowledged work; \
                 name standbys in synchronous_standby_names if that matters"
            }
            (false, _) if commit == "remote_write" => {
                "a commit waits until a standby has received it, but not until it is on its disk, so \
                 a failover after both machines lost power can lose acknowledged work; \
                 set synchronous_commit = on"
            }
            (false, _) => {
                "standbys are named, but commits do not wait for them, so a failover can lose the last \
                 acknowledged work; set synchronous_commit = on"
            }
        })
    }

    /// A writer would wait for ever, so this is refused at once.
    pub(in crate::postgres) fn refuse_missing_standbys(&self) -> Result<(), Failure> {
        if self.lacks_standbys() {
            return Err(Failure::new(FailureKind::Closed, STANDBYS_MISSING));
        }
        Ok(())
    }
}

const STANDBYS_MISSING: &str = "commits wait for more synchronous standbys than are connected, so nothing is \
    acknowledged until enough are; start those that synchronous_standby_names requires, or remove them from it \
    and accept that a failover can lose acknowledged work";

/// How many standbys a commit waits for: `FIRST 2 (a, b, c)`, `ANY 2 (a, b, c)`, `2 (a, b)`, or a plain list.
fn standbys_needed(names: &str) -> usize {
    let names = names.trim().to_ascii_uppercase();
    let counted = ["FIRST", "ANY"].iter().find_map(|word| names.strip_prefix(word));
    let (number, list) = counted.unwrap_or(&names).split_once('(').unwrap_or_default();
    let number: Option<usize> = number.trim().parse().ok();
    number.filter(|_| !list.is_empty()).unwrap_or(1)
}

pub(in crate::postgres) async fn find(client: &Client) -> Result<Durability, StepError> {
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
        standbys: standbys(client).await?,
    })
}

/// A user without the privilege sees that there are standbys, but not their state.
async fn standbys(client: &Client) -> Result<Standbys, StepError> {
    let sql = "SELECT count(*) FILTER (WHERE state <> 'backup'), \
        count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')), \
        count(*) FILTER (WHERE sync_state IS NULL) FROM pg_stat_replication";
    let rows = match client.query_typed(sql, &[]).await {
        Err(error) if is_unknown(&error) => return Ok(Standbys::NotVisible),
        other => other?,
    };
    let mut columns = Columns::of(&rows[0]);
    let (following, synchronous, hidden): (i64, i64, i64) =
        (columns.take()?, columns.take()?, columns.take()?);
    let count = |number: i64| usize::try_from(number).unwrap_or(0);
    Ok(match hidden {
        0 => Standbys::Visible { following: count(following), synchronous: count(synchronous) },
        _ => Standbys::NotVisible,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standbys of the database.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Beside {
        Nobody,
        AStandbyNobodyWaitsFor,
        NamedButAbsent,
        NamedAndThere,
        NamedAndUnseen,
    }
    use Beside::{AStandbyNobodyWaitsFor, NamedAndThere, NamedAndUnseen, NamedButAbsent, Nobody};

    const COMMITS: [&str; 5] = ["off", "local", "remote_write", "on", "remote_apply"];
    const ALL_BESIDE: [Beside; 5] =
        [Nobody, AStandbyNobodyWaitsFor, NamedButAbsent, NamedAndThere, NamedAndUnseen];

    fn found(fsync: bool, pages: bool, commit: &str, beside: Beside) -> Durability {
        let is_named = !matches!(beside, Nobody | AStandbyNobodyWaitsFor);
        let seen = |following, synchronous| Standbys::Visible { following, synchronous };
        Durability {
            server: "15.1".to_owned(),
            fsync,
            full_page_writes: pages,
            synchronous_commit: commit.to_owned(),
            synchronous_standbys: if is_named { "s1".to_owned() } else { String::new() },
            standbys: match beside {
                Nobody | NamedButAbsent => seen(0, 0),
                AStandbyNobodyWaitsFor => seen(1, 0),
                NamedAndThere => seen(1, 1),
                NamedAndUnseen => Standbys::NotVisible,
            },
        }
    }

    /// The beginning of the sentence about a failover: what it could lose.
    fn of_a_failover(commit: &str, beside: Beside) -> &'static str {
        match (commit, beside) {
            (_, Nobody) => "no standby is connected",
            (_, AStandbyNobodyWaitsFor) => "no commit waits for a standby",
            ("off" | "local", _) => "standbys are named, but commits do not wait",
            ("remote_write", _) => "a commit waits until a standby has received it",
            _ => "every acknowledged commit is on a standby's disk",
        }
    }

    #[test]
    fn every_combination_says_what_could_be_lost_and_the_remedy() {
        // F35, S2-104: the whole table, not examples of it.
        for (fsync, pages) in [(true, true), (true, false), (false, true), (false, false)] {
            for (commit, beside) in
                COMMITS.iter().flat_map(|commit| ALL_BESIDE.map(|beside| (*commit, beside)))
            {
                let found = found(fsync, pages, commit, beside);
                let begins = of_a_failover(commit, beside);
                assert!(found.failover().starts_with(begins), "{found:?}: {}", found.failover());
                let is_safe = begins.starts_with("every");
                let is_stuck = beside == NamedButAbsent && !matches!(commit, "off" | "local");
                let expected: Vec<&str> = [
                    (!fsync).then_some("fsync is off"),
                    (!pages).then_some("full_page_writes is off"),
                    (commit == "off").then_some("synchronous_commit is off"),
                    is_stuck.then_some("commits wait for more synchronous standbys"),
                    (!is_safe).then_some(begins),
                ]
                .into_iter()
                .flatten()
                .collect();
                let warnings = found.warnings();
                let is_it = |(warning, begins): (&&str, &&str)| warning.starts_with(*begins);
                assert_eq!(warnings.len(), expected.len(), "{found:?}: {warnings:#?}");
                assert!(warnings.iter().zip(&expected).all(is_it), "{found:?}: {warnings:#?}");
                let has_remedy =
                    |warning: &&str| warning.split_once("; ").is_some_and(|(_, it)| !it.is_empty());
                assert!(warnings.iter().all(has_remedy), "{warnings:#?}");
                assert_eq!(found.refuse_missing_standbys().is_err(), is_stuck, "{found:?}");
                let promises = [
                    ("fsync", fsync),
                    ("full_page_writes", pages),
                    ("synchronous_commit", commit != "off"),
                    ("synchronous_standby", is_safe),
                ];
                assert_eq!(found.promises(), promises, "{found:?}");
            }
        }
    }

    #[test]
    fn as_many_standbys_are_needed_as_the_setting_says() {
        for (names, needed) in [
            ("s1", 1),
            ("s1, s2", 1),
            ("*", 1),
            ("FIRST 2 (s1, s2, s3)", 2),
            ("first 1 (s1)", 1),
            ("ANY 3 (s1, s2, s3, s4)", 3),
            ("2 (s1, s2)", 2),
            ("any", 1),
        ] {
            assert_eq!(standbys_needed(names), needed, "{names}");
        }
    }
}
