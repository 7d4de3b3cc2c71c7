//! Which poll is granted which ready task in one commit. Turns rotate over tenants, then queues, then the longest
//! wait.
//!
//! A turn is the right to ask for one more task. Asking is free: only grants count against a commit's budget. After a
//! pass in which some lines got less than they asked for, the others are asked again. A round that ends because its
//! budget is spent continues, in the next commit, after the tenant and the queue where it stopped.
//!
//! Looking has a budget, too, which each tenant has for itself: a line is found by a queue and a kind of which there are tasks
//! ([`Lines::candidates`](super::lines::Lines::candidates)), so polls for which there is nothing cost nothing, but what a store holds is
//! not always known. Whoever could not be looked at is first in the next commit.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use store::row_size::ByteBudget;
use store::{Backlog, PausedQueues, Want};
use verdict::{Name, Scope, Task};

use super::Polls;
use super::lines::{Candidates, LineId, Looks, PollId, SearchEnd};
use crate::item::BatchGrant;

/// Tasks granted in one commit. Keeps every commit short.
pub(super) const GRANTS_MAX: usize = 1_024;

/// The inputs that one poll is granted: sixteen of the largest size, the same bytes as any other answer. The first one always
/// fits, and what does not stays queued. What was granted can so be told again, whole, when the poll is repeated.
pub(in crate::carry) const GRANT_BYTES_MAX: usize = wire::limits::LEASED_INPUT_BYTES_MAX;

/// How many times the store is queried in one commit. The first pass shows which lines ask in vain; the second hands
/// out what they left. More passes are needed only if thousands of lines ask in vain, and their turn may come in the
/// next commit.
const PASSES_MAX: usize = 8;

/// What one round looks at for one tenant: visits of lines, and kinds in queues that a store is asked about. Twice the largest
/// poll, some milliseconds; a tenant with more polls of that size waits for its later commits.
pub(super) const LOOKS_OF_TENANT: usize = 32_768;

/// The same for all tenants together.
const LOOKS_MAX: usize = 8 * LOOKS_OF_TENANT;

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
    given: BTreeMap<PollId, Vec<BatchGrant>>,
    left: usize,
    passes: usize,
    looks: Looks,
    /// The first tenant for which no look was left.
    unseen_tenant: Option<usize>,
    /// A poll was served with fewer tasks than it was seated for, because they are large: those behind it have no seat yet.
    is_short_of_seats: bool,
}

struct Tenant {
    name: Name,
    /// Indexes of queues, sorted by their names.
    queues: Vec<usize>,
    next: usize,
    looks: Looks,
    /// The first of its queues for which no look was left. One that was looked at in part remembers that itself.
    unseen_queue: Option<usize>,
}

struct Queue {
    scope: Scope,
    queue: Name,
    tasks: usize,
    kinds: Option<Vec<Name>>,
    /// The lines that may take something, once they were looked for.
    candidates: Option<Candidates>,
}

/// A line that had a turn.
struct Demand {
    /// The polls that may be served in this round, oldest first.
    takers: VecDeque<Taker>,
    room: usize,
    /// The pass that `asked` belongs to.
    pass: usize,
    asked: usize,
    /// The most that the queues may hold for it.
    max: usize,
    /// Whether it got less than it asked for.
    is_exhausted: bool,
}

/// A poll that may be served, with the number of tasks and the bytes that it may still take.
struct Taker {
    poll: PollId,
    max: usize,
    bytes: ByteBudget,
}

impl Taker {
    fn new((poll, max): (PollId, usize)) -> Self {
        Self { poll, max, bytes: ByteBudget::new(GRANT_BYTES_MAX) }
    }
}

/// Where a round stopped.
pub(in crate::carry) struct ResumePoint {
    pub(super) tenant: Option<Name>,
    /// Tenant, workspace and queue of each.
    pub(super) queues: Vec<(Name, Name, Name)>,
    /// Queues whose lines were looked at, and where that ended.
    pub(super) searched: Vec<(Scope, Name, SearchEnd)>,
}

/// What a round did.
pub(in crate::carry) struct RoundResult {
    pub(in crate::carry) grants: Vec<(PollId, Vec<BatchGrant>)>,
    pub(in crate::carry) resume_point: ResumePoint,
    /// Whether more could have been granted.
    pub(in crate::carry) is_spent: bool,
    /// Whether some polls were not looked at that may take something.
    pub(in crate::carry) is_cut: bool,
    /// Named polls whose earlier leases were looked up.
    pub(in crate::carry) looked_up: Vec<PollId>,
}

impl Round {
    pub(super) fn new(
        mut backlogs: Vec<Backlog>,
        polls: &Polls,
        except: HashSet<PollId>,
        paused: PausedQueues,
        granted: usize,
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
            left: GRANTS_MAX.saturating_sub(granted),
            passes: 0,
            looks: Looks { left: LOOKS_MAX },
            unseen_tenant: None,
            is_short_of_seats: false,
        };
        for Backlog { scope, queue, tasks, kinds } in backlogs {
            let number = round.queues.len();
            if tenants.last().is_none_or(|tenant| tenant.name != scope.tenant) {
                tenants.push(Tenant::new(&scope.tenant));
            }
            tenants.iter_mut().next_back().into_iter().for_each(|it| it.queues.push(number));
            round.numbers.insert((scope.clone(), queue.clone()), number);
            round.queues.push(Queue { scope, queue, tasks, kinds, candidates: None });
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
        let mut ring = self.ring();
        while left > 0
            && let Some((tenant, mut queues)) = ring.pop_front()
        {
            let Some((place, lines)) = queues.pop_front() else { continue };
            let mut lines = lines.unwrap_or_else(|| self.lines_at(tenant, place, polls));
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
                queues.push_back((place, Some(lines)));
            }
            if !queues.is_empty() {
                ring.push_back((tenant, queues));
                // Bug 14: the tenant that had a turn is next again.
                ring.rotate_right(usize::from(faultpoint::mutant(14)));
            }
        }
        order
    }

    /// All tenants and queues that may get a turn, the next one first. Lines are looked for when the turn of their queue comes.
    #[expect(clippy::type_complexity, reason = "tenants of queues of lines, in turn")]
    fn ring(&self) -> VecDeque<(usize, VecDeque<(usize, Option<VecDeque<LineId>>)>)> {
        let from = |next: usize, count: usize| (next..count).chain(0..next.min(count));
        let queues = |tenant: &Tenant| {
            let places = from(tenant.next, tenant.queues.len());
            places.map(|place| (place, None)).collect()
        };
        from(self.next, self.tenants.len()).map(|n| (n, queues(&self.tenants[n]))).collect()
    }

    /// The lines of a queue that may take something. They are looked for once in a round.
    fn lines_at(&mut self, tenant: usize, place: usize, polls: &Polls) -> VecDeque<LineId> {
        let queue = self.tenants[tenant].queues[place];
        if self.queues[queue].tasks == 0 {
            return VecDeque::new();
        }
        if self.queues[queue].candidates.is_none() {
            self.look_for_lines(tenant, place, polls);
        }
        let candidates = self.queues[queue].candidates.iter();
        candidates.flat_map(|candidates| candidates.lines.iter().copied()).collect()
    }

    /// Looks for the lines of a queue, as far as looks are left, and notes where they were not enough.
    fn look_for_lines(&mut self, tenant: usize, place: usize, polls: &Polls) {
        let of_tenant = &mut self.tenants[tenant];
        if self.looks.left == 0 {
            self.unseen_tenant.get_or_insert(tenant);
        }
        let given = of_tenant.looks.left.min(self.looks.left);
        if given == 0 {
            of_tenant.unseen_queue.get_or_insert(place);
            return;
        }
        let Queue { scope, queue, kinds, candidates, .. } =
            &mut self.queues[of_tenant.queues[place]];
        let (mut looks, asked) = (Looks { left: given }, |line| self.lines.contains_key(&line));
        let found = polls.lines.candidates(scope, queue, kinds.as_deref(), &mut looks, asked);
        of_tenant.looks.take(given - looks.left);
        self.looks.take(given - looks.left);
        *candidates = Some(found);
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
                let takers = seated.into_iter().map(Taker::new).collect();
                Demand { takers, room, pass, asked: 0, max: 0, is_exhausted: false }
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

    /// The poll of a line that gets the next task, whose input has this size. A poll for which it is too large is served.
    pub(in crate::carry) fn taker(&mut self, line: LineId, bytes: usize) -> Option<PollId> {
        let demand = self.lines.get_mut(&line)?;
        while let Some(taker) = demand.takers.front_mut() {
            if taker.bytes.takes(bytes) {
                return Some(taker.poll);
            }
            demand.room -= taker.max;
            demand.takers.pop_front();
            self.is_short_of_seats = true;
        }
        None
    }

    /// Records the grant of a task to the line's first poll.
    pub(in crate::carry) fn give(&mut self, line: LineId, granted: BatchGrant) {
        let demand = self.lines.get_mut(&line).expect("only lines that asked are given something");
        let taker = demand.takers.front_mut().expect("a line asks for no more than it takes");
        self.given.entry(taker.poll).or_default().push(granted);
        self.left -= 1;
        demand.room -= 1;
        taker.max -= 1;
        if taker.max == 0 {
            demand.takers.pop_front();
        }
    }

    pub(in crate::carry) fn end(self) -> RoundResult {
        let Self { tenants, next, queues, given, left, unseen_tenant, is_short_of_seats, .. } =
            self;
        let tenant = before(unseen_tenant, next, tenants.len());
        let last = |tenant: &Tenant| {
            let place = before(tenant.unseen_queue, tenant.next, tenant.queues.len())?;
            let Queue { scope, queue, .. } = &queues[*tenant.queues.get(place)?];
            Some((tenant.name.clone(), scope.workspace.clone(), queue.clone()))
        };
        let searched = |it: &Queue| {
            let end = it.candidates.as_ref()?.end;
            Some((it.scope.clone(), it.queue.clone(), end))
        };
        let resume_point = ResumePoint {
            tenant: tenant.and_then(|n| tenants.get(n)).map(|tenant| tenant.name.clone()),
            queues: tenants.iter().filter_map(last).collect(),
            searched: queues.iter().filter_map(searched).collect(),
        };
        let is_cut = is_short_of_seats
            || tenants.iter().any(|tenant| tenant.unseen_queue.is_some())
            || resume_point.searched.iter().any(|(.., end)| *end != SearchEnd::All);
        let grants = given.into_iter().collect();
        let looked_up = Vec::new();
        RoundResult { grants, resume_point, is_spent: left == 0, is_cut, looked_up }
    }
}

impl Tenant {
    fn new(name: &Name) -> Self {
        let looks = Looks { left: LOOKS_OF_TENANT };
        Self { name: name.clone(), queues: Vec::new(), next: 0, looks, unseen_queue: None }
    }
}

/// Whose turn was last: the one before what was not seen, or else before the next one.
fn before(unseen: Option<usize>, next: usize, count: usize) -> Option<usize> {
    match unseen {
        Some(unseen) => unseen.checked_sub(1).or_else(|| count.checked_sub(1)),
        None => next.checked_sub(1),
    }
}
