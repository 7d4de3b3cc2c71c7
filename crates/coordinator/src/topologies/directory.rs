//! Which deployments there are, in memory: roles poll for those that are active, and a store without deployments pays nothing.
//!
//! A carrier notes the deployments that it saves before their callers are answered. Changes through other coordinators are
//! read again every second ([`crate::server`]). What is in force is read under the lock of the deployment's row; the
//! directory only spares the reading and compiling of a version that is known.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use store::{Browse, DynBrowse, Failure, ObjectFilter};
use tokio::sync::watch;
use topology::Topology;
use verdict::{Name, Object, ObjectType, Scope};

#[cfg(feature = "http")]
use super::checking::Checking;
use super::rows::{DELETED, DeploymentRow, deployment_of, topology_of, version_key};
use crate::directory::{ByName, Directory, Listed, put_by_name};

/// The most compiled versions that are kept. The ones in force come back when they are needed.
const COMPILED_MAX: usize = 1_000;

/// Of one tenant: a quarter, so that one that applies version after version lets others keep theirs.
const COMPILED_OF_TENANT_MAX: usize = COMPILED_MAX / 4;

/// The deployments of each scope by name, as they were at one time.
pub(crate) type Deployments = ByName<DeploymentRow>;

impl Listed for DeploymentRow {
    const TYPE: ObjectType = ObjectType::Deployment;
    type Listing = Deployments;

    fn put(listing: &mut Deployments, object: &Object) {
        put_by_name(listing, &object.key, deployment_of(object).filter(|row| !row.is_deleted));
    }
}

/// Compiled versions by digest: a digest is the same topology in every scope.
pub(crate) type Versions = HashMap<String, Arc<Topology>>;

/// The compiled versions, and for whom each is kept.
#[derive(Default)]
struct Kept {
    by_digest: Arc<Versions>,
    /// Tenants and digests, the one that goes first in front.
    order: VecDeque<(Name, String)>,
}

/// Shared by carriers, roles and the API; cheap to clone.
#[derive(Clone)]
pub(crate) struct TopologyDirectory {
    known: Directory<DeploymentRow>,
    versions: Arc<RwLock<Kept>>,
    /// Grows when something has changed that roles look at.
    changes: Arc<watch::Sender<u64>>,
    #[cfg(feature = "http")]
    checking: Checking,
    /// Whether a deployment was deleted whose events may not have ended. True at the start: nobody knows then.
    has_leaving: Arc<AtomicBool>,
}

impl Default for TopologyDirectory {
    fn default() -> Self {
        Self {
            known: Directory::default(),
            versions: Arc::default(),
            changes: Arc::new(watch::Sender::new(0)),
            #[cfg(feature = "http")]
            checking: Checking::default(),
            has_leaving: Arc::new(AtomicBool::new(true)),
        }
    }
}

impl TopologyDirectory {
    pub(crate) async fn load(browse: &DynBrowse) -> Result<Self, Failure> {
        let directory = Self::default();
        directory.reload(browse).await?;
        Ok(directory)
    }

    /// Reads all deployments again.
    pub(crate) async fn reload(&self, browse: &DynBrowse) -> Result<(), Failure> {
        if self.known.reload(browse, |object| self.note_leaving(object)).await? {
            self.nudge();
        }
        Ok(())
    }

    fn note_leaving(&self, object: &Object) {
        let is_leaving = object.is_pending && object.status.as_str() == DELETED;
        self.has_leaving.fetch_or(is_leaving, Ordering::AcqRel);
    }

    /// Notes deployments and versions that were saved, and that roles may have something to do. Call it once they are durable.
    pub(crate) fn note(&self, saved: &[Object]) {
        self.known.note(saved);
        for object in saved {
            match object.key.object_type {
                ObjectType::Deployment => self.note_leaving(object),
                ObjectType::Topology => {
                    if let Some(topology) = topology_of(object) {
                        self.keep(&object.key.scope.tenant, Arc::new(topology));
                    }
                }
                _ => {}
            }
        }
        if saved.iter().any(interests_roles) {
            self.nudge();
        }
    }

    #[cfg(feature = "http")]
    pub(crate) fn snapshot(&self) -> Arc<Deployments> {
        self.known.snapshot()
    }

    pub(crate) fn versions(&self) -> Arc<Versions> {
        self.versions.read().expect("no code panics while it changes it").by_digest.clone()
    }

    fn keep(&self, tenant: &Name, topology: Arc<Topology>) {
        self.versions.write().expect("no code panics while it changes it").keep(tenant, topology);
    }

    /// The version with this digest, compiled; `None` if the scope has none, or this program cannot read it.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only roles and HTTP ask for it"))]
    pub(crate) async fn version(
        &self,
        browse: &DynBrowse,
        scope: &Scope,
        digest: &str,
    ) -> Result<Option<Arc<Topology>>, Failure> {
        if let Some(known) = self.versions().get(digest) {
            return Ok(Some(known.clone()));
        }
        let found = browse.objects(&ObjectFilter::one(&version_key(scope, digest))).await?;
        let compiled = found.first().and_then(topology_of).map(Arc::new);
        if let Some(compiled) = &compiled {
            self.keep(&scope.tenant, compiled.clone());
        }
        Ok(compiled)
    }

    /// Where schemas are applied to values.
    #[cfg(feature = "http")]
    pub(crate) fn checking(&self) -> &Checking {
        &self.checking
    }

    /// Whether deleted deployments are to be looked for. Says so once, until another one is deleted or [`Self::look_again`] is
    /// called.
    #[cfg(feature = "http")]
    pub(crate) fn take_leaving(&self) -> bool {
        self.has_leaving.swap(false, Ordering::AcqRel)
    }

    #[cfg(feature = "http")]
    pub(crate) fn look_again(&self) {
        self.has_leaving.store(true, Ordering::Release);
    }

    /// Says that roles may have something to do. A hint: what it misses is found by a scan.
    pub(crate) fn nudge(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    #[cfg(feature = "http")]
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

impl Kept {
    fn keep(&mut self, tenant: &Name, topology: Arc<Topology>) {
        let digest = topology.digest().to_owned();
        self.order.retain(|(name, kept)| (name, kept) != (tenant, &digest));
        self.order.push_back((tenant.clone(), digest.clone()));
        Arc::make_mut(&mut self.by_digest).insert(digest, topology);
        if self.count(tenant) > COMPILED_OF_TENANT_MAX {
            self.forget_oldest(tenant);
        }
        if self.order.len() > COMPILED_MAX {
            self.forget_oldest(&self.greediest());
        }
    }

    fn count(&self, tenant: &Name) -> usize {
        self.order.iter().filter(|(name, _)| name == tenant).count()
    }

    /// The tenant for which most are kept.
    fn greediest(&self) -> Name {
        let mut counts: BTreeMap<&Name, usize> = BTreeMap::new();
        self.order.iter().for_each(|(name, _)| *counts.entry(name).or_default() += 1);
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.map(|(name, _)| name.clone()).expect("something is kept")
    }

    fn forget_oldest(&mut self, tenant: &Name) {
        let Some(place) = self.order.iter().position(|(name, _)| name == tenant) else { return };
        let Some((_, digest)) = self.order.remove(place) else { return };
        if !self.order.iter().any(|(_, kept)| *kept == digest) {
            Arc::make_mut(&mut self.by_digest).remove(&digest);
        }
    }
}

/// Whether roles may have something to do about it.
fn interests_roles(object: &Object) -> bool {
    match object.key.object_type {
        ObjectType::Deployment | ObjectType::Topology | ObjectType::Track => true,
        ObjectType::Artifact | ObjectType::UnprocessedEvent => object.is_pending,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{"topology": "NAME",
        "artifacts": {"note": {"statuses": ["open", "done"], "initial": "open", "final": ["done"],
            "transitions": [{"from": "open", "to": "done", "by": "person"}]}},
        "events": {"asked": {"on": "request"}},
        "workOrders": {"look": {"kind": "k", "queue": "q", "budget": {"time": "1m"}, "gate": "seen"}},
        "gates": {"seen": {"checks": [{"name": "any", "require": {"path": "output", "op": "exists"}}],
            "pass": {"actions": ["Go on."]}, "fail": {"actions": ["Look."]}}},
        "roles": {"scheduler": {"uses": "scheduler", "event": "asked", "workOrder": "look"},
            "runner": {"uses": "runner", "workOrders": ["look"]},
            "gate": {"uses": "gate", "workOrders": ["look"]}}}"#;

    fn topology(name: &str) -> Arc<Topology> {
        let text = SMALL.replace("NAME", name);
        Arc::new(topology::read(&text).expect("it is a small topology"))
    }

    #[test]
    fn one_tenant_that_applies_version_after_version_lets_others_keep_theirs() {
        let (busy, calm) = (Name::from("busy"), Name::from("calm"));
        let (mut kept, own, shared) = (Kept::default(), topology("own"), topology("shared"));
        kept.keep(&calm, own.clone());
        kept.keep(&calm, shared.clone());
        kept.keep(&busy, shared.clone());
        for n in 0..COMPILED_OF_TENANT_MAX {
            kept.keep(&busy, topology(&format!("v{n}")));
        }
        assert_eq!((kept.count(&busy), kept.count(&calm)), (COMPILED_OF_TENANT_MAX, 2));
        for of_calm in [own, shared] {
            assert!(kept.by_digest.contains_key(of_calm.digest()), "another tenant evicts it");
        }
        assert!(kept.by_digest.contains_key(topology("v0").digest()));
        // The one that is kept once more goes later.
        kept.keep(&busy, topology("v0"));
        kept.keep(&busy, topology("last"));
        assert!(kept.by_digest.contains_key(topology("v0").digest()));
        assert!(!kept.by_digest.contains_key(topology("v1").digest()));
    }

    #[test]
    fn all_tenants_together_are_bounded_and_the_greediest_gives_way() {
        let mut kept = Kept::default();
        let one = topology("one");
        let many: Vec<_> =
            (0..COMPILED_OF_TENANT_MAX).map(|n| topology(&format!("v{n}"))).collect();
        for tenant in 0..COMPILED_MAX / COMPILED_OF_TENANT_MAX {
            let tenant = Name::from(format!("t{tenant}"));
            many.iter().for_each(|it| kept.keep(&tenant, it.clone()));
        }
        let small = Name::from("small");
        kept.keep(&small, one.clone());
        assert_eq!((kept.order.len(), kept.count(&small)), (COMPILED_MAX, 1));
        assert!(kept.by_digest.contains_key(one.digest()));
    }
}
