//! Who the client's key belongs to, and one-time codes for the console.

use wire::answers::{ConsoleCode, Session};

use super::Client;
use crate::Error;

impl Client {
    /// Whose key this is and what it may do.
    ///
    /// ```no_run
    /// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
    /// if client.session().await?.may("approvals.decide") {
    ///     println!("this key decides approvals");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn session(&self) -> Result<Session, Error> {
        self.get_json(&["v1", "session"], &serde_json::Map::new()).await
    }

    /// Makes a one-time code, with which a browser logs in to the console as this key. An unused code ends by itself.
    pub async fn console_code(&self) -> Result<ConsoleCode, Error> {
        self.post_json(&["v1", "console-codes"], &serde_json::Map::new()).await
    }
}
