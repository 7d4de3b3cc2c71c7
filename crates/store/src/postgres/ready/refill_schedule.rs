//! Which buffers to refill next: in the order in which they are due, round-robin over tenants.
//!
//! A refill takes a bounded number of buffers. Every tenant with due buffers gets the same number of those places. Of
//! a tenant's places, every second one is for buffers of queues that never held a task, as long as there are others,
//! so invented queue names do not delay other queues. Time spent on such buffers is charged to their tenant, and gets
//! a small share. Slow buffers are refilled one at a time, beside the others.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;
use verdict::Name;

use super::candidates::BufferKey;
use super::read_throttle::ReadThrottle;

/// Number of buffers per refill: some milliseconds of the database's time.
pub(in crate::postgres) const BUFFERS_PER_READ: usize = 256;

/// Buffers that are due this soon are refilled with one that is due now, and from then on always with it: thousands of idle
/// queues cost a few reads in a second, not one each.
const TOGETHER: Duration = Duration::from_millis(100);

/// A buffer that took longer than this would delay the others if it were read with them.
const SLOW: Duration = Duration::from_millis(20);

/// Which buffers are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::postgres) enum ReadSpeed {
    /// Many at once.
    Quick,
    /// One at a time.
    Slow,
}

impl ReadSpeed {
    pub(in crate::postgres) const ALL: [ReadSpeed; 2] = [ReadSpeed::Quick, ReadSpeed::Slow];

    /// The speed of a buffer whose last refill took this long.
    pub(in crate::postgres) fn of(took: Duration) -> Self {
        if took > SLOW { ReadSpeed::Slow } else { ReadSpeed::Quick }
    }

    /// How long before it is due a buffer is read, if another one is due.
    fn lead(self) -> Duration {
        if self == ReadSpeed::Slow { Duration::ZERO } else { TOGETHER }
    }
}

/// Whether a buffer's queue has held a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::postgres) enum QueueUsage {
    /// It has held a task, or a batch needs the refill now.
    Used,
    /// It never held a task, as far as is known.
    NeverUsed,
}

/// The slot of a buffer in the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::postgres) struct RefillSlot {
    pub(in crate::postgres) at: Instant,
    pub(in crate::postgres) speed: ReadSpeed,
    pub(in crate::postgres) usage: QueueUsage,
}

type Order = BTreeSet<(Instant, BufferKey)>;

#[derive(Default)]
struct Tenant {
    orders: HashMap<(ReadSpeed, QueueUsage), Order>,
    /// Throttle for the time spent on queues that never held a task.
    unused: Option<ReadThrottle>,
}

impl Tenant {
    fn is_throttled(&self, here: Instant) -> bool {
        self.unused.is_some_and(|throttle| here < throttle.allowed_at(Duration::ZERO))
    }

    /// Removes and returns the first buffer of an order, if it is due or soon will be.
    fn pop(&mut self, speed: ReadSpeed, usage: QueueUsage, here: Instant) -> Option<BufferKey> {
        if usage == QueueUsage::NeverUsed && self.is_throttled(here) {
            return None;
        }
        let order = self.orders.get_mut(&(speed, usage))?;
        let (at, _) = order.first()?;
        if *at > here + speed.lead() {
            return None;
        }
        order.pop_first().map(|(_, key)| key)
    }

    fn is_empty(&self) -> bool {
        self.orders.values().all(BTreeSet::is_empty)
    }

    /// When a buffer of this speed is next due.
    fn next(&self, speed: ReadSpeed) -> Option<Instant> {
        let first = |usage| self.orders.get(&(speed, usage)).and_then(|order| order.first());
        let rests = self.unused.map(|throttle| throttle.allowed_at(Duration::ZERO));
        let held = first(QueueUsage::Used).map(|(at, _)| *at);
        let unused =
            first(QueueUsage::NeverUsed).map(|(at, _)| rests.map_or(*at, |rests| rests.max(*at)));
        [held, unused].into_iter().flatten().min()
    }
}

#[derive(Default)]
pub(in crate::postgres) struct RefillSchedule {
    tenants: HashMap<Name, Tenant>,
    /// The order of tenants; the next refill begins after the last tenant of the previous one.
    tenant_order: Vec<Name>,
    last: usize,
}

impl RefillSchedule {
    pub(in crate::postgres) fn add(&mut self, key: &BufferKey, slot: RefillSlot) {
        let name = &key.scope.tenant;
        if !self.tenants.contains_key(name) {
            self.tenant_order.push(name.clone());
            self.tenants.insert(name.clone(), Tenant::default());
        }
        let tenant = self.tenants.get_mut(name).expect("it was just put there");
        let order = tenant.orders.entry((slot.speed, slot.usage)).or_default();
        order.insert((slot.at, key.clone()));
    }

    pub(in crate::postgres) fn remove(&mut self, key: &BufferKey, slot: RefillSlot) {
        if let Some(tenant) = self.tenants.get_mut(&key.scope.tenant)
            && let Some(order) = tenant.orders.get_mut(&(slot.speed, slot.usage))
        {
            order.remove(&(slot.at, key.clone()));
        }
    }

    /// Takes the buffers of the next refill; none before one of them is due.
    pub(in crate::postgres) fn take(&mut self, speed: ReadSpeed, here: Instant) -> Vec<BufferKey> {
        let max = if speed == ReadSpeed::Slow { 1 } else { BUFFERS_PER_READ };
        let mut taken = Vec::new();
        let mut passed_over = 0;
        self.forget_idle();
        if self.next(speed).is_none_or(|next| next > here) {
            return taken;
        }
        while !self.tenant_order.is_empty()
            && passed_over < self.tenant_order.len()
            && taken.len() < max
        {
            self.last = (self.last + 1) % self.tenant_order.len();
            let before = taken.len();
            if let Some(tenant) = self.tenants.get_mut(&self.tenant_order[self.last]) {
                let both = [QueueUsage::Used, QueueUsage::NeverUsed];
                let buffers = both.into_iter().filter_map(|usage| tenant.pop(speed, usage, here));
                taken.extend(buffers.take(max - before));
            }
            passed_over = if taken.len() == before { passed_over + 1 } else { 0 };
        }
        taken
    }

    /// Removes tenants that have no buffers and are not throttled.
    fn forget_idle(&mut self) {
        let here = tokio::time::Instant::now();
        self.tenants.retain(|_, tenant| !tenant.is_empty() || tenant.is_throttled(here));
        if self.tenant_order.len() > self.tenants.len() {
            let tenants = &self.tenants;
            self.tenant_order.retain(|name| tenants.contains_key(name));
            self.last = 0;
        }
    }

    /// Charges a tenant for time spent on buffers of queues that never held a task.
    pub(in crate::postgres) fn charge_unused(
        &mut self,
        tenant: &Name,
        took: Duration,
        here: Instant,
    ) {
        if let Some(tenant) = self.tenants.get_mut(tenant) {
            tenant.unused = Some(ReadThrottle::after(here, took, tenant.unused));
        }
    }

    /// Whether a tenant's unused queues wait because it has used its share of reads.
    pub(in crate::postgres) fn is_throttled(&self, tenant: &Name, here: Instant) -> bool {
        self.tenants.get(tenant).is_some_and(|tenant| tenant.is_throttled(here))
    }

    /// When a buffer of this speed is next due.
    pub(in crate::postgres) fn next(&self, speed: ReadSpeed) -> Option<Instant> {
        self.tenants.values().filter_map(|tenant| tenant.next(speed)).min()
    }

    /// Of the tenant with the most buffers, the one that is due last: first of queues that never held a task.
    pub(in crate::postgres) fn most_idle(&self) -> Option<BufferKey> {
        let buffers = |tenant: &&Tenant| tenant.orders.values().map(BTreeSet::len).sum::<usize>();
        let largest = self.tenants.values().max_by_key(buffers)?;
        let last = |usage| {
            let orders = largest.orders.iter().filter(move |((_, it), _)| *it == usage);
            orders.filter_map(|(_, order)| order.last()).max_by_key(|(at, _)| *at)
        };
        last(QueueUsage::NeverUsed).or_else(|| last(QueueUsage::Used)).map(|(_, key)| key.clone())
    }

    pub(in crate::postgres) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use verdict::Scope;

    use super::*;

    /// Adds buffers of one tenant that are due now, for the queues with these numbers.
    fn add(
        schedule: &mut RefillSchedule,
        tenant: &str,
        numbers: std::ops::Range<usize>,
        usage: QueueUsage,
    ) {
        let slot = RefillSlot { at: Instant::now(), speed: ReadSpeed::Quick, usage };
        for number in numbers {
            let (scope, queue) = (Scope::new(tenant, "main"), format!("queue {number}").into());
            schedule.add(&BufferKey { scope, queue, kinds: None }, slot);
        }
    }

    /// How many queues of each tenant the next refill reads.
    fn taken(schedule: &mut RefillSchedule) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for key in schedule.take(ReadSpeed::Quick, Instant::now()) {
            *counts.entry(key.scope.tenant.as_str().to_owned()).or_default() += 1;
        }
        counts
    }

    fn counts<const N: usize>(of: [(&str, usize); N]) -> HashMap<String, usize> {
        of.into_iter().map(|(tenant, count)| (tenant.to_owned(), count)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn tenants_take_turns_within_one_refill() {
        // S2-52, G2: a tenant with thousands of queues, used or not, leaves the others their places.
        for usage in [QueueUsage::Used, QueueUsage::NeverUsed] {
            let mut schedule = RefillSchedule::default();
            add(&mut schedule, "mallory", 0..2_000, usage);
            add(&mut schedule, "acme", 0..3, usage);
            let expected = counts([("mallory", BUFFERS_PER_READ - 3), ("acme", 3)]);
            assert_eq!(taken(&mut schedule), expected, "{usage:?}");
            let expected = counts([("mallory", BUFFERS_PER_READ)]);
            assert_eq!(taken(&mut schedule), expected, "{usage:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn half_of_the_places_of_a_tenant_are_for_queues_that_were_used() {
        let mut schedule = RefillSchedule::default();
        add(&mut schedule, "acme", 10_000..12_000, QueueUsage::NeverUsed);
        add(&mut schedule, "acme", 50_000..52_000, QueueUsage::Used);
        let taken = schedule.take(ReadSpeed::Quick, Instant::now());
        let is_used = |key: &&BufferKey| key.queue.as_str().starts_with("queue 5");
        let used = taken.iter().filter(is_used).count();
        assert_eq!((used, taken.len()), (BUFFERS_PER_READ / 2, BUFFERS_PER_READ));
    }

    #[tokio::test(start_paused = true)]
    async fn reads_of_queues_that_were_never_used_get_a_small_share_of_the_time() {
        // G2: names that a tenant invents cost the database a bounded share, and only that tenant waits.
        let mut schedule = RefillSchedule::default();
        add(&mut schedule, "mallory", 0..10, QueueUsage::NeverUsed);
        let cost = Duration::from_millis(100);
        schedule.charge_unused(&"mallory".into(), cost, Instant::now());
        add(&mut schedule, "mallory", 50..51, QueueUsage::Used);
        add(&mut schedule, "acme", 0..1, QueueUsage::NeverUsed);
        assert_eq!(taken(&mut schedule), counts([("mallory", 1), ("acme", 1)]));
        assert!(schedule.is_throttled(&"mallory".into(), Instant::now()));
        let pause = schedule.next(ReadSpeed::Quick).unwrap() - Instant::now();
        assert!(pause >= 10 * cost, "{pause:?}");
        assert_eq!(taken(&mut schedule), counts([]));
        tokio::time::advance(pause).await;
        assert_eq!(taken(&mut schedule), counts([("mallory", 10)]));
    }

    #[tokio::test(start_paused = true)]
    async fn buffers_that_are_due_almost_together_are_refilled_together() {
        // G2: a thousand idle queues whose times differ cost one read in a while, and nothing is read before one is due.
        let mut schedule = RefillSchedule::default();
        let begun = Instant::now();
        for number in 0..100 {
            let at = begun + TOGETHER + Duration::from_millis(number);
            let slot = RefillSlot { at, speed: ReadSpeed::Quick, usage: QueueUsage::Used };
            let (scope, queue) = (Scope::new("acme", "main"), format!("queue {number}").into());
            schedule.add(&BufferKey { scope, queue, kinds: None }, slot);
        }
        tokio::time::advance(TOGETHER - Duration::from_millis(1)).await;
        assert_eq!(taken(&mut schedule), counts([]));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(taken(&mut schedule), counts([("acme", 100)]));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_buffers_are_refilled_one_by_one_and_apart() {
        let mut schedule = RefillSchedule::default();
        add(&mut schedule, "acme", 0..2, QueueUsage::Used);
        let slow = RefillSlot {
            at: Instant::now(),
            speed: ReadSpeed::of(SLOW + Duration::from_millis(1)),
            usage: QueueUsage::Used,
        };
        for queue in ["slow 1", "slow 2"] {
            let (scope, queue) = (Scope::new("acme", "main"), queue.into());
            schedule.add(&BufferKey { scope, queue, kinds: None }, slow);
        }
        assert_eq!(taken(&mut schedule), counts([("acme", 2)]));
        assert_eq!(schedule.take(ReadSpeed::Slow, Instant::now()).len(), 1);
        assert_eq!(schedule.take(ReadSpeed::Slow, Instant::now()).len(), 1);
    }
}
