//! What a durable run has, and what it waits for, as the API shows it.

use verdict::approval::signal_name;
use verdict::effect::watch;
use verdict::run::{
    Awaited, AwaitedEvent, Closing, Divergence, Lineage, RunState, Spend, Wait, WaitMode, Waiting,
};
use verdict::{Phase, Reason, Task};
use wire::answers::{self, AwaitedView, DurableView, Ending, Gate, OpenWait, Parent, WaitingView};

use super::approvals::awaited_word;
use super::records::spent;
use super::translate::{state, time};

/// How many items of a wait are shown: enough for people. A fan-in may have 10,000.
const ITEMS_SHOWN: usize = 100;

/// How many items of a wait one sentence names.
const ITEMS_NAMED: usize = 5;

/// Where the task comes from; `None` for a run that a client submitted.
pub(super) fn parent_view(run: Option<&RunState>) -> Option<Parent> {
    Some(match run?.lineage.as_ref()? {
        Lineage::Child { run: _, parent, key } => {
            Parent { task_id: parent.to_string(), key: key.to_string(), detached: false }
        }
        Lineage::Detached { cause, key } => {
            Parent { task_id: cause.to_string(), key: key.to_string(), detached: true }
        }
    })
}

/// `None` for a task that has recorded, started and received nothing, as every plain one.
pub(super) fn durable_view(run: Option<&RunState>, phase: Option<&Phase>) -> Option<DurableView> {
    let run = run?;
    let waiting = match phase {
        Some(Phase::Waiting(waiting)) => Some(waiting_view(waiting)),
        _ => None,
    };
    let is_blank = RunState {
        lineage: run.lineage.clone(),
        balance: run.balance.clone(),
        flow: run.flow.clone(),
        forked_from: run.forked_from,
        ..RunState::default()
    } == *run
        && waiting.is_none();
    (!is_blank).then(|| DurableView {
        seed: None,
        steps: run.steps,
        children: run.children,
        live_children: run.live_children,
        pending_signals: run.signals.pending,
        suspensions: run.suspensions,
        savepoint: (run.savepoint > 0).then_some(run.savepoint),
        spend: (run.spend != Spend::default()).then(|| spent(run.spend)),
        waiting,
    })
}

fn waiting_view(waiting: &Waiting) -> WaitingView {
    let nothing = WaitingView::default();
    match waiting {
        Waiting::For(wait) => WaitingView { wait: Some(open_wait(wait)), ..nothing },
        Waiting::Ready { due } => WaitingView { ready_at: Some(time(*due)), ..nothing },
        Waiting::Diverged(divergence) => {
            WaitingView { diverged: Some(divergence_view(divergence)), ..nothing }
        }
        Waiting::Blocked { due } => WaitingView { ready_at: due.map(time), ..nothing },
        Waiting::Steps => nothing,
        Waiting::Closing(closing) => WaitingView { ending: Some(ending(closing)), ..nothing },
    }
}

fn open_wait(wait: &Wait) -> OpenWait {
    OpenWait {
        key: wait.key.to_string(),
        mode: match wait.mode {
            WaitMode::All => wire::WaitMode::All,
            WaitMode::Any => wire::WaitMode::Any,
        },
        items: wait.items.iter().take(ITEMS_SHOWN).map(awaited).collect(),
        count: wait.items.len() as u32,
        missing: wait.missing,
        gives_up_at: time(wait.gives_up_at),
    }
}

/// Names what a task waits for in the gate that says so.
pub(super) fn with_awaited(gate: Gate, task: &Task) -> Gate {
    let Phase::Waiting(waiting) = &task.phase else { return gate };
    let Waiting::For(wait) = &**waiting else { return gate };
    let named = wait.items.iter().take(ITEMS_NAMED).map(|item| named(task, item));
    let named: Vec<String> = named.collect();
    let rest = wait.items.len() - named.len();
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let how = match wait.mode {
        WaitMode::All => "all of",
        WaitMode::Any => "one of",
    };
    Gate { now: format!("{}; {how}: {}{more}", gate.now, named.join(", ")), ..gate }
}

fn named(task: &Task, item: &Awaited) -> String {
    let open = task.run.as_ref().map_or(&[][..], |run| &run.approvals.open);
    if let Some(approval) = open.iter().find(|approval| approval.key == item.key) {
        return awaited_word(task.id, approval);
    }
    match &item.event {
        AwaitedEvent::Time(at) => format!("the time {}", time(*at)),
        AwaitedEvent::Signal(name) if *name == watch::signal_name(&item.key) => {
            format!("what becomes of the effect of `{}`", item.key)
        }
        AwaitedEvent::Signal(name) => format!("the signal `{name}`"),
        AwaitedEvent::Child(key) => format!("the child `{key}`"),
    }
}

fn awaited(item: &Awaited) -> AwaitedView {
    let view = AwaitedView { key: item.key.to_string(), ..AwaitedView::default() };
    match &item.event {
        AwaitedEvent::Time(at) => AwaitedView { until: Some(time(*at)), ..view },
        AwaitedEvent::Signal(name) if *name == signal_name(&item.key) => {
            AwaitedView { approval: Some(item.key.to_string()), ..view }
        }
        AwaitedEvent::Signal(name) if *name == watch::signal_name(&item.key) => {
            AwaitedView { effect: Some(item.key.to_string()), ..view }
        }
        AwaitedEvent::Signal(name) => AwaitedView { signal: Some(name.to_string()), ..view },
        AwaitedEvent::Child(key) => AwaitedView { child: Some(key.to_string()), ..view },
    }
}

fn divergence_view(divergence: &Divergence) -> answers::Divergence {
    let Divergence { branch, index, recorded, actual } = divergence;
    answers::Divergence {
        branch: branch.to_string(),
        index: *index,
        recorded: recorded.to_string(),
        actual: actual.to_string(),
    }
}

fn ending(closing: &Closing) -> Ending {
    let reason = closing.end.reason.map(Reason::name).map(str::to_owned);
    Ending { state: state(closing.end.state), reason }
}
