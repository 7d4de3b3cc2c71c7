//! Which buffers are refilled, and what the candidates are afterwards.

use verdict::{Name, Scope};

use super::super::queue_buffer::{
    GRANTS_BETWEEN_REFILLS, GRANTS_BETWEEN_SLOW_REFILLS, PAGE, UNUSED_AGE_MAX,
};
use super::*;

const NOW: Time = Time::from_millis(0);

/// The queues of tenants that are polled.
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

impl PolledQueues for Polls {
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

fn buffer(kinds: Option<&str>) -> BufferKey {
    let (scope, queue) = (Scope::new("acme", "main"), Name::from("images"));
    BufferKey { scope, queue, kinds: kinds.map(|kind| vec![Name::from(kind)]) }
}

fn position(number: u128) -> QueuePosition {
    QueuePosition::new(0, TaskId::from_u128(number))
}

fn page(numbers: std::ops::Range<u128>) -> Page {
    let positions: Vec<(QueuePosition, Name)> =
        numbers.map(|number| (position(number), Name::from("resize"))).collect();
    Page { is_last: positions.len() < PAGE, positions, is_all_delayed: true, ..Page::default() }
}

fn read(page: Page) -> BufferRead {
    BufferRead { page, took: Duration::from_micros(100) }
}

/// Reads every due buffer, as one refill does, and returns their keys.
fn refill_due(
    candidates: &mut Candidates,
    mut found: impl FnMut(&BufferKey, RefillFrom) -> BufferRead,
) -> Vec<BufferKey> {
    let here = tokio::time::Instant::now();
    let buffers = candidates.begin_refill(ReadSpeed::Quick, here);
    let keys = buffers.iter().map(|(key, _)| key.clone()).collect();
    let found = buffers.into_iter().map(|(key, refill)| {
        let read = found(&key, refill);
        (key, refill, read)
    });
    candidates.finish_refill(found.collect(), here);
    keys
}

fn nothing(_: &BufferKey, _: RefillFrom) -> BufferRead {
    read(page(0..0))
}

/// Candidates of the polled queue `images` after a first refill that found these tasks.
fn with_images(numbers: std::ops::Range<u128>) -> Candidates {
    let mut candidates = Candidates::default();
    candidates.note_polled(&images(), tokio::time::Instant::now());
    let refilled = refill_due(&mut candidates, |_, _| read(page(numbers.clone())));
    assert_eq!(refilled, [buffer(None)]);
    candidates
}

fn buffer_mut(candidates: &mut Candidates) -> &mut QueueBuffer {
    &mut candidates.entry_mut(&buffer(None)).unwrap().buffer
}

fn needs(candidates: &Candidates, wanted: usize) -> Option<RefillFrom> {
    candidates.missing_refill(&buffer(None), NOW, wanted, |_| true).map(|(_, refill)| refill)
}

#[tokio::test(start_paused = true)]
async fn the_head_is_looked_at_again_after_a_bounded_number_of_grants() {
    // R-19, S2-24: no more tasks than this overtake an urgent task that was queued elsewhere, even if no hint ever
    // arrives.
    let first = PAGE as u128;
    let mut candidates = with_images(0..first);
    let Some(RefillFrom::After(tail)) = needs(&candidates, PAGE + 1) else {
        panic!("there is more")
    };
    candidates.request_refill(&buffer(None), RefillFrom::After(tail), tokio::time::Instant::now());
    refill_due(&mut candidates, |_, refill| {
        assert_eq!(refill, RefillFrom::After(tail));
        read(page(first..2 * first))
    });
    let mut reads = Vec::new();
    for position in candidates.first_candidates(&buffer(None), GRANTS_BETWEEN_REFILLS, |_| true) {
        reads.extend(needs(&candidates, 1));
        buffer_mut(&mut candidates).take(position);
    }
    assert_eq!(reads, [], "while there are candidates, and not for every grant");
    assert_eq!(needs(&candidates, 1), Some(RefillFrom::Head));
}

#[tokio::test(start_paused = true)]
async fn a_slow_look_is_put_off_for_a_bounded_number_of_grants() {
    // overtaking stays bounded, however long a read takes because an old snapshot is open.
    let mut candidates = Candidates::default();
    candidates.note_polled(&images(), tokio::time::Instant::now());
    refill_due(&mut candidates, |_, _| BufferRead {
        page: page(0..8),
        took: Duration::from_secs(60),
    });
    buffer_mut(&mut candidates).taken(GRANTS_BETWEEN_SLOW_REFILLS - 1);
    assert_eq!(needs(&candidates, 1), None, "it rests");
    buffer_mut(&mut candidates).taken(1);
    assert_eq!(needs(&candidates, 1), Some(RefillFrom::Head));
    assert_eq!(
        candidates.next_refill_at(ReadSpeed::Quick),
        None,
        "and it makes no other lane wait"
    );
}

#[tokio::test(start_paused = true)]
async fn what_happens_while_a_page_is_read_is_not_lost() {
    // R-19, S2-52: the page may be older than a hint, and than commits of this process in the meantime.
    let mut candidates = Candidates::default();
    let here = tokio::time::Instant::now();
    candidates.note_polled(&images(), here);
    let buffers = candidates.begin_refill(ReadSpeed::Quick, here);
    let named = Candidate {
        scope: buffer(None).scope,
        queue: buffer(None).queue,
        kind: Name::from("resize"),
        position: position(77),
    };
    let queues = HashSet::from([(named.scope.clone(), named.queue.clone())]);
    candidates.apply_hint(&[named], &HashSet::new());
    candidates.drop_candidate(&buffer(None), position(3));
    candidates.apply_hint(&[], &queues);
    let found = buffers.into_iter().map(|(key, refill)| (key, refill, read(page(0..8))));
    candidates.finish_refill(found.collect(), here);
    let first_candidates = candidates.first_candidates(&buffer(None), 99, |_| true);
    assert_eq!(first_candidates.len(), 8, "{first_candidates:?}");
    assert!(first_candidates.contains(&position(77)) && !first_candidates.contains(&position(3)));
    assert_eq!(
        needs(&candidates, 1),
        Some(RefillFrom::Head),
        "the queue that was named is read again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_a_peer_names_is_tried_without_a_look_where_it_is_wanted() {
    let mut candidates = with_images(0..0);
    let (scope, queue) = (buffer(None).scope, buffer(None).queue);
    let told = Candidate { scope, queue, kind: Name::new("resize"), position: position(7) };
    candidates.apply_hint(&[told], &HashSet::new());
    assert_eq!(candidates.first_candidates(&buffer(Some("resize")), 9, |_| true), [position(7)]);
    assert_eq!(candidates.first_candidates(&buffer(Some("crop")), 9, |_| true), []);
    assert_eq!(candidates.missing_refill(&buffer(Some("resize")), NOW, 1, |_| true), None);
    assert_eq!(candidates.backlogs(&images()).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn kinds_have_a_buffer_of_their_own_only_behind_what_is_known() {
    let candidates = with_images(0..9);
    assert_eq!(
        candidates.missing_refill(&buffer(Some("crop")), NOW, 1, |_| true),
        None,
        "all is known"
    );
    let candidates = with_images(0..PAGE as u128);
    let needed = candidates.missing_refill(&buffer(Some("crop")), NOW, 1, |_| true);
    assert_eq!(needed, Some((buffer(Some("crop")), RefillFrom::Head)));
    assert_eq!(candidates.missing_refill(&buffer(Some("resize")), NOW, 1, |_| true), None);
}

#[tokio::test(start_paused = true)]
async fn names_that_a_tenant_invents_make_no_other_wait() {
    // S2-52: 2,000 names of one tenant, and then a queue of another: it is in the next refill.
    let invented = (0..2_000).map(|n| format!("invented {n}"));
    let (first, second) = (Polls::of("mallory", invented), images());
    let mut candidates = Candidates::default();
    candidates.note_polled(&first, tokio::time::Instant::now());
    assert_eq!(refill_due(&mut candidates, nothing).len(), BUFFERS_PER_READ);
    tokio::time::advance(NOTED_EVERY).await;
    candidates.note_polled(&first.and(second), tokio::time::Instant::now());
    let refilled = refill_due(&mut candidates, nothing);
    assert!(refilled.contains(&buffer(None)));
    assert!(refilled.len() <= BUFFERS_PER_READ);
}

#[tokio::test(start_paused = true)]
async fn what_was_always_empty_is_looked_at_less_and_less_but_within_a_bound() {
    // F43: without hints, a poll of the table finds a task that a peer queues under a new name.
    let mut candidates = with_images(0..0);
    let mut reads = 0;
    let mut rest = Duration::ZERO;
    for _ in 0..16 {
        let next = candidates.next_refill_at(ReadSpeed::Quick).unwrap();
        rest = next - tokio::time::Instant::now();
        tokio::time::advance(rest).await;
        candidates.note_polled(&images(), tokio::time::Instant::now());
        reads += refill_due(&mut candidates, nothing).len();
    }
    assert_eq!((reads, rest), (16, UNUSED_AGE_MAX));
    // From the first task on it is read as often as any other.
    tokio::time::advance(UNUSED_AGE_MAX).await;
    refill_due(&mut candidates, |_, _| read(page(0..1)));
    let next = candidates.next_refill_at(ReadSpeed::Quick).unwrap() - tokio::time::Instant::now();
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
    assert_eq!(candidates.first_candidates(&buffer(None), 9, |_| true).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_polls_any_more_is_forgotten() {
    let mut candidates = with_images(0..3);
    tokio::time::advance(IDLE_MAX + Duration::from_secs(1)).await;
    assert_eq!(refill_due(&mut candidates, nothing), []);
    assert!(candidates.queues.is_empty() && candidates.nonempty.is_empty());
    assert_eq!(candidates.next_refill_at(ReadSpeed::Quick), None);
}

#[tokio::test(start_paused = true)]
async fn delayed_tasks_are_candidates_when_their_time_comes_without_a_look() {
    let mut candidates = Candidates::default();
    candidates.note_polled(&images(), tokio::time::Instant::now());
    let due = Time::from_millis(5_000);
    let delayed = vec![(due, position(1), Name::from("resize"))];
    refill_due(&mut candidates, |_, _| read(Page { delayed: delayed.clone(), ..page(0..0) }));
    assert!(!candidates.promote_due(NOW));
    assert_eq!(candidates.backlogs(&images()), []);
    assert!(!candidates.promote_due(due));
    assert_eq!(candidates.backlogs(&images()).len(), 1);
    assert_eq!(candidates.first_candidates(&buffer(None), 9, |_| true), [position(1)]);
}

#[tokio::test(start_paused = true)]
async fn delayed_tasks_whose_time_had_come_before_the_look_are_candidates_after_it() {
    let mut candidates = Candidates::default();
    candidates.note_polled(&images(), tokio::time::Instant::now());
    let (due, now) = (Time::from_millis(5_000), Time::from_millis(6_000));
    assert!(!candidates.promote_due(now));
    let delayed = vec![(due, position(1), Name::from("resize"))];
    refill_due(&mut candidates, |_, _| read(Page { delayed: delayed.clone(), ..page(0..0) }));
    assert!(!candidates.promote_due(now), "nothing more must be read");
    assert_eq!(candidates.first_candidates(&buffer(None), 9, |_| true), [position(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_keeps_buffers_for_a_bounded_number_of_kinds() {
    // G4: a poll names any kinds it likes, and each new set of kinds is a buffer behind a long queue.
    let mut candidates = with_images(0..PAGE as u128);
    for kind in 0..3 * KINDS_MAX {
        let key = buffer(Some(&format!("kind {kind}")));
        candidates.request_refill(&key, RefillFrom::Head, tokio::time::Instant::now());
        assert!(refill_due(&mut candidates, nothing).contains(&key));
        let queue = &candidates.queues[&key.queue_key()];
        assert!(queue.buffers.len() <= 1 + KINDS_MAX, "{} buffers", queue.buffers.len());
        assert!(queue.all_kinds().is_some(), "the buffer of the whole queue stays");
    }
}

#[test]
fn a_batch_does_not_wait_for_the_first_reads_of_thousands_of_queues() {
    let mut candidates = Candidates::default();
    let here = tokio::time::Instant::now();
    let fleet = Polls::of("fleet", (0..10_000).map(|n| format!("idle-{n}")));
    candidates.note_polled(&images().and(fleet), here);
    let images = vec![BufferKey::all_kinds(&Scope::new("acme", "main"), &Name::from("images"))];
    assert_eq!(candidates.pending_first_reads(here), images, "another tenant's are waited for");

    let mut candidates = Candidates::default();
    let few = Polls::of("fleet", (0..BUFFERS_PER_READ).map(|n| format!("idle-{n}")));
    candidates.note_polled(&few, here);
    assert_eq!(candidates.pending_first_reads(here).len(), BUFFERS_PER_READ, "one refill");
}
