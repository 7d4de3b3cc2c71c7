//! Decisions about effects: each loads an effect with its line and the effect behind it, lets the rules decide by the terms
//! of its endpoint, and saves what they changed. Where somebody waits for the effect and it has an outcome now, the watch
//! beside it is marked.
//!
//! The row of an endpoint is not loaded, so that those who deliver to one endpoint do not wait for each other: the commit is
//! held to the endpoints that are known here ([`super::EndpointDirectory`]). Only what disables an endpoint locks it.
//!
//! A row that another writer has locked is passed over, and tried again later (S2-72, S2-81).

use std::sync::Arc;

use store::effects::{
    LastTry, NEWS, StoredEffect, StoredEndpoint, StoredLine, StoredWatch, endpoint_key,
    payload_key, watch_key,
};
use verdict::effect::watch::Outcome;
use verdict::effect::{
    EffectEvent, EffectRefusal, EffectRequest, EffectState, EffectTerms, EffectVerdict,
    EndpointStatus, Intent, Standing, decide,
};
use verdict::{Json, Moment, Name, Object, ObjectKey, ObjectType, Scope, Time};

use super::Candidate;
use crate::carry::ObjectSet;
use crate::coordinator::Coordinator;
use crate::item::RequestError;

/// Why an endpoint is disabled that nobody disabled.
pub(super) const GONE: &str = "the receiver answered 410";

/// An effect that this coordinator may send, under a fence.
#[derive(Clone, Debug)]
pub(crate) struct Claimed {
    pub(crate) stored: StoredEffect,
    /// What is to be sent, if it can be read.
    pub(crate) body: Option<Json>,
    pub(crate) endpoint: Arc<StoredEndpoint>,
    pub(crate) fence: u64,
    pub(crate) until: Time,
    /// How many effects right before it were given up.
    pub(crate) gap: u64,
}

/// Why nothing was decided about an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undecided {
    /// There is no such effect.
    Missing,
    /// Another writer has it: try again.
    Locked,
    Refused(EffectRefusal),
}

/// The rows that a decision about one effect needs.
struct Keys {
    effect: ObjectKey,
    line: ObjectKey,
    next: ObjectKey,
    watch: ObjectKey,
    /// The row of the endpoint, where the decision may change it.
    endpoint: Option<ObjectKey>,
}

impl Keys {
    /// The id of an effect names its endpoint, its line and its number.
    fn of(effect: &ObjectKey, request: Option<EffectRequest>) -> Option<Self> {
        let mut parts = effect.id.as_str().split('/');
        let (endpoint, line, number) = (parts.next()?, parts.next()?, parts.next()?);
        let number: u64 = number.parse().ok()?;
        let key = |object_type, id: String| ObjectKey {
            scope: effect.scope.clone(),
            object_type,
            id: id.into(),
        };
        Some(Self {
            effect: effect.clone(),
            line: key(ObjectType::Line, line.to_owned()),
            next: key(ObjectType::Effect, format!("{endpoint}/{line}/{:020}", number + 1)),
            watch: watch_key(effect),
            endpoint: is_gone(request).then(|| endpoint_key(&effect.scope, &endpoint.into())),
        })
    }

    fn list(&self) -> impl Iterator<Item = &ObjectKey> {
        let Self { effect, line, next, watch, endpoint } = self;
        [effect, line, next, watch].into_iter().chain(endpoint)
    }
}

/// Whether a receiver said that it is gone for ever: that disables the endpoint.
fn is_gone(request: Option<EffectRequest>) -> bool {
    matches!(request, Some(EffectRequest::Settle { sent, .. }) if sent.is_gone())
}

/// What came of a call, to be decided.
#[derive(Clone, Debug)]
pub(crate) struct Settlement {
    pub(crate) effect: ObjectKey,
    pub(crate) request: EffectRequest,
    pub(crate) last_try: Option<LastTry>,
    /// Until when the claim holds: after that, whoever finds it decides.
    pub(crate) until: Time,
}

/// What one commit decided: about each settlement, and which effects may be sent.
pub(crate) struct Turn {
    pub(crate) settled: Vec<Result<StoredEffect, Undecided>>,
    pub(crate) claimed: Vec<Claimed>,
}

/// Settles these calls, and claims those of these effects that may be sent now, in one commit. Where a claim ran out, or the
/// endpoint was deleted, that is decided instead. No two of them may be of one line: each row is changed once.
/// Claims that end before `orphaned_before` are those of a dead process.
pub(crate) async fn settle_and_claim(
    coordinator: &Coordinator,
    settlements: &[Settlement],
    effects: &[Candidate],
    orphaned_before: Option<Time>,
) -> Result<Turn, RequestError> {
    let settling: Vec<(Option<Keys>, Settlement)> =
        settlements.iter().map(|it| (Keys::of(&it.effect, Some(it.request)), it.clone())).collect();
    let with_payload = |candidate: &Candidate| {
        let payload = payload_key(&candidate.key.scope, candidate.id);
        Some((Keys::of(&candidate.key, None)?, payload))
    };
    let claiming: Vec<(Keys, ObjectKey)> = effects.iter().filter_map(with_payload).collect();
    let of_claims = claiming.iter().flat_map(|(keys, payload)| keys.list().chain([payload]));
    let of_calls = settling.iter().filter_map(|(keys, _)| keys.as_ref()).flat_map(Keys::list);
    let loaded = of_claims.chain(of_calls).cloned().collect();
    let decide_all = move |objects: &mut ObjectSet, at: Moment| Turn {
        settled: settling
            .iter()
            .map(|(keys, it)| settle_one(objects, keys.as_ref(), it, at))
            .collect(),
        claimed: claiming
            .iter()
            .filter_map(|(keys, payload)| claim_one(objects, keys, payload, orphaned_before, at))
            .collect(),
    };
    coordinator.decide_objects(loaded, decide_all).await
}

fn settle_one(
    objects: &mut ObjectSet,
    keys: Option<&Keys>,
    settlement: &Settlement,
    at: Moment,
) -> Result<StoredEffect, Undecided> {
    let found = Found::load(objects, keys.ok_or(Undecided::Missing)?)?;
    found.decide(objects, settlement.request, settlement.last_try.clone(), None, at)
}

/// The line of an effect, by which it is delivered in turn.
pub(crate) fn line_of(effect: &ObjectKey) -> Option<(Scope, String)> {
    let line = effect.id.as_str().split('/').nth(1)?;
    Some((effect.scope.clone(), line.to_owned()))
}

fn claim_one(
    objects: &mut ObjectSet,
    keys: &Keys,
    payload: &ObjectKey,
    orphaned_before: Option<Time>,
    at: Moment,
) -> Option<Claimed> {
    let found = Found::load(objects, keys).ok()?;
    let is_deleted =
        found.endpoint.as_ref().is_none_or(|it| it.endpoint.status == EndpointStatus::Deleted);
    let request = match found.effect.effect.state {
        _ if is_deleted => EffectRequest::Abandon,
        EffectState::InFlight(claim) if orphaned_before.is_some_and(|it| claim.until < it) => {
            EffectRequest::Orphaned { fence: claim.fence }
        }
        EffectState::InFlight(_) => EffectRequest::Sweep,
        _ => EffectRequest::Claim,
    };
    // An effect that is sent out of its turn has no place behind a gap.
    let is_in_turn = found.effect.effect.number > found.line.line.settled;
    let gap = if is_in_turn { found.line.line.gap() } else { 0 };
    let endpoint = found.endpoint.clone();
    let stored = found.decide(objects, request, None, None, at).ok()?;
    match stored.effect.state {
        EffectState::InFlight(claim) if request == EffectRequest::Claim => Some(Claimed {
            stored,
            body: objects.get(payload).map(|payload| payload.body.clone()),
            endpoint: endpoint?,
            fence: claim.fence,
            until: claim.until,
            gap,
        }),
        _ => None,
    }
}

/// Decides about one effect, for a sender or a person.
pub(crate) async fn decide_one(
    coordinator: &Coordinator,
    effect: &ObjectKey,
    request: EffectRequest,
    last_try: Option<LastTry>,
    by: Option<Name>,
) -> Result<Result<StoredEffect, Undecided>, RequestError> {
    let Some(keys) = Keys::of(effect, Some(request)) else { return Ok(Err(Undecided::Missing)) };
    let loaded = keys.list().cloned().collect();
    let decide = move |objects: &mut ObjectSet, at: Moment| {
        let found = Found::load(objects, &keys)?;
        found.decide(objects, request, last_try.clone(), by.clone(), at)
    };
    coordinator.decide_objects(loaded, decide).await
}

/// An effect with everything that a decision about it needs.
struct Found {
    effect: StoredEffect,
    line: StoredLine,
    next: Option<StoredEffect>,
    endpoint: Option<Arc<StoredEndpoint>>,
    watch: Option<StoredWatch>,
}

impl Found {
    fn load(objects: &ObjectSet, keys: &Keys) -> Result<Self, Undecided> {
        if keys.list().any(|key| objects.is_locked(key)) {
            return Err(Undecided::Locked);
        }
        let effect = objects.get(&keys.effect).and_then(StoredEffect::of);
        let line = objects.get(&keys.line).and_then(StoredLine::of);
        let (Some(effect), Some(line)) = (effect, line) else { return Err(Undecided::Missing) };
        let Intent { scope, endpoint, .. } = &effect.effect.intent;
        Ok(Self {
            endpoint: objects.endpoint(scope, endpoint),
            effect,
            line,
            next: objects.get(&keys.next).and_then(StoredEffect::of),
            watch: objects.get(&keys.watch).and_then(StoredWatch::of),
        })
    }

    fn decide(
        self,
        objects: &mut ObjectSet,
        request: EffectRequest,
        last_try: Option<LastTry>,
        by: Option<Name>,
        at: Moment,
    ) -> Result<StoredEffect, Undecided> {
        let Self { effect, line, next, endpoint, watch } = self;
        // Nothing is sent where the endpoint cannot be read.
        let nothing =
            || EffectTerms { is_enabled: false, is_registered: false, ..EffectTerms::default() };
        let terms = endpoint.as_ref().map_or_else(nothing, |it| it.endpoint.terms());
        let standing = Standing {
            line: line.line,
            effect: effect.effect.clone(),
            next: next.as_ref().map(|next| next.effect.clone()),
        };
        let events = match decide(&standing, &terms, request, at.now) {
            EffectVerdict::Decided(events) => events,
            EffectVerdict::Refused(refusal) => return Err(Undecided::Refused(refusal)),
        };
        let after = standing.clone().settle(&events);
        let after = if faultpoint::mutant(22) { run_out(after, at.now) } else { after };
        let scope = effect.effect.intent.scope.clone();
        let last_try = last_try.or(effect.last_try.clone());
        let changed = StoredEffect { effect: after.effect, last_try, ..effect };
        objects.put(changed.object(1), by.clone());
        if after.line != standing.line {
            let line = StoredLine { line: after.line, ..line };
            objects.put(line.object(&scope, None, 1), by.clone());
        }
        if let (Some(next), Some(after)) = (next, after.next)
            && next.effect != after
        {
            objects.put(StoredEffect { effect: after, ..next }.object(1), by);
        }
        if let Some(watch) = watch.filter(|it| it.watch.is_waiting())
            && Outcome::of(&changed.effect.state).is_some()
        {
            objects.put(watch.object(&changed.key(), NEWS, 1), None);
        }
        if events.contains(&EffectEvent::EndpointGone)
            && let Some(endpoint) = endpoint
        {
            objects.put(gone(Arc::unwrap_or_clone(endpoint), &scope), None);
        }
        Ok(changed)
    }
}

/// Bug 22 of the museum: a claim that no delivery is short enough for.
fn run_out(mut standing: Standing, now: Time) -> Standing {
    if let EffectState::InFlight(claim) = &mut standing.effect.state {
        claim.until = now;
    }
    standing
}

/// The endpoint after its receiver said that it is gone for ever (D10).
fn gone(mut stored: StoredEndpoint, scope: &Scope) -> Object {
    stored.endpoint.status = EndpointStatus::Disabled;
    stored.endpoint.disabled_because = Some(GONE.into());
    stored.object(scope, true, 1)
}
