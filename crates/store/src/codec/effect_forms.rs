//! The stored form of effects, lines, watches and endpoints, as the bodies of their objects.
//!
//! What the object says itself (scope, status of an endpoint) is not repeated.

use serde::{Deserialize, Serialize};
use verdict::effect::watch::{Waiter, Watch};
use verdict::effect::{
    Claim, DeadReason, Effect, EffectId, EffectState, Endpoint, EndpointStatus, Intent, Line,
    OnDead,
};
use verdict::push::PushClaim;
use verdict::{Digest, Json, Name, Scope, Span, TaskId, Text, Time};

use super::{Stored, Unreadable};
use crate::effects::{
    LastTry, SealedSecret, StoredEffect, StoredEndpoint, StoredLine, StoredPushClaim, StoredWatch,
};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EffectForm {
    id: String,
    task: String,
    run: String,
    endpoint: String,
    aggregate: String,
    kind: String,
    digest: String,
    decided_at: i64,
    number: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    tries: u32,
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    fence: u64,
    state: StateForm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_try: Option<TryForm>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum StateForm {
    Queued,
    Pending(i64),
    InFlight { fence: u64, until: i64 },
    Delivered(i64),
    Unknown(i64),
    Dead { at: i64, reason: ReasonForm, passed: bool },
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReasonForm {
    TriesExhausted,
    Gone,
    EndpointDeleted,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TryForm {
    at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineForm {
    endpoint: String,
    aggregate: String,
    last: u64,
    settled: u64,
    delivered: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WatchForm {
    effect: String,
    task: String,
    run: String,
    /// Items that are to be told.
    waiting: Vec<String>,
    told: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PushClaimForm {
    holder: String,
    until: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndpointForm {
    url: String,
    types: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    queues: Vec<String>,
    idempotent: bool,
    tries_max: u32,
    retry_base: u64,
    retry_cap: u64,
    skip: bool,
    concurrency: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disabled_because: Option<String>,
    secrets: Vec<SecretForm>,
    created_at: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretForm {
    sealed: String,
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_zero_u64(number: &u64) -> bool {
    *number == 0
}

fn write(form: &impl Serialize) -> String {
    serde_json::to_string(form).expect("forms have only text keys")
}

fn read<'a, T: Deserialize<'a>>(text: &'a str, what: &'static str) -> Result<T, Unreadable> {
    serde_json::from_str(text).map_err(|source| Unreadable { what, source })
}

fn misspelt(what: &'static str) -> Unreadable {
    let source = serde::de::Error::custom("the text is in no form that Tenure writes");
    Unreadable { what, source }
}

impl Stored for StoredEffect {
    fn write(&self) -> String {
        let Self { effect, run, digest, last_try } = self;
        let Effect { intent, number, tries, fence, state } = effect;
        let Intent { id, scope: _, task, endpoint, aggregate, kind, body: _, decided_at } = intent;
        let last_try = last_try.as_ref().map(|LastTry { at, status, note }| TryForm {
            at: at.millis(),
            status: *status,
            note: note.as_ref().map(Text::to_string),
        });
        write(&EffectForm {
            id: id.to_string(),
            task: task.to_string(),
            run: run.to_string(),
            endpoint: endpoint.to_string(),
            aggregate: aggregate.to_string(),
            kind: kind.to_string(),
            digest: digest.to_string(),
            decided_at: decided_at.millis(),
            number: *number,
            tries: *tries,
            fence: *fence,
            state: StateForm::of(state),
            last_try,
        })
    }

    fn read(text: &str) -> Result<Self, Unreadable> {
        let form: EffectForm = read(text, "effect")?;
        let wrong = || misspelt("effect");
        let intent = Intent {
            id: EffectId::parse(&form.id).ok_or_else(wrong)?,
            scope: Scope::default(),
            task: TaskId::parse(&form.task).ok_or_else(wrong)?,
            endpoint: form.endpoint.into(),
            aggregate: form.aggregate.into(),
            kind: form.kind.into(),
            body: Json::from(""),
            decided_at: Time::from_millis(form.decided_at),
        };
        let (number, tries, fence) = (form.number, form.tries, form.fence);
        let last_try = form.last_try.map(|TryForm { at, status, note }| LastTry {
            at: Time::from_millis(at),
            status,
            note: note.map(Text::from),
        });
        Ok(Self {
            effect: Effect { intent, number, tries, fence, state: form.state.into_state() },
            run: TaskId::parse(&form.run).ok_or_else(wrong)?,
            digest: Digest::parse(&form.digest).ok_or_else(wrong)?,
            last_try,
        })
    }
}

impl StateForm {
    fn of(state: &EffectState) -> Self {
        match *state {
            EffectState::Queued => StateForm::Queued,
            EffectState::Pending { due } => StateForm::Pending(due.millis()),
            EffectState::InFlight(Claim { fence, until }) => {
                StateForm::InFlight { fence, until: until.millis() }
            }
            EffectState::Delivered { at } => StateForm::Delivered(at.millis()),
            EffectState::Unknown { since } => StateForm::Unknown(since.millis()),
            EffectState::Dead { at, reason, is_passed } => {
                let reason = match reason {
                    DeadReason::TriesExhausted => ReasonForm::TriesExhausted,
                    DeadReason::Gone => ReasonForm::Gone,
                    DeadReason::EndpointDeleted => ReasonForm::EndpointDeleted,
                };
                StateForm::Dead { at: at.millis(), reason, passed: is_passed }
            }
        }
    }

    fn into_state(self) -> EffectState {
        match self {
            StateForm::Queued => EffectState::Queued,
            StateForm::Pending(due) => EffectState::Pending { due: Time::from_millis(due) },
            StateForm::InFlight { fence, until } => {
                EffectState::InFlight(Claim { fence, until: Time::from_millis(until) })
            }
            StateForm::Delivered(at) => EffectState::Delivered { at: Time::from_millis(at) },
            StateForm::Unknown(since) => EffectState::Unknown { since: Time::from_millis(since) },
            StateForm::Dead { at, reason, passed } => {
                let reason = match reason {
                    ReasonForm::TriesExhausted => DeadReason::TriesExhausted,
                    ReasonForm::Gone => DeadReason::Gone,
                    ReasonForm::EndpointDeleted => DeadReason::EndpointDeleted,
                };
                EffectState::Dead { at: Time::from_millis(at), reason, is_passed: passed }
            }
        }
    }
}

impl Stored for StoredLine {
    fn write(&self) -> String {
        let Self { endpoint, aggregate, line: Line { last, settled, delivered } } = self;
        write(&LineForm {
            endpoint: endpoint.to_string(),
            aggregate: aggregate.to_string(),
            last: *last,
            settled: *settled,
            delivered: *delivered,
        })
    }

    fn read(text: &str) -> Result<Self, Unreadable> {
        let LineForm { endpoint, aggregate, last, settled, delivered } = read(text, "line")?;
        let line = Line { last, settled, delivered };
        Ok(Self { endpoint: endpoint.into(), aggregate: aggregate.into(), line })
    }
}

impl Stored for StoredWatch {
    fn write(&self) -> String {
        let Self { watch: Watch { effect, task, waiters }, run } = self;
        let items = |is_told: bool| {
            let items = waiters.iter().filter(|waiter| waiter.is_told == is_told);
            items.map(|waiter| waiter.item.to_string()).collect()
        };
        write(&WatchForm {
            effect: effect.to_string(),
            task: task.to_string(),
            run: run.to_string(),
            waiting: items(false),
            told: items(true),
        })
    }

    fn read(text: &str) -> Result<Self, Unreadable> {
        let WatchForm { effect, task, run, waiting, told } = read(text, "watch")?;
        let wrong = || misspelt("watch");
        let waiters = |items: Vec<String>, is_told: bool| {
            items.into_iter().map(move |item| Waiter { item: item.into(), is_told })
        };
        // Those who were told are older than those who wait: a wait names an effect once.
        let waiters = waiters(told, true).chain(waiters(waiting, false)).collect();
        let (effect, task) = (EffectId::parse(&effect), TaskId::parse(&task));
        let watch =
            Watch { effect: effect.ok_or_else(wrong)?, task: task.ok_or_else(wrong)?, waiters };
        Ok(Self { watch, run: TaskId::parse(&run).ok_or_else(wrong)? })
    }
}

impl Stored for StoredPushClaim {
    fn write(&self) -> String {
        let Self(PushClaim { holder, until }) = self;
        write(&PushClaimForm { holder: holder.to_string(), until: until.millis() })
    }

    fn read(text: &str) -> Result<Self, Unreadable> {
        let PushClaimForm { holder, until } = read(text, "push claim")?;
        Ok(Self(PushClaim { holder: holder.into(), until: Time::from_millis(until) }))
    }
}

impl Stored for StoredEndpoint {
    fn write(&self) -> String {
        let Self { endpoint, secrets, created_at } = self;
        let Endpoint { name: _, url, types, queues, is_idempotent, tries_max, .. } = endpoint;
        let Endpoint { retry_base, retry_cap, on_dead, concurrency, rate, .. } = endpoint;
        let Endpoint { status: _, disabled_because, .. } = endpoint;
        let secret = |SealedSecret { sealed, key, until }: &SealedSecret| SecretForm {
            sealed: sealed.to_string(),
            key: key.to_string(),
            until: until.map(Time::millis),
        };
        write(&EndpointForm {
            url: url.to_string(),
            types: types.iter().map(Name::to_string).collect(),
            queues: queues.iter().map(Name::to_string).collect(),
            idempotent: *is_idempotent,
            tries_max: *tries_max,
            retry_base: retry_base.millis(),
            retry_cap: retry_cap.millis(),
            skip: *on_dead == OnDead::Skip,
            concurrency: *concurrency,
            rate: *rate,
            disabled_because: disabled_because.as_ref().map(Text::to_string),
            secrets: secrets.iter().map(secret).collect(),
            created_at: created_at.millis(),
        })
    }

    fn read(text: &str) -> Result<Self, Unreadable> {
        let form: EndpointForm = read(text, "endpoint")?;
        let secret = |SecretForm { sealed, key, until }: SecretForm| SealedSecret {
            sealed: sealed.into(),
            key: key.into(),
            until: until.map(Time::from_millis),
        };
        let endpoint = Endpoint {
            name: Name::from(""),
            url: form.url.into(),
            types: form.types.into_iter().map(Name::from).collect(),
            queues: form.queues.into_iter().map(Name::from).collect(),
            is_idempotent: form.idempotent,
            tries_max: form.tries_max,
            retry_base: Span::from_millis(form.retry_base),
            retry_cap: Span::from_millis(form.retry_cap),
            on_dead: if form.skip { OnDead::Skip } else { OnDead::Block },
            concurrency: form.concurrency,
            rate: form.rate,
            status: EndpointStatus::Enabled,
            disabled_because: form.disabled_because.map(Text::from),
        };
        let secrets = form.secrets.into_iter().map(secret).collect();
        Ok(Self { endpoint, secrets, created_at: Time::from_millis(form.created_at) })
    }
}
