//! Fields of an artifact that were checked: the only ones that a commit takes.
//!
//! Checking costs as much as the schema and the value make it cost, so it is done before a commit and never inside one. What was
//! checked says so by its type, and by which version: under another version it has to be checked again.

use serde_json::Value;

use crate::check::Topology;
use crate::work::Work;

/// Fields that fit an artifact type of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedFields {
    version: String,
    artifact: String,
    value: Value,
}

impl CheckedFields {
    /// Fields that the caller has just tested with [`Topology::test_fields`].
    pub(crate) fn tested(topology: &Topology, artifact: &str, value: Value) -> Self {
        Self { version: topology.digest().to_owned(), artifact: artifact.to_owned(), value }
    }

    /// The fields, if they were checked for this type by this version.
    pub(crate) fn of(&self, topology: &Topology, artifact: &str) -> Option<&Value> {
        let is_it = self.version == topology.digest() && self.artifact == artifact;
        is_it.then_some(&self.value)
    }
}

impl Topology {
    /// `Err` says what does not fit, or that checking costs too much.
    pub fn check_fields(
        &self,
        artifact: &str,
        fields: Value,
        work: &mut Work,
    ) -> Result<CheckedFields, String> {
        self.test_fields(artifact, &fields, work)?;
        Ok(CheckedFields::tested(self, artifact, fields))
    }
}
