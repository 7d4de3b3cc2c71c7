//! How many bytes of requests and answers are held in memory: in all, and of one tenant.
//!
//! A body is held from its first byte until its call is answered, and an answer until the client has read it. Each is bounded by the
//! limits of its route, but a client may have thousands of them, begun and not finished, or made and not read. So what they hold
//! together is counted. A tenant has a part of all, so that one whose clients stand still leaves room for others.
//!
//! One that holds nothing may begin with anything: an answer that is larger than a whole part is possible, one at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use verdict::Name;
use wire::Code;

use super::api_error::ApiError;

/// Bytes of bodies, and as many of answers: together they fit beside the caches of a store in the memory of a small machine.
pub(crate) const BYTES_MAX: usize = 256 * 1024 * 1024;

/// Of one tenant: half of them. It is thirty of the largest pages, and eight thousand bodies of sixteen kilobytes.
pub(crate) const BYTES_OF_TENANT_MAX: usize = BYTES_MAX / 2;

/// What bodies leave to calls under leases, of a part and of all: a tenant whose submissions stand still can report.
const LEASED_SHARE: usize = 8;

/// What is held now; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ByteBudget(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    all: usize,
    /// At most one entry for each tenant that holds something.
    by_tenant: HashMap<Name, usize>,
}

/// Whose part is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Tenant,
    All,
}

/// When to try again: bodies and answers that move are gone by then.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Refuses a call because of what others hold.
pub(super) fn too_much_held(full: Full, what: &str) -> ApiError {
    let (code, message) = match full {
        Full::Tenant => {
            let most = BYTES_OF_TENANT_MAX >> 20;
            let message = format!(
                "{what} of this tenant that are under way hold {most} MiB; finish sending and read the answers, then try again"
            );
            (Code::TooManyRequests, message)
        }
        Full::All => {
            let most = BYTES_MAX >> 20;
            let message = format!("{what} that are under way hold {most} MiB; try again later");
            (Code::Overloaded, message)
        }
    };
    ApiError { retry_after: Some(RETRY_AFTER), ..ApiError::new(code, message) }
}

/// Bytes that are held. They are given back when this is dropped.
pub(crate) struct HeldBytes {
    budget: ByteBudget,
    tenant: Name,
    bytes: usize,
    /// What it leaves to others.
    leaves: usize,
}

impl ByteBudget {
    /// Nothing yet, of this tenant.
    pub(crate) fn begin(&self, tenant: &Name) -> HeldBytes {
        HeldBytes { budget: self.clone(), tenant: tenant.clone(), bytes: 0, leaves: 0 }
    }

    /// The same for what leaves a share to calls under leases.
    pub(crate) fn begin_new_work(&self, tenant: &Name) -> HeldBytes {
        let mut held = self.begin(tenant);
        held.leaves = BYTES_OF_TENANT_MAX / LEASED_SHARE;
        held
    }

    /// Whether a tenant may hold so many more bytes.
    fn check(held: &Held, tenant: &Name, more: usize) -> Result<(), Full> {
        let of_tenant = held.by_tenant.get(tenant).copied().unwrap_or(0);
        if of_tenant > 0 && of_tenant + more > BYTES_OF_TENANT_MAX {
            return Err(Full::Tenant);
        }
        if held.all > 0 && held.all + more > BYTES_MAX {
            return Err(Full::All);
        }
        Ok(())
    }

    /// Whether there is room for anything.
    pub(crate) fn room(&self, tenant: &Name) -> Result<(), Full> {
        Self::check(&self.lock(), tenant, 1)
    }

    /// What a tenant holds now.
    #[cfg(test)]
    pub(crate) fn held(&self, tenant: &Name) -> usize {
        self.lock().by_tenant.get(tenant).copied().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldBytes {
    /// Holds more bytes, if there is room for them.
    pub(crate) fn grow(&mut self, more: usize) -> Result<(), Full> {
        let mut held = self.budget.lock();
        ByteBudget::check(&held, &self.tenant, more + self.leaves)?;
        held.add(&self.tenant, more);
        drop(held);
        self.bytes += more;
        Ok(())
    }

    /// Holds more bytes, whether there is room for them or not: an answer that says what was done is not taken back.
    pub(crate) fn grow_anyway(&mut self, more: usize) {
        self.budget.lock().add(&self.tenant, more);
        self.bytes += more;
    }

    /// Gives bytes back, at most what is held.
    pub(crate) fn shrink(&mut self, less: usize) {
        let less = less.min(self.bytes);
        self.bytes -= less;
        self.budget.lock().remove(&self.tenant, less);
    }
}

/// What an answer holds, on its way from the route to the connection. Extensions are cloned with their response, and these bytes
/// are held once.
#[derive(Clone)]
pub(crate) struct UnreadAnswer(Arc<Mutex<Option<HeldBytes>>>);

impl UnreadAnswer {
    pub(super) fn new(held: HeldBytes) -> Self {
        Self(Arc::new(Mutex::new(Some(held))))
    }

    /// The connection counts it from here on.
    pub(crate) fn take(&self) -> Option<HeldBytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Held {
    fn add(&mut self, tenant: &Name, more: usize) {
        if more == 0 {
            return;
        }
        self.all += more;
        match self.by_tenant.get_mut(tenant) {
            Some(bytes) => *bytes += more,
            None => drop(self.by_tenant.insert(tenant.clone(), more)),
        }
    }

    fn remove(&mut self, tenant: &Name, less: usize) {
        self.all -= less;
        if let Some(bytes) = self.by_tenant.get_mut(tenant) {
            *bytes -= less;
            if *bytes == 0 {
                self.by_tenant.remove(tenant);
            }
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.budget.lock().remove(&self.tenant, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenant_leaves_room_for_others_and_all_of_them_are_bounded() {
        let budget = ByteBudget::default();
        let names: Vec<Name> = (0..3).map(|n| Name::from(format!("t{n}"))).collect();
        let mut held: Vec<HeldBytes> = names.iter().map(|name| budget.begin(name)).collect();
        for bytes in &mut held[..2] {
            assert_eq!(bytes.grow(BYTES_OF_TENANT_MAX), Ok(()));
        }
        assert_eq!(held[0].grow(1), Err(Full::Tenant));
        assert_eq!(held[2].grow(1), Err(Full::All));
        assert_eq!(
            (budget.room(&names[0]), budget.room(&names[2])),
            (Err(Full::Tenant), Err(Full::All))
        );
        held[0].shrink(10);
        assert_eq!((held[2].grow(10), held[2].grow(1)), (Ok(()), Err(Full::All)));
        drop(held);
        assert!(
            budget.lock().by_tenant.is_empty(),
            "a tenant that holds nothing is not remembered"
        );
        assert_eq!(budget.lock().all, 0);
    }

    #[test]
    fn new_work_leaves_a_share_to_calls_under_leases() {
        let (budget, name) = (ByteBudget::default(), Name::from("t"));
        let mut submissions = budget.begin_new_work(&name);
        let most = BYTES_OF_TENANT_MAX - BYTES_OF_TENANT_MAX / LEASED_SHARE;
        assert_eq!((submissions.grow(most), submissions.grow(1)), (Ok(()), Err(Full::Tenant)));
        assert_eq!(budget.begin(&name).grow(BYTES_OF_TENANT_MAX / LEASED_SHARE), Ok(()));
    }

    #[test]
    fn who_holds_nothing_may_begin_with_anything() {
        let (budget, name) = (ByteBudget::default(), Name::from("t"));
        let mut large = budget.begin(&name);
        assert_eq!(large.grow(BYTES_OF_TENANT_MAX + 7), Ok(()));
        assert_eq!(budget.begin(&name).grow(1), Err(Full::Tenant));
        let mut done = budget.begin(&name);
        done.grow_anyway(5);
        assert_eq!(budget.held(&name), BYTES_OF_TENANT_MAX + 12);
        large.shrink(usize::MAX);
        assert_eq!(budget.held(&name), 5);
    }
}
