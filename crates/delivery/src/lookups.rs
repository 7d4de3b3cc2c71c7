//! How many names are looked up at a time.
//!
//! The resolver of the operating system blocks a thread until it answers, and others need the runtime's blocking threads
//! too: the readers of SQLite, for one. Names are chosen by others and may take half a minute to fail, so without a bound a
//! few hundred of them would stop every reader.
//!
//! A lookup needs three places: one of its name, one of its tenant, one of all. Waiting for one begins with the narrowest,
//! so a call that waits for the few places of its own name keeps none that others could use.
//!
//! A lookup cannot be stopped. If its caller gives up, it keeps its places until the resolver has answered.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::resolve::Resolve;

/// Lookups under way: a quarter of the blocking threads of a runtime (512), so that most are left for those who read.
pub const LOOKUPS_MAX: usize = 128;

/// Of one tenant: a quarter of all, so that one whose names are not answered leaves places for others.
pub const LOOKUPS_OF_TENANT_MAX: usize = LOOKUPS_MAX / 4;

/// Of one name of a tenant: a quarter of the tenant's, so that one slow name leaves places for its other endpoints.
pub const LOOKUPS_OF_NAME_MAX: usize = LOOKUPS_OF_TENANT_MAX / 4;

/// A resolver, and the places for lookups. Clones share them.
#[derive(Clone)]
pub(crate) struct Lookups {
    resolver: Arc<dyn Resolve>,
    places: Arc<Places>,
}

/// The lookups of one tenant.
pub(crate) struct TenantLookups<'a> {
    lookups: &'a Lookups,
    tenant: &'a str,
}

struct Places {
    all: Arc<Semaphore>,
    /// Only of those with a lookup under way or waiting: not more than there are calls.
    parts: Mutex<HashMap<Part, Arc<Semaphore>>>,
}

/// A tenant, or one name that it calls.
type Part = (String, Option<String>);

/// What a lookup holds: of all, of its tenant, of its name.
type Held = [OwnedSemaphorePermit; 3];

impl Lookups {
    pub(crate) fn new(resolver: Arc<dyn Resolve>) -> Self {
        let (all, parts) = (Arc::new(Semaphore::new(LOOKUPS_MAX)), Mutex::default());
        Self { resolver, places: Arc::new(Places { all, parts }) }
    }

    pub(crate) fn of<'a>(&'a self, tenant: &'a str) -> TenantLookups<'a> {
        TenantLookups { lookups: self, tenant }
    }

    async fn look_up(&self, tenant: &str, name: &str) -> io::Result<Vec<IpAddr>> {
        let held = self.places.take(tenant, name).await;
        let (resolver, name) = (self.resolver.clone(), name.to_owned());
        // A task of its own, because the caller may be dropped before the resolver's thread is free.
        let lookup = tokio::spawn(async move {
            let found = resolver.resolve(&name).await;
            drop(held);
            found
        });
        lookup.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

impl Resolve for TenantLookups<'_> {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(self.lookups.look_up(self.tenant, name))
    }
}

impl Places {
    async fn take(&self, tenant: &str, name: &str) -> Held {
        let (of_tenant, of_name) = self.parts_of(tenant, name);
        let of_name = acquire(of_name).await;
        let of_tenant = acquire(of_tenant).await;
        [acquire(self.all.clone()).await, of_tenant, of_name]
    }

    /// The places of the tenant, and of the name. Forgets those without a holder or a waiter.
    fn parts_of(&self, tenant: &str, name: &str) -> (Arc<Semaphore>, Arc<Semaphore>) {
        let mut parts = self.parts.lock().expect("no code panics while it looks for places");
        parts.retain(|_, places| Arc::strong_count(places) > 1);
        let mut part = |name: Option<&str>, max| {
            let part = (tenant.to_owned(), name.map(str::to_owned));
            parts.entry(part).or_insert_with(|| Arc::new(Semaphore::new(max))).clone()
        };
        (part(None, LOOKUPS_OF_TENANT_MAX), part(Some(name), LOOKUPS_OF_NAME_MAX))
    }
}

async fn acquire(places: Arc<Semaphore>) -> OwnedSemaphorePermit {
    places.acquire_owned().await.expect("the places are never closed")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::watch;
    use tokio::task::JoinSet;
    use tokio::time::timeout;

    use super::*;

    /// Time is paused: it passes at once if, and only if, nothing else can go on.
    const NEVER: Duration = Duration::from_secs(3_600);

    #[derive(Clone, Copy, Default)]
    struct Count {
        now: usize,
        most: usize,
    }

    /// Answers names that begin with `slow` only when told to, and counts those that are being looked up.
    struct GatedResolver {
        gate: Semaphore,
        slow: watch::Sender<Count>,
    }

    impl GatedResolver {
        async fn reached(&self, now: usize) {
            let mut slow = self.slow.subscribe();
            let reached = timeout(NEVER, slow.wait_for(|count| count.now == now)).await;
            assert!(matches!(reached, Ok(Ok(_))), "{} and not {now}", self.slow.borrow().now);
        }

        async fn answer_when_asked(&self) {
            self.slow.send_modify(|count| {
                count.now += 1;
                count.most = count.most.max(count.now);
            });
            self.gate.acquire().await.unwrap().forget();
            self.slow.send_modify(|count| count.now -= 1);
        }
    }

    impl Resolve for GatedResolver {
        fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            Box::pin(async move {
                if name.starts_with("slow") {
                    self.answer_when_asked().await;
                }
                Ok(Vec::new())
            })
        }
    }

    fn gated() -> (Lookups, Arc<GatedResolver>) {
        let (gate, slow) = (Semaphore::new(0), watch::Sender::new(Count::default()));
        let resolver = Arc::new(GatedResolver { gate, slow });
        (Lookups::new(resolver.clone()), resolver)
    }

    /// So many calls, of so many tenants and names. They begin in this order.
    fn begin(lookups: &Lookups, calls: usize, tenants: usize, names: usize) -> JoinSet<()> {
        let mut begun = JoinSet::new();
        for call in 0..calls {
            let (tenant, name) = (format!("t{}", call % tenants), format!("slow{}", call % names));
            let lookups = lookups.clone();
            begun.spawn(async move {
                lookups.of(&tenant).resolve(&name).await.unwrap();
            });
        }
        begun
    }

    async fn quick(lookups: &Lookups, tenant: &'static str) -> bool {
        let lookups = lookups.clone();
        // Behind everything that has begun.
        let lookup = tokio::spawn(async move { lookups.of(tenant).resolve("quick").await });
        timeout(NEVER, lookup).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn slow_names_of_one_tenant_leave_places_for_another() {
        let (lookups, resolver) = gated();
        let calls = 2 * LOOKUPS_MAX;
        let _slow = begin(&lookups, calls, 1, calls);
        assert!(quick(&lookups, "another").await, "the tenant has taken all places");
        resolver.reached(LOOKUPS_OF_TENANT_MAX).await;
        assert!(!quick(&lookups, "t0").await, "it waits for its own");
    }

    #[tokio::test(start_paused = true)]
    async fn one_slow_name_leaves_places_for_others_of_its_tenant() {
        let (lookups, resolver) = gated();
        let _slow = begin(&lookups, 2 * LOOKUPS_MAX, 1, 1);
        assert!(quick(&lookups, "t0").await, "the name has taken all places of its tenant");
        resolver.reached(LOOKUPS_OF_NAME_MAX).await;
    }

    #[tokio::test(start_paused = true)]
    async fn no_bound_is_ever_exceeded() {
        let calls = 4 * LOOKUPS_MAX;
        for (tenants, names, most) in [
            (1, 1, LOOKUPS_OF_NAME_MAX),
            (1, calls, LOOKUPS_OF_TENANT_MAX),
            (calls, calls, LOOKUPS_MAX),
            (calls, 1, LOOKUPS_MAX),
        ] {
            let (lookups, resolver) = gated();
            let begun = begin(&lookups, calls, tenants, names);
            resolver.reached(most).await;
            resolver.gate.add_permits(calls);
            begun.join_all().await;
            assert_eq!(resolver.slow.borrow().most, most, "{tenants} tenants, {names} names");
            assert_eq!(lookups.places.all.available_permits(), LOOKUPS_MAX);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_lookup_keeps_its_places_until_it_ends() {
        let (lookups, resolver) = gated();
        let mut begun = begin(&lookups, LOOKUPS_OF_NAME_MAX, 1, 1);
        resolver.reached(LOOKUPS_OF_NAME_MAX).await;
        begun.shutdown().await;
        let left = lookups.places.all.available_permits();
        assert_eq!(left, LOOKUPS_MAX - LOOKUPS_OF_NAME_MAX, "the resolver is still busy");
        resolver.gate.add_permits(LOOKUPS_OF_NAME_MAX);
        let all = u32::try_from(LOOKUPS_MAX).unwrap();
        let again = timeout(NEVER, lookups.places.all.acquire_many(all)).await;
        assert!(again.is_ok(), "they come back when it has answered");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_gives_up_while_it_waits_leaves_nothing_behind() {
        let (lookups, resolver) = gated();
        let mut begun = begin(&lookups, 2 * LOOKUPS_OF_NAME_MAX, 1, 1);
        resolver.reached(LOOKUPS_OF_NAME_MAX).await;
        begun.shutdown().await;
        resolver.gate.add_permits(LOOKUPS_OF_NAME_MAX);
        resolver.reached(0).await;
        assert_eq!(resolver.slow.borrow().most, LOOKUPS_OF_NAME_MAX, "nobody waited any more");
        assert!(quick(&lookups, "another").await);
        let parts = lookups.places.parts.lock().unwrap();
        assert!(parts.keys().all(|(tenant, _)| tenant == "another"), "{:?}", parts.keys());
    }
}
