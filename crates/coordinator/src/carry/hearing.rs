//! Could the coordinator have heard a heartbeat?
//!
//! Lease time runs only while it could. A process that was stopped, a disk that hung for half a
//! minute or was full, a restart: all are gaps of ours, and no honest worker may lose its lease for
//! them. A heartbeat that cannot be recorded was not heard, however promptly it was refused. While
//! leases are alive the carrier wakes often enough to see a gap that matters, and writes a pulse
//! when nothing else was written, so that a later start knows how long it was deaf. A crash loop
//! cannot keep a dead worker's lease for ever: every pulse is time that counts.
//!
//! A gap is given back by the first batch after it, in the commit of what that batch decides. A batch that
//! is itself so slow that it becomes a gap is undone once, and gives it back when it is carried again: so there
//! is progress however slow every batch is. Where one late round follows another, each still counts as a
//! period of lease time, or leases of the dead would live for as long as the store is slow.
//!
//! How long a silence may last depends on the shortest lease that is alive, which another coordinator of the same
//! database may have given. So whoever comes back from a silence that could matter to the shortest lease there can be
//! asks the store for it before it judges the silence.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard};

use store::{Batch, Failure, Store, Writer};
use verdict::request::Extend;
use verdict::{Moment, Request, Span, Time};

use super::batch::guarded_about;
use super::share::{Ears, Share};
use super::working::Working;
use super::{Carrier, Fatal};
use crate::coordinator::Ended;
use crate::item::{Shortage, Trouble};

/// The shortest and longest time between two looks while leases are alive. Half of the shortest
/// gap that can matter to a two-second lease, and seldom enough to be no load.
const PERIOD_MIN: Span = Span::from_millis(250);
const PERIOD_MAX: Span = Span::from_secs(5);

/// The shortest lease that anybody may ask for.
const LEASE_MIN: Span = Span::from_millis(*wire::limits::LEASE_MS.start());

/// Running tasks are loaded in slices of this size; all are saved in one commit.
const SLICE: usize = 512;

/// What is known about it. The carrier that hears keeps it; another one of the same coordinator looks at it.
#[derive(Clone)]
pub(crate) struct Hearing(Arc<Mutex<Heard>>);

struct Heard {
    /// When the carrier last went round and the store took what came of it.
    at: Time,
    /// The same before this round, in case the store refuses.
    before: Time,
    /// Since when the store has refused what workers said. A small write that still fits does not
    /// end this; only giving the time back does.
    refused_since: Option<Time>,
    /// When something was last committed.
    written_at: Time,
    /// Whether the last batch that came through had to give time back.
    was_late: bool,
}

/// What a batch knows of hearing before it decides.
#[derive(Clone, Copy)]
pub(super) enum Listening<'a> {
    /// Workers were heard at this time, with leases not shorter than this as far as is known. A decision that comes
    /// much later is from somebody who was deaf meanwhile.
    Since(Time, Option<Span>),
    /// Nobody was heard since then: this very batch gives leases their time back, first.
    NotSince(Time),
    /// Another carrier hears, with leases not shorter than this.
    Elsewhere(&'a Hearing, Option<Span>, Lateness),
}

/// How often the batch of a carrier that does not hear has come too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lateness {
    /// Not yet: it is undone, and carried again once leases have their time back. What it would commit before
    /// is the newest thing in the store, and a start after it would take it for somebody who heard.
    First,
    /// Every batch is late: this one goes on, or none ever would.
    Again,
}

impl Hearing {
    pub(crate) fn new(now: Time) -> Self {
        let (at, before, written_at) = (now, now, now);
        let heard = Heard { at, before, refused_since: None, written_at, was_late: false };
        Self(Arc::new(Mutex::new(heard)))
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().expect("nothing panics with it in hand")
    }

    /// Whether nobody was heard for so long that it matters to the shortest lease there can be: then what is known of
    /// leases must be looked up before it is judged.
    fn is_doubtful(&self, now: Time) -> bool {
        until(self.heard().at, Some(LEASE_MIN)).is_some_and(|until| now > until)
    }

    /// A round that begins in a gap has heard nobody until it has given the gap back.
    fn begin_round(&self, shortest: Option<Span>, now: Time) {
        let is_in_gap = self.gap(shortest, now).is_some();
        let mut heard = self.heard();
        heard.before = heard.at;
        if !is_in_gap {
            heard.refused_since = None;
            heard.at = now;
        }
    }

    /// What leases there are cannot be asked: the round does not count before the silence is judged.
    fn begin_in_doubt(&self) {
        let mut heard = self.heard();
        heard.before = heard.at;
    }

    /// A batch was carried in time.
    fn came_through(&self) {
        self.heard().was_late = false;
    }

    /// Leases have their time back up to here.
    fn gave_back(&self, now: Time) {
        let mut heard = self.heard();
        (heard.at, heard.before) = (now, now);
        heard.refused_since = None;
        heard.was_late = true;
    }

    /// The store refused a batch of this round, so that the round does not count.
    pub(super) fn refused(&self) {
        if faultpoint::mutant(7) {
            return;
        }
        let mut heard = self.heard();
        heard.at = heard.before;
        let before = heard.before;
        heard.refused_since.get_or_insert(before);
    }

    /// Whether the store has refused what workers said, and that is not made good yet.
    pub(super) fn is_refused(&self) -> bool {
        self.heard().refused_since.is_some()
    }

    pub(super) fn written(&self, now: Time) {
        let mut heard = self.heard();
        heard.written_at = heard.written_at.max(now);
    }

    /// How long to sleep at most, given the shortest lease that is alive.
    pub(super) fn period(shortest: Option<Span>) -> Option<Span> {
        shortest.map(|lease| Span::from_millis(lease.millis() / 8).clamp(PERIOD_MIN, PERIOD_MAX))
    }

    /// The longest silence that is no stall: a quarter of the shortest lease beyond the time the
    /// carrier sleeps anyway.
    pub(super) fn tolerated(shortest: Option<Span>) -> Option<Span> {
        let period = Self::period(shortest)?.millis();
        Some(Span::from_millis(period.saturating_add(shortest?.millis() / 4)))
    }

    /// Whether a pulse is due: leases are alive and nothing was written for a period.
    pub(super) fn wants_pulse(&self, shortest: Option<Span>, now: Time) -> bool {
        let written_at = self.heard().written_at;
        Self::period(shortest).is_some_and(|period| now.since(written_at) >= period)
    }

    /// Since when nobody could be heard, if that was long enough to matter. Of one late round after another
    /// each counts as a period all the same.
    pub(super) fn gap(&self, shortest: Option<Span>, now: Time) -> Option<Time> {
        let Heard { at, refused_since, was_late, .. } = *self.heard();
        if refused_since.is_some() && shortest.is_some() {
            return refused_since;
        }
        let is_over = until(at, shortest).is_some_and(|until| now > until);
        let counted = Self::period(shortest).filter(|_| was_late);
        is_over.then(|| counted.map_or(at, |period| at.plus(period)))
    }

    /// What a batch that begins now and hears workers must know.
    fn listening(&self, shortest: Option<Span>, now: Time) -> Listening<'_> {
        match self.gap(shortest, now) {
            Some(since) => Listening::NotSince(since),
            None => Listening::Since(self.heard().at, shortest),
        }
    }
}

fn until(heard_at: Time, shortest: Option<Span>) -> Option<Time> {
    Some(heard_at.plus(Hearing::tolerated(shortest)?))
}

impl<S: Store> Carrier<S> {
    /// Begins a round. Whoever does not hear asks whether workers are heard: if not, nothing can be decided,
    /// and the shortage is everybody's answer.
    pub(super) async fn begin_round(&mut self) -> Result<Option<Shortage>, Fatal> {
        let now = self.store.now();
        if let Share::NewWork(ears) = &self.share {
            let shortest = self.writer.shortest_lease();
            if faultpoint::mutant(39) {
                self.hearing.begin_round(shortest, now);
            }
            return ask(ears, &self.hearing, shortest, now).await;
        }
        if self.hearing.is_doubtful(now) && !self.has_looked_at_leases().await {
            self.hearing.begin_in_doubt();
            return Ok(None);
        }
        self.hearing.begin_round(self.writer.shortest_lease(), now);
        Ok(None)
    }

    /// Whether the shortest lease of all is known now, also of those that others gave.
    async fn has_looked_at_leases(&mut self) -> bool {
        if self.store.opened().writers == 1 {
            return true;
        }
        let Ok(mut batch) = self.writer.begin().await else { return false };
        batch.look_at_leases().await.is_ok()
    }

    /// Whether leases must get time back although nobody asks for anything.
    pub(super) fn is_in_gap(&self) -> bool {
        let (shortest, now) = (self.writer.shortest_lease(), self.store.now());
        self.share.hears() && self.hearing.gap(shortest, now).is_some()
    }

    pub(super) fn listening<'a>(&self, hearing: &'a Hearing, lateness: Lateness) -> Listening<'a> {
        let shortest = self.writer.shortest_lease();
        match self.share.hears() {
            true => hearing.listening(shortest, self.store.now()),
            false => Listening::Elsewhere(hearing, shortest, lateness),
        }
    }

    /// Leases that were alive at the last commit before a start get back the time since then.
    pub(super) async fn give_back_since(&mut self, since: Time) -> Result<(), Failure> {
        let resting = self.aside.resting(tokio::time::Instant::now());
        let mut batch = self.writer.begin().await?;
        batch.avoid(&resting);
        let now = give_back(&mut batch, since, &|| self.store.epoch()).await?;
        batch.commit().await.map_err(|failure| match failure {
            store::CommitFailure::RolledBack(failure) | store::CommitFailure::Unknown(failure) => {
                failure
            }
        })?;
        faultpoint::point!("recover.committed");
        self.hearing.written(now);
        Ok(())
    }
}

impl Listening<'_> {
    /// What is known once the batch is committed that listened so.
    pub(super) fn conclude(self, hearing: &Hearing, now: Time) {
        match self {
            Listening::Since(..) => hearing.came_through(),
            Listening::NotSince(since) => {
                tracing::warn!(millis = now.since(since).millis(), "stalled; leases are extended");
                hearing.gave_back(now);
            }
            Listening::Elsewhere(..) => {}
        }
    }
}

/// Whether a batch that listens so may decide at this time. What others leased is looked up first, if so much time has
/// passed that it matters.
pub(super) async fn judge<B: Batch>(
    batch: &mut B,
    listening: Listening<'_>,
    now: Time,
) -> Result<Judgement, Failure> {
    let (heard_at, known) = match listening {
        Listening::NotSince(_) => return Ok(Judgement::Decide),
        Listening::Since(heard_at, shortest) => (heard_at, shortest),
        Listening::Elsewhere(hearing, shortest, _) => (hearing.heard().at, shortest),
    };
    let is_doubtful = until(heard_at, Some(LEASE_MIN)).is_some_and(|until| now > until);
    let others = if is_doubtful { batch.look_at_leases().await? } else { None };
    let shortest = [known, others].into_iter().flatten().min();
    Ok(match listening {
        Listening::Elsewhere(hearing, _, lateness) => {
            match (hearing.gap(shortest, now), lateness) {
                (None, _) => Judgement::Decide,
                (Some(_), Lateness::First) => Judgement::Deaf,
                (Some(since), Lateness::Again) => Judgement::ExtendSince(since),
            }
        }
        _ if until(heard_at, shortest).is_some_and(|until| now > until) => Judgement::Deaf,
        _ => Judgement::Decide,
    })
}

/// What to do before a batch decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Decide,
    /// Whoever hears gives all others their time back; leases of this batch get theirs before somebody acts on them.
    ExtendSince(Time),
    /// It was deaf for too long: to be carried again, by a batch that gives the time back.
    Deaf,
}

/// Extends every lease that was alive at `since` by the time since then, in one commit: a crash
/// in between must not leave some extended and the rest forgotten. Returns the batch's time.
pub(super) async fn give_back<B: Batch>(
    batch: &mut B,
    since: Time,
    epoch: &(dyn Fn() -> u32 + Send + Sync),
) -> Result<Time, Failure> {
    let now = batch.now().await?;
    let at = Moment { now, epoch: epoch(), rules: batch.rules() };
    faultpoint::point!("recover.deciding");
    let request = extension(since, now);
    let mut after = None;
    loop {
        let tasks = batch.running(after, SLICE).await?;
        let Some(last) = tasks.last() else { break };
        after = Some(last.id);
        let mut work = Working::default();
        for task in tasks {
            guarded_about(task.id, || {
                let key = work.adopt(task);
                work.decide(&key, Cow::Borrowed(&request), at)
            })?;
        }
        let (changes, refused) = work.take();
        batch.save(changes, refused).await?;
    }
    faultpoint::point!("recover.saved");
    Ok(now)
}

pub(super) fn extension(since: Time, now: Time) -> Request {
    Request::Extend(Extend { deaf_since: since, gap: now.since(since) })
}

/// Asks the carrier that hears whether it does. If not, it gives leases their time back first.
async fn ask(
    ears: &Ears,
    hearing: &Hearing,
    shortest: Option<Span>,
    now: Time,
) -> Result<Option<Shortage>, Fatal> {
    if hearing.gap(shortest, now).is_none() || faultpoint::mutant(37) {
        return Ok(None);
    }
    match ears.intake.nudge_leased().await {
        // So many wait to be heard that nobody can be asked: they are still not heard, and that is all it means.
        Ok(()) | Err(Trouble::Overloaded) => {}
        Err(_) => return Err(Fatal(Ended::Fatal("whoever hears workers has ended".to_owned()))),
    }
    Ok(hearing.gap(shortest, now).map(|_| ears.shortage()))
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch as channel;

    use super::*;
    use crate::intake;

    #[tokio::test]
    async fn too_many_waiting_to_be_heard_is_an_outage_and_no_end() {
        // S3-60: in an outage calls under a lease pile up; whoever takes new work refuses it and lives on.
        let (intake, leased, _new_work) = intake::apart();
        for _ in 0..intake::LEASED_WAITING_MAX {
            intake.note_ends(Vec::new(), Time::from_millis(0));
        }
        let hearing = Hearing::new(Time::from_millis(0));
        let (_short, outage) = channel::channel(None);
        let ears = Ears { intake, hearing: hearing.clone(), outage };
        let (lease, late) = (Some(Span::from_secs(2)), Time::from_millis(60_000));
        let asked = ask(&ears, &hearing, lease, late).await;
        assert_eq!(asked.expect("nobody has ended"), Some(Shortage::Turn));
        drop(leased);
        assert!(ask(&ears, &hearing, lease, late).await.is_err(), "now somebody has");
    }
}
