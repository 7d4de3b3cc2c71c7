//! Every page for users is in the index of its folder, so that a reader who begins there can find it.
//!
//! Pages for people who change Tenure are not checked: ADRs are found by their number.

use crate::finding::Finding;
use crate::tree::Tree;

/// Folders whose `README.md` lists their pages.
const FOLDERS: &[&str] = &["docs/guide/", "docs/operate/", "docs/errors/"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    FOLDERS.iter().flat_map(|folder| check_folder(tree, folder)).collect()
}

fn check_folder(tree: &Tree, folder: &str) -> Vec<Finding> {
    let index = format!("{folder}README.md");
    let Some(listed) = tree.text(&index) else {
        let what = "this index is missing".to_owned();
        return vec![finding(&index, what)];
    };
    let pages = tree.texts().map(|(path, _)| path).filter(|path| path.ends_with(".md"));
    let inside = pages.filter_map(|path| path.strip_prefix(folder));
    let missing = inside.filter(|page| *page != "README.md" && !is_linked(listed, page));
    missing.map(|page| finding(&index, format!("`{page}` is not in it"))).collect()
}

fn is_linked(index: &str, page: &str) -> bool {
    [')', '#'].iter().any(|end| index.contains(&format!("]({page}{end}")))
}

fn finding(index: &str, what: String) -> Finding {
    Finding {
        file: index.to_owned(),
        line: 1,
        what,
        why: "a page that no index names is found by chance",
        remedy: "add a row: the page, and when to read it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(index: &str, pages: &[&str]) -> Vec<String> {
        let mut files = vec![("docs/guide/README.md", index)];
        files.extend(pages.iter().map(|page| (*page, "")));
        check_folder(&Tree::of(&files), "docs/guide/").into_iter().map(|it| it.what).collect()
    }

    #[test]
    fn a_page_that_the_index_does_not_link_is_found() {
        let index = "[A](a.md) [B](b.md#part) c.md [D](x/d.md)";
        let pages =
            ["docs/guide/a.md", "docs/guide/b.md", "docs/guide/c.md", "docs/guide/x/d.md", "e.md"];
        assert_eq!(found(index, &pages), ["`c.md` is not in it"]);
    }

    #[test]
    fn a_missing_index_is_found() {
        let tree = Tree::of(&[("docs/guide/a.md", "")]);
        assert_eq!(check_folder(&tree, "docs/guide/").len(), 1);
    }
}
