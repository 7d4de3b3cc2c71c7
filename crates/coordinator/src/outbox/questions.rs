//! What subscribers are told of approvals: that people are asked, and what came of it.
//!
//! One effect for each change and subscriber, in the commit of the decision, in the order of the task: `approval.opened`, then one of
//! `approval.decided`, `approval.expired` and `approval.withdrawn`. A vote that decides nothing is told to nobody. `text` can be passed on to
//! people as it is; the subject in it is text of the run.

use serde::Serialize;
use store::effects::StoredEndpoint;
use verdict::approval::{Approval, ApprovalChange, Outcome, Terms};
use verdict::effect::{EffectId, EndpointStatus, Intent, wants};
use verdict::{Json, Name, Scope, TaskId, Text, Time};
use wire::names::is_deceptive;

use super::Endpoints;

/// The beginning of the kinds of these effects.
pub(crate) const KINDS: &str = "approval.";

#[derive(Serialize)]
struct Message<'a> {
    r#type: &'a str,
    timestamp: wire::Time,
    data: Data<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    approval_id: &'a str,
    run_id: String,
    task_id: String,
    tenant_id: &'a str,
    workspace_id: &'a str,
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// People read what they approve in the console or with the command line: it does not leave with the message.
    has_content: bool,
    roles: Vec<&'a str>,
    keys: Vec<&'a str>,
    quorum: u32,
    /// The keys that voted, in order.
    voted: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<wire::Time>,
    /// A sentence for a chat or a mail.
    text: String,
    /// The page of the approval, below the address of the console.
    console_path: String,
}

/// The effects that changes of a task's approvals ask for.
pub(crate) fn of_approvals(
    endpoints: &Endpoints,
    place: (&Scope, TaskId, TaskId),
    changes: &[ApprovalChange],
    now: Time,
) -> Vec<Intent> {
    let (scope, task, _) = place;
    let Some(of_scope) = endpoints.get(scope).filter(|_| !changes.is_empty()) else {
        return Vec::new();
    };
    let mut intents = Vec::new();
    for change in changes {
        let Some(kind) = kind(change) else { continue };
        let is_told = |stored: &StoredEndpoint| {
            let endpoint = &stored.endpoint;
            endpoint.status != EndpointStatus::Deleted && wants(&endpoint.types, &kind)
        };
        let told: Vec<&Name> =
            of_scope.iter().filter(|(_, it)| is_told(it)).map(|(name, _)| name).collect();
        if told.is_empty() {
            continue;
        }
        let body = Json::from(message(&kind, place, change, now));
        let intent = |name: &Name| Intent {
            id: EffectId::of_approval(task, change.approval.number, &kind, name),
            scope: scope.clone(),
            task,
            endpoint: name.clone(),
            aggregate: task.to_string().into(),
            kind: kind.as_str().into(),
            body: body.clone(),
            decided_at: now,
        };
        intents.extend(told.into_iter().map(intent));
    }
    intents
}

fn kind(change: &ApprovalChange) -> Option<String> {
    let word = match change.outcome {
        None if change.revision == 1 => "opened",
        None => return None,
        Some(Outcome::Approved | Outcome::Rejected) => "decided",
        Some(Outcome::Expired) => "expired",
        Some(Outcome::Withdrawn) => "withdrawn",
    };
    Some(format!("{KINDS}{word}"))
}

fn message(
    kind: &str,
    (scope, task, run): (&Scope, TaskId, TaskId),
    change: &ApprovalChange,
    now: Time,
) -> String {
    let Approval { key, terms, expires_at, votes, .. } = &change.approval;
    let Terms { roles, keys, quorum, subject, digest, content, shows, .. } = terms;
    let (id, subject) = (change.approval.id(task), subject.as_ref().map(Text::as_str));
    let text = text(change, subject.unwrap_or(key.as_str()), id.as_str());
    let data = Data {
        approval_id: id.as_str(),
        run_id: run.run_name(),
        task_id: task.to_string(),
        tenant_id: scope.tenant.as_str(),
        workspace_id: scope.workspace.as_str(),
        key: key.as_str(),
        outcome: change.outcome.map(Outcome::name),
        subject,
        digest: digest.map(|digest| digest.to_string()),
        has_content: content.is_some() || shows.is_some(),
        roles: roles.iter().map(Name::as_str).collect(),
        keys: keys.iter().map(Name::as_str).collect(),
        quorum: *quorum,
        voted: votes.iter().map(|vote| vote.key.as_str()).collect(),
        expires_at: expires_at.map(time),
        text,
        console_path: format!("inbox/{id}"),
    };
    let message = Message { r#type: kind, timestamp: time(now), data };
    serde_json::to_string(&message).expect("a message has only text keys")
}

fn text(change: &ApprovalChange, subject: &str, id: &str) -> String {
    let subject = &plain(subject);
    match change.outcome {
        None => {
            format!("Approval needed: {subject}\nRead and decide it: tenure approvals show {id}")
        }
        Some(Outcome::Approved) => format!("Approved: {subject}"),
        Some(Outcome::Rejected) => format!("Rejected: {subject}"),
        Some(Outcome::Expired) => format!("Nobody decided in time: {subject}"),
        Some(Outcome::Withdrawn) => format!("No longer needed: {subject}"),
    }
}

/// The subject as one line: with line breaks, or with letters that hide others, it could read as another message.
fn plain(subject: &str) -> String {
    let letters = subject.chars().map(|it| if it.is_whitespace() { ' ' } else { it });
    letters.filter(|it| !is_deceptive(*it)).collect()
}

fn time(time: Time) -> wire::Time {
    wire::Time::from_ms(time.millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_one_line_that_hides_nothing() {
        let subject = "Lunch?\nApproved: Pay\u{202e} 1500";
        assert_eq!(plain(subject), "Lunch? Approved: Pay 1500");
    }
}
