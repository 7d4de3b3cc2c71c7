//! Artifacts of a deployment: one to create, and where one is moved.

use std::borrow::Borrow;

use serde::Serialize;
use wire::Json;
use wire::topologies::{CreateArtifact, MoveArtifact};

use crate::Error;

/// An artifact for [`Deployments::create_artifact`](crate::Deployments::create_artifact).
#[derive(Clone, Debug, PartialEq)]
pub struct NewArtifact(CreateArtifact);

impl NewArtifact {
    /// Fields are what its type declares, as an object.
    pub fn new(
        id: impl Into<String>,
        fields: &(impl Serialize + ?Sized),
    ) -> Result<NewArtifact, Error> {
        Ok(NewArtifact(CreateArtifact { id: id.into(), fields: fields_of(fields)? }))
    }
}

impl Borrow<CreateArtifact> for NewArtifact {
    fn borrow(&self) -> &CreateArtifact {
        &self.0
    }
}

/// A move for [`Deployments::move_artifact`](crate::Deployments::move_artifact).
#[derive(Clone, Debug, PartialEq)]
#[must_use = "nothing moves until it is given to a client"]
pub struct ArtifactMove(MoveArtifact);

impl ArtifactMove {
    /// To this status.
    pub fn to(status: impl Into<String>) -> ArtifactMove {
        ArtifactMove(MoveArtifact { to: status.into(), revision: None, fields: Json::null() })
    }

    /// Only if the artifact has not changed since this revision.
    pub fn at_revision(mut self, revision: u64) -> ArtifactMove {
        self.0.revision = Some(revision);
        self
    }

    /// Changes these fields too.
    pub fn with_fields(
        mut self,
        fields: &(impl Serialize + ?Sized),
    ) -> Result<ArtifactMove, Error> {
        self.0.fields = fields_of(fields)?;
        Ok(self)
    }
}

impl Borrow<MoveArtifact> for ArtifactMove {
    fn borrow(&self) -> &MoveArtifact {
        &self.0
    }
}

fn fields_of(fields: &(impl Serialize + ?Sized)) -> Result<Json, Error> {
    Json::from_value(fields)
        .map_err(|why| Error::Setup(format!("the fields have no JSON form: {why}")))
}
