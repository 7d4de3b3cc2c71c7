//! The tasks of a run, parents before children, by the rows of their children. Detached children are separate runs.

use verdict::Name;

use crate::browse::{Browse, RowsAfter};
use crate::failure::Failure;
use crate::row::TaskKey;

/// How many children are read at once.
const PAGE: usize = 500;

pub struct Descendants {
    waiting: Vec<TaskKey>,
}

impl Descendants {
    pub fn of(root: TaskKey) -> Self {
        Self { waiting: vec![root] }
    }

    /// The next task; its children come after it. `None` after the last.
    pub async fn next<B: Browse>(&mut self, browse: &B) -> Result<Option<TaskKey>, Failure> {
        let Some(key) = self.waiting.pop() else { return Ok(None) };
        let mut after: Option<Name> = None;
        loop {
            let rows = browse.rows(&key, RowsAfter::Child(after.as_ref()), PAGE).await?;
            let Some(last) = rows.children.last() else { return Ok(Some(key)) };
            after = Some(last.child.key.clone());
            let children = rows.children.iter().filter(|row| !row.child.is_detached);
            let keys = children.map(|row| TaskKey { scope: key.scope.clone(), id: row.child.id });
            self.waiting.extend(keys);
        }
    }
}
