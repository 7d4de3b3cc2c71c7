//! What workers announced that they can do.

use wire::answers::Kinds;
use wire::requests::ListKinds;

use super::Client;
use crate::Error;

impl Client {
    /// A page of the kinds that workers announced at the coordinator that answers.
    pub async fn kinds(&self, page: &ListKinds) -> Result<Kinds, Error> {
        self.get_json(&["v1", "kinds"], page).await
    }
}
