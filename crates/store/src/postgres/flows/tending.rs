//! Brings parked tasks back: the keys that this process knows to have changed, and now and then all keys with parked
//! tasks.

use std::collections::HashSet;

use verdict::Time;

use super::statements;
use crate::failure::Failure;
use crate::postgres::batch::PostgresBatch;
use crate::postgres::reads;
use crate::row::FlowRef;

/// Maximum number of keys in one look at all of them. The next one continues there.
const SWEEP_KEYS_MAX: i64 = 1_000;

/// Maximum number of keys that one batch looks at. The rest waits for the next batch, which follows at once.
const TEND_MAX: usize = 1_000;

impl PostgresBatch<'_> {
    /// Brings tasks back into the ready order, in the transaction of this batch, which may grant them at once.
    pub(in crate::postgres) async fn tend_flows(&mut self) -> Result<(), Failure> {
        let now = self.now.unwrap_or_else(|| self.writer.shared.clock.now());
        let mut keys = self.sweep_flows().await?;
        let has_more = {
            let mut memory = self.writer.shared.memory();
            memory.flows.open(now);
            let known = memory.flows.to_tend.iter().take(TEND_MAX).cloned();
            let known: HashSet<FlowRef> = known.collect();
            memory.flows.to_tend.retain(|key| !known.contains(key));
            keys.extend(known);
            !memory.flows.to_tend.is_empty()
        };
        if has_more {
            self.writer.shared.hints.notify_local();
        }
        if keys.is_empty() {
            return Ok(());
        }
        self.flows.tended.extend(keys.iter().cloned());
        self.unpark(keys.into_iter().collect(), now).await
    }

    async fn unpark(&mut self, keys: Vec<FlowRef>, now: Time) -> Result<(), Failure> {
        let setting = self.scopes.add(keys.iter().map(|flow| &flow.scope));
        let work = move |client| async move {
            let (set, openings, unparked) = futures_util::join!(
                reads::set_scopes(&client, setting),
                statements::openings(&client, &keys, now),
                statements::unpark(&client, &keys, now),
            );
            set?;
            Ok((openings?, unparked?))
        };
        let (openings, unparked) = self.transaction().run("offering parked tasks", work).await?;
        self.writer.shared.memory().flows.wake(openings);
        if unparked.is_empty() {
            return Ok(());
        }
        self.flows.has_moved = true;
        let mut memory = self.writer.shared.memory();
        memory.candidates.apply_hint(&unparked, &HashSet::new());
        drop(memory);
        self.flows.unparked.extend(unparked);
        Ok(())
    }

    /// A page of all keys with parked tasks, if it is time for one.
    async fn sweep_flows(&mut self) -> Result<HashSet<FlowRef>, Failure> {
        let here = tokio::time::Instant::now();
        let begun = self.writer.shared.memory().flows.begin_sweep(here);
        let Some(after) = begun else { return Ok(HashSet::new()) };
        let setting = self.scopes.all();
        let work = move |client| async move {
            reads::set_scopes(&client, setting).await?;
            statements::parked(&client, after, SWEEP_KEYS_MAX).await
        };
        let found = self.transaction().run("looking for parked tasks", work).await?;
        let is_last = (found.len() as i64) < SWEEP_KEYS_MAX;
        let last = found.last().cloned().filter(|_| !is_last);
        self.writer.shared.memory().flows.swept_to = last;
        Ok(found.into_iter().collect())
    }
}
