//! The life of a branch: made by the code of the outer branch, opened when it is first polled, closed at its end.
//!
//! It begins with the time that the outer branch had when the branch was made, so that a replay, in which branches end
//! at once, sees the same times as the first execution. It is recorded to the end before it closes, for the same reason.

use wire::Time;

use crate::core::{Ending, Want};
use crate::flow::Flow;
use crate::key::{self, Branch};
use crate::operation::stop;
use crate::stop::{Misuse, SourceLine};

/// A branch that was made but not opened.
pub(crate) struct BranchGuard {
    outer: Flow,
    inner: Flow,
    floor: Time,
    at: SourceLine,
    is_named: bool,
}

impl BranchGuard {
    pub(crate) fn new(outer: &Flow, name: &str, at: SourceLine) -> BranchGuard {
        let inner = Flow { shared: outer.shared.clone(), branch: outer.branch.inner(name) };
        let floor = outer.shared.with(|core| core.branch(&outer.branch).joined);
        let is_named = key::is_name(name) && key::fits(inner.branch.as_str());
        BranchGuard { outer: outer.clone(), inner, floor, at, is_named }
    }

    /// Opens the branch once the outer branch is recorded: what it begins with is known then.
    pub(crate) async fn open(self) -> OpenBranch {
        let BranchGuard { outer, inner, floor, at, is_named } = self;
        if !is_named {
            let name = inner.branch.as_str().to_owned();
            return stop(&outer.shared, Misuse::BadName { name, at }.into()).await;
        }
        recorded(&outer, &inner.branch).await;
        let opened = outer.shared.with(|core| core.open(&outer.branch, &inner.branch, floor, at));
        if let Err(misuse) = opened {
            return stop(&outer.shared, misuse.into()).await;
        }
        OpenBranch { outer, inner, at, is_over: false }
    }
}

/// A branch whose code runs.
pub(crate) struct OpenBranch {
    outer: Flow,
    inner: Flow,
    at: SourceLine,
    is_over: bool,
}

impl OpenBranch {
    pub(crate) fn ctx(&self) -> Flow {
        self.inner.clone()
    }

    pub(crate) async fn close(mut self) {
        recorded(&self.inner, &self.inner.branch).await;
        self.is_over = true;
        self.inner.shared.with(|core| core.close(&self.outer.branch, &self.inner.branch));
    }
}

impl Drop for OpenBranch {
    fn drop(&mut self) {
        if !self.is_over {
            let key = self.inner.branch.as_str().to_owned();
            let misuse = Misuse::Dropped { key, at: self.at };
            self.inner.shared.with(|core| core.end(Ending::Stop(misuse.into())));
        }
    }
}

/// Waits until all results of a branch are recorded. `place` keeps the wants of parallel branches apart.
async fn recorded(ctx: &Flow, place: &Branch) {
    let key = place.key("", 0);
    ctx.shared.with(|core| core.want(&key, &ctx.branch, Want::Record));
    ctx.shared.until(|core| (core.branch(&ctx.branch).unrecorded == 0).then_some(())).await;
    ctx.shared.with(|core| core.satisfied(&key));
}
