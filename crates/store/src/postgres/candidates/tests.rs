//! Which lanes are looked at, and what is known after it.

use verdict::{Name, Scope};

use super::super::lane::{GRANTS_BETWEEN_LOOKS, GRANTS_BETWEEN_SLOW_LOOKS, PAGE, UNHELD_AGE_MAX};
use super::*;

const NOW: Time = Time::from_millis(0);

/// Queues of tenants that somebody polls.
struct Polls(Vec<(Scope, Name)>);

impl Polls {
    fn of(tenant: &str, names: impl Iterator<Item = String>) -> Self {
        Self(names.map(|name| (Scope::new(tenant, "main"), Name::from(name))).collect())
    }

    fn and(mut self, other: Polls) -> Self {
        self.0.extend(other.0);
        self
    }
}

impl Polled for Polls {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn contains(&self, scope: &Scope, queue: &Name) -> bool {
        self.0.iter().any(|(other, name)| other == scope && name == queue)
    }

    fn each(&self, see: &mut dyn FnMut(&Scope, &Name)) {
        self.0.iter().for_each(|(scope, queue)| see(scope, queue));
    }
}

fn images() -> Polls {
    Polls::of("acme", std::iter::once("images".to_owned()))
}

fn lane(kinds: Option<&str>) -> LaneKey {
    let (scope, queue) = (Scope::new("acme", "main"), Name::from("images"));
    LaneKey { scope, queue, kinds: kinds.map(|kind| vec![Name::from(kind)]) }
}

fn place(number: u128) -> Place {
    Place::new(0, TaskId::from_u128(number))
}

fn page(numbers: std::ops::Range<u128>) -> Page {
    let places: Vec<(Place, Name)> =
        numbers.map(|number| (place(number), Name::from("resize"))).collect();
    Page { is_last: places.len() < PAGE, places, is_all_delayed: true, ..Page::default() }
}

fn read(page: Page) -> Read {
    Read { page, took: Duration::from_micros(100) }
}

/// Reads everything that is due, as one look does; says which lanes.
fn look(
    candidates: &mut Candidates,
    mut found: impl FnMut(&LaneKey, Refill) -> Read,
) -> Vec<LaneKey> {
    let here = tokio::time::Instant::now();
    let lanes = candidates.begin_look(Class::Quick, here);
    let keys = lanes.iter().map(|(key, _)| key.clone()).collect();
    let found = lanes.into_iter().map(|(key, refill)| {
        let read = found(&key, refill);
        (key, refill, read)
    });
    candidates.end_look(found.collect(), here);
    keys
}

fn nothing(_: &LaneKey, _: Refill) -> Read {
    read(page(0..0))
}

/// What polls of the queue `images` know after a first look that found these tasks.
fn with_images(numbers: std::ops::Range<u128>) -> Candidates {
    let mut candidates = Candidates::default();
    candidates.note_polled(&images(), tokio::time::Instant::now());
    let looked = look(&mut candidates, |_, _| read(page(numbers.clone())));
    assert_eq!(looked, [lane(None)]);
    candidates
}

fn lane_mut(candidates: &mut Candidates) -> &mut Lane {
    &mut candidates.entry_mut(&lane(None)).unwrap().lane
}

fn needs(candidates: &Candidates, wanted: usize) -> Option<Refill> {
    candidates.needs(&lane(None), NOW, wanted, |_| true).map(|(_, refill)| refill)
}

#[tokio::test(start_paused = true)]
async fn the_head_is_looked_at_again_after_a_bounded_number_of_grants() {
    // R-19, S2-24: whoever is urgent and was queued elsewhere is overtaken by no more, even if no hint ever comes.
    let first = PAGE as u128;
    let mut candidates = with_images(0..first);
    let Some(Refill::After(tail)) = needs(&candidates, PAGE + 1) else { panic!("there is more") };
    candidates.need(&lane(None), Refill::After(tail), tokio::time::Instant::now());
    look(&mut candidates, |_, refill| {
        assert_eq!(refill, Refill::After(tail));
        read(page(first..2 * first))
    });
    let mut looks = Vec::new();
    for place in candidates.heads(&lane(None), GRANTS_BETWEEN_LOOKS, |_| true) {
        looks.extend(needs(&candidates, 1));
        lane_mut(&mut candidates).take(place);
    }
    assert_eq!(looks, [], "while there are candidates, and not for every grant");
    assert_eq!(needs(&candidates, 1), Some(Refill::Head));
}

#[tokio::test(start_paused = true)]
async fn a_slow_look_is_put_off_for_a_bounded_number_of_grants() {
    // however long looking takes, since an old snapshot is open, a bound on overtaking stays.
    let mut candidates = Candidates::default();
    candidates.note_polled(&images(), tokio::time::Instant::now());
    look(&mut candidates, |_, _| Read { page: page(0..8), took: Duration::from_secs(60) });
    lane_mut(&mut candidates).taken(GRANTS_BETWEEN_SLOW_LOOKS - 1);
    assert_eq!(needs(&candidates, 1), None, "it rests");
    lane_mut(&mut candidates).taken(1);
    assert_eq!(needs(&candidates, 1), Some(Refill::Head));
    assert_eq!(candidates.next_look(Class::Quick), None, "and it makes no other lane wait");
}

#[tokio::test(start_paused = true)]
async fn what_happens_while_a_page_is_read_is_not_lost() {
    // R-19, S2-52: the page may be older than a hint, and than what this process commits meanwhile.
    let mut candidates = Candidates::default();
    let here = tokio::time::Instant::now();
    candidates.note_polled(&images(), here);
    let lanes = candidates.begin_look(Class::Quick, here);
    let named = Candidate {
        scope: lane(None).scope,
        queue: lane(None).queue,
        kind: Name::from("resize"),
        place: place(77),
    };
    let queues = HashSet::from([(named.scope.clone(), named.queue.clone())]);
    candidates.hinted(&[named], &HashSet::new());
    candidates.drop_place(&lane(None), place(3));
    candidates.hinted(&[], &queues);
    let found = lanes.into_iter().map(|(key, refill)| (key, refill, read(page(0..8))));
    candidates.end_look(found.collect(), here);
    let heads = candidates.heads(&lane(None), 99, |_| true);
    assert_eq!(heads.len(), 8, "{heads:?}");
    assert!(heads.contains(&place(77)) && !heads.contains(&place(3)));
    assert_eq!(needs(&candidates, 1), Some(Refill::Head), "the queue that was named is read again");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_a_fellow_names_is_tried_without_a_look_where_it_is_wanted() {
    let mut candidates = with_images(0..0);
    let (scope, queue) = (lane(None).scope, lane(None).queue);
    let told = Candidate { scope, queue, kind: Name::new("resize"), place: place(7) };
    candidates.hinted(&[told], &HashSet::new());
    assert_eq!(candidates.heads(&lane(Some("resize")), 9, |_| true), [place(7)]);
    assert_eq!(candidates.heads(&lane(Some("crop")), 9, |_| true), []);
    assert_eq!(candidates.needs(&lane(Some("resize")), NOW, 1, |_| true), None);
    assert_eq!(candidates.stocks(&images()).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn kinds_have_a_lane_of_their_own_only_behind_what_is_known() {
    let candidates = with_images(0..9);
    assert_eq!(candidates.needs(&lane(Some("crop")), NOW, 1, |_| true), None, "all is known");
    let candidates = with_images(0..PAGE as u128);
    let needed = candidates.needs(&lane(Some("crop")), NOW, 1, |_| true);
    assert_eq!(needed, Some((lane(Some("crop")), Refill::Head)));
    assert_eq!(candidates.needs(&lane(Some("resize")), NOW, 1, |_| true), None);
}

#[tokio::test(start_paused = true)]
async fn names_that_a_tenant_invents_make_no_other_wait() {
    // S2-52: 2,000 names of one tenant, and then a queue of another: it is in the very next look.
    let invented = (0..2_000).map(|n| format!("invented {n}"));
    let (first, second) = (Polls::of("mallory", invented), images());
    let mut candidates = Candidates::default();
    candidates.note_polled(&first, tokio::time::Instant::now());
    assert_eq!(look(&mut candidates, nothing).len(), LANES_PER_LOOK);
    tokio::time::advance(NOTED_EVERY).await;
    candidates.note_polled(&first.and(second), tokio::time::Instant::now());
    let looked = look(&mut candidates, nothing);
    assert!(looked.contains(&lane(None)));
    assert!(looked.len() <= LANES_PER_LOOK);
}

#[tokio::test(start_paused = true)]
async fn what_was_always_empty_is_looked_at_less_and_less_but_within_a_bound() {
    // F43: without hints, a task that a fellow queues under a new name is found by looking.
    let mut candidates = with_images(0..0);
    let mut looks = 0;
    let mut rest = Duration::ZERO;
    for _ in 0..16 {
        let next = candidates.next_look(Class::Quick).unwrap();
        rest = next - tokio::time::Instant::now();
        tokio::time::advance(rest).await;
        candidates.note_polled(&images(), tokio::time::Instant::now());
        looks += look(&mut candidates, nothing).len();
    }
    assert_eq!((looks, rest), (16, UNHELD_AGE_MAX));
    // From the first task on it is looked at as often as any other.
    tokio::time::advance(UNHELD_AGE_MAX).await;
    look(&mut candidates, |_, _| read(page(0..1)));
    let next = candidates.next_look(Class::Quick).unwrap() - tokio::time::Instant::now();
    assert_eq!(next, Duration::from_millis(400));
}

#[tokio::test(start_paused = true)]
async fn beyond_the_queues_that_are_remembered_empty_names_go_and_work_stays() {
    let mut candidates = with_images(0..3);
    let invented =
        |from: usize, to: usize| Polls::of("mallory", (from..to).map(|n| format!("invented {n}")));
    tokio::time::advance(NOTED_EVERY).await;
    candidates.note_polled(&invented(0, QUEUES_MAX), tokio::time::Instant::now());
    tokio::time::advance(NOTED_EVERY).await;
    candidates.note_polled(&invented(QUEUES_MAX, QUEUES_MAX + 99), tokio::time::Instant::now());
    assert_eq!(candidates.queues.len(), QUEUES_MAX);
    assert_eq!(candidates.heads(&lane(None), 9, |_| true).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_polls_any_more_is_forgotten() {
    let mut candidates = with_images(0..3);
    tokio::time::advance(IDLE_MAX + Duration::from_secs(1)).await;
    assert_eq!(look(&mut candidates, nothing), []);
    assert!(candidates.queues.is_empty() && candidates.holding.is_empty());
    assert_eq!(candidates.next_look(Class::Quick), None);
}

#[tokio::test(start_paused = true)]
async fn delayed_tasks_are_candidates_when_their_time_comes_without_a_look() {
    let mut candidates = Candidates::default();
    candidates.note_polled(&images(), tokio::time::Instant::now());
    let due = Time::from_millis(5_000);
    let delayed = vec![(due, place(1), Name::from("resize"))];
    look(&mut candidates, |_, _| read(Page { delayed: delayed.clone(), ..page(0..0) }));
    assert!(!candidates.ripen(NOW));
    assert_eq!(candidates.stocks(&images()), []);
    assert!(!candidates.ripen(due));
    assert_eq!(candidates.stocks(&images()).len(), 1);
    assert_eq!(candidates.heads(&lane(None), 9, |_| true), [place(1)]);
}

#[tokio::test(start_paused = true)]
async fn delayed_tasks_whose_time_had_come_before_the_look_are_candidates_after_it() {
    let mut candidates = Candidates::default();
    candidates.note_polled(&images(), tokio::time::Instant::now());
    let (due, now) = (Time::from_millis(5_000), Time::from_millis(6_000));
    assert!(!candidates.ripen(now));
    let delayed = vec![(due, place(1), Name::from("resize"))];
    look(&mut candidates, |_, _| read(Page { delayed: delayed.clone(), ..page(0..0) }));
    assert!(!candidates.ripen(now), "nothing more must be read");
    assert_eq!(candidates.heads(&lane(None), 9, |_| true), [place(1)]);
}
