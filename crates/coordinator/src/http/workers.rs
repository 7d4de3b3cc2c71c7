//! `GET /v1/workers`: who polls for what, and who holds leases.
//!
//! Leases come from the store, so they are those of all coordinators. Polls exist in memory only, so they are those of
//! this coordinator; the answer says how many coordinators there are.

use std::collections::BTreeMap;
use std::ops::Bound;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use store::{Browse, HeldLeases, PAGE_BYTES_MAX};
use verdict::Name;
use wire::answers::{WorkerLeases, WorkerPolls, WorkerView, Workers};
use wire::limits::PAGE_ITEMS_DEFAULT;
use wire::requests::ListWorkers;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::translate::{query, time};
use crate::admit::ReaderPrincipal;
use crate::admit::principals::Principal as _;
use crate::item::{WaitingPage, WaitingPolls, WaitingWorker};

/// How many pairs of worker and queue one answer reads. Beyond it the page ends early.
const HELD_MAX: usize = 10_000;

pub(super) async fn workers(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    uri: Uri,
) -> Result<Json<Workers>, ApiError> {
    let ListWorkers { after, limit } = query(&uri)?;
    let (scope, after) = (principal.scope(), after.map(Name::from));
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let browse = app.coordinator.browse();
    // A limited key sees what happens at its queues. Pages are cut after that, so that no cursor names another worker.
    let queues = principal.queues();
    let reading = browse.held_leases(scope, queues, after.as_ref(), HELD_MAX);
    let held = app.read(reading).await?;
    // One worker more than the page has, to know whether there is another page.
    let asked =
        app.coordinator.list_polls(scope.clone(), queues.map(<[Name]>::to_vec), after, limit + 1);
    let waiting = app.decided(asked).await??;
    let coordinators = app.coordinator.allowances().coordinators();
    let (workers, next_after) = page(held, waiting, limit);
    Ok(Json(Workers { workers, next_after, coordinators, server_time: app.server_time() }))
}

/// The first `limit` workers, and the last of them if there are more.
fn page(
    held: Vec<HeldLeases>,
    waiting: WaitingPage,
    limit: usize,
) -> (Vec<WorkerView>, Option<String>) {
    // The last worker of a full read may hold more than was read: it belongs on the next page, unless it is alone.
    let is_cut = held.len() == HELD_MAX;
    let last_read = held.last().filter(|_| is_cut).map(|held| held.worker.clone());
    let mut workers: BTreeMap<Name, WorkerView> = BTreeMap::new();
    for held in held {
        view(&mut workers, &held.worker).leases.push(leases(held));
    }
    // Behind the last worker of a list that was cut others may wait.
    let last_listed = waiting.workers.last().filter(|_| waiting.is_cut);
    let last_listed = last_listed.map(|last| last.worker.clone());
    for WaitingWorker { worker, polls: waiting } in waiting.workers {
        view(&mut workers, &worker).polls.extend(waiting.into_iter().map(polls));
    }
    let mut more = workers.len() > limit;
    if let Some(last) = last_listed {
        let behind = (Bound::Excluded(last), Bound::Unbounded);
        let behind: Vec<Name> = workers.range(behind).map(|(worker, _)| worker.clone()).collect();
        behind.iter().for_each(|worker| drop(workers.remove(worker)));
        more = true;
    }
    if let Some(last_read) = last_read
        && workers.first_key_value().is_some_and(|(first, _)| *first < last_read)
    {
        workers.split_off(&last_read);
        more = true;
    }
    let count = workers.len();
    let workers = fitting(workers.into_values().take(limit));
    more |= workers.len() < count;
    let next = workers.last().filter(|_| more).map(|last| last.worker_id.clone());
    (workers, next)
}

/// The first workers that fit into the bytes of a page. Of the first of them, polls that do not fit are left out.
fn fitting(workers: impl Iterator<Item = WorkerView>) -> Vec<WorkerView> {
    let (mut shown, mut left) = (Vec::new(), PAGE_BYTES_MAX);
    for mut view in workers {
        let leases: usize = view.leases.iter().map(|it| MEMBERS_BYTES + it.queue.len()).sum();
        let others = MEMBERS_BYTES + leases;
        let mut room = left.saturating_sub(others);
        let polls = view.polls.len();
        let mut fits = |it: &WorkerPolls| {
            let bytes = poll_bytes(it);
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        };
        let fitting = view.polls.iter().take_while(|it| fits(it)).count();
        if !shown.is_empty() && (fitting < polls || others > left) {
            break;
        }
        view.polls.truncate(fitting);
        left = room;
        shown.push(view);
    }
    shown
}

/// What the members of a view take besides names.
const MEMBERS_BYTES: usize = 200;

fn poll_bytes(polls: &WorkerPolls) -> usize {
    let names = polls.queues.iter().chain(polls.kinds.iter().flatten());
    MEMBERS_BYTES + names.map(|name| name.len() + 3).sum::<usize>()
}

fn view<'w>(workers: &'w mut BTreeMap<Name, WorkerView>, worker: &Name) -> &'w mut WorkerView {
    workers.entry(worker.clone()).or_insert_with(|| WorkerView {
        worker_id: worker.to_string(),
        polls: Vec::new(),
        leases: Vec::new(),
    })
}

fn leases(held: HeldLeases) -> WorkerLeases {
    let HeldLeases {
        worker: _,
        queue,
        count,
        oldest_acquired_at,
        latest_heartbeat_at,
        next_expires_at,
    } = held;
    WorkerLeases {
        queue: queue.to_string(),
        count,
        oldest_acquired_at: time(oldest_acquired_at),
        latest_heartbeat_at: time(latest_heartbeat_at),
        next_expires_at: time(next_expires_at),
    }
}

fn polls(waiting: WaitingPolls) -> WorkerPolls {
    let WaitingPolls { queues, kinds, count, max } = waiting;
    let names = |names: Vec<Name>| names.iter().map(Name::to_string).collect();
    WorkerPolls {
        queues: names(queues),
        kinds: kinds.map(names),
        count: count as u64,
        max: max as u64,
    }
}

#[cfg(test)]
mod tests {
    use verdict::Time;

    use super::*;

    fn held(worker: &str, queue: &str) -> HeldLeases {
        let at = Time::from_millis(1);
        HeldLeases {
            worker: worker.into(),
            queue: queue.into(),
            count: 1,
            oldest_acquired_at: at,
            latest_heartbeat_at: at,
            next_expires_at: at,
        }
    }

    fn waiting(workers: &[&str]) -> WaitingPage {
        let polls = || WaitingPolls { queues: vec!["q".into()], kinds: None, count: 1, max: 1 };
        let worker =
            |name: &&str| WaitingWorker { worker: Name::from(*name), polls: vec![polls()] };
        WaitingPage { workers: workers.iter().map(worker).collect(), is_cut: false }
    }

    fn names(page: &(Vec<WorkerView>, Option<String>)) -> (Vec<&str>, Option<&str>) {
        (page.0.iter().map(|view| view.worker_id.as_str()).collect(), page.1.as_deref())
    }

    #[test]
    fn polls_and_leases_of_a_worker_meet_in_one_view() {
        let first = page(vec![held("a", "q"), held("c", "q")], waiting(&["a", "b"]), 2);
        assert_eq!(names(&first), (vec!["a", "b"], Some("b")));
        assert_eq!((first.0[0].polls.len(), first.0[0].leases.len()), (1, 1));
        let last = page(vec![held("c", "q")], WaitingPage::default(), 2);
        assert_eq!(names(&last), (vec!["c"], None));
    }

    #[test]
    fn a_page_is_bounded_in_bytes_whatever_its_workers_ask_for() {
        let name = |n: usize| Name::from(format!("{n:0128}"));
        let queues: Vec<Name> = (0..32).map(name).collect();
        let kinds: Option<Vec<Name>> = Some((0..256).map(name).collect());
        let line =
            || WaitingPolls { queues: queues.clone(), kinds: kinds.clone(), count: 1, max: 1 };
        let of = |worker: &str, lines: usize| WaitingWorker {
            worker: worker.into(),
            polls: (0..lines).map(|_| line()).collect(),
        };
        let size = |page: &[WorkerView]| serde_json::to_vec(page).unwrap().len();
        let all = |workers| WaitingPage { workers, is_cut: false };
        let many = (0..300).map(|n| of(&format!("w{n:03}"), 1)).collect();
        let many = page(Vec::new(), all(many), 1_000);
        assert!(size(&many.0) <= PAGE_BYTES_MAX && many.0.len() > 100, "{}", many.0.len());
        assert_eq!(many.1, many.0.last().map(|last| last.worker_id.clone()));
        let greedy = page(Vec::new(), all(vec![of("a", 1_000), of("b", 1)]), 9);
        assert_eq!(names(&greedy), (vec!["a"], Some("a")));
        assert!(size(&greedy.0) <= PAGE_BYTES_MAX && greedy.0[0].polls.len() > 50);
    }

    #[test]
    fn workers_behind_a_list_that_was_cut_are_on_the_next_page() {
        let cut = WaitingPage { is_cut: true, ..waiting(&["a", "b"]) };
        let first = page(vec![held("b", "q"), held("c", "q")], cut, 9);
        assert_eq!(names(&first), (vec!["a", "b"], Some("b")));
    }

    #[test]
    fn a_worker_whose_leases_were_cut_off_is_on_the_next_page() {
        let mut many: Vec<HeldLeases> =
            (1..HELD_MAX).map(|n| held("a", &format!("q{n}"))).collect();
        many.push(held("b", "q"));
        let cut = page(many, waiting(&["c"]), 9);
        assert_eq!(names(&cut), (vec!["a"], Some("a")));
        let alone: Vec<HeldLeases> = (0..HELD_MAX).map(|n| held("a", &format!("q{n}"))).collect();
        assert_eq!(names(&page(alone, WaitingPage::default(), 9)), (vec!["a"], None));
    }
}
