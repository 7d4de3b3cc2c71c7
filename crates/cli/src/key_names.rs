//! Names of API keys for people: `ann (c5c2e29e8079d1a4)` instead of sixteen hexadecimal digits.
//!
//! Only an administrator may list keys. To any other caller ids are shown as they are: a name is a comfort, and no command
//! fails for want of one.

use std::collections::BTreeMap;

use tenure::Client;

#[derive(Debug, Default)]
pub(crate) struct KeyNames(BTreeMap<String, String>);

impl KeyNames {
    pub(crate) async fn of(client: &Client) -> KeyNames {
        let keys = client.keys().list().await.map(|found| found.keys).unwrap_or_default();
        let named = keys.into_iter().filter_map(|key| Some((key.key_id, key.name?)));
        KeyNames(named.collect())
    }

    pub(crate) fn spell(&self, id: &str) -> String {
        self.0.get(id).map_or_else(|| id.to_owned(), |name| format!("{name} ({id})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_a_name_is_its_id() {
        let names = KeyNames([("c5c2".to_owned(), "ann".to_owned())].into());
        assert_eq!(names.spell("c5c2"), "ann (c5c2)");
        assert_eq!(names.spell("a7f9"), "a7f9");
    }
}
