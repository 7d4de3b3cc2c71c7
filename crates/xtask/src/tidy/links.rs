//! Links between documents have valid targets.
//!
//! Only links to files of this repository are checked; tidy does not use the network.

use crate::finding::Finding;
use crate::tree::Tree;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.texts()
        .filter(|(path, _)| path.ends_with(".md") || path.ends_with("/llms.txt"))
        .flat_map(|(path, text)| {
            links(text)
                .into_iter()
                .filter(|link| !leads_somewhere(tree, path, &link.target))
                .map(|link| broken(path, &link))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn broken(path: &str, link: &Link) -> Finding {
    Finding {
        file: path.to_owned(),
        line: link.line,
        what: format!("the link to `{}` leads nowhere", link.target),
        why: "a document is followed by people who trust it",
        remedy: "correct the path, which is relative to this file, or add what is missing"
            .to_owned(),
    }
}

struct Link {
    target: String,
    line: usize,
}

/// Inline links and reference definitions, outside code.
fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let targets = targets(&without_inline_code(line));
            found.extend(targets.into_iter().map(|target| Link { target, line: index + 1 }));
        }
    }
    found
}

fn without_inline_code(line: &str) -> String {
    line.split('`').enumerate().filter(|(part, _)| part % 2 == 0).map(|(_, text)| text).collect()
}

fn targets(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let definition = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .and_then(|(_, rest)| rest.split_whitespace().next());
    inline.chain(definition).map(|target| target.trim_matches(['<', '>']).to_owned()).collect()
}

fn leads_somewhere(tree: &Tree, from: &str, target: &str) -> bool {
    let elsewhere = target.contains("://") || target.starts_with("mailto:");
    let file = target.split('#').next().unwrap_or_default();
    elsewhere
        || file.is_empty()
        || resolve(from, file).is_some_and(|path| tree.has_file_or_folder(&path))
}

/// The path from the root of the repository; `None` for a path outside it.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken_links(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("docs/guide/a.md", text), ("docs/b.md", ""), ("README.md", "")]);
        check(&tree).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let text = "[b](../b.md) [top](../../README.md#x) [here](#y) [web](https://example.org/z.md) [folder](../)\n[r]: ../b.md\n";
        assert_eq!(broken_links(text), Vec::<String>::new());
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        assert_eq!(broken_links("see [b](b.md)").len(), 1);
        assert_eq!(broken_links("[r]: ../c.md").len(), 1);
        assert_eq!(broken_links("[out](../../../etc/x)").len(), 1);
        assert_eq!(broken_links("[a](../b.md), [c](../c.md)").len(), 1);
    }

    #[test]
    fn a_picture_is_a_target_like_any_file() {
        let tree = Tree::of(&[("README.md", "![a takeover](docs/takeover.png)")]);
        assert_eq!(check(&tree).len(), 1);
        assert!(check(&tree.with_binary("docs/takeover.png")).is_empty());
    }

    #[test]
    fn code_is_not_followed() {
        assert_eq!(broken_links("`[b](b.md)`\n```\n[b](b.md)\n```\n"), Vec::<String>::new());
    }
}
