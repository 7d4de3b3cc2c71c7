//! Which poll is granted which ready task in one commit. Turns rotate over tenants, then queues, then the longest
//! wait.
//!
//! A turn is the right to ask for one more task. Asking is free: only grants count against a commit's budget. After a
//! pass in which some lines got less than they asked for, the others are asked again. A round that ends because its
//! budget is spent continues, in the next commit, after the tenant and the queue where it stopped.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use store::{Backlog, PausedQueues, Want};
use verdict::{Name, Scope, Task};

use super::Polls;
use super::lines::{LineId, PollId};
use crate::item::Granted;

/// Tasks granted in one commit. Keeps every commit short.
pub(super) const GRANTS_MAX: usize = 1_024;

/// How many times the store is queried in one commit. The first pass shows which lines ask in vain; the second hands
/// out what they left. More passes are needed only if thousands of lines ask in vain, and their turn may come in the
/// next commit.
const PASSES_MAX: usize = 8;

/// The remaining budget of one round, and its grants so far.
pub(in crate::carry) struct Round {
    tenants: Vec<Tenant>,
    /// The index of the tenant whose turn is next.
    next: usize,
    queues: Vec<Queue>,
    numbers: HashMap<(Scope, Name), usize>,
    lines: HashMap<LineId, Demand>,
    /// Polls that were answered before the round.
    except: HashSet<PollId>,
    paused: PausedQueues,
    given: BTreeMap<PollId, Vec<Granted>>,
    left: usize,
    passes: usize,
}

struct Tenant {
    name: Name,
    /// Indexes of queues, sorted by their names.
    queues: Vec<usize>,
    next: usize,
}

struct Queue {
    scope: Scope,
    queue: Name,
    tasks: usize,
}

/// A line that had a turn.
struct Demand {
    /// The polls that may be served in this round, oldest first, each with the number of tasks it may still take.
    polls: VecDeque<(PollId, usize)>,
    room: usize,
    /// The pass that `asked` belongs to.
    pass: usize,
    asked: usize,
    /// The most that the queues may hold for it.
    max: usize,
    /// Whether it got less than it asked for.
    is_exhausted: bool,
}

/// Where a round stopped.
pub(in crate::carry) struct ResumePoint {
    pub(super) tenant: Option<Name>,
    /// Tenant, workspace and queue of each.
    pub(super) queues: Vec<(Name, Name, Name)>,
}

/// What a round did.
pub(in crate::carry) struct RoundResult {
    pub(in crate::carry) grants: Vec<(PollId, Vec<Granted>)>,
    pub(in crate::carry) resume_point: ResumePoint,
    /// Whether more could have been granted.
    pub(in crate::carry) is_spent: bool,
}

impl Round {
    pub(super) fn new(
        mut backlogs: Vec<Backlog>,
        polls: &Polls,
        except: HashSet<PollId>,
        paused: PausedQueues,
    ) -> Self {
        backlogs.sort_unstable();
        let mut tenants: Vec<Tenant> = Vec::new();
        let mut round = Self {
            tenants: Vec::new(),
            next: 0,
            queues: Vec::with_capacity(backlogs.len()),
            numbers: HashMap::with_capacity(backlogs.len()),
            lines: HashMap::new(),
            except,
            paused,
            given: BTreeMap::new(),
            left: GRANTS_MAX,
            passes: 0,
        };
        for Backlog { scope, queue, tasks } in backlogs {
            let number = round.queues.len();
            if tenants.last().is_none_or(|tenant| tenant.name != scope.tenant) {
                let (name, queues) = (scope.tenant.clone(), Vec::new());
                tenants.push(Tenant { name, queues, next: 0 });
            }
            tenants.iter_mut().next_back().into_iter().for_each(|it| it.queues.push(number));
            round.numbers.insert((scope.clone(), queue.clone()), number);
            round.queues.push(Queue { scope, queue, tasks });
        }
        round.tenants = tenants;
        round.resume(polls);
        round
    }

    /// Begins after the point where the previous round stopped.
    fn resume(&mut self, polls: &Polls) {
        let Self { tenants, queues, next, .. } = self;
        *next = tenants.partition_point(|it| Some(&it.name) <= polls.last_tenant());
        for tenant in tenants {
            let Some((workspace, queue)) = polls.last_queue(&tenant.name) else { continue };
            tenant.next = tenant.queues.partition_point(|number| {
                let it = &queues[*number];
                (&it.scope.workspace, &it.queue) <= (workspace, queue)
            });
        }
    }

    /// What to ask the store for next, line by line. Empty when the round is over.
    pub(in crate::carry) fn ask(&mut self, polls: &mut Polls) -> Vec<(LineId, Want)> {
        if self.passes == PASSES_MAX {
            return Vec::new();
        }
        self.passes += 1;
        let lines = self.take_turns(polls);
        let want = |line: LineId| {
            let asked = self.lines.get(&line)?.asked;
            let mut want = polls.lines.get(line)?.filter.want(asked);
            want.queues.retain(|queue| !self.paused.contains(&want.scope, queue));
            Some((line, want))
        };
        lines.into_iter().filter_map(want).collect()
    }

    /// One pass: takes turns until the requested tasks reach the budget or every line has asked. Returns the lines
    /// that had a turn, in the order of their turns.
    fn take_turns(&mut self, polls: &mut Polls) -> Vec<LineId> {
        let (mut left, mut order) = (self.left, Vec::new());
        let mut ring = self.ring(polls);
        while left > 0
            && let Some((tenant, mut queues)) = ring.pop_front()
        {
            let Some((place, mut lines)) = queues.pop_front() else { continue };
            // Lines with nothing to ask for leave; the first line that asks takes the turn and goes to the end.
            while let Some(line) = lines.pop_front() {
                if !self.may_ask(line, polls) {
                    continue;
                }
                let demand = self.lines.get_mut(&line).expect("a line that may ask has its demand");
                demand.asked += 1;
                if demand.asked == 1 {
                    order.push(line);
                }
                left -= 1;
                lines.push_back(line);
                self.next = tenant + 1;
                self.tenants[tenant].next = place + 1;
                break;
            }
            if !lines.is_empty() {
                queues.push_back((place, lines));
            }
            if !queues.is_empty() {
                ring.push_back((tenant, queues));
                // Bug 14: the tenant that had a turn is next again.
                ring.rotate_right(usize::from(faultpoint::mutant(14)));
            }
        }
        order
    }

    /// All tenants, queues and lines that may get a turn, the next one first.
    #[expect(clippy::type_complexity, reason = "tenants of queues of lines, in turn")]
    fn ring(&self, polls: &Polls) -> VecDeque<(usize, VecDeque<(usize, VecDeque<LineId>)>)> {
        let from = |next: usize, count: usize| (next..count).chain(0..next.min(count));
        let lines = |number: usize| {
            let Queue { scope, queue, tasks } = &self.queues[number];
            let at = if *tasks == 0 { Vec::new() } else { polls.lines.at(scope, queue) };
            VecDeque::from(at)
        };
        let queues = |tenant: &Tenant| {
            let places = from(tenant.next, tenant.queues.len());
            places.map(|place| (place, lines(tenant.queues[place]))).collect()
        };
        from(self.next, self.tenants.len()).map(|n| (n, queues(&self.tenants[n]))).collect()
    }

    fn may_ask(&mut self, line: LineId, polls: &mut Polls) -> bool {
        let pass = self.passes;
        let is_known = self.lines.get(&line).is_some_and(|demand| demand.pass == pass);
        if !is_known {
            let Some(filter) = polls.lines.get(line).map(|it| it.filter.clone()) else {
                return false;
            };
            let backlog = self.backlog(&filter.scope, &filter.queues);
            let demand = self.lines.entry(line).or_insert_with(|| {
                let seated = polls.seated(line, backlog.min(GRANTS_MAX), &self.except);
                let room = seated.iter().map(|(_, max)| max).sum();
                Demand { polls: seated, room, pass, asked: 0, max: 0, is_exhausted: false }
            });
            (demand.pass, demand.asked, demand.max) = (pass, 0, demand.room.min(backlog));
        }
        let demand = self.lines.get(&line).expect("every line that had a turn is known");
        !demand.is_exhausted && demand.asked < demand.max
    }

    /// How many tasks the queues of a line may hold.
    fn backlog(&self, scope: &Scope, queues: &[Name]) -> usize {
        let number = |queue: &Name| self.numbers.get(&(scope.clone(), queue.clone()));
        let tasks = queues.iter().filter_map(number).map(|number| self.queues[*number].tasks);
        tasks.fold(0, usize::saturating_add)
    }

    /// Records how many tasks the store found for a line.
    pub(in crate::carry) fn found(&mut self, line: LineId, count: usize) {
        if let Some(demand) = self.lines.get_mut(&line) {
            demand.is_exhausted = count < demand.asked;
        }
    }

    /// Records that a task is no longer available, granted or not.
    pub(in crate::carry) fn took(&mut self, task: &Task) {
        let number = self.numbers.get(&(task.scope.clone(), task.offered_in().into_owned()));
        if let Some(number) = number {
            let tasks = &mut self.queues[*number].tasks;
            *tasks = tasks.saturating_sub(1);
        }
    }

    /// The poll of a line that gets the next task.
    pub(in crate::carry) fn taker(&self, line: LineId) -> Option<PollId> {
        self.lines.get(&line)?.polls.front().map(|(poll, _)| *poll)
    }

    /// Records the grant of a task to the line's first poll.
    pub(in crate::carry) fn give(&mut self, line: LineId, granted: Granted) {
        let demand = self.lines.get_mut(&line).expect("only lines that asked are given something");
        let (poll, max) = demand.polls.front_mut().expect("a line asks for no more than it takes");
        self.given.entry(*poll).or_default().push(granted);
        self.left -= 1;
        demand.room -= 1;
        *max -= 1;
        if *max == 0 {
            demand.polls.pop_front();
        }
    }

    pub(in crate::carry) fn end(self) -> RoundResult {
        let Self { tenants, next, queues, given, left, .. } = self;
        let before = |next: usize| next.checked_sub(1);
        let tenant = before(next).and_then(|n| tenants.get(n)).map(|tenant| tenant.name.clone());
        let last = |tenant: &Tenant| {
            let number = tenant.queues.get(before(tenant.next)?)?;
            let Queue { scope, queue, .. } = &queues[*number];
            Some((tenant.name.clone(), scope.workspace.clone(), queue.clone()))
        };
        let resume_point =
            ResumePoint { tenant, queues: tenants.iter().filter_map(last).collect() };
        RoundResult { grants: given.into_iter().collect(), resume_point, is_spent: left == 0 }
    }
}
