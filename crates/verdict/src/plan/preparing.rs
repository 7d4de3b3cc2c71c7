//! A step that is prepared: what it depends on is read and judged before it begins.
//!
//! A condition speaks about outputs of earlier steps, and so does a content that people are asked about. Rules read no payloads, so
//! such a step first waits until the coordinator has read them beside its batches and says what it found
//! ([`super::PlanRequest::Prepared`]). What is read never changes: earlier steps have ended. So whoever prepares may die, or may
//! do it twice, and the first answer counts.
//!
//! The wait is an ordinary one, for a signal whose name no client can send. It ends with the deadline, with a cancel, and
//! with the answer, and nothing else wakes it. An object of type preparation finds it ([`changes`]): it is pending while the task
//! waits, and written in the commit of the decision that it follows from.

use crate::event::{Event, Subject};
use crate::id::{Digest, Json, Name, TaskId, Text};
use crate::object::{Object, ObjectKey, ObjectType};
use crate::run::limits::WAIT_DEFAULT;
use crate::run::{Awaited, AwaitedEvent, Wait, WaitMode, Waiting};
use crate::task::{Phase, Task};
use crate::time::Time;

use super::state::PlanState;

/// The key of the wait, and the name of its signal. No caller can use either: keys and names of calls have no `#` at their beginning.
const KEY: &str = "#prepare";

/// What came of a preparation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prepared {
    /// The stage that was prepared; 0 for a step that is a task of its own.
    pub place: u32,
    pub found: Found,
}

impl Prepared {
    /// What people are shown, in bytes.
    pub fn content_bytes(&self) -> usize {
        match &self.found {
            Found::Begins { shown: Some(shown) } => shown.bytes(),
            _ => 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// The step begins. `shown` is what people are asked about, if it is composed of outputs.
    Begins { shown: Option<Box<Shown>> },
    /// The condition of the step does not hold.
    Unneeded { why: Text },
    /// It refers to what is not there. No repetition helps.
    Unresolved { message: Text },
}

/// What people are asked, once it is composed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shown {
    pub subject: Option<Text>,
    pub content: Option<Text>,
}

impl Shown {
    pub fn bytes(&self) -> usize {
        let texts = [&self.subject, &self.content].into_iter().flatten();
        texts.map(|text| text.as_str().len()).sum()
    }

    /// The digest that a decision quotes.
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.content.as_ref().map(|content| Digest::of_bytes(content.as_str().as_bytes()))
    }
}

impl Task {
    /// Whether the step that the task is in is to be prepared before it begins.
    pub(crate) fn prepares(&self) -> bool {
        match self.plan() {
            Some(PlanState::Stages(stages)) => stages.stage().is_prepared,
            Some(PlanState::Step(terms)) => terms.is_prepared(),
            Some(PlanState::Root(_)) | None => false,
        }
    }

    /// The place of the step that is being prepared.
    pub fn preparing(&self) -> Option<u32> {
        let wait = crate::decide::open_wait(self).filter(|wait| wait.key.as_str() == KEY);
        wait.map(|_| self.stages().map_or(0, |stages| stages.current))
    }
}

/// The phase of a task whose step is prepared from this moment on.
pub(crate) fn phase(from: Time) -> Phase {
    let key = Name::from(KEY);
    let item = Awaited { key: key.clone(), event: AwaitedEvent::Signal(key.clone()) };
    Phase::Waiting(Box::new(Waiting::For(Wait {
        digest: Digest::of(&[KEY.as_bytes()]),
        key,
        mode: WaitMode::All,
        items: [item].into_iter().collect(),
        missing: 1,
        gives_up_at: from.plus(WAIT_DEFAULT),
    })))
}

/// Its status while somebody is to prepare the step, and after that.
const OPEN: &str = "open";
const CLOSED: &str = "closed";

/// The object by which a preparation is found.
fn object(task: &Task, run: TaskId, place: u32, is_open: bool) -> Object {
    let id = Name::from(format!("{}-{place}", task.id));
    let object_type = ObjectType::Preparation;
    Object {
        key: ObjectKey { scope: task.scope.clone(), object_type, id },
        revision: if is_open { 1 } else { 2 },
        status: Name::from(if is_open { OPEN } else { CLOSED }),
        due: None,
        unique_key: None,
        parent: Some(run.run_name().into()),
        is_pending: is_open,
        body: Json::from("{}"),
    }
}

/// The task that a preparation is for.
pub fn task_of(object: &Object) -> Option<TaskId> {
    let (task, _) = object.key.id.as_str().rsplit_once('-')?;
    TaskId::parse(task)
}

/// What a decision did to preparations: one that is over is closed, and one that begins is opened.
pub fn changes(before: Option<(&Task, u32)>, after: &Subject, run: TaskId) -> Vec<Object> {
    let now = after.live().and_then(|task| Some((task, task.preparing()?)));
    let place = |of: &Option<(&Task, u32)>| of.map(|(_, place)| place);
    if place(&before) == place(&now) {
        return Vec::new();
    }
    let closed = before.map(|(task, place)| object(task, run, place, false));
    let opened = now.map(|(task, place)| object(task, run, place, true));
    closed.into_iter().chain(opened).collect()
}

/// What people are asked according to these events, if it was composed.
pub(crate) fn shown(events: &[Event]) -> Option<&Shown> {
    events.iter().find_map(|event| match event {
        Event::Run(event) => match &**event {
            crate::run::RunEvent::Plan(event) => match &**event {
                super::PlanEvent::Prepared { shown } => shown.as_deref(),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}
