//! API keys, and the keys that sign task tokens. Both need a key with the role admin.

use std::time::Duration;

use wire::admin::{CreateKey, Key, ListKeys, NewKey, RotateKey, RotateSigning, SigningRotated};
use wire::{Role, Time};

use super::{Client, Request};
use crate::Error;
use crate::new_run::millis;

/// The API keys that a client's key may administer. See [`Client::keys`].
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    client: &'a Client,
}

impl Client {
    /// API keys, to create, list and revoke them.
    ///
    /// ```no_run
    /// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
    /// use tenure::Role;
    ///
    /// let made = client.keys().create([Role::Worker]).name("mail workers").queues(["mail"]).await?;
    /// println!("{}", made.secret);
    /// # Ok(()) }
    /// ```
    pub fn keys(&self) -> Keys<'_> {
        Keys { client: self }
    }
}

impl Keys<'_> {
    /// Creates a key with these roles. Tried once: a repetition after a lost answer would leave a key whose secret is lost.
    pub fn create(&self, roles: impl IntoIterator<Item = Role>) -> Request<CreateKey, NewKey> {
        let wanted = CreateKey { roles: roles.into_iter().collect(), ..CreateKey::default() };
        Request::write_once(self.client, &["v1", "keys"], wanted)
    }

    /// All of them, without their secrets.
    pub async fn list(&self) -> Result<wire::admin::Keys, Error> {
        let (mut all, mut query) = (Vec::new(), ListKeys::default());
        loop {
            let mut page: wire::admin::Keys = self.client.get_json(&["v1", "keys"], &query).await?;
            all.append(&mut page.keys);
            match page.next_after.take() {
                Some(after) => query.after = Some(after),
                None => {
                    page.keys = all;
                    return Ok(page);
                }
            }
        }
    }

    /// Gives a key a new secret. Tried once: a repetition would end the overlap of the secret in use.
    pub fn rotate(&self, key_id: &str) -> Request<RotateKey, NewKey> {
        let path = ["v1", "keys", key_id, "rotate"];
        Request::write_once(self.client, &path, RotateKey::default())
    }

    /// Revokes a key, at once and permanently.
    pub async fn revoke(&self, key_id: &str) -> Result<Key, Error> {
        let no_members = serde_json::Map::new();
        self.client.post_json(&["v1", "keys", key_id, "revoke"], &no_members).await
    }

    /// Signs task tokens with a new key from now on.
    pub fn rotate_signing(&self) -> Request<RotateSigning, SigningRotated> {
        let path = ["v1", "signing-keys", "rotate"];
        Request::write_once(self.client, &path, RotateSigning::default())
    }
}

impl Request<CreateKey, NewKey> {
    /// The name of the key, for people.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.say(|it| it.name = Some(name.into()))
    }

    /// The queues that it may use; all when not given.
    pub fn queues<T: Into<String>>(self, queues: impl IntoIterator<Item = T>) -> Self {
        self.say(|it| it.queues = Some(queues.into_iter().map(Into::into).collect()))
    }

    /// When it expires; never when not given.
    pub fn expires_at(self, at: Time) -> Self {
        self.say(|it| it.expires_at = Some(at))
    }

    /// Its tenant; that of the client's key when not given.
    pub fn tenant(self, tenant_id: impl Into<String>) -> Self {
        self.say(|it| it.tenant_id = Some(tenant_id.into()))
    }

    /// Its workspace; that of the client's key when not given.
    pub fn workspace(self, workspace_id: impl Into<String>) -> Self {
        self.say(|it| it.workspace_id = Some(workspace_id.into()))
    }
}

impl Request<RotateKey, NewKey> {
    /// How long the old secret stays valid: a day when not given.
    pub fn overlap(self, span: Duration) -> Self {
        self.say(|it| it.overlap_ms = Some(millis(span)))
    }
}

impl Request<RotateSigning, SigningRotated> {
    /// A key has leaked: every older task token is refused at once, and running attempts are lost.
    pub fn emergency(self) -> Self {
        self.say(|it| it.emergency = Some(true))
    }
}
