//! What a suspended run waits for, as one gate of `explain`: a sentence, what to type, and when it changes by itself.
//!
//! The rules know the wait, its timers and the approvals. Where an effect is awaited, its tries are read from the store.

use store::effects::StoredEffect;
use store::{Browse, ObjectFilter};
use verdict::approval::{Approval, DEFAULT_ROLE, Decision, Terms};
use verdict::effect::{EffectState, watch};
use verdict::run::{Awaited, AwaitedEvent, Wait, WaitMode, Waiting};
use verdict::{ObjectType, Phase, Task, Text, Time};
use wire::answers::Gate;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::explain::gate as gate_of;
use super::translate::time;

/// How many items of a wait one sentence names.
const ITEMS_NAMED: usize = 5;

/// How many effects of the run one sentence names.
const EFFECTS_NAMED: usize = 3;

/// One thing that is awaited: what it is, and what a person can type about it.
struct Item {
    what: String,
    command: Option<String>,
}

/// The gate of a task that waits; `until` is when the rules give its wait up.
pub(super) async fn gate(app: &AppState, task: &Task, until: Time) -> Result<Gate, ApiError> {
    let wait = match &task.phase {
        Phase::Waiting(waiting) => match &**waiting {
            Waiting::For(wait) => Some(wait),
            _ => None,
        },
        _ => None,
    };
    let Some(wait) = wait else { return Ok(gate_of("waiting", "waits", "time", Some(until))) };
    let mut items = Vec::new();
    for item in wait.items.iter().take(ITEMS_NAMED) {
        items.extend(named(app, task, item).await?);
    }
    let expiry = wait.items.iter().filter_map(|item| asked(task, item)?.expires_at).min();
    let next = [wait.timer(), expiry].into_iter().flatten().min().filter(|at| *at < until);
    Ok(gate_of(
        "waiting",
        sentence(wait, &items),
        change(&items, next, until),
        next.or(Some(until)),
    ))
}

fn sentence(wait: &Wait, items: &[Item]) -> String {
    let between = if wait.mode == WaitMode::Any { " or " } else { " and " };
    let named: Vec<&str> = items.iter().map(|item| item.what.as_str()).collect();
    let rest = wait.items.len().saturating_sub(ITEMS_NAMED);
    let more = if rest > 0 { format!("{between}{rest} more") } else { String::new() };
    format!("waits for {}{more}", named.join(between))
}

/// What would end the wait, and what happens if nothing does.
fn change(items: &[Item], next: Option<Time>, until: Time) -> String {
    let commands: Vec<&str> = items.iter().filter_map(|item| item.command.as_deref()).collect();
    let by_whom = match commands.is_empty() {
        true => "what it waits for".to_owned(),
        false => commands.join(", "),
    };
    match next {
        Some(_) => format!("{by_whom}; else by itself"),
        None => format!("{by_whom}; else the run fails as WAIT_TIMEOUT at {}", time(until)),
    }
}

/// The open approval that an item waits for.
fn asked<'t>(task: &'t Task, item: &Awaited) -> Option<&'t Approval> {
    let open = task.run.as_ref().map_or(&[][..], |run| &run.approvals.open);
    open.iter().find(|approval| approval.key == item.key)
}

async fn named(app: &AppState, task: &Task, item: &Awaited) -> Result<Vec<Item>, ApiError> {
    if let Some(approval) = asked(task, item) {
        return Ok(vec![of_approval(task, approval)]);
    }
    let run = task.run_id().run_name();
    Ok(vec![match &item.event {
        AwaitedEvent::Time(at) => Item { what: format!("the time {}", time(*at)), command: None },
        AwaitedEvent::Signal(name) if *name == watch::signal_name(&item.key) => {
            return of_effects(app, task, item).await;
        }
        AwaitedEvent::Signal(name) => {
            let command = Some(format!("`tenure runs signal {run} {name}`"));
            Item { what: format!("the signal `{name}`"), command }
        }
        AwaitedEvent::Child(key) => Item {
            what: format!("the end of the child `{key}`"),
            command: Some(format!("`tenure runs show {run}` for its children")),
        },
    }])
}

fn of_approval(task: &Task, approval: &Approval) -> Item {
    let Terms { roles, keys, quorum, default, .. } = &approval.terms;
    let mut who: Vec<String> = roles.iter().map(|role| format!("role {role}")).collect();
    who.extend(keys.iter().map(|key| format!("key {key}")));
    if who.is_empty() {
        who.push(format!("role {DEFAULT_ROLE}"));
    }
    let then = match default {
        Some(Decision::Approved) => "it counts as approved",
        Some(Decision::Rejected) => "it counts as rejected",
        None => "its outcome is EXPIRED",
    };
    let expiry = approval.expires_at.map(|at| format!("; at {} {then}", time(at)));
    let (id, votes) = (approval.id(task.id), approval.votes.len());
    let (who, expiry) = (who.join(" or "), expiry.unwrap_or_default());
    Item {
        what: format!("the approval {id} by {who} ({votes} of {quorum}{expiry})"),
        command: Some(format!("`tenure approvals show {id}`, then approve or reject")),
    }
}

/// The effects of the run that are not settled: one of them is what the item waits for.
async fn of_effects(app: &AppState, task: &Task, item: &Awaited) -> Result<Vec<Item>, ApiError> {
    let filter = ObjectFilter {
        scope: Some(task.scope.clone()),
        object_type: Some(ObjectType::Effect),
        parent: Some(task.run_id().run_name().into()),
        is_pending: true,
        limit: EFFECTS_NAMED,
        ..ObjectFilter::default()
    };
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    let effects: Vec<Item> =
        found.iter().filter_map(StoredEffect::of).map(|effect| of_effect(&effect)).collect();
    if effects.is_empty() {
        let what = format!("the delivery of the effect of `{}`", item.key);
        return Ok(vec![Item { what, command: None }]);
    }
    Ok(effects)
}

fn of_effect(stored: &StoredEffect) -> Item {
    let (intent, state) = (&stored.effect.intent, &stored.effect.state);
    let last = stored.last_try.as_ref().and_then(|last| match (last.status, &last.note) {
        (Some(status), _) => Some(format!(", the last was answered {status}")),
        (None, note) => note.as_ref().map(|note: &Text| format!(", the last: {note}")),
    });
    let next = state.due().map(|at| format!(", the next try is at {}", time(at)));
    let (id, tries) = (intent.id, stored.effect.tries);
    let verb = match state {
        EffectState::Dead { .. } => "redrive",
        EffectState::Unknown { .. } => "reconcile",
        _ => "show",
    };
    Item {
        what: format!(
            "the delivery of {id} to `{}` (tries: {tries}{}{})",
            intent.endpoint,
            last.unwrap_or_default(),
            next.unwrap_or_default()
        ),
        command: Some(format!("`tenure effects {verb} {id}`")),
    }
}
