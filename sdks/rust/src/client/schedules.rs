//! Schedules: runs that are submitted again and again, by a cron expression or at an interval.

use wire::schedules::{
    BackfillSchedule, CreateSchedule, ListSchedules, PreviewSchedule, ScheduleCall,
    ScheduleHistory, ScheduleHistoryQuery, ScheduleList, SchedulePreview, ScheduleTriggered,
    ScheduleView, UpdateSchedule,
};

use super::Client;
use crate::Error;

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
    /// use tenure::wire::requests::SubmitRun;
    /// use tenure::wire::schedules::CreateSchedule;
    ///
    /// let run = SubmitRun { kind: "report".into(), queue: "nightly".into(), ..SubmitRun::default() };
    /// let schedule = CreateSchedule {
    ///     name: "nightly-report".into(),
    ///     cron: Some("0 3 * * *".into()),
    ///     time_zone: Some("Europe/Berlin".into()),
    ///     run,
    ///     ..CreateSchedule::default()
    /// };
    /// let created = client.schedules().create(&schedule).await?;
    /// println!("first at {:?}", created.next_at);
    /// # Ok(()) }
    /// ```
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules { client: self }
    }
}

impl Schedules<'_> {
    /// Creates a schedule. Tried once: a repetition after a lost answer is refused, because the name is taken.
    pub async fn create(&self, schedule: &CreateSchedule) -> Result<ScheduleView, Error> {
        let request = self.client.post(&["v1", "schedules"], schedule)?;
        self.client.without_retries().call(&request).await
    }

    /// A page of them, in the order of their creation.
    pub async fn list(&self, page: &ListSchedules) -> Result<ScheduleList, Error> {
        self.client.transport.call(&self.client.get(&["v1", "schedules"], page)?).await
    }

    pub async fn show(&self, schedule: &str) -> Result<ScheduleView, Error> {
        self.client.transport.call(&self.client.get(&["v1", "schedules", schedule], &())?).await
    }

    /// The next instants.
    pub async fn preview(&self, schedule: &str, count: u32) -> Result<SchedulePreview, Error> {
        let page = PreviewSchedule { count: Some(count) };
        let request = self.client.get(&["v1", "schedules", schedule, "preview"], &page)?;
        self.client.transport.call(&request).await
    }

    /// What became of it: changes and firings, the newest first.
    pub async fn history(
        &self,
        schedule: &str,
        page: &ScheduleHistoryQuery,
    ) -> Result<ScheduleHistory, Error> {
        let request = self.client.get(&["v1", "schedules", schedule, "history"], page)?;
        self.client.transport.call(&request).await
    }

    /// Changes what `change` names, and nothing else.
    pub async fn update(
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

    /// Fires the instants of a range of the past, one after the other.
    pub async fn backfill(
        &self,
        schedule: &str,
        range: &BackfillSchedule,
    ) -> Result<ScheduleView, Error> {
        let request = self.client.post(&["v1", "schedules", schedule, "backfill"], range)?;
        self.client.transport.call(&request).await
    }

    async fn call(&self, schedule: &str, verb: &str) -> Result<ScheduleView, Error> {
        let request = self.client.post(&["v1", "schedules", schedule, verb], &ScheduleCall {})?;
        self.client.transport.call(&request).await
    }
}
