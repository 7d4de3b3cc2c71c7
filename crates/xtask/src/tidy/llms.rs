//! `docs/llms.txt` lists the pages for users, in the form of llms.txt: a title, a summary, and links with notes.
//!
//! An agent reads it whole before it chooses a page, so it is small. [`super::links`] checks where its links lead.

use crate::finding::Finding;
use crate::tree::Tree;

const FILE: &str = "docs/llms.txt";
/// Two thousand tokens.
const BYTES_MAX: usize = 8 * 1024;
/// Folders whose pages it lists.
const FOLDERS: &[&str] = &["docs/guide/", "docs/operate/"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    // A tree without documents, in tests of other rules and here.
    if tree.text("docs/README.md").is_none() {
        return Vec::new();
    }
    let Some(text) = tree.text(FILE) else {
        return vec![finding("is missing".to_owned())];
    };
    let mut problems = Vec::new();
    if text.len() > BYTES_MAX {
        problems.push(format!("has {} bytes, the limit is {BYTES_MAX}", text.len()));
    }
    let mut lines = text.lines().filter(|line| !line.is_empty());
    if !["# ", "> "].iter().all(|sign| lines.next().is_some_and(|line| line.starts_with(sign))) {
        problems.push("does not begin with a title (`# `) and a summary (`> `)".to_owned());
    }
    problems.extend(
        pages(tree)
            .filter(|page| !is_linked(text, page))
            .map(|page| format!("does not list `{page}`")),
    );
    problems.into_iter().map(finding).collect()
}

/// The pages as the file writes them, relative to its folder.
fn pages(tree: &Tree) -> impl Iterator<Item = &str> {
    let pages = tree.texts().map(|(path, _)| path).filter(|path| path.ends_with(".md"));
    let ours = pages.filter(|path| FOLDERS.iter().any(|folder| path.starts_with(folder)));
    let alone = ours.filter(|path| !has_other_index(tree, path));
    alone.filter_map(|path| path.strip_prefix("docs/"))
}

/// The index of such a folder lists its other pages; the indexes of [`FOLDERS`] are what this file stands for.
fn has_other_index(tree: &Tree, path: &str) -> bool {
    let (folder, page) = path.rsplit_once('/').expect("it is in a folder");
    let folder = format!("{folder}/");
    let is_ours = FOLDERS.contains(&folder.as_str());
    match page {
        "README.md" => is_ours,
        _ => !is_ours && tree.text(&format!("{folder}README.md")).is_some(),
    }
}

fn is_linked(text: &str, page: &str) -> bool {
    text.contains(&format!("]({page})"))
}

fn finding(what: String) -> Finding {
    Finding {
        file: FILE.to_owned(),
        line: 1,
        what: format!("it {what}"),
        why: "agents find the documents by it",
        remedy: "list every page with a short note, and shorten others".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("docs/README.md", ""),
            ("docs/guide/README.md", ""),
            ("docs/guide/a.md", ""),
            ("docs/operate/b.md", ""),
            ("docs/operate/run/README.md", ""),
            ("docs/operate/run/c.md", ""),
            ("docs/contract.md", ""),
            (FILE, text),
        ]);
        check(&tree).into_iter().map(|finding| finding.what).collect()
    }

    const WHOLE: &str = "# T\n\n> s\n\n- [A](guide/a.md): note\n- [B](operate/b.md)\n- [R](operate/run/README.md)\n";

    #[test]
    fn a_whole_list_is_fine() {
        assert_eq!(found(WHOLE), Vec::<String>::new());
    }

    #[test]
    fn pages_that_are_missing_and_a_wrong_form_are_found() {
        assert_eq!(
            found(&WHOLE.replace("guide/a.md", "guide/c.md")),
            ["it does not list `guide/a.md`"]
        );
        assert_eq!(found(&WHOLE.replace("> ", "")).len(), 1);
        assert_eq!(found(&format!("{WHOLE}{}", "x".repeat(BYTES_MAX))).len(), 1);
        assert_eq!(check(&Tree::of(&[("docs/README.md", "")])).len(), 1);
    }
}
