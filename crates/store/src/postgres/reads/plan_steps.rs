//! What roots of plans need: the rows of ended steps, slices of downstreams, and slices of steps to spawn.
//!
//! Which of them a request needs depends on the root, so they are read once it is locked, in a round trip of their own. No
//! other request pays for it.

use std::collections::HashMap;
use std::sync::LazyLock;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::plan::limits::STEPS_PER_DECISION;
use verdict::plan::{PlanLoaded, PlanNeed};
use verdict::{Name, Scope, TaskId};

use super::{Client, Keys, Read, as_limit};
use crate::failure::Failure;
use crate::postgres::rows::Columns;
use crate::row::{Spec, TaskKey};
use crate::run_columns::{STEP, step, step_row, step_without_payload};
use crate::runs::StoredStep;

/// One need of one root.
pub(in crate::postgres) struct PlanRead {
    task: TaskKey,
    /// How many steps the root has spawned.
    spawned: u32,
    need: OwnedNeed,
}

/// [`PlanNeed`], owned.
#[derive(Clone)]
pub(in crate::postgres) enum OwnedNeed {
    Ended { key: Name },
    Downstreams { of: Name, after: Option<Name> },
    Unspawned { from: u32 },
}

impl OwnedNeed {
    fn of(need: PlanNeed<'_>) -> Self {
        match need {
            PlanNeed::Ended { key } => Self::Ended { key: key.clone() },
            PlanNeed::Downstreams { of, after } => {
                Self::Downstreams { of: of.clone(), after: after.cloned() }
            }
            PlanNeed::Unspawned { from } => Self::Unspawned { from },
        }
    }

    pub(in crate::postgres) fn need(&self) -> PlanNeed<'_> {
        match self {
            Self::Ended { key } => PlanNeed::Ended { key },
            Self::Downstreams { of, after } => PlanNeed::Downstreams { of, after: after.as_ref() },
            Self::Unspawned { from } => PlanNeed::Unspawned { from: *from },
        }
    }
}

/// What was found of the plans of a batch.
#[derive(Default)]
pub(in crate::postgres) struct FoundPlans {
    pub(in crate::postgres) by_root: HashMap<TaskId, Vec<(OwnedNeed, PlanLoaded)>>,
    /// What steps that may be spawned are created with.
    pub(in crate::postgres) specs: Vec<(TaskId, Spec)>,
}

/// What to read for the requests of one batch.
#[derive(Default)]
pub(in crate::postgres) struct PlanReads {
    reads: Vec<PlanRead>,
}

/// The parameters of a statement: the place of each need among all, its task, and what it names.
#[derive(Default)]
struct Named {
    places: Vec<i32>,
    tasks: Vec<TaskKey>,
    keys: Vec<String>,
    after: Vec<String>,
    from: Vec<i32>,
}

impl PlanReads {
    pub(in crate::postgres) fn add(&mut self, task: &TaskKey, spawned: u32, need: PlanNeed<'_>) {
        let (task, need) = (task.clone(), OwnedNeed::of(need));
        self.reads.push(PlanRead { task, spawned, need });
    }

    pub(in crate::postgres) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    pub(in crate::postgres) fn scopes(&self) -> impl Iterator<Item = &Scope> {
        self.reads.iter().map(|read| &read.task.scope)
    }

    pub(in crate::postgres) async fn read(self, client: &Client) -> Read<FoundPlans> {
        let (ended, downstreams, unspawned) = self.named();
        let slice = as_limit(STEPS_PER_DECISION);
        let one_more = as_limit(STEPS_PER_DECISION + 1);
        let (ended, downstreams, unspawned) = futures_util::join!(
            ended.by_key(client),
            downstreams.downstreams(client, one_more),
            unspawned.unspawned(client, slice),
        );
        let mut loaded: Vec<PlanLoaded> =
            self.reads.iter().map(|_| PlanLoaded::default()).collect();
        self.each(&ended?, |read, columns, place| {
            loaded[place].ended = Some(step_row(columns, read.spawned)?);
            Ok(())
        })?;
        self.each(&downstreams?, |read, columns, place| {
            loaded[place].downstreams.push(step_row(columns, read.spawned)?);
            Ok(())
        })?;
        let mut specs = Vec::new();
        self.each(&unspawned?, |read, columns, place| {
            let stored: StoredStep = step(columns)?;
            loaded[place].unspawned.push(stored.row(read.spawned));
            specs.push((stored.step.child.submit.id, stored.spec));
            Ok(())
        })?;
        let mut by_root: HashMap<TaskId, Vec<(OwnedNeed, PlanLoaded)>> = HashMap::new();
        for (read, mut plan) in self.reads.into_iter().zip(loaded) {
            plan.has_more_downstreams = plan.downstreams.len() > STEPS_PER_DECISION;
            plan.downstreams.truncate(STEPS_PER_DECISION);
            by_root.entry(read.task.id).or_default().push((read.need, plan));
        }
        Ok(FoundPlans { by_root, specs })
    }

    /// Ended steps, slices of downstreams, and slices of steps to spawn. An ended step needs its downstreams too.
    fn named(&self) -> (Named, Named, Named) {
        let (mut ended, mut downstreams, mut unspawned) =
            (Named::default(), Named::default(), Named::default());
        for (place, PlanRead { task, need, .. }) in (0..).zip(&self.reads) {
            match need {
                OwnedNeed::Ended { key } => {
                    ended.push(place, task, key.as_str(), "", 0);
                    downstreams.push(place, task, key.as_str(), "", 0);
                }
                OwnedNeed::Downstreams { of, after } => {
                    let after = after.as_ref().map_or("", Name::as_str);
                    downstreams.push(place, task, of.as_str(), after, 0);
                }
                OwnedNeed::Unspawned { from } => unspawned.push(place, task, "", "", *from),
            }
        }
        (ended, downstreams, unspawned)
    }

    /// Reads rows that begin with the place of their need. An error names the task, so that only this task is affected.
    fn each(
        &self,
        rows: &[Row],
        mut take: impl FnMut(&PlanRead, &mut Columns<'_>, usize) -> Result<(), Failure>,
    ) -> Read<()> {
        for row in rows {
            let mut columns = Columns::of(row);
            let place = usize::try_from(columns.take::<i32>()?).unwrap_or(0);
            let read = &self.reads[place];
            take(read, &mut columns, place).map_err(|failure| failure.confined_to(read.task.id))?;
        }
        Ok(())
    }
}

impl Named {
    fn push(&mut self, place: i32, task: &TaskKey, key: &str, after: &str, from: u32) {
        self.places.push(place);
        self.tasks.push(task.clone());
        self.keys.push(key.to_owned());
        self.after.push(after.to_owned());
        self.from.push(i32::try_from(from).unwrap_or(i32::MAX));
    }

    async fn by_key(&self, client: &Client) -> Read<Vec<Row>> {
        self.read(client, &BY_KEY, &[(&self.keys, Type::TEXT_ARRAY)]).await
    }

    async fn downstreams(&self, client: &Client, limit: i64) -> Read<Vec<Row>> {
        let named: [(&(dyn ToSql + Sync), Type); 3] =
            [(&self.keys, Type::TEXT_ARRAY), (&self.after, Type::TEXT_ARRAY), (&limit, Type::INT8)];
        self.read(client, &DOWNSTREAMS, &named).await
    }

    async fn unspawned(&self, client: &Client, limit: i64) -> Read<Vec<Row>> {
        let named: [(&(dyn ToSql + Sync), Type); 2] =
            [(&self.from, Type::INT4_ARRAY), (&limit, Type::INT8)];
        self.read(client, &UNSPAWNED, &named).await
    }

    async fn read(
        &self,
        client: &Client,
        sql: &str,
        named: &[(&(dyn ToSql + Sync), Type)],
    ) -> Read<Vec<Row>> {
        if self.tasks.is_empty() {
            return Ok(Vec::new());
        }
        let tasks = Keys::of(self.tasks.iter());
        let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = tasks.parameters().to_vec();
        parameters.push((&self.places, Type::INT4_ARRAY));
        parameters.extend(named.iter().cloned());
        Ok(client.query_typed(sql, &parameters).await?)
    }
}

const OF_TASK: &str = "task = u.task AND tenant = u.tenant AND workspace = u.workspace";

/// Each count is looked up by its own key whatever the planner estimates.
const COUNTS: &str = "LEFT JOIN LATERAL (SELECT missing, blame FROM tenure.missing_upstreams \
    WHERE task = p.task AND key = p.key OFFSET 0) m ON true";

static BY_KEY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT u.n, {} FROM unnest($1::text[], $2::text[], $3::bytea[], $4::int4[], $5::text[]) \
            AS u(tenant, workspace, task, n, key) \
         CROSS JOIN LATERAL (SELECT * FROM tenure.steps WHERE {OF_TASK} AND key = u.key COLLATE \"C\" OFFSET 0) p \
         {COUNTS}",
        step_without_payload()
    )
});

static DOWNSTREAMS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT u.n, {} FROM unnest($1::text[], $2::text[], $3::bytea[], $4::int4[], $5::text[], $6::text[]) \
            AS u(tenant, workspace, task, n, upstream, after) \
         CROSS JOIN LATERAL (SELECT task, downstream FROM tenure.edges WHERE {OF_TASK} \
            AND upstream = u.upstream COLLATE \"C\" AND downstream > u.after COLLATE \"C\" \
            ORDER BY downstream LIMIT $7) e \
         CROSS JOIN LATERAL (SELECT * FROM tenure.steps WHERE task = e.task AND key = e.downstream OFFSET 0) p \
         {COUNTS} ORDER BY u.n, e.downstream",
        step_without_payload()
    )
});

static UNSPAWNED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT u.n, {} FROM unnest($1::text[], $2::text[], $3::bytea[], $4::int4[], $5::int4[]) \
            AS u(tenant, workspace, task, n, place) \
         CROSS JOIN LATERAL (SELECT * FROM tenure.steps WHERE {OF_TASK} AND place >= u.place \
            ORDER BY place LIMIT $6) p \
         {COUNTS} ORDER BY u.n, p.place",
        STEP.join(", ")
    )
});

/// Statements that batches with plans repeat, to be prepared on direct connections.
pub(in crate::postgres) fn frequent_statements() -> impl Iterator<Item = &'static str> {
    let built: [&'static LazyLock<String>; 3] = [&BY_KEY, &DOWNSTREAMS, &UNSPAWNED];
    built.into_iter().map(|text| text.as_str())
}
