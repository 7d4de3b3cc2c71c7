//! Turns and seats, without a store: a shelf of tasks replaces it.

use std::collections::HashMap;
use std::time::Duration;

use store::{BatchSpec, PolledQueues, Spec, Want};
use tokio::sync::oneshot;
use verdict::request::Submit;
use verdict::{
    Context, Digest, Json, Moment, Policy, Request, Rules, Scope, Subject, Task, TaskId, Time,
    apply,
};

use super::round::{GRANT_BYTES_MAX, GRANTS_MAX, LOOKS_OF_TENANT};
use super::*;
use crate::intake::ListPolls;
use crate::item::{WaitingPage, WaitingPolls};

type Answer = oneshot::Receiver<Result<Vec<BatchGrant>, RequestError>>;

/// How many tasks each queue holds, all of one kind.
#[derive(Default)]
struct Shelf {
    tasks: HashMap<(Scope, Name), usize>,
    /// Whether it hides which kinds its queues hold.
    hides_kinds: bool,
    /// The size of each input.
    input_bytes: usize,
    /// The wants it was asked for, line by line.
    asked: Vec<Want>,
    /// Whether the last round left polls that may take something.
    was_cut: bool,
}

impl Shelf {
    fn put(&mut self, tenant: &str, queue: &str, tasks: usize) {
        self.tasks.insert((scope(tenant), Name::from(queue)), tasks);
    }

    fn backlogs(&self, polled: &dyn PolledQueues) -> Vec<Backlog> {
        let backlogs = self.tasks.iter().filter(|(_, tasks)| **tasks > 0);
        let polled = backlogs.filter(|((scope, queue), _)| polled.contains(scope, queue));
        let backlog = |((scope, queue), tasks): (&(Scope, Name), &usize)| Backlog {
            scope: scope.clone(),
            queue: queue.clone(),
            tasks: *tasks,
            kinds: (!self.hides_kinds).then(|| vec![Name::from("resize")]),
        };
        polled.map(backlog).collect()
    }

    fn ready(&mut self, want: &Want) -> Vec<Task> {
        self.asked.push(want.clone());
        let kind = Name::from("resize");
        if want.kinds.as_ref().is_some_and(|kinds| !kinds.contains(&kind)) {
            return Vec::new();
        }
        let mut ready = Vec::new();
        for queue in &want.queues {
            let Some(tasks) = self.tasks.get_mut(&(want.scope.clone(), queue.clone())) else {
                continue;
            };
            let given = (*tasks).min(want.max - ready.len());
            *tasks -= given;
            ready.extend((0..given).map(|_| task(&want.scope, queue)));
        }
        ready
    }

    /// One round with its commit. Returns how many tasks each tenant's queue handed out.
    fn round(&mut self, polls: &mut Polls) -> HashMap<(Name, Name), usize> {
        self.asked.clear();
        let mut round =
            polls.round(self.backlogs(polls.polled()), HashSet::new(), &PausedQueues::default(), 0);
        let mut went = HashMap::new();
        loop {
            let asked = round.ask(polls);
            if asked.is_empty() {
                break;
            }
            for (line, want) in asked {
                let ready = self.ready(&want);
                round.found(line, ready.len());
                for task in ready {
                    let place = (task.scope.clone(), task.queue.clone());
                    if round.taker(line, self.input_bytes).is_none() {
                        *self.tasks.entry(place).or_default() += 1;
                        continue;
                    }
                    round.took(&task);
                    *went.entry((place.0.tenant, place.1)).or_default() += 1;
                    let at = Time::from_millis(0);
                    round.give(line, BatchGrant { task, spec: BatchSpec::Whole(spec()), at });
                }
            }
        }
        let result = round.end();
        self.was_cut = result.is_cut;
        assert_eq!(polls.answer(result).len(), 0, "everybody takes what is granted");
        went
    }
}

fn scope(tenant: &str) -> Scope {
    Scope::new(tenant, "main")
}

fn task(scope: &Scope, queue: &Name) -> Task {
    let at = Moment { now: Time::from_millis(0), epoch: 1, rules: Rules::OLDEST };
    let submit = Request::Submit(Submit {
        budget: None,
        flow: None,
        id: TaskId::from_u128(1),
        scope: scope.clone(),
        kind: Name::from("resize"),
        queue: queue.clone(),
        priority: 0,
        policy: Policy::default(),
        run_at: None,
        input: Digest::of(&[]),
        fingerprint: Digest::of(&[]),
    });
    let mut subject = Subject::Absent;
    apply(&mut subject, Context::default(), &submit, at);
    subject.live().expect("it was accepted").clone()
}

fn spec() -> Spec {
    Spec {
        input: Json::from("{}"),
        goal: None,
        task_key: None,
        asset_id: None,
        resources: None,
        labels: BTreeMap::new(),
        traceparent: None,
        key: None,
        fingerprint: Digest::of(&[]),
    }
}

fn polls() -> Polls {
    Polls::default()
}

fn poll(tenant: &str, queues: &[&str], max: usize) -> Poll {
    Poll {
        scope: scope(tenant),
        worker: Name::from("ann"),
        queues: queues.iter().map(|queue| Name::from(*queue)).collect(),
        kinds: None,
        max,
        until: Instant::now() + Duration::from_secs(30),
        poll: None,
        build: None,
    }
}

fn wait(polls: &mut Polls, poll: Poll) -> Answer {
    let (reply, answer) = oneshot::channel();
    polls.add(WaitingPoll { poll, reply });
    answer
}

fn granted(answer: &mut Answer) -> Option<usize> {
    answer.try_recv().ok().map(|granted| granted.map_or(0, |granted| granted.len()))
}

/// The key of a tenant's queue in the result of a round.
fn place(tenant: &str, queue: &str) -> (Name, Name) {
    (Name::from(tenant), Name::from(queue))
}

#[tokio::test(start_paused = true)]
async fn polls_of_empty_queues_are_not_looked_at() {
    // G2: polls that wait in vain cost nothing to polls for which there is work.
    let (mut polls, mut shelf) = (polls(), Shelf::default());
    let mut idle = Vec::new();
    for n in 0..10_000 {
        let queue = format!("idle-{n}");
        idle.push(wait(&mut polls, poll("acme", &[&queue, "empty"], 256)));
    }
    let mut busy = wait(&mut polls, poll("acme", &["busy"], 8));
    shelf.put("acme", "busy", 1);
    shelf.round(&mut polls);
    assert_eq!(granted(&mut busy), Some(1));
    let asked: Vec<usize> = shelf.asked.iter().map(|want| want.max).collect();
    assert_eq!(asked, [1], "one line is asked for, and for no more than there is");
    assert!(idle.iter_mut().all(|answer| granted(answer).is_none()));
}

#[tokio::test(start_paused = true)]
async fn asking_in_vain_costs_nobody_a_grant() {
    // G2: all wait at one queue, but for kinds that it does not hold.
    let (mut polls, mut shelf) = (polls(), Shelf::default());
    let mut idle = Vec::new();
    for n in 0..3_000 {
        let kinds = Some(vec![Name::from(format!("kind-{n}"))]);
        idle.push(wait(&mut polls, Poll { kinds, ..poll("acme", &["images"], 256) }));
    }
    let mut busy = wait(&mut polls, poll("acme", &["images"], 8));
    shelf.put("acme", "images", 3);
    shelf.round(&mut polls);
    assert_eq!(granted(&mut busy), Some(3));
}

/// A poll of the largest size: 32 queues and 256 kinds, none of which the shelf has.
fn largest(tenant: &str, number: usize) -> Poll {
    let names = |word: &str, count| (0..count).map(|n| Name::from(format!("{word}-{n}"))).collect();
    let kinds = Some(names(&format!("kind-{number}"), 256));
    Poll { queues: names("queue", 32), kinds, ..poll(tenant, &[], 256) }
}

/// What the shelf was asked to look at: each kind in each queue.
fn looked_at(shelf: &Shelf) -> usize {
    let steps = |want: &Want| want.queues.len() * want.kinds.as_ref().map_or(1, Vec::len);
    shelf.asked.iter().map(steps).sum()
}

#[tokio::test(start_paused = true)]
async fn polls_for_other_kinds_are_not_asked() {
    // G2: tasks are ready in all of their queues, and of none of their kinds.
    let (mut polls, mut shelf) = (polls(), Shelf::default());
    let mut idle: Vec<Answer> = (0..100).map(|n| wait(&mut polls, largest("acme", n))).collect();
    let kinds = Some(vec![Name::from("resize")]);
    let mut busy = wait(&mut polls, Poll { kinds, ..poll("acme", &["queue-7"], 1) });
    (0..32).for_each(|n| shelf.put("acme", &format!("queue-{n}"), 5));
    shelf.round(&mut polls);
    assert_eq!(granted(&mut busy), Some(1));
    assert_eq!(looked_at(&shelf), 1, "one kind in one queue, for one poll");
    shelf.round(&mut polls);
    assert_eq!(looked_at(&shelf), 0, "nobody waits for what is left");
    assert!(idle.iter_mut().all(|answer| granted(answer).is_none()));
}

#[tokio::test(start_paused = true)]
async fn one_round_looks_at_so_much_and_the_next_one_continues() {
    // It is not known which kinds the queues hold, so every poll may be the one that takes them: no round asks for all, and none
    // is forgotten.
    let (mut polls, mut shelf) = (polls(), Shelf { hides_kinds: true, ..Shelf::default() });
    let mut others: Vec<Answer> = (0..100).map(|n| wait(&mut polls, largest("acme", n))).collect();
    let kinds = Some(vec![Name::from("resize")]);
    let mut last = wait(&mut polls, Poll { kinds, ..poll("acme", &["queue-1"], 1) });
    let mut small = wait(&mut polls, poll("small", &["queue-0"], 1));
    (0..2).for_each(|n| shelf.put("acme", &format!("queue-{n}"), 5));
    shelf.put("small", "queue-0", 1);
    let mut rounds = 0;
    while granted(&mut last).is_none() {
        rounds += 1;
        assert!(rounds <= 100, "its turn comes");
        shelf.round(&mut polls);
        assert!(looked_at(&shelf) <= LOOKS_OF_TENANT + 32 * 256 + 1, "{}", looked_at(&shelf));
        assert_eq!(
            granted(&mut small).is_some(),
            rounds == 1,
            "the other tenant has looks of its own"
        );
        let again = Instant::now() + LOOK_AGAIN_AFTER;
        assert_eq!(
            polls.next_wake(),
            Some(again),
            "some were not looked at, and nobody else may come"
        );
        tokio::time::advance(LOOK_AGAIN_AFTER).await;
    }
    assert!(rounds > 10, "a round looks at a few of them");
    assert!(others.iter_mut().all(|answer| granted(answer).is_none()));
}

#[tokio::test(start_paused = true)]
async fn more_sorts_of_workers_than_one_round_visits_are_all_served() {
    let (mut polls, mut shelf) = (polls(), Shelf::default());
    let sort = |n: usize| Some(vec![Name::from("resize"), Name::from(format!("kind-{n}"))]);
    let of_sort = |n| Poll { kinds: sort(n), ..poll("acme", &["images"], 1) };
    let mut waiting: Vec<Answer> = (0..5_000).map(|n| wait(&mut polls, of_sort(n))).collect();
    shelf.put("acme", "images", waiting.len());
    for _ in 0..5 {
        shelf.round(&mut polls);
    }
    assert!(waiting.iter_mut().all(|answer| granted(answer) == Some(1)));
    assert_eq!(polls.polled().count_kinds(&scope("acme")), 0, "the index is empty again");
}

#[tokio::test(start_paused = true)]
async fn a_poll_is_found_by_any_of_its_queues_and_kinds() {
    let (mut polls, mut shelf) = (polls(), Shelf::default());
    let kinds = Some(vec![Name::from("crop"), Name::from("resize")]);
    let mut named = wait(&mut polls, Poll { kinds, ..poll("acme", &["mails", "images"], 1) });
    let mut every = wait(&mut polls, poll("acme", &["images", "songs"], 1));
    let crop = Some(vec![Name::from("crop")]);
    let mut other = wait(&mut polls, Poll { kinds: crop, ..poll("acme", &["images"], 1) });
    let resize = Some(vec![Name::from("resize")]);
    let mut elsewhere = wait(&mut polls, Poll { kinds: resize, ..poll("acme", &["films"], 1) });
    shelf.put("acme", "images", 9);
    shelf.round(&mut polls);
    assert_eq!((granted(&mut named), granted(&mut every)), (Some(1), Some(1)));
    assert_eq!((granted(&mut other), granted(&mut elsewhere)), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_tenant_with_one_task_starts_it_within_ten_rounds_whatever_others_do() {
    // G2, F69: nine thousand tenants arrived first and want more than any commit grants.
    let (mut polls, mut shelf) = (polls(), Shelf::default());
    let names: Vec<String> = (0..9_000).map(|n| format!("flood-{n}")).collect();
    let mut flood = Vec::new();
    for name in &names {
        shelf.put(name, "images", 1_000_000);
        flood.push(wait(&mut polls, poll(name, &["images"], 256)));
    }
    // Its name sorts between the others, so that neither end of the round is an advantage.
    let mut one = wait(&mut polls, poll("flood-5000-small", &["images"], 1));
    shelf.put("flood-5000-small", "images", 1);
    let mut rounds = 0;
    while granted(&mut one).is_none() {
        rounds += 1;
        assert!(rounds <= 10, "its turn comes");
        let went = shelf.round(&mut polls);
        assert_eq!(went.values().sum::<usize>(), GRANTS_MAX, "no grant is lost to turns");
        for (name, answer) in names.iter().zip(&mut flood) {
            if granted(answer).is_some() {
                *answer = wait(&mut polls, poll(name, &["images"], 256));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn turns_go_round_tenants_and_then_queues() {
    // G2: two tenants share a commit evenly, however many queues and workers one of them has.
    let (mut polls, mut shelf) = (polls(), Shelf::default());
    let mut waiting = Vec::new();
    for queue in ["a", "b", "c"] {
        shelf.put("large", queue, 10_000);
        waiting.extend((0..8).map(|_| wait(&mut polls, poll("large", &[queue], 256))));
    }
    shelf.put("small", "a", 10_000);
    waiting.extend((0..4).map(|_| wait(&mut polls, poll("small", &["a"], 256))));
    let went = shelf.round(&mut polls);
    assert_eq!(went[&place("small", "a")], GRANTS_MAX / 2);
    let large = ["a", "b", "c"].map(|queue| went[&place("large", queue)]);
    assert_eq!(large.iter().sum::<usize>(), GRANTS_MAX / 2);
    assert!(large.iter().all(|granted| *granted >= GRANTS_MAX / 6), "{large:?}");
}

#[tokio::test(start_paused = true)]
async fn queues_of_one_tenant_get_their_turns_in_later_commits() {
    // G2: more queues than one commit has grants for; the round continues where it stopped.
    let (mut polls, mut shelf) = (polls(), Shelf::default());
    let names: Vec<String> = (0..3_000).map(|n| format!("queue-{n:04}")).collect();
    let mut waiting = Vec::new();
    for name in &names {
        shelf.put("acme", name, 1_000);
        waiting.push(wait(&mut polls, poll("acme", &[name], 256)));
    }
    let mut served = BTreeSet::new();
    for _ in 0..3 {
        served.extend(shelf.round(&mut polls).into_keys());
        for (name, answer) in names.iter().zip(&mut waiting) {
            if granted(answer).is_some() {
                *answer = wait(&mut polls, poll("acme", &[name], 256));
            }
        }
    }
    assert_eq!(served.len(), names.len());
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_longest_is_served_first() {
    // Within one line, and between lines of one queue.
    let (mut polls, mut shelf) = (polls(), Shelf::default());
    let mut first = wait(&mut polls, poll("acme", &["images", "mails"], 2));
    let mut second = wait(&mut polls, poll("acme", &["images"], 2));
    let mut third = wait(&mut polls, poll("acme", &["images", "mails"], 2));
    shelf.put("acme", "images", 3);
    shelf.round(&mut polls);
    let got = [&mut first, &mut second, &mut third].map(granted);
    assert_eq!(got[0], Some(2));
    assert_eq!(got[1..].iter().flatten().sum::<usize>(), 1, "{got:?}");
    shelf.put("acme", "mails", 2);
    let mut fourth = wait(&mut polls, poll("acme", &["mails"], 2));
    shelf.put("acme", "images", 0);
    shelf.round(&mut polls);
    let rest = [granted(&mut third), granted(&mut fourth)];
    assert_eq!(rest.iter().flatten().sum::<usize>(), 2, "{rest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_hung_up_is_passed_over_and_forgotten_when_its_turn_comes() {
    let (mut polls, mut shelf) = (polls(), Shelf::default());
    let gone: Vec<Answer> =
        (0..100).map(|_| wait(&mut polls, poll("acme", &["images"], 1))).collect();
    drop(gone);
    let mut here = wait(&mut polls, poll("acme", &["images"], 1));
    shelf.put("acme", "images", 1);
    shelf.round(&mut polls);
    assert_eq!(granted(&mut here), Some(1));
    assert!(polls.is_empty());
    assert_eq!(polls.polled().count(), 0, "an empty line leaves nothing behind");
}

#[tokio::test(start_paused = true)]
async fn a_tenant_with_all_seats_gives_up_some_to_others() {
    // G2, G4: one tenant may use every seat while no other needs one, and loses them one by one.
    let mut polls = polls();
    let mut large: Vec<Answer> =
        (0..POLLS_MAX).map(|_| wait(&mut polls, poll("large", &["images"], 1))).collect();
    let mut refused = wait(&mut polls, poll("large", &["images"], 1));
    assert_eq!(refused.try_recv(), Ok(Err(RequestError::Overloaded)), "it has its share, and more");
    let small: Vec<Answer> =
        (0..100).map(|_| wait(&mut polls, poll("small", &["images"], 1))).collect();
    assert_eq!(polls.seats.len(), POLLS_MAX);
    let displaced = large.iter_mut().filter_map(|answer| answer.try_recv().ok());
    let displaced: Vec<_> = displaced.collect();
    assert_eq!(displaced, vec![Err(RequestError::Overloaded); small.len()]);
    assert_eq!(polls.tenants[&Name::from("small")].seats.len(), small.len());
    let mut half = Vec::new();
    for _ in 0..POLLS_MAX {
        half.push(wait(&mut polls, poll("small", &["images"], 1)));
    }
    let sizes = ["large", "small"].map(|name| polls.tenants[&Name::from(name)].seats.len());
    assert_eq!(sizes, [POLLS_MAX / 2; 2], "and never more than its share");
}

#[tokio::test(start_paused = true)]
async fn seats_of_workers_that_hung_up_are_free_again() {
    let mut polls = polls();
    let mut waiting: Vec<Answer> =
        (0..POLLS_MAX).map(|_| wait(&mut polls, poll("acme", &["images"], 1))).collect();
    waiting.truncate(10);
    for _ in 10..POLLS_MAX {
        let mut again = wait(&mut polls, poll("acme", &["images"], 1));
        assert!(again.try_recv().is_err(), "a restarted worker waits");
        waiting.push(again);
    }
}

#[tokio::test(start_paused = true)]
async fn only_those_whose_time_is_over_are_answered_with_nothing() {
    let mut polls = polls();
    let mut short = wait(&mut polls, Poll { until: Instant::now(), ..poll("acme", &["a"], 1) });
    let mut long = wait(&mut polls, poll("acme", &["a"], 1));
    assert_eq!(polls.next_wake(), Some(Instant::now()));
    polls.answer_expired(Instant::now(), None);
    assert_eq!((granted(&mut short), granted(&mut long)), (Some(0), None));
    assert_eq!(polls.next_wake(), Some(Instant::now() + Duration::from_secs(30)));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_poll_takes_the_place_of_the_first() {
    // S3-59: its answer would reach no worker.
    let mut polls = polls();
    let named = |worker: &str| Poll {
        poll: Some(Name::from("p1")),
        worker: Name::from(worker),
        ..poll("acme", &["a"], 1)
    };
    let mut first = wait(&mut polls, named("ann"));
    let mut other = wait(&mut polls, named("bob"));
    let mut again = wait(&mut polls, named("ann"));
    assert_eq!((granted(&mut first), granted(&mut other)), (Some(0), None));
    assert_eq!(polls.unrecalled_names().1.len(), 2, "each is looked up once");
    let (looked_up, ..) = polls.unrecalled_names();
    let mut round = polls.round(Vec::new(), HashSet::new(), &PausedQueues::default(), 0).end();
    round.looked_up = looked_up;
    drop(polls.answer(round));
    assert_eq!(polls.unrecalled_names().1, []);
    assert_eq!(granted(&mut again), None);
}

#[tokio::test(start_paused = true)]
async fn one_poll_is_granted_so_many_bytes_and_the_rest_stays_queued() {
    let (mut polls, mut shelf) = (polls(), Shelf { input_bytes: 250_000, ..Shelf::default() });
    let mut first = wait(&mut polls, poll("acme", &["images"], 256));
    let mut second = wait(&mut polls, poll("acme", &["images"], 256));
    shelf.put("acme", "images", 100);
    let went = shelf.round(&mut polls);
    assert_eq!((granted(&mut first), went[&place("acme", "images")]), (Some(16), 16));
    // The second had no seat, because the first asked for everything: the next round follows at once.
    assert!(shelf.was_cut);
    shelf.round(&mut polls);
    assert_eq!(granted(&mut second), Some(16));
    let mut next = wait(&mut polls, poll("acme", &["images"], 256));
    shelf.round(&mut polls);
    assert_eq!(granted(&mut next), Some(16));
    // One that is larger than all of that goes alone.
    shelf.input_bytes = GRANT_BYTES_MAX + 1;
    let mut large = wait(&mut polls, poll("acme", &["images"], 256));
    shelf.round(&mut polls);
    assert_eq!(granted(&mut large), Some(1));
}

#[tokio::test(start_paused = true)]
async fn tenants_take_turns_when_their_leases_are_looked_up() {
    let mut polls = polls();
    let named = |tenant: &str, n: usize| Poll {
        poll: Some(Name::from(format!("p{n}"))),
        ..poll(tenant, &["a"], 1)
    };
    let flood = (0..3 * RECALLED_POLLS_MAX).map(|n| wait(&mut polls, named("large", n)));
    let _flood: Vec<Answer> = flood.collect();
    let _small = wait(&mut polls, named("small", 0));
    let (_, names, later) = polls.unrecalled_names();
    assert_eq!(names.len(), RECALLED_POLLS_MAX);
    assert_eq!(later.len(), 2 * RECALLED_POLLS_MAX + 1);
    assert_eq!(names[1].scope.tenant.as_str(), "small", "second of all, although it came last");
}

fn listed(polls: &Polls, queues: Option<&[&str]>, after: Option<&str>) -> WaitingPage {
    let (reply, mut page) = oneshot::channel();
    let queues = queues.map(|queues| queues.iter().map(|name| Name::from(*name)).collect());
    let (scope, after) = (scope("acme"), after.map(Name::from));
    polls.answer_list(ListPolls { scope, queues, after, limit: 100, reply });
    page.try_recv().expect("it is answered at once")
}

#[tokio::test(start_paused = true)]
async fn a_list_of_polls_names_so_much_and_the_next_page_continues() {
    let mut polls = polls();
    let of = |worker: usize, n| Poll { worker: format!("w{worker}").into(), ..largest("acme", n) };
    let _waiting: Vec<Answer> = (0..200).map(|n| wait(&mut polls, of(n / 20, n))).collect();
    let first = listed(&polls, None, None);
    let named = |page: &WaitingPage| -> usize {
        let of_polls = |it: &WaitingPolls| it.queues.len() + it.kinds.as_ref().map_or(0, Vec::len);
        page.workers.iter().flat_map(|worker| &worker.polls).map(of_polls).sum()
    };
    assert!(named(&first) <= 60 * (32 + 256), "{}", named(&first));
    assert!(first.is_cut && first.workers.len() < 10);
    let mut seen = Vec::new();
    let mut page = first;
    loop {
        seen.extend(page.workers.iter().map(|worker| worker.worker.to_string()));
        if !page.is_cut {
            break;
        }
        page = listed(&polls, None, seen.last().map(String::as_str));
    }
    assert_eq!(seen, (0..10).map(|n| format!("w{n}")).collect::<Vec<_>>());
    // A key that may see one queue is shown that one, of whoever waits there.
    let _other =
        wait(&mut polls, Poll { worker: "z".into(), ..poll("acme", &["mails", "songs"], 3) });
    let page = listed(&polls, Some(&["songs"]), None);
    assert_eq!(page.workers.len(), 1, "{page:?}");
    assert_eq!(page.workers[0].polls[0].queues, [Name::from("songs")]);
}
