//! The log of each object must lead to the object, revision by revision, from its first one or, where the log is bounded, from
//! the oldest that is kept.
//!
//! An object that changes between the two reads is read again with its log before a difference counts.

use std::collections::BTreeSet;

use verdict::{Object, ObjectKey};

use super::{FINDINGS_MAX, Finding, FlawCode, PAGE, Report};
use crate::browse::Browse;
use crate::failure::Failure;
use crate::objects::{ObjectChange, ObjectFilter, ObjectLogFilter};

pub(super) async fn check<B: Browse>(browse: &B, report: &mut Report) -> Result<(), Failure> {
    let mut after = None;
    loop {
        let filter = ObjectFilter { after, limit: PAGE, ..ObjectFilter::default() };
        let page = match browse.objects(&filter).await {
            Ok(page) => page,
            Err(failure) => {
                return found(report, super::unreadable(failure)?, FlawCode::Unreadable);
            }
        };
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        for object in page {
            check_one(browse, &object.key, report).await?;
        }
        if report.findings.len() >= FINDINGS_MAX {
            return Ok(());
        }
    }
    check_strays(browse, report).await
}

fn found(report: &mut Report, what: String, code: FlawCode) -> Result<(), Failure> {
    report.findings.push(Finding { task: None, code, what });
    Ok(())
}

async fn check_one<B: Browse>(
    browse: &B,
    key: &ObjectKey,
    report: &mut Report,
) -> Result<(), Failure> {
    for is_last in [false, false, true] {
        let object = browse.objects(&ObjectFilter::one(key)).await?.pop();
        let Some(object) = object else { return Ok(()) };
        match flaw_of(browse, &object).await? {
            None => return Ok(()),
            Some(what) if is_last => return found(report, what, FlawCode::ObjectDiffers),
            Some(_) => {}
        }
    }
    Ok(())
}

/// What is wrong with the log of an object, read a page at a time.
async fn flaw_of<B: Browse>(browse: &B, object: &Object) -> Result<Option<String>, Failure> {
    let named = || format!("the {} {}", object.key.object_type.name(), object.key.id);
    let first = object.key.object_type.first_kept(object.revision);
    let forgotten = first.checked_sub(1).filter(|revision| *revision > 0);
    let mut last: Option<ObjectChange> = None;
    loop {
        let after = last.as_ref().map(|change| (object.key.clone(), change.after.revision));
        let filter = ObjectLogFilter { key: Some(object.key.clone()), after, limit: PAGE };
        let page = browse.object_log(&filter).await?;
        if page.is_empty() {
            break;
        }
        for change in page {
            let before = last.as_ref().map(|last| last.after.revision).or(forgotten);
            if change.before() != before {
                return Ok(Some(format!("{} has a gap in its log", named())));
            }
            last = Some(change);
        }
    }
    let is_it = last.is_some_and(|last| last.after == *object);
    Ok((!is_it).then(|| format!("{} differs from its log", named())))
}

/// Entries of the log whose object is missing.
async fn check_strays<B: Browse>(browse: &B, report: &mut Report) -> Result<(), Failure> {
    let mut after: Option<(ObjectKey, u32)> = None;
    loop {
        let filter = ObjectLogFilter { key: None, after: after.clone(), limit: PAGE };
        let page = browse.object_log(&filter).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.after.key.clone(), last.after.revision));
        let keys: BTreeSet<ObjectKey> = page.into_iter().map(|change| change.after.key).collect();
        for key in keys {
            let is_missing = browse.objects(&ObjectFilter::one(&key)).await?.is_empty();
            let filter = ObjectLogFilter { key: Some(key.clone()), after: None, limit: 1 };
            if is_missing && !browse.object_log(&filter).await?.is_empty() {
                let what =
                    format!("the {} {} has a log and no row", key.object_type.name(), key.id);
                found(report, what, FlawCode::ObjectDiffers)?;
            }
        }
    }
}
