//! The loop that delivers effects: it claims what is due, sends each in a task of its own, and settles what came of it.
//!
//! Claims and settlements are decisions, carried in commits; between them only the fence counts. One commit settles all calls that
//! have ended and claims what takes their places: while it is made, more calls end, so a busy deliverer makes few, large ones.
//! Whoever dies in between leaves a claim that runs out, or that the next process finds orphaned where it is the only writer: the
//! effect is then sent again with the same id and bytes, or becomes unknown where the receiver does not recognise a repeated
//! id. Any number of coordinators may do this at once (S2-75).
//!
//! What becomes ready in this coordinator's commits is known at once ([`super::EffectFeed`]). The rest (effects of a
//! coordinator that died, claims that ran out) is found by scans of the store, by status: a page at a time and in turns of the
//! tenants, so that what is due is sent between two pages.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use delivery::{Answered, Outgoing, RetryAfter, SendOutcome, Sender, parse_retry_after};
use store::effects::{
    DEAD, IN_FLIGHT, LastTry, PENDING, StoredEffect, StoredEndpoint, UNKNOWN, after_effects_of,
    before_effects_of, endpoint_key, endpoint_of,
};
use store::{Browse, Failure, ObjectFilter};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use verdict::effect::claim::CLAIM;
use verdict::effect::{EffectRequest, EffectState, EndpointStatus, Sent};
use verdict::{Digest, Moment, Name, Object, ObjectKey, ObjectType, Scope, Span, Text, Time};
use webhook::{HEADER_ID, HEADER_SIGNATURE, HEADER_TIMESTAMP, signatures};

use super::agenda::{Agenda, Place};
use super::claims::{Claimed, Settlement, Turn, Undecided, decide_one, line_of, settle_and_claim};
use super::{Candidate, secrets};
use crate::admit::Keyring;
use crate::carry::ObjectSet;
use crate::coordinator::Coordinator;
use crate::item::RequestError;
use crate::tenant_turns::TenantTurns;

/// How often the store is scanned where other coordinators deliver too, and where none does.
pub(super) const SCAN_SHARED: Duration = Duration::from_secs(1);
pub(super) const SCAN_ALONE: Duration = Duration::from_secs(15);

/// Effects read at once by a scan.
const PAGE: usize = 1_000;

/// Pages that a scan reads of one scope and status. What it leaves out is found when there is room for it.
const PAGES_MAX: usize = 100;

/// The pause after a refusal of the store.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);

/// The longest sleep while an effect waits for its time.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// What must be left of a claim when its call begins: the longest call, and time to settle it.
const CLAIM_LEFT_MIN: Span = Span::from_secs(30);

/// How long a sender waits between two tries to settle.
const SETTLE_PAUSE: Duration = Duration::from_millis(250);

/// The place of an effect in its line, for the receiver: numbers without gaps, except those that it is told of.
const HEADER_AGGREGATE: &str = "tenure-aggregate";
const HEADER_SEQUENCE: &str = "tenure-sequence";
const HEADER_GAP: &str = "tenure-gap";

/// What a task of the deliverer needs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Courier {
    pub(crate) coordinator: Coordinator,
    pub(crate) keyring: Keyring,
    pub(crate) sender: Sender,
}

pub(crate) struct Deliverer {
    courier: Courier,
    agenda: Agenda,
    sending: JoinSet<Option<Call>>,
    /// Calls that have ended and are not settled yet.
    ended: Vec<Call>,
    scan_at: Instant,
    /// What is left of the scan that is under way.
    scan: TenantTurns<ScanPart>,
    /// Claims that end before this were made before this process began, where no other one can have made them. Their senders
    /// are dead, so nothing waits for the claims to run out.
    orphaned_before: Option<Time>,
}

/// A part of a scan: one page of the store.
enum ScanPart {
    /// The effects of a scope with this status, behind a place.
    Status { scope: Scope, status: &'static str, after: Option<ObjectKey>, pages: usize },
    /// What is left of a deleted endpoint.
    Deleted { scope: Scope, endpoint: Name },
}

/// A call that has ended.
struct Call {
    place: Place,
    settlement: Settlement,
}

impl Deliverer {
    pub(crate) fn new(courier: Courier) -> Self {
        courier.coordinator.effect_feed().follow();
        let (agenda, sending, ended) = (Agenda::default(), JoinSet::new(), Vec::new());
        let is_only_writer = courier.coordinator.store().status().writers == 1;
        let orphaned_before = is_only_writer.then(|| courier.coordinator.now().plus(CLAIM));
        let scan_at = tokio::time::Instant::now();
        let scan = TenantTurns::default();
        Self { courier, agenda, sending, ended, scan_at, scan, orphaned_before }
    }

    /// Delivers until `closing` is cancelled, and then waits for what is in flight.
    pub(crate) async fn run(mut self, closing: CancellationToken) {
        while !closing.is_cancelled() {
            self.refill().await;
            let pause = self.settle_and_start().await;
            let wake = self.wake(pause);
            let feed = self.courier.coordinator.effect_feed().clone();
            tokio::select! {
                biased;
                () = closing.cancelled() => {}
                Some(ended) = self.sending.join_next() => self.ended.extend(ended.ok().flatten()),
                () = feed.changed() => {}
                () = tokio::time::sleep_until(wake) => {}
            }
            // A task that panicked leaves its place taken: its claim runs out, and the log says why.
            while let Some(ended) = self.sending.try_join_next() {
                self.ended.extend(ended.ok().flatten());
            }
        }
        self.settle_last().await;
    }

    /// Waits for what is in flight, and settles it.
    async fn settle_last(&mut self) {
        loop {
            for call in std::mem::take(&mut self.ended) {
                self.settle_alone(call.settlement);
            }
            let Some(ended) = self.sending.join_next().await else { return };
            self.ended.extend(ended.ok().flatten());
        }
    }

    /// Takes what commits made ready, begins to scan the store if it is time, and reads the next page of a scan.
    async fn refill(&mut self) {
        let (candidates, is_overfull) = self.courier.coordinator.effect_feed().take();
        candidates.into_iter().for_each(|candidate| self.agenda.add(candidate));
        if is_overfull {
            // What was dropped may stand where a scan that is under way has been.
            self.scan_at = tokio::time::Instant::now();
        }
        let is_due = self.agenda.wants_scan() || self.scan_at <= tokio::time::Instant::now();
        if is_due && self.scan.is_empty() && !faultpoint::mutant(21) {
            let is_shared = self.courier.coordinator.store().status().writers > 1;
            self.scan_at =
                tokio::time::Instant::now() + if is_shared { SCAN_SHARED } else { SCAN_ALONE };
            self.begin_scan();
        }
        if let Some(part) = self.scan.pop()
            && let Err(failure) = self.scan_part(part).await
        {
            tracing::warn!(error = %failure, "cannot look for effects to deliver");
            self.scan = TenantTurns::default();
        }
    }

    /// Settles what has ended, claims what is due, and starts to send it. Returns a pause if the store refused.
    async fn settle_and_start(&mut self) -> Option<Duration> {
        let settlements = self.take_ended();
        let taken = self.take_due(&settlements);
        if settlements.is_empty() && taken.is_empty() {
            return None;
        }
        let wanted: Vec<Candidate> = taken.iter().map(|(_, wanted)| wanted.clone()).collect();
        let (coordinator, before) = (&self.courier.coordinator, self.orphaned_before);
        let turn = settle_and_claim(coordinator, &settlements, &wanted, before).await;
        let Turn { settled, claimed } = match turn {
            Ok(turn) => turn,
            Err(error) => {
                tracing::warn!(%error, "cannot settle and claim effects");
                settlements.into_iter().for_each(|it| self.settle_alone(it));
                let due = self.courier.coordinator.now().plus(Span::from_millis(500));
                for (place, candidate) in taken {
                    self.put_back(&place, Candidate { due, ..candidate });
                }
                return Some(REFUSED_PAUSE);
            }
        };
        faultpoint::point!("outbox.settled");
        for (settlement, settled) in settlements.into_iter().zip(settled) {
            match settled {
                Ok(settled) => self.courier.count(&settled, settlement.request),
                Err(Undecided::Locked) => self.settle_alone(settlement),
                Err(Undecided::Missing | Undecided::Refused(_)) => {}
            }
        }
        faultpoint::point!("outbox.claimed");
        self.start(taken, claimed);
        None
    }

    /// What has ended, at most one call of each line. The places are free: nothing of these calls is in flight any more.
    fn take_ended(&mut self) -> Vec<Settlement> {
        let (mut lines, mut settlements) = (HashSet::new(), Vec::new());
        for Call { place, settlement } in std::mem::take(&mut self.ended) {
            self.agenda.finished(&place);
            match lines.insert(line_of(&settlement.effect)) {
                true => settlements.push(settlement),
                false => self.settle_alone(settlement),
            }
        }
        settlements
    }

    /// What is due and has room, but for the lines that change with what is settled.
    fn take_due(&mut self, settlements: &[Settlement]) -> Vec<(Place, Candidate)> {
        let coordinator = &self.courier.coordinator;
        let taken = self.agenda.take(&coordinator.endpoints().snapshot(), coordinator.now());
        let mut lines: HashSet<_> = settlements.iter().map(|it| line_of(&it.effect)).collect();
        let is_apart = |(_, it): &(Place, Candidate)| lines.insert(line_of(&it.key));
        let (apart, later): (Vec<_>, Vec<_>) = taken.into_iter().partition(is_apart);
        later.into_iter().for_each(|(place, candidate)| self.put_back(&place, candidate));
        apart
    }

    fn put_back(&mut self, place: &Place, candidate: Candidate) {
        self.agenda.finished(place);
        self.agenda.add(candidate);
    }

    fn start(&mut self, taken: Vec<(Place, Candidate)>, claimed: Vec<Claimed>) {
        let ours: HashSet<ObjectKey> = claimed.iter().map(|it| it.stored.key()).collect();
        for (place, candidate) in taken {
            if !ours.contains(&candidate.key) {
                self.agenda.finished(&place);
            }
        }
        for claimed in claimed {
            let intent = &claimed.stored.effect.intent;
            let place = (intent.scope.clone(), intent.endpoint.clone());
            let courier = self.courier.clone();
            self.sending.spawn(async move {
                let settlement = courier.deliver(claimed).await;
                Some(Call { place, settlement })
            });
        }
    }

    /// Settles one call beside the others, as often as it takes.
    fn settle_alone(&mut self, settlement: Settlement) {
        let courier = self.courier.clone();
        self.sending.spawn(async move {
            courier.settle(&settlement).await;
            None
        });
    }

    fn wake(&self, pause: Option<Duration>) -> Instant {
        let here = tokio::time::Instant::now();
        if let Some(pause) = pause {
            return here + pause;
        }
        if !self.scan.is_empty() {
            return here;
        }
        let coordinator = &self.courier.coordinator;
        let next = self.agenda.next(&coordinator.endpoints().snapshot(), coordinator.now());
        let next = next.map(|span| here + Duration::from_millis(span.millis()));
        // Time may jump: what is waited for is looked at again before long.
        next.map_or(self.scan_at, |next| next.min(self.scan_at).min(here + LOOK_AGAIN))
    }

    /// What a scan looks at: effects that may be sent, or whose claim may have run out, in every scope that has endpoints.
    fn begin_scan(&mut self) {
        self.agenda.scanning();
        let endpoints = self.courier.coordinator.endpoints().snapshot();
        for (scope, of_scope) in endpoints.iter().filter(|(_, of_scope)| !of_scope.is_empty()) {
            for status in [PENDING, IN_FLIGHT] {
                let scope = scope.clone();
                let part = ScanPart::Status { scope, status, after: None, pages: 0 };
                self.push_part(part);
            }
            let deleted =
                of_scope.values().filter(|it| it.endpoint.status == EndpointStatus::Deleted);
            for stored in deleted {
                let (scope, endpoint) = (scope.clone(), stored.endpoint.name.clone());
                self.push_part(ScanPart::Deleted { scope, endpoint });
            }
        }
    }

    fn push_part(&mut self, part: ScanPart) {
        let (ScanPart::Status { scope, .. } | ScanPart::Deleted { scope, .. }) = &part;
        self.scan.push(&scope.tenant.clone(), part);
    }

    async fn scan_part(&mut self, part: ScanPart) -> Result<(), Failure> {
        match part {
            ScanPart::Deleted { scope, endpoint } => self.give_up(&scope, &endpoint).await,
            ScanPart::Status { scope, status, after, pages } => {
                let next = self.scan_page(&scope, status, after).await?;
                if next.is_some() && pages + 1 < PAGES_MAX {
                    let after = next;
                    self.push_part(ScanPart::Status { scope, status, after, pages: pages + 1 });
                }
                Ok(())
            }
        }
    }

    /// Reads a page. Returns where the next one begins, if there may be one.
    async fn scan_page(
        &mut self,
        scope: &Scope,
        status: &str,
        after: Option<ObjectKey>,
    ) -> Result<Option<ObjectKey>, Failure> {
        let filter = ObjectFilter {
            scope: Some(scope.clone()),
            object_type: Some(ObjectType::Effect),
            status: Some(status.into()),
            after,
            limit: PAGE,
            ..ObjectFilter::default()
        };
        let page = self.courier.coordinator.browse().objects(&filter).await?;
        for candidate in page.iter().filter_map(Candidate::of) {
            self.agenda.add(self.at_once_if_orphaned(status, candidate));
        }
        let last = page.last().filter(|_| page.len() == PAGE);
        Ok(last.map(|last| self.after(scope, &last.key)))
    }

    /// A claim of a dead process is decided now and not when it runs out.
    fn at_once_if_orphaned(&self, status: &str, candidate: Candidate) -> Candidate {
        let is_orphaned =
            status == IN_FLIGHT && self.orphaned_before.is_some_and(|it| candidate.due < it);
        let due = if is_orphaned { self.courier.coordinator.now() } else { candidate.due };
        Candidate { due, ..candidate }
    }

    /// Where a scan goes on: behind all effects of an endpoint that has enough candidates.
    fn after(&self, scope: &Scope, last: &ObjectKey) -> ObjectKey {
        let endpoint = endpoint_of(last)
            .filter(|endpoint| !self.agenda.has_room(&(scope.clone(), endpoint.clone())));
        endpoint.map_or_else(|| last.clone(), |endpoint| after_effects_of(scope, &endpoint))
    }

    /// What is left of a deleted endpoint: effects that wait for a person are given up too. Once nothing is left, the
    /// endpoint itself is done.
    ///
    /// A commit that was under way when the endpoint was deleted may still bring an effect of it. Later ones give theirs up
    /// themselves ([`crate::carry`]), so what is found after those under way have ended is everything there will be.
    async fn give_up(&mut self, scope: &Scope, endpoint: &Name) -> Result<(), Failure> {
        let (browse, now) = (self.courier.coordinator.browse(), self.courier.coordinator.now());
        let filter = ObjectFilter {
            scope: Some(scope.clone()),
            object_type: Some(ObjectType::Effect),
            is_pending: true,
            after: Some(before_effects_of(scope, endpoint)),
            limit: PAGE,
            ..ObjectFilter::default()
        };
        let is_its = |it: &&Object| endpoint_of(&it.key).as_ref() == Some(endpoint);
        let mut page = browse.objects(&filter).await?;
        let mut is_over = !page.iter().any(|it| is_its(&it));
        if is_over && let Err(failure) = browse.settings_in_force().await {
            tracing::debug!(error = %failure, "a commit may not know that an endpoint is deleted");
            return Ok(());
        }
        if is_over {
            page = browse.objects(&filter).await?;
            is_over = !page.iter().any(|it| is_its(&it));
        }
        for object in page.iter().filter(is_its) {
            let stored = StoredEffect::of(object);
            let left = stored.filter(|_| matches!(object.status.as_str(), UNKNOWN | DEAD));
            if let Some(stored) = left {
                let (key, id) = (object.key.clone(), stored.effect.intent.id);
                self.agenda.add(Candidate { key, id, due: now });
            }
        }
        if is_over {
            let key = endpoint_key(scope, endpoint);
            let finish = {
                let key = key.clone();
                move |objects: &mut ObjectSet, _: Moment| finish_deletion(objects, &key)
            };
            if let Err(error) = self.courier.coordinator.decide_objects(vec![key], finish).await {
                tracing::debug!(%error, "cannot note that a deleted endpoint has no effects left");
            }
        }
        Ok(())
    }
}

fn finish_deletion(objects: &mut ObjectSet, key: &ObjectKey) {
    let Some(stored) = objects.get(key).and_then(StoredEndpoint::of) else { return };
    if stored.endpoint.status == EndpointStatus::Deleted {
        objects.put(stored.object(&key.scope, false, 1), None);
    }
}

/// What came of a call, and what people are told of it.
struct Outcome {
    sent: Sent,
    status: Option<u16>,
    note: Option<String>,
}

impl Outcome {
    fn unreached(note: impl Into<String>) -> Self {
        Self { sent: Sent::Unreached, status: None, note: Some(note.into()) }
    }
}

impl Courier {
    /// Sends one effect, and says what came of it.
    async fn deliver(&self, claimed: Claimed) -> Settlement {
        let Outcome { sent, status, note } = self.send(&claimed).await;
        faultpoint::point!("outbox.sent");
        let note = note.filter(|note| !note.is_empty()).map(Text::from);
        let last_try = LastTry { at: self.coordinator.now(), status, note };
        Settlement {
            effect: claimed.stored.key(),
            request: EffectRequest::Settle { fence: claimed.fence, sent },
            last_try: (sent != Sent::Untried).then_some(last_try),
            until: claimed.until,
        }
    }

    async fn send(&self, claimed: &Claimed) -> Outcome {
        let intent = &claimed.stored.effect.intent;
        let body = match payload(claimed) {
            Ok(body) => body,
            Err(why) => return Outcome::unreached(why),
        };
        let now = self.coordinator.now();
        if claimed.until.since(now) < CLAIM_LEFT_MIN {
            return Outcome { sent: Sent::Untried, status: None, note: None };
        }
        let secrets = secrets::valid(&self.keyring, &intent.scope, &claimed.endpoint, now);
        if secrets.is_empty() {
            return Outcome::unreached("the secret of the endpoint cannot be opened here");
        }
        let (id, timestamp) = (intent.id.to_string(), now.millis() / 1_000);
        let mut headers = vec![
            (HEADER_SIGNATURE, signatures(&secrets, &id, timestamp, body.as_bytes())),
            (HEADER_ID, id),
            (HEADER_TIMESTAMP, timestamp.to_string()),
            (HEADER_AGGREGATE, intent.aggregate.to_string()),
            (HEADER_SEQUENCE, claimed.stored.effect.number.to_string()),
        ];
        if claimed.gap > 0 {
            headers.push((HEADER_GAP, claimed.gap.to_string()));
        }
        let url = claimed.endpoint.endpoint.url.to_string();
        let (tenant, body) = (intent.scope.tenant.to_string(), Bytes::from(body));
        outcome(self.sender.send(&Outgoing { tenant, url, headers, body }).await, now)
    }

    /// Settles while the claim holds. After that, whoever finds the claim decides.
    async fn settle(&self, settlement: &Settlement) {
        let Settlement { effect, request, last_try, until } = settlement;
        while !until.has_come(self.coordinator.now()) {
            let settled =
                decide_one(&self.coordinator, effect, *request, last_try.clone(), None).await;
            match settled {
                Ok(Err(Undecided::Locked)) => {}
                Ok(Ok(settled)) => return self.count(&settled, *request),
                Ok(Err(_)) | Err(RequestError::ShuttingDown | RequestError::Defect) => return,
                Err(error) => tracing::debug!(%error, "cannot settle an effect yet"),
            }
            tokio::time::sleep(SETTLE_PAUSE).await;
        }
    }

    fn count(&self, settled: &StoredEffect, request: EffectRequest) {
        let is_untried = matches!(request, EffectRequest::Settle { sent: Sent::Untried, .. });
        let outcome = match settled.effect.state {
            EffectState::Delivered { .. } => "delivered",
            EffectState::Unknown { .. } => "unknown",
            EffectState::Dead { .. } => "dead",
            EffectState::Pending { .. } if !is_untried => "retried",
            EffectState::Pending { .. } | EffectState::Queued | EffectState::InFlight(_) => return,
        };
        self.coordinator.metrics().count_effect_try(outcome);
    }
}

/// The words of an effect, as they were decided.
fn payload(claimed: &Claimed) -> Result<String, &'static str> {
    let body = claimed.body.as_ref().ok_or("what is to be sent cannot be read")?;
    let is_it = Digest::of(&[body.as_str().as_bytes()]) == claimed.stored.digest;
    is_it.then(|| body.to_string()).ok_or("what is to be sent is not what was decided")
}

fn outcome(sent: SendOutcome, now: Time) -> Outcome {
    match sent {
        // One text for every reason: how names resolve in our network is nobody's business (X40).
        SendOutcome::Refused(_) => Outcome::unreached("the address of the endpoint is not allowed"),
        SendOutcome::NotSent(why) => Outcome::unreached(why),
        SendOutcome::Unanswered(why) => {
            Outcome { sent: Sent::Unanswered, status: None, note: Some(why.to_owned()) }
        }
        SendOutcome::Answered(Answered { status, retry_after, excerpt, body: _ }) => {
            let retry_after = retry_after.as_deref().and_then(parse_retry_after);
            let retry_after = retry_after.map(|asked| match asked {
                RetryAfter::Seconds(seconds) => Span::from_secs(seconds.min(u64::from(u32::MAX))),
                RetryAfter::At(second) => {
                    Time::from_millis(second.saturating_mul(1_000)).since(now)
                }
            });
            let sent = Sent::Status { code: status, retry_after };
            Outcome { sent, status: Some(status), note: Some(excerpt) }
        }
    }
}
