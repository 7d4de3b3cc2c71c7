//! Schedules: runs that are submitted again and again, by a cron expression or at an interval.

use wire::schedules::{
    BackfillSchedule, CreateSchedule, ListSchedules, PreviewSchedule, ScheduleCall,
    ScheduleHistory, ScheduleHistoryQuery, ScheduleList, SchedulePreview, ScheduleTriggered,
    ScheduleView, UpdateSchedule,
};
use wire::{ScheduleState, Time};

use super::{Client, Request};
use crate::{Error, NewRun, When};

/// The schedules of the client's workspace. See [`Client::schedules`].
#[derive(Clone, Copy, Debug)]
pub struct Schedules<'a> {
    client: &'a Client,
}

impl Client {
    /// Schedules, to create, read and change them. Each is named by its name or its id.
    ///
    /// ```no_run
    /// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
    /// use tenure::{Kind, NewRun, When};
    ///
    /// const REPORT: Kind<u32, String> = Kind::new("report").queue("nightly");
    ///
    /// let at_three = When::cron("0 3 * * *").time_zone("Europe/Berlin");
    /// let created = client.schedules().create("nightly-report", at_three, NewRun::new(REPORT, &1)).await?;
    /// println!("first at {:?}", created.next_at);
    /// # Ok(()) }
    /// ```
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules { client: self }
    }
}

impl Schedules<'_> {
    /// Creates a schedule that submits this run. Tried once: a repetition after a lost answer is refused, because the name is
    /// taken.
    pub async fn create<O>(
        &self,
        name: impl Into<String>,
        when: When,
        run: NewRun<O>,
    ) -> Result<ScheduleView, Error> {
        let run = run.into_sealed(&self.client.codec)?;
        self.create_with(&CreateSchedule { run, ..when.into_create(name.into()) }).await
    }

    /// [`Schedules::create`] for programs that use the wire's own shape.
    pub async fn create_with(&self, schedule: &CreateSchedule) -> Result<ScheduleView, Error> {
        let request = self.client.post(&["v1", "schedules"], schedule)?;
        self.client.without_retries().call(&request).await
    }

    /// A page of them, in the order of their creation.
    pub fn list(&self) -> Request<ListSchedules, ScheduleList> {
        Request::read(self.client, &["v1", "schedules"], ListSchedules::default())
    }

    pub async fn get(&self, schedule: &str) -> Result<ScheduleView, Error> {
        self.client.transport.call(&self.client.get(&["v1", "schedules", schedule], &())?).await
    }

    /// The next instants.
    pub async fn preview(&self, schedule: &str, count: u32) -> Result<SchedulePreview, Error> {
        let page = PreviewSchedule { count: Some(count) };
        let request = self.client.get(&["v1", "schedules", schedule, "preview"], &page)?;
        self.client.transport.call(&request).await
    }

    /// What became of it: changes and firings, the newest first.
    pub fn history(&self, schedule: &str) -> Request<ScheduleHistoryQuery, ScheduleHistory> {
        let path = ["v1", "schedules", schedule, "history"];
        Request::read(self.client, &path, ScheduleHistoryQuery::default())
    }

    /// Fires at other instants from now on.
    pub async fn reschedule(&self, schedule: &str, when: When) -> Result<ScheduleView, Error> {
        self.update_with(schedule, &when.into_update()).await
    }

    /// Submits another run from now on.
    pub async fn replace_run<O>(
        &self,
        schedule: &str,
        run: NewRun<O>,
    ) -> Result<ScheduleView, Error> {
        let run = Some(run.into_sealed(&self.client.codec)?);
        self.update_with(schedule, &UpdateSchedule { run, ..UpdateSchedule::default() }).await
    }

    /// Changes what `change` names, and nothing else, in the wire's own shape.
    pub async fn update_with(
        &self,
        schedule: &str,
        change: &UpdateSchedule,
    ) -> Result<ScheduleView, Error> {
        let request = self.client.post(&["v1", "schedules", schedule, "update"], change)?;
        self.client.transport.call(&request).await
    }

    /// Nothing fires until it is resumed.
    pub async fn pause(&self, schedule: &str) -> Result<ScheduleView, Error> {
        self.call(schedule, "pause").await
    }

    /// Fires again from now on. What passed during the pause is not made up for.
    pub async fn resume(&self, schedule: &str) -> Result<ScheduleView, Error> {
        self.call(schedule, "resume").await
    }

    /// Deletes the schedule. Its runs stay.
    pub async fn delete(&self, schedule: &str) -> Result<ScheduleView, Error> {
        self.call(schedule, "delete").await
    }

    /// Submits a run of the schedule now. Tried once: a repetition would be another run.
    pub async fn trigger(&self, schedule: &str) -> Result<ScheduleTriggered, Error> {
        let path = ["v1", "schedules", schedule, "trigger"];
        let request = self.client.post(&path, &ScheduleCall {})?;
        self.client.without_retries().call(&request).await
    }

    /// Fires the instants of a range of the past, one after the other. Both ends belong to it.
    pub async fn backfill(
        &self,
        schedule: &str,
        from: Time,
        to: Time,
    ) -> Result<ScheduleView, Error> {
        let range = BackfillSchedule { from, to };
        self.client.post_json(&["v1", "schedules", schedule, "backfill"], &range).await
    }

    async fn call(&self, schedule: &str, verb: &str) -> Result<ScheduleView, Error> {
        let request = self.client.post(&["v1", "schedules", schedule, verb], &ScheduleCall {})?;
        self.client.transport.call(&request).await
    }
}

impl Request<ListSchedules, ScheduleList> {
    pub fn state(self, state: ScheduleState) -> Self {
        self.say(|it| it.state = Some(state))
    }
}
