//! What one coordinator remembers of sessions: which were ended, how many a key has, how much each reads.
//!
//! A session is known from its first call, also one that another coordinator began or that is older than this process.
//! A log-out is known here only; after a restart a cookie of before counts again until its end, for a thief who kept
//! both the cookie and the page token. A rotation of the key ends it for good.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use verdict::{Name, Rate, RateUsage, Span, Time};

use super::{SESSION_LIFE, Session, SessionId};

/// A person has a few browsers. The oldest session of a key makes room for another one.
pub(crate) const SESSIONS_PER_KEY: usize = 32;

/// The people of a large company, on this coordinator. Beyond it a login is refused: no key may end the sessions of another.
pub(crate) const SESSIONS_PER_TENANT: usize = 1_024;

/// Ended sessions that are told apart, for each key. Beyond it the oldest of them takes all older ones along.
const ENDED_PER_KEY: usize = 64;

/// How fast a session may read. A page reads some ten things when it opens, and a few each second afterwards. It is
/// apart from the rate of the tenant, so that a tenant at its limit can look at why.
const READS_PER_SECOND: u32 = 20;
const READS_AT_ONCE: u32 = 100;

/// How often a key may log in. A person does a few times a day; each login is an entry of the audit, which a key that may
/// only read must not fill.
const LOGINS_PER_SECOND: u32 = 1;
const LOGINS_AT_ONCE: u32 = 100;

#[derive(Default)]
pub(crate) struct SessionLedger {
    keys: Mutex<HashMap<Name, OfKey>>,
}

/// The sessions of one key.
struct OfKey {
    tenant: Name,
    open: Vec<Open>,
    ended: Vec<Ended>,
    /// Sessions that began at this instant or before are over.
    over_until: Time,
    logins: RateUsage,
}

struct Open {
    id: SessionId,
    began_at: Time,
    ends_at: Time,
    reads: RateUsage,
}

struct Ended {
    id: SessionId,
    began_at: Time,
    ends_at: Time,
}

/// Why a login is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginRefused {
    /// The tenant has as many sessions as one may have.
    TooMany,
    /// The key logs in too often: how long to wait.
    TooOften(Span),
}

/// Why a session that is sealed rightly does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionOver;

impl SessionLedger {
    /// Begins a session, and says from when until when it counts.
    pub(crate) fn begin(
        &self,
        id: SessionId,
        key: &Name,
        tenant: &Name,
        now: Time,
    ) -> Result<(Time, Time), LoginRefused> {
        let mut keys = self.keys();
        forget(&mut keys, now);
        let of_tenant = keys.values().filter(|it| it.tenant == *tenant);
        let open: usize = of_tenant.map(|it| it.open.len()).sum();
        let of_key = keys.get(key).map_or(0, |it| it.open.len());
        if open >= SESSIONS_PER_TENANT && of_key < SESSIONS_PER_KEY {
            return Err(LoginRefused::TooMany);
        }
        let of_key = keys.entry(key.clone()).or_insert_with(|| OfKey::of(tenant));
        let rate = Rate::new(LOGINS_PER_SECOND, Some(LOGINS_AT_ONCE));
        of_key.logins = rate.try_acquire(of_key.logins, now).map_err(LoginRefused::TooOften)?;
        let began_at = now.max(of_key.over_until.plus(Span::from_millis(1)));
        let ends_at = began_at.plus(SESSION_LIFE);
        of_key.open(Open { id, began_at, ends_at, reads: RateUsage::default() });
        Ok((began_at, ends_at))
    }

    /// Whether the session counts. One that is not known here becomes known.
    pub(crate) fn check(
        &self,
        session: &Session,
        tenant: &Name,
        now: Time,
    ) -> Result<(), SessionOver> {
        let mut keys = self.keys();
        let is_known = |it: &OfKey| it.open.iter().any(|open| open.id == session.id);
        if !keys.get(&session.key).is_some_and(is_known) {
            forget(&mut keys, now);
        }
        let of_key = keys.entry(session.key.clone()).or_insert_with(|| OfKey::of(tenant));
        if of_key.is_over(session) {
            return Err(SessionOver);
        }
        if of_key.open.iter().all(|open| open.id != session.id) {
            let Session { id, began_at, ends_at, .. } = *session;
            of_key.open(Open { id, began_at, ends_at, reads: RateUsage::default() });
            // It may be the oldest itself.
            if of_key.is_over(session) {
                return Err(SessionOver);
            }
        }
        Ok(())
    }

    /// Takes one read of the session, or says how long to wait for it.
    pub(crate) fn read(&self, session: &Session, now: Time) -> Result<(), Span> {
        let mut keys = self.keys();
        let of_key = keys.get_mut(&session.key);
        let open = of_key.and_then(|it| it.open.iter_mut().find(|open| open.id == session.id));
        let Some(open) = open else { return Ok(()) };
        let rate = Rate::new(READS_PER_SECOND, Some(READS_AT_ONCE));
        open.reads = rate.try_acquire(open.reads, now)?;
        Ok(())
    }

    /// Ends a session for good, as far as this coordinator is asked.
    pub(crate) fn end(&self, session: &Session, tenant: &Name) {
        let mut keys = self.keys();
        let of_key = keys.entry(session.key.clone()).or_insert_with(|| OfKey::of(tenant));
        of_key.open.retain(|open| open.id != session.id);
        if !of_key.is_over(session) {
            let Session { id, began_at, ends_at, .. } = *session;
            of_key.end(Ended { id, began_at, ends_at });
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Name, OfKey>> {
        self.keys.lock().expect("no code panics while it holds the sessions")
    }
}

/// Drops what has ended by itself. Keys are as many as have sessions.
fn forget(keys: &mut HashMap<Name, OfKey>, now: Time) {
    keys.retain(|_, of_key| {
        of_key.open.retain(|open| !open.ends_at.has_come(now));
        of_key.ended.retain(|ended| !ended.ends_at.has_come(now));
        let is_over_anyway = of_key.over_until.plus(SESSION_LIFE).has_come(now);
        !(of_key.open.is_empty() && of_key.ended.is_empty() && is_over_anyway)
    });
}

impl OfKey {
    fn of(tenant: &Name) -> Self {
        let (open, ended) = (Vec::new(), Vec::new());
        let logins = RateUsage::default();
        Self { tenant: tenant.clone(), open, ended, over_until: Time::default(), logins }
    }

    fn is_over(&self, session: &Session) -> bool {
        session.began_at <= self.over_until || self.ended.iter().any(|it| it.id == session.id)
    }

    fn open(&mut self, open: Open) {
        self.open.push(open);
        if self.open.len() <= SESSIONS_PER_KEY {
            return;
        }
        let oldest = (0..self.open.len()).min_by_key(|at| (self.open[*at].began_at, *at));
        let Open { id, began_at, ends_at, .. } = self.open.remove(oldest.expect("one was pushed"));
        self.end(Ended { id, began_at, ends_at });
    }

    fn end(&mut self, ended: Ended) {
        self.ended.push(ended);
        if self.ended.len() <= ENDED_PER_KEY {
            return;
        }
        let oldest = (0..self.ended.len()).min_by_key(|at| (self.ended[*at].began_at, *at));
        let oldest = self.ended.remove(oldest.expect("one was pushed"));
        self.over_until = self.over_until.max(oldest.began_at);
        let over_until = self.over_until;
        self.open.retain(|open| open.began_at > over_until);
        self.ended.retain(|ended| ended.began_at > over_until);
    }
}

#[cfg(test)]
mod tests {
    use verdict::Digest;

    use super::*;

    fn id(n: usize) -> SessionId {
        (n as u128).to_be_bytes()
    }

    fn session(n: usize, (began_at, ends_at): (Time, Time)) -> Session {
        let (secret, page) = (Digest::of(&[b"s"]), Digest::of(&[b"p"]));
        Session { id: id(n), key: "k".into(), secret, page, began_at, ends_at }
    }

    fn begun(ledger: &SessionLedger, n: usize, now: Time) -> Session {
        session(n, ledger.begin(id(n), &"k".into(), &"t".into(), now).unwrap())
    }

    fn is_open(ledger: &SessionLedger, session: &Session) -> bool {
        ledger.check(session, &"t".into(), session.began_at).is_ok()
    }

    const NOW: Time = Time::from_millis(1_000_000);

    #[test]
    fn the_oldest_session_of_a_key_makes_room_and_stays_out() {
        let ledger = SessionLedger::default();
        let at = |n: usize| NOW.plus(Span::from_millis(n as u64));
        let all: Vec<Session> = (0..=SESSIONS_PER_KEY).map(|n| begun(&ledger, n, at(n))).collect();
        let is_open: Vec<bool> = all.iter().map(|it| is_open(&ledger, it)).collect();
        assert_eq!(is_open.iter().filter(|open| **open).count(), SESSIONS_PER_KEY);
        assert!(!is_open[0], "the first one, and it does not come back");
    }

    #[test]
    fn what_was_ended_stays_out_however_many_follow() {
        let ledger = SessionLedger::default();
        let mut over = Vec::new();
        // As many as may in one millisecond: still none is mistaken for another.
        for n in 0..3 * ENDED_PER_KEY {
            let now = NOW.plus(Span::from_secs(n.saturating_sub(99) as u64));
            let session = begun(&ledger, n, now);
            assert!(is_open(&ledger, &session), "{n}");
            ledger.end(&session, &"t".into());
            over.push(session);
        }
        assert!(over.iter().all(|session| !is_open(&ledger, session)));
        let keys = ledger.keys();
        let of_key = &keys[&Name::from("k")];
        assert!(of_key.ended.len() <= ENDED_PER_KEY && of_key.open.is_empty());
    }

    #[test]
    fn a_session_of_another_coordinator_becomes_known() {
        let (one, two) = (SessionLedger::default(), SessionLedger::default());
        let session = begun(&one, 1, NOW);
        assert!(is_open(&two, &session));
        two.end(&session, &"t".into());
        assert!(!is_open(&two, &session));
    }

    #[test]
    fn a_tenant_has_a_bound_and_ends_make_room() {
        let ledger = SessionLedger::default();
        let begin = |key: usize, n: usize, tenant: &str, now| {
            ledger.begin(id(n), &Name::from(key.to_string()), &tenant.into(), now)
        };
        for n in 0..SESSIONS_PER_TENANT {
            begin(n / 2, n, "t", NOW).unwrap();
        }
        assert_eq!(begin(9_999, 9_999, "t", NOW), Err(LoginRefused::TooMany));
        assert!(begin(9_998, 9_998, "other", NOW).is_ok(), "another tenant is not held up");
        assert!(begin(9_999, 9_999, "t", NOW.plus(SESSION_LIFE)).is_ok());
        assert_eq!(ledger.keys().len(), 1, "nobody is kept for nothing");
    }

    #[test]
    fn sessions_of_other_coordinators_are_forgotten_where_nobody_logs_in() {
        let (one, peer) = (SessionLedger::default(), SessionLedger::default());
        let of = |n: usize, key: &str, times| Session { key: key.into(), ..session(n, times) };
        let times = one.begin(id(1), &"k".into(), &"t".into(), NOW).unwrap();
        peer.check(&of(1, "k", times), &"t".into(), NOW).unwrap();
        let later = NOW.plus(SESSION_LIFE);
        let times = one.begin(id(2), &"l".into(), &"t".into(), later).unwrap();
        peer.check(&of(2, "l", times), &"t".into(), later).unwrap();
        assert_eq!(peer.keys().keys().collect::<Vec<_>>(), [&Name::from("l")]);
    }

    #[test]
    fn a_key_logs_in_as_often_as_people_do() {
        let ledger = SessionLedger::default();
        let begin = |key: &str, now| ledger.begin(id(1), &key.into(), &"t".into(), now);
        let logins = (0..1_000).filter(|_| begin("k", NOW).is_ok()).count();
        assert_eq!(logins, LOGINS_AT_ONCE as usize);
        let wait = Span::from_secs(1);
        assert_eq!(begin("k", NOW), Err(LoginRefused::TooOften(wait)));
        assert!(begin("other", NOW).is_ok() && begin("k", NOW.plus(wait)).is_ok());
    }

    #[test]
    fn a_session_reads_as_fast_as_a_page_does() {
        let ledger = SessionLedger::default();
        let session = begun(&ledger, 1, NOW);
        let reads = (0..1_000).filter(|_| ledger.read(&session, NOW).is_ok()).count();
        assert_eq!(reads, READS_AT_ONCE as usize);
        let later = NOW.plus(Span::from_secs(1));
        let reads = (0..1_000).filter(|_| ledger.read(&session, later).is_ok()).count();
        assert_eq!(reads, READS_PER_SECOND as usize);
    }
}
