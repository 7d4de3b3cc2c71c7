//! Effects, their order and their endpoints, as objects. See [`verdict::effect`].
//!
//! | type | id | unique key | parent |
//! |---|---|---|---|
//! | endpoint | its name | | |
//! | line | its digest | | the run, for the line of a task's own effects |
//! | effect | endpoint, line and number | the digest of its id | the run |
//! | payload | the digest of the effect's id | | the run |
//! | watch | the id of the effect's object | | the run |
//! | push claim | the endpoint's name | | |
//!
//! The id of an effect names its place, so that its successor is found without a search, and the effects of one endpoint
//! stand together in the order of keys. The unique key makes a second effect of the same intent impossible. What an effect
//! says is an object of its own, because an effect changes with every try, and each change is an entry of the log.
//!
//! Effects are never due in the sense of objects: whoever delivers them keeps that order in memory, and finds the rest by
//! status.

use verdict::effect::{
    Effect, EffectId, EffectState, Endpoint, EndpointStatus, Intent, Line, LineId, Watch,
};
use verdict::push::PushClaim;
use verdict::{Digest, Json, Name, Object, ObjectKey, ObjectType, Scope, TaskId, Text, Time};

use crate::codec::Stored;

/// Statuses of objects of type effect.
pub const QUEUED: &str = "queued";
pub const PENDING: &str = "pending";
pub const IN_FLIGHT: &str = "in_flight";
pub const DELIVERED: &str = "delivered";
pub const UNKNOWN: &str = "unknown";
pub const DEAD: &str = "dead";

/// Statuses of objects of type watch: its effect has no outcome yet, there may be something to tell, everybody was told.
pub const OPEN: &str = "open";
pub const NEWS: &str = "news";
pub const TOLD: &str = "told";

/// An effect as it is stored: its intent is without the body, which is the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEffect {
    pub effect: Effect,
    pub run: TaskId,
    /// The digest of the payload.
    pub digest: Digest,
    /// What came of the last try.
    pub last_try: Option<LastTry>,
}

/// What came of a try, for people who look for the cause of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastTry {
    pub at: Time,
    /// The status that the receiver answered with.
    pub status: Option<u16>,
    /// Why there is none, or the beginning of the answer.
    pub note: Option<Text>,
}

/// The order of one aggregate at one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLine {
    pub endpoint: Name,
    pub aggregate: Name,
    pub line: Line,
}

/// An endpoint with its sealed secrets, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEndpoint {
    pub endpoint: Endpoint,
    pub secrets: Vec<SealedSecret>,
    pub created_at: Time,
}

/// Who pushes work to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPushClaim(pub PushClaim);

/// A watch with the run that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredWatch {
    pub watch: Watch,
    pub run: TaskId,
}

/// A secret that only whoever has the key of this name can open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSecret {
    /// In hexadecimal digits.
    pub sealed: Text,
    /// The name of the key, in hexadecimal digits.
    pub key: Text,
    /// When it stops signing; `None` for the newest.
    pub until: Option<Time>,
}

pub fn endpoint_key(scope: &Scope, name: &Name) -> ObjectKey {
    key(scope, ObjectType::Endpoint, name.clone())
}

pub fn line_key(scope: &Scope, line: LineId) -> ObjectKey {
    key(scope, ObjectType::Line, line.to_string().into())
}

/// The key of the effect with this number in a line.
pub fn effect_key(scope: &Scope, endpoint: &Name, line: LineId, number: u64) -> ObjectKey {
    key(scope, ObjectType::Effect, format!("{endpoint}/{line}/{number:020}").into())
}

/// After the keys of all effects of an endpoint, and before those of every other.
pub fn after_effects_of(scope: &Scope, endpoint: &Name) -> ObjectKey {
    key(scope, ObjectType::Effect, format!("{endpoint}/~").into())
}

/// Before the keys of all effects of an endpoint.
pub fn before_effects_of(scope: &Scope, endpoint: &Name) -> ObjectKey {
    key(scope, ObjectType::Effect, format!("{endpoint}/").into())
}

pub fn payload_key(scope: &Scope, id: EffectId) -> ObjectKey {
    key(scope, ObjectType::Payload, id.digest().to_string().into())
}

/// The key of the watch of the effect with this key.
pub fn watch_key(effect: &ObjectKey) -> ObjectKey {
    key(&effect.scope, ObjectType::Watch, effect.id.clone())
}

/// The key of the effect that a watch is for.
pub fn watched_key(watch: &ObjectKey) -> ObjectKey {
    key(&watch.scope, ObjectType::Effect, watch.id.clone())
}

pub fn push_claim_key(scope: &Scope, endpoint: &Name) -> ObjectKey {
    key(scope, ObjectType::PushClaim, endpoint.clone())
}

/// The unique key of an effect.
pub fn unique_key(id: EffectId) -> Name {
    id.digest().to_string().into()
}

/// The endpoint that the key of an effect begins with.
pub fn endpoint_of(key: &ObjectKey) -> Option<Name> {
    key.id.as_str().split_once('/').map(|(endpoint, _)| endpoint.into())
}

fn key(scope: &Scope, object_type: ObjectType, id: Name) -> ObjectKey {
    ObjectKey { scope: scope.clone(), object_type, id }
}

/// The status of an object that is this effect.
pub fn status_of(state: &EffectState) -> &'static str {
    match state {
        EffectState::Queued => QUEUED,
        EffectState::Pending { .. } => PENDING,
        EffectState::InFlight(_) => IN_FLIGHT,
        EffectState::Delivered { .. } => DELIVERED,
        EffectState::Unknown { .. } => UNKNOWN,
        EffectState::Dead { .. } => DEAD,
    }
}

impl StoredEffect {
    /// A new effect, and its payload.
    pub fn new(effect: Effect, run: TaskId) -> (Self, Object) {
        let Effect { intent, number, tries, fence, state } = effect;
        let payload = payload(&intent, run);
        let digest = Digest::of(&[intent.body.as_str().as_bytes()]);
        let intent = Intent { body: Json::from(""), ..intent };
        let effect = Effect { intent, number, tries, fence, state };
        (Self { effect, run, digest, last_try: None }, payload)
    }

    /// `None` for an object of another type, or one that cannot be read.
    pub fn of(object: &Object) -> Option<Self> {
        let is_it = object.key.object_type == ObjectType::Effect;
        let mut read = is_it.then(|| Self::read(object.body.as_str()).ok()).flatten()?;
        read.effect.intent.scope = object.key.scope.clone();
        Some(read)
    }

    pub fn key(&self) -> ObjectKey {
        let Intent { scope, endpoint, .. } = &self.effect.intent;
        effect_key(scope, endpoint, self.effect.intent.line(), self.effect.number)
    }

    /// The key of the effect behind it in its line.
    pub fn next_key(&self) -> ObjectKey {
        let Intent { scope, endpoint, .. } = &self.effect.intent;
        effect_key(scope, endpoint, self.effect.intent.line(), self.effect.number + 1)
    }

    /// Whether its line waits for it, or it is on its way.
    fn is_unsettled(&self) -> bool {
        !matches!(
            self.effect.state,
            EffectState::Delivered { .. } | EffectState::Dead { is_passed: true, .. }
        )
    }

    pub fn object(&self, revision: u32) -> Object {
        Object {
            key: self.key(),
            revision,
            status: status_of(&self.effect.state).into(),
            due: None,
            unique_key: Some(unique_key(self.effect.intent.id)),
            parent: Some(self.run.run_name().into()),
            is_pending: self.is_unsettled(),
            body: self.write().into(),
        }
    }
}

/// What an effect says, as an object.
fn payload(intent: &Intent, run: TaskId) -> Object {
    Object {
        key: payload_key(&intent.scope, intent.id),
        revision: 1,
        status: "written".into(),
        due: None,
        unique_key: None,
        parent: Some(run.run_name().into()),
        is_pending: false,
        body: intent.body.clone(),
    }
}

impl StoredLine {
    pub fn of(object: &Object) -> Option<Self> {
        let is_it = object.key.object_type == ObjectType::Line;
        is_it.then(|| Self::read(object.body.as_str()).ok()).flatten()
    }

    /// The line as an object. The line of a task's own effects belongs to its run, and others to nothing.
    pub fn object(&self, scope: &Scope, run: Option<TaskId>, revision: u32) -> Object {
        let id = LineId::of(scope, &self.endpoint, &self.aggregate);
        Object {
            key: line_key(scope, id),
            revision,
            status: "open".into(),
            due: None,
            unique_key: None,
            parent: run.map(|run| run.run_name().into()),
            is_pending: false,
            body: self.write().into(),
        }
    }
}

impl StoredWatch {
    pub fn of(object: &Object) -> Option<Self> {
        let is_it = object.key.object_type == ObjectType::Watch;
        is_it.then(|| Self::read(object.body.as_str()).ok()).flatten()
    }

    /// The watch as an object, under the key of its effect.
    pub fn object(&self, effect: &ObjectKey, status: &str, revision: u32) -> Object {
        Object {
            key: watch_key(effect),
            revision,
            status: status.into(),
            due: None,
            unique_key: None,
            parent: Some(self.run.run_name().into()),
            is_pending: status != TOLD,
            body: self.write().into(),
        }
    }
}

impl StoredPushClaim {
    pub fn of(object: &Object) -> Option<Self> {
        let is_it = object.key.object_type == ObjectType::PushClaim;
        is_it.then(|| Self::read(object.body.as_str()).ok()).flatten()
    }

    pub fn object(&self, key: &ObjectKey, revision: u32) -> Object {
        Object {
            key: key.clone(),
            revision,
            status: "held".into(),
            due: None,
            unique_key: None,
            parent: None,
            is_pending: false,
            body: self.write().into(),
        }
    }
}

impl StoredEndpoint {
    pub fn of(object: &Object) -> Option<Self> {
        let is_it = object.key.object_type == ObjectType::Endpoint;
        let mut read = is_it.then(|| Self::read(object.body.as_str()).ok()).flatten()?;
        read.endpoint.name = object.key.id.clone();
        read.endpoint.status = EndpointStatus::parse(object.status.as_str())?;
        Some(read)
    }

    /// The endpoint as an object. One that is deleted is pending until all its effects are given up.
    pub fn object(&self, scope: &Scope, is_pending: bool, revision: u32) -> Object {
        Object {
            key: endpoint_key(scope, &self.endpoint.name),
            revision,
            status: self.endpoint.status.name().into(),
            due: None,
            unique_key: None,
            parent: None,
            is_pending,
            body: self.write().into(),
        }
    }
}
