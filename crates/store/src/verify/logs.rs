//! Each piece of a log must say of its lines what they are. Lines themselves are part of no record.

use super::{FINDINGS_MAX, Finding, FlawCode, PAGE, Report};
use crate::browse::Browse;
use crate::failure::Failure;
use crate::logs::LogsOf;

pub(super) async fn check<B: Browse>(browse: &B, report: &mut Report) -> Result<(), Failure> {
    let mut after = None;
    while report.findings.len() < FINDINGS_MAX {
        let page = match browse.logs(&LogsOf::All { after }, PAGE).await {
            Ok(page) => page,
            Err(failure) => {
                let (code, what) = (FlawCode::Unreadable, super::unreadable(failure)?);
                report.findings.push(Finding { task: None, code, what });
                return Ok(());
            }
        };
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.task.id, last.piece.id));
        for row in page.iter().filter(|row| !row.is_sound()) {
            let what = format!(
                "the log of attempt {} from line {} on is not what was written",
                row.piece.id.attempt, row.piece.id.first
            );
            let (task, code) = (Some(row.task.id), FlawCode::LogDiffers);
            report.findings.push(Finding { task, code, what });
        }
    }
    Ok(())
}
