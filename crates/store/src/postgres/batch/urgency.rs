//! How urgent the tasks are that wait in a queue: a worker that goes on to the next stage of its task gives way to a more
//! urgent one.

use tokio_postgres::types::Type;
use verdict::{Name, Scope, Time};

use super::PostgresBatch;
use crate::failure::Failure;
use crate::postgres::reads::{Client, set_scopes};
use crate::postgres::ready::queue_position::{POSITION_BYTES, QueuePosition};
use crate::postgres::rows::Columns;

/// The first position of each queue, by its index, and the first among some of the tasks that became claimable with time: those
/// are in the order of their time, and a queue may have very many of them.
const FIRST: &str = "SELECT \
    (SELECT l.place FROM tenure.live l WHERE l.tenant = u.tenant AND l.workspace = u.workspace \
        AND l.queue = u.queue AND l.claimable_at IS NOT NULL AND NOT l.delayed \
        ORDER BY l.place LIMIT 1), \
    (SELECT p.place FROM (SELECT l.place FROM tenure.live l WHERE l.tenant = u.tenant \
        AND l.workspace = u.workspace AND l.queue = u.queue AND l.delayed \
        AND l.claimable_at <= $4 ORDER BY l.claimable_at LIMIT 100) p ORDER BY p.place LIMIT 1) \
    FROM unnest($1::text[], $2::text[], $3::text[]) \
        WITH ORDINALITY AS u(tenant, workspace, queue, n) ORDER BY u.n";

/// Statements of batches that look for urgent tasks, to be prepared on direct connections.
pub(super) fn frequent_statements() -> [&'static str; 1] {
    [FIRST]
}

impl PostgresBatch<'_> {
    pub(super) async fn read_most_urgent(
        &mut self,
        queues: &[(Scope, Name)],
        now: Time,
    ) -> Result<Vec<Option<i32>>, Failure> {
        let setting = self.scopes.add(queues.iter().map(|(scope, _)| scope));
        let texts = |of: fn(&(Scope, Name)) -> &Name| -> Vec<String> {
            queues.iter().map(|it| of(it).as_str().to_owned()).collect()
        };
        let (tenants, workspaces) = (texts(|it| &it.0.tenant), texts(|it| &it.0.workspace));
        let (names, now) = (texts(|it| &it.1), now.millis());
        let work = move |client: Client| async move {
            set_scopes(&client, setting).await?;
            let rows = client
                .query_typed(
                    FIRST,
                    &[
                        (&tenants, Type::TEXT_ARRAY),
                        (&workspaces, Type::TEXT_ARRAY),
                        (&names, Type::TEXT_ARRAY),
                        (&now, Type::INT8),
                    ],
                )
                .await?;
            rows.iter()
                .map(|row| {
                    let mut columns = Columns::of(row);
                    let places: [Option<Vec<u8>>; 2] = [columns.take()?, columns.take()?];
                    Ok(places.into_iter().flatten().filter_map(priority).max())
                })
                .collect()
        };
        self.transaction().run("looking for urgent tasks", work).await
    }
}

fn priority(place: Vec<u8>) -> Option<i32> {
    let bytes: [u8; POSITION_BYTES] = place.try_into().ok()?;
    Some(QueuePosition::from_bytes(bytes).priority())
}
