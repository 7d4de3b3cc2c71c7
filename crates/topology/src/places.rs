//! Where each member of a YAML file begins, so that a check of the values can say line and column.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::problem::Place;
use crate::reading;

/// The places in one file, by path.
#[derive(Debug, Default)]
pub(crate) struct Places {
    by_path: BTreeMap<String, Place>,
}

impl Places {
    /// Reads the places of a file. A file that cannot be read has none.
    pub(crate) fn of(text: &str) -> Self {
        let mut places = Self::default();
        if let Ok(top) = reading::values::<Spanned<Node>>(text) {
            places.add(String::new(), &top);
        }
        places
    }

    /// The place of this member, or of the nearest one around it.
    pub(crate) fn find(&self, path: &str) -> Option<Place> {
        let mut path = path;
        loop {
            if let Some(place) = self.by_path.get(path) {
                return Some(*place);
            }
            path = path.rsplit_once('.')?.0;
        }
    }

    fn add(&mut self, path: String, node: &Spanned<Node>) {
        match &node.value {
            Node::Map(members) => {
                for (key, value) in members {
                    let inner = join(&path, &key.value);
                    // A member begins where its name stands.
                    self.put(inner.clone(), key.referenced.line(), key.referenced.column());
                    self.add(inner, value);
                }
            }
            Node::List(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    let inner = join(&path, &index.to_string());
                    self.put(inner.clone(), element.referenced.line(), element.referenced.column());
                    self.add(inner, element);
                }
            }
            Node::Leaf => {}
        }
    }

    fn put(&mut self, path: String, line: u64, column: u64) {
        if line > 0 {
            self.by_path.insert(path, Place { line, column });
        }
    }
}

/// A path of members and list places, joined by dots.
pub(crate) fn join(path: &str, segment: &str) -> String {
    if path.is_empty() { segment.to_owned() } else { format!("{path}.{segment}") }
}

enum Node {
    Map(Vec<(Spanned<String>, Spanned<Node>)>),
    List(Vec<Spanned<Node>>),
    Leaf,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(entry) = map.next_entry()? {
            members.push(entry);
        }
        Ok(Node::Map(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            elements.push(element);
        }
        Ok(Node::List(elements))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Node, D::Error> {
        Node::deserialize(inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_elements_are_found_and_others_by_what_is_around_them() {
        let places = Places::of("a:\n  b:\n    - x\n    - c: 1\n");
        let at = |path: &str| places.find(path).map(|place| (place.line, place.column));
        assert_eq!(at("a"), Some((1, 1)));
        assert_eq!(at("a.b"), Some((2, 3)));
        assert_eq!(at("a.b.0"), Some((3, 7)));
        assert_eq!(at("a.b.1.c"), Some((4, 7)));
        assert_eq!(at("a.b.1.missing.deep"), Some((4, 7)));
        assert_eq!(at("other"), None);
    }
}
