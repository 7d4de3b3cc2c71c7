//! Asking people, and reading what they decided. Deciding is for those who were allowed to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure::Client;
use wire::answers::Run;
use wire::approvals::{ApprovalTerms, CONTENT_BYTES_MAX, DecideApproval};
use wire::limits::MESSAGE_BYTES_MAX;
use wire::names::is_deceptive;
use wire::plan::{Plan, PlanStep};
use wire::requests::SubmitRun;
use wire::{ApprovalDecision, Json, State, canonical};

use super::super::refusal::Refusal;
use super::{Answer, idempotency_key, wait, written};
use crate::visible;

/// The steps of the run that asks.
const ASK: &str = "ask";
const THEN: &str = "then";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AskArguments {
    subject: String,
    content: Option<Json>,
    then: Option<Then>,
    quorum: Option<u32>,
    expires_in_ms: Option<u64>,
    default: Option<ApprovalDecision>,
    #[serde(default)]
    roles: Vec<String>,
    #[serde(default)]
    keys: Vec<String>,
    goal: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    idempotency_key: Option<String>,
    wait_ms: Option<u64>,
}

/// What follows an approval, with the content as its input.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Then {
    kind: String,
    queue: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    run_id: String,
    state: State,
    /// While people have not decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_id: Option<String>,
    /// What people read.
    subject: String,
    /// The SHA-256 of the content, in canonical JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    replayed: bool,
    idempotency_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Run>,
    next: String,
}

/// What people are shown and what their votes refer to.
#[derive(Debug)]
struct Question {
    subject: String,
    digest: Option<String>,
}

pub(super) async fn ask_approval(client: &Client, asked: AskArguments) -> Answer {
    let wait = wait(asked.wait_ms)?;
    let key = idempotency_key(asked.idempotency_key.clone())?;
    let question = Question::of(&asked)?;
    let keyed = |error: tenure::Error| Refusal::from(error).with_key(&key);
    let request = request(asked, &question, key.clone())?;
    let accepted = client.submit_run(request).accept().await.map_err(keyed)?;
    let run = client.run(accepted.run_id);
    let run = match wait {
        Some(wait) => run.wait_timeout(wait).await,
        None => run.status().await,
    };
    let run = run.map_err(keyed)?;
    let approval_id = run.plan.first().and_then(|step| step.approval_id.clone());
    let next = match &approval_id {
        Some(id) => format!(
            "people decide it with `tenure approvals show {id}`; get_run with waitMs waits for them"
        ),
        None => "get_run shows the run; explain_run says what it waits for".to_owned(),
    };
    written(&Asked {
        run_id: run.run_id.clone(),
        state: run.state,
        approval_id,
        subject: question.subject,
        digest: question.digest,
        replayed: accepted.replayed == Some(true),
        idempotency_key: key,
        run: run.state.is_terminal().then_some(run),
        next,
    })
}

impl Question {
    /// People must see what they approve: nothing of it may be invisible, and it must fit what they are shown.
    fn of(asked: &AskArguments) -> Result<Question, Refusal> {
        let subject = asked.subject.clone();
        if subject.len() > MESSAGE_BYTES_MAX {
            let message = format!(
                "the subject has {} bytes, and people are shown {MESSAGE_BYTES_MAX} at most",
                subject.len()
            );
            return Err(Refusal::invalid(
                message,
                "ask in a sentence, and put the rest into `content`",
            ));
        }
        let text = asked.content.as_ref().map(canonical_text).transpose()?;
        if let Some(bytes) = text.as_ref().map(String::len).filter(|it| *it > CONTENT_BYTES_MAX) {
            let message = format!(
                "the content has {bytes} bytes, and people are shown {CONTENT_BYTES_MAX} at most"
            );
            let next = "store the content where people can read it, and ask about its address and its SHA-256";
            return Err(Refusal::invalid(message, next));
        }
        let shown = subject.chars().chain(text.iter().flat_map(|text| text.chars()));
        if let Some(letter) = shown.into_iter().find(|letter| is_deceptive(*letter)) {
            let code = u32::from(letter);
            let message = format!(
                "subject or content has the invisible character U+{code:04X}, and people must see what they approve"
            );
            return Err(Refusal::invalid(message, "leave it out, or write it as text"));
        }
        Ok(Question { subject, digest: text.as_deref().map(visible::digest) })
    }
}

fn canonical_text(content: &Json) -> Result<String, Refusal> {
    let mut text = Vec::new();
    canonical::rewrite(&mut text, content.text()).map_err(|error| Refusal::unreadable(&error))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn request(asked: AskArguments, question: &Question, key: String) -> Result<SubmitRun, Refusal> {
    let terms = ApprovalTerms {
        roles: asked.roles,
        keys: asked.keys,
        quorum: asked.quorum,
        expires_in_ms: asked.expires_in_ms,
        default: asked.default,
        subject: Some(question.subject.clone()),
        content: asked.content.clone().map(literal).transpose()?,
        ..ApprovalTerms::default()
    };
    let mut steps =
        vec![PlanStep { key: ASK.to_owned(), approval: Some(terms), ..PlanStep::default() }];
    if let Some(Then { kind, queue }) = asked.then {
        let input = literal(asked.content.unwrap_or_default())?;
        steps.push(PlanStep { key: THEN.to_owned(), kind, queue, input, ..PlanStep::default() });
    }
    Ok(SubmitRun {
        plan: Some(Plan { steps }),
        goal: asked.goal,
        labels: asked.labels,
        idempotency_key: Some(key),
        ..SubmitRun::default()
    })
}

/// Content in which nothing is read as a reference to a step.
fn literal(content: Json) -> Result<Json, Refusal> {
    Json::from_text(format!(r#"{{"$literal":{}}}"#, content.text()))
        .map_err(|error| Refusal::unreadable(&error))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct OfApproval {
    approval_id: String,
}

pub(super) async fn get_approval(client: &Client, asked: OfApproval) -> Answer {
    written(&client.approvals().get(&asked.approval_id).await?)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DecideArguments {
    approval_id: String,
    decision: ApprovalDecision,
    digest: Option<String>,
    comment: String,
}

pub(super) async fn decide_approval(client: &Client, asked: DecideArguments) -> Answer {
    let DecideArguments { approval_id, decision, digest, comment } = asked;
    let word = DecideApproval { decision, digest, comment: Some(comment) };
    written(&client.approvals().decide(&approval_id, decision).with(word).await?)
}

/// Whether the key may vote, as the server says.
pub(in crate::mcp) async fn may_decide(client: &Client) -> bool {
    client.session().await.is_ok_and(|session| session.may("approvals.decide"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(arguments: &str) -> Result<Question, Refusal> {
        Question::of(&serde_json::from_str(arguments).unwrap())
    }

    #[test]
    fn people_see_the_content_whose_digest_they_approve() {
        let asked = question(r#"{"subject": "Pay", "content": {"to": "Ada", "cents": 5.0e2}}"#);
        let Question { subject, digest } = asked.unwrap();
        assert_eq!(subject, "Pay");
        assert_eq!(digest.unwrap(), visible::digest(r#"{"cents":500,"to":"Ada"}"#));
        assert!(question(r#"{"subject": "Pay"}"#).unwrap().digest.is_none());
    }

    #[test]
    fn content_that_people_could_not_see_is_refused() {
        let long = format!(r#"{{"subject": "Pay", "content": "{}"}}"#, "x".repeat(70_000));
        assert!(question(&long).unwrap_err().text().contains("65536"));
        let long = format!(r#"{{"subject": "{}"}}"#, "x".repeat(5_000));
        assert!(question(&long).unwrap_err().text().contains("4096"));
        for hidden in ["\\u001b[2K", "\\u202egnp.exe", "\\u200b", "a\\nb"] {
            let text = format!(r#"{{"subject": "Pay {hidden}"}}"#);
            assert!(question(&text).is_err(), "{hidden}");
        }
        assert!(question(r#"{"subject": "Pay", "content": "\u202e"}"#).is_err());
    }

    #[test]
    fn content_is_data_and_no_reference() {
        let asked =
            r#"{"subject": "s", "content": {"$from": "ask"}, "then": {"kind": "k", "queue": "q"}}"#;
        let asked: AskArguments = serde_json::from_str(asked).unwrap();
        let question = Question::of(&asked).unwrap();
        let plan = request(asked, &question, "key".to_owned()).unwrap().plan.unwrap();
        assert_eq!(plan.steps[1].input.text(), r#"{"$literal":{"$from": "ask"}}"#);
        assert!(plan.compile().is_ok());
    }
}
