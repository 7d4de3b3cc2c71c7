//! Seals the records of ended tasks, shortly after they ended, with the key that seals the audit.
//!
//! It runs beside the batches and no commit waits for it: the carrier says which tasks ended, and some seconds later one
//! more commit adds a seal for each tenant ([`store::record_seals`]). A coordinator that died may have left records
//! unsealed, so the sealer searches the store for them when it starts; with peers it repeats that from time to time.
//! It never goes by a position in a table, so a batch that commits late is sealed late and not passed over.
//!
//! Several coordinators may seal for one tenant. The store takes only the seal that follows the newest, so the chain has
//! no fork; the sealer that came second reads the new end and seals again. A record may be in two seals, which say the
//! same of it.
//!
//! After each seal the value of the chain goes to a file beside the key file (see [`anchor`]), so that a chain which was
//! cut off at its end is noticed.

pub mod anchor;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use edge::{HmacSha256, KID_BYTES, hex, mac};
use hmac::Mac;
use store::prove::SealCheck;
use store::prove::seals::LATE_COMMITS;
use store::record_seals::{LEAVES_MAX, root_of};
use store::{
    Browse, EndedRecord, EndedRecords, Failure, Leaf, Leaves, RecordSeal, Seal, SealFilter, SealsOf,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use verdict::{Digest, Name, TaskId, Time};

use self::anchor::RecordAnchor;
use super::keyring::Keyring;
use super::seal::joined;
use crate::coordinator::Coordinator;
use crate::ended_feed::EndedFeed;
use crate::item::RequestError;

/// How long a record waits for others to be sealed with it. One commit seals them all, so a busy tenant pays for one
/// more commit in this time.
const GATHER: Duration = Duration::from_secs(5);

/// How long to wait after the store refused, before sealing is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// How often coordinators that share a store search it for records of a peer that died.
const SEARCH_EVERY: Duration = Duration::from_secs(3_600);

/// How many ended tasks one read of a search returns.
const PAGE: usize = LEAVES_MAX;

/// How many times a seal is made again because other coordinators were first.
const TRIES_MAX: usize = 64;

/// Separates the codes of these seals from those of the audit.
const PURPOSE: &[u8] = b"tenure record seal";

/// Why records could not be sealed now.
#[derive(Debug, thiserror::Error)]
enum Unsealed {
    #[error("the store cannot be read")]
    Read(#[from] Failure),
    #[error("the seal was not written: {0}")]
    Write(#[from] RequestError),
    #[error("other coordinators were always first")]
    Contended,
}

/// The sealer of one coordinator.
pub(crate) struct RecordSealer {
    coordinator: Coordinator,
    keyring: Keyring,
    feed: EndedFeed,
    anchor: RecordAnchor,
    /// See [`RecordSeal::complete_to`].
    complete_to: Option<Time>,
    /// When the store was last searched; `None` while it must be searched.
    searched: Option<Instant>,
}

impl RecordSealer {
    pub(crate) fn new(coordinator: Coordinator, keyring: Keyring, anchor: PathBuf) -> Self {
        let feed = coordinator.ended_feed().clone();
        feed.follow();
        let anchor = RecordAnchor::open(anchor);
        Self { coordinator, keyring, feed, anchor, complete_to: None, searched: None }
    }

    /// Seals until `closing`, and then once more what has ended since.
    pub(crate) async fn run(mut self, closing: CancellationToken) {
        let is_closing = closing.run_until_cancelled(self.follow()).await.is_none();
        if is_closing && let Err(error) = self.seal_ended().await {
            tracing::info!(%error, "records that ended last are sealed at the next start");
        }
    }

    async fn follow(&mut self) {
        loop {
            if let Err(error) = self.seal_all().await {
                tracing::warn!(%error, "cannot seal records now; they are sealed later");
                self.searched = None;
                tokio::time::sleep(RETRY_AFTER).await;
                continue;
            }
            self.feed.holds(1).await;
            // A full seal need not wait for more.
            let _ = tokio::time::timeout(GATHER, self.feed.holds(LEAVES_MAX)).await;
        }
    }

    async fn seal_all(&mut self) -> Result<(), Unsealed> {
        if self.is_search_due() {
            self.search().await?;
        }
        self.seal_ended().await
    }

    fn is_search_due(&self) -> bool {
        let has_peers = self.coordinator.store().status().writers > 1;
        self.searched.is_none_or(|at| has_peers && at.elapsed() >= SEARCH_EVERY)
    }

    /// Seals what the commits of this coordinator ended.
    async fn seal_ended(&mut self) -> Result<(), Unsealed> {
        let now = self.coordinator.now();
        let (ids, is_overfull) = self.feed.take();
        if is_overfull {
            self.searched = None;
        }
        for part in ids.chunks(LEAVES_MAX) {
            let of = EndedRecords::Of(part.to_vec());
            let ended = self.coordinator.browse().ended_records(&of).await?;
            self.seal(ended).await?;
        }
        // A coordinator without peers has seen every end. With peers only a search finds them all.
        if self.searched.is_some() && self.coordinator.store().status().writers == 1 {
            self.complete_to = Some(now);
        }
        Ok(())
    }

    /// Searches the store for records that no seal covers, and seals them.
    async fn search(&mut self) -> Result<(), Unsealed> {
        let (begun, now) = (tokio::time::Instant::now(), self.coordinator.now());
        let from = self.searched_to().await?;
        let sealed = self.sealed_since(from).await?;
        let mut after = None;
        loop {
            let of = EndedRecords::Since { from, after, limit: PAGE };
            let mut page = self.coordinator.browse().ended_records(&of).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.completed_at, last.leaf.task));
            page.retain(|record| !sealed.contains(&record.leaf.task));
            self.seal(page).await?;
        }
        self.searched = Some(begun);
        self.complete_to = Some(now);
        Ok(())
    }

    /// From which end on records may be unsealed: some time before the last complete search of any coordinator.
    async fn searched_to(&mut self) -> Result<Time, Failure> {
        let (of, leaves) = (SealsOf::Newest, Leaves::None);
        let filter = SealFilter { tenant: None, of, leaves, limit: usize::MAX };
        let newest = self.coordinator.browse().record_seals(&filter).await?;
        let complete_to = newest.iter().map(|seal| seal.complete_to).max();
        self.complete_to = self.complete_to.max(complete_to);
        let late = i64::try_from(LATE_COMMITS.millis()).unwrap_or(i64::MAX);
        let from = self.complete_to.map_or(i64::MIN, |at| at.millis().saturating_sub(late));
        Ok(Time::from_millis(from))
    }

    /// The tasks that ended since and are sealed.
    async fn sealed_since(&self, from: Time) -> Result<HashSet<TaskId>, Failure> {
        let leaves = Leaves::Between(from, Time::from_millis(i64::MAX));
        let (mut after, mut sealed) = (None, HashSet::new());
        loop {
            let of = SealsOf::After(after.take());
            let filter = SealFilter { tenant: None, of, leaves, limit: PAGE / 16 };
            let page = self.coordinator.browse().record_seals(&filter).await?;
            let Some(last) = page.last() else { return Ok(sealed) };
            after = Some((last.tenant.clone(), last.n));
            sealed.extend(page.iter().flat_map(|seal| &seal.leaves).map(|leaf| leaf.task));
        }
    }

    /// Seals these records, tenant by tenant.
    async fn seal(&mut self, ended: Vec<EndedRecord>) -> Result<(), Unsealed> {
        let mut by_tenant: BTreeMap<Name, Vec<EndedRecord>> = BTreeMap::new();
        for record in ended {
            by_tenant.entry(record.tenant.clone()).or_default().push(record);
        }
        for (tenant, records) in by_tenant {
            self.append(&tenant, &records).await?;
        }
        Ok(())
    }

    /// Appends a seal over these records to the chain of their tenant; again if another coordinator was first.
    async fn append(&mut self, tenant: &Name, records: &[EndedRecord]) -> Result<(), Unsealed> {
        for _ in 0..TRIES_MAX {
            let newest = self.one(tenant, SealsOf::Newest).await?;
            let seal = self.make(tenant, newest.as_ref(), records);
            let (n, chain) = (seal.n, seal.chain);
            self.coordinator.seal_records(vec![seal]).await?;
            let before = SealsOf::After(Some((tenant.clone(), n - 1)));
            if self.one(tenant, before).await?.is_some_and(|written| written.chain == chain) {
                self.anchor.follow(tenant, n, chain);
                return Ok(());
            }
        }
        Err(Unsealed::Contended)
    }

    async fn one(&self, tenant: &Name, of: SealsOf) -> Result<Option<RecordSeal>, Failure> {
        let tenant = Some(tenant.clone());
        let filter = SealFilter { tenant, of, leaves: Leaves::None, limit: 1 };
        Ok(self.coordinator.browse().record_seals(&filter).await?.into_iter().next())
    }

    fn make(
        &self,
        tenant: &Name,
        newest: Option<&RecordSeal>,
        records: &[EndedRecord],
    ) -> RecordSeal {
        let leaves: Vec<Leaf> = records.iter().map(|record| record.leaf).collect();
        let ends = records.iter().map(|record| record.completed_at);
        let at = self.coordinator.now();
        let mut seal = RecordSeal {
            tenant: tenant.clone(),
            n: newest.map_or(0, |newest| newest.n) + 1,
            at,
            complete_to: self.complete_to.unwrap_or(Time::from_millis(i64::MIN)),
            first_end: ends.clone().min().unwrap_or(at),
            last_end: ends.max().unwrap_or(at),
            count: leaves.len() as u32,
            root: root_of(&leaves),
            chain: Digest::of(&[]),
            seal: Seal([0; Seal::BYTES]),
            leaves,
        };
        seal.chain = seal.chain_after(newest.map(|newest| &newest.chain));
        let (kid, key) = self.keyring.sealing_key();
        seal.seal = Seal(joined(kid, keyed(&key, &seal).finalize().into_bytes().into()));
        seal
    }
}

/// The code over the value of the chain, which covers everything that the seal says.
fn keyed(key: &[u8; 32], seal: &RecordSeal) -> HmacSha256 {
    let mut mac = mac(key);
    mac.update(PURPOSE);
    mac.update(seal.chain.bytes());
    mac
}

/// Checks the code of a seal with the keys at hand.
pub fn judge(keyring: &Keyring, seal: &RecordSeal) -> SealCheck {
    let (kid, code) = seal.seal.0.split_at(KID_BYTES);
    let Some(key) = keyring.sealing_key_of(kid) else { return SealCheck::UnknownKey(hex(kid)) };
    match keyed(&key, seal).verify_slice(code) {
        Ok(()) => SealCheck::Valid,
        Err(_) => SealCheck::Forged,
    }
}
