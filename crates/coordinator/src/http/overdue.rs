//! A token that ran out while nobody could hear its worker.
//!
//! Heartbeats bring fresh tokens long before the old one ends. After an outage of ours that is longer than
//! what the token had left, an honest worker has only the old one, and a lease that was given the outage
//! back. So the token is given back the same time: that of the recorded extensions since it was issued, and
//! no more. What the token is good for is not decided here: its lease may be over by now, and the rules say so.

use store::{Browse, Entry, Store, TaskKey};
use verdict::{Request, Span, Task, Time};

use super::declined::Declined;
use super::door::Door;
use crate::admit::TaskPrincipal;

/// History is read in pages of this size; few tasks have a second one.
const PAGE: usize = 512;

/// What the rows say of a token that is past its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The token is not past its end, with the time that was given back.
    Excused,
    /// Past its end, of the current lease: a stall that was not noticed yet could excuse it.
    Late,
    /// Past its end, of a lease that is over.
    Over,
}

/// Whether a token that is past its end is so only because of an outage of ours.
pub(super) async fn is_excused<S: Store>(
    door: &Door<S>,
    principal: &TaskPrincipal,
) -> Result<bool, Declined> {
    match standing(door, principal).await? {
        Standing::Excused => return Ok(true),
        Standing::Over => return Ok(false),
        Standing::Late => {}
    }
    door.decided(door.coordinator.has_caught_up()).await??;
    Ok(standing(door, principal).await? == Standing::Excused)
}

async fn standing<S: Store>(
    door: &Door<S>,
    principal: &TaskPrincipal,
) -> Result<Standing, Declined> {
    let token = principal.token();
    let key = TaskKey { scope: token.scope.clone(), id: token.task };
    let reading = async {
        let browse = door.coordinator.browse();
        let given_back = given_back(browse, &key, principal.issued_at()).await?;
        if !principal.is_expired(door.coordinator.now(), given_back) {
            return Ok(Standing::Excused);
        }
        let found = browse.find(&key).await?;
        let task = found.as_ref().and_then(|found| found.subject.live());
        let lease = task.and_then(Task::lease);
        let is_current = lease.is_some_and(|lease| lease.id == token.lease);
        Ok(if is_current { Standing::Late } else { Standing::Over })
    };
    door.read(std::time::Duration::ZERO, reading).await
}

/// The time since `issued_at` in which nobody could have been heard, as the task's history has it.
async fn given_back(
    browse: &impl Browse,
    key: &TaskKey,
    issued_at: Time,
) -> Result<Span, store::Failure> {
    let mut outages = Outages { counted_to: issued_at, total: Span::ZERO };
    let mut after = 0;
    loop {
        let page = browse.history(key, after, PAGE).await?;
        page.iter().for_each(|entry| outages.count(entry));
        match page.last() {
            Some(last) => after = last.n,
            None => return Ok(outages.total),
        }
    }
}

/// Several coordinators may record one outage: no instant counts twice.
struct Outages {
    counted_to: Time,
    total: Span,
}

impl Outages {
    fn count(&mut self, entry: &Entry) {
        let Request::Extend(extend) = &entry.request else { return };
        let (from, to) =
            (extend.deaf_since.max(self.counted_to), extend.deaf_since.plus(extend.gap));
        let total = self.total.millis().saturating_add(to.since(from).millis());
        self.total = Span::from_millis(total);
        self.counted_to = self.counted_to.max(to);
    }
}

#[cfg(test)]
mod tests {
    use verdict::request::Extend;

    use super::*;

    fn outage(from: i64, to: i64) -> Entry {
        let (deaf_since, end) = (Time::from_millis(from), Time::from_millis(to));
        let extend = Extend { deaf_since, gap: end.since(deaf_since) };
        Entry {
            n: 1,
            at: end,
            epoch: 1,
            rules: verdict::Rules::NEWEST.number(),
            request: Request::Extend(extend),
            loaded: None,
            events: Vec::new(),
        }
    }

    fn total(issued_at: i64, outages: &[(i64, i64)]) -> u64 {
        let mut counted = Outages { counted_to: Time::from_millis(issued_at), total: Span::ZERO };
        outages.iter().for_each(|(from, to)| counted.count(&outage(*from, *to)));
        counted.total.millis()
    }

    #[test]
    fn every_instant_of_an_outage_counts_once_and_none_before_the_token() {
        assert_eq!(total(0, &[]), 0);
        assert_eq!(total(0, &[(10, 30), (50, 60)]), 30);
        // Two coordinators that come back from one outage record it twice.
        assert_eq!(total(0, &[(10, 30), (12, 35), (15, 20)]), 25);
        assert_eq!(total(25, &[(10, 30), (50, 60)]), 15);
        assert_eq!(total(100, &[(10, 30), (50, 60)]), 0);
    }
}
