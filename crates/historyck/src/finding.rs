//! Findings of the checker: the broken invariant, the task, the events that show it, and the reason.

use crate::event::Task;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub invariant: Invariant,
    pub task: Option<Task>,
    /// Indexes into the checked list of events.
    pub events: Vec<usize>,
    pub why: String,
}

macro_rules! invariants {
    ($($name:ident $says:literal)*) => {
        /// The invariants. Their ids are those of `docs/invariants.md`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Invariant { $($name),* }

        impl Invariant {
            pub const ALL: &'static [Invariant] = &[$(Invariant::$name),*];

            pub fn id(self) -> &'static str {
                match self { $(Invariant::$name => stringify!($name)),* }
            }

            pub fn says(self) -> &'static str {
                match self { $(Invariant::$name => $says),* }
            }
        }
    };
}

invariants! {
    A1 "at most one open lease per task"
    A2 "the fences of a task grow with every grant"
    A3 "one winner: a task ends once, and all who were told COMMITTED for it said the same"
    A4 "a report is committed only for the newest lease, before that lease's end"
    A5 "the calls about a task can be put in one order that the rules explain"
    A6 "a lease that ended is never honoured again"
    A7 "all accepted calls of an attempt come from one worker"
    A8 "no lease is taken before its end, and time nobody could be heard does not count"
    A9 "every decision was made on the state that the decision before it left"
    B1 "only transitions of the published table occur"
    B2 "what has ended never changes"
    B3 "attempts are numbered 1, 2, 3, and failures and losses stay within their limits"
    B4 "the coordinator's time never runs backwards"
    B5 "a task has exactly one record when it has ended, with the same end, and none before"
    B6 "no task runs on long after its lease has ended"
    B7 "after a cancel nothing is granted"
    B8 "nothing is granted before it is due or after its deadline"
    B10 "every task that was created is counted, exactly once"
    C1 "what was acknowledged is there"
    C2 "nothing is there that nobody asked for"
    C3 "what was refused had no effect"
    C4 "the same key and submission get the same run; the same key and another submission get none"
    C5 "no two runs share a key while it holds"
    C6 "a repeated report gets its recorded answer"
    C7 "reads never go back"
    C8 "what a restart finds is what was durable"
    D1 "what is delivered was asked for, and each that was asked for is one effect"
    D2 "every effect that was acknowledged is delivered once faults stop"
    D3 "all deliveries of an effect have the same bytes"
    D4 "effects of an aggregate are first delivered in the order in which they were asked for"
    E1 "a command of a durable run has the same input in every attempt"
    E2 "every attempt is shown one chain of records, and all that an earlier attempt was told to be recorded"
    E3 "a step has one recorded result, and a key one child"
    E4 "a run whose code diverged is parked until somebody resumes it"
    E5 "a replay begins at the beginning or at the last savepoint"
    E6 "code that recorded a run never diverges from it"
    E7 "a key votes once on an approval, no vote counts beyond the quorum, and one of them decides"
    E8 "a step of a plan starts after those that it depends on, is skipped exactly because of one of them, and the run ends as its steps say"
    G1 "everything that was accepted ends once faults stop"
    G2 "a tenant with one task and a waiting worker starts it within ten rounds of grants to others"
    G4 "nothing that has a limit is used beyond it"
    G5 "retries of tasks that failed together come back apart: no second has three times its share"
    G6 "after a restart somebody is answered within five seconds, after a failover within ten"
    G7 "no answer holds more than was asked for"
    S1 "nobody sees or touches what is another scope's"
    S2 "what is done was asked for with what entitles to it"
    S3 "a refused call leaves everything as it was"
    S4 "every administrative change has one record, and every record its change"
    S5 "no answer holds what another scope wrote"
    S6 "what is another's is answered like what is not there"
}

impl std::fmt::Display for Invariant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id())
    }
}
