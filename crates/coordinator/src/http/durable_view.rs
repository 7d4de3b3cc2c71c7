//! What a durable run has, and what it waits for, as the API shows it.

use verdict::approval::{Approval, signal_name};
use verdict::effect::watch;
use verdict::run::{
    Awaited, AwaitedEvent, Closing, Divergence, Lineage, RunState, Spend, Wait, WaitMode, Waiting,
};
use verdict::{Phase, Reason};
use wire::answers::{
    self, AwaitedView, DurableView, Ending, OpenWait, Parent, RunBuild, WaitingView,
};

use super::records::spent;
use super::translate::{state, time};

/// How many items of a wait are shown: enough for people. A fan-in may have 10,000.
const ITEMS_SHOWN: usize = 100;

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
        Some(Phase::Waiting(waiting)) => Some(waiting_view(waiting, &run.approvals.open)),
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
        build: run
            .build
            .as_ref()
            .map(|build| RunBuild { id: build.id.to_string(), pinned: run.pin().is_some() }),
    })
}

fn waiting_view(waiting: &Waiting, open: &[Approval]) -> WaitingView {
    let nothing = WaitingView::default();
    match waiting {
        Waiting::For(wait) => WaitingView { wait: Some(open_wait(wait, open)), ..nothing },
        Waiting::Ready { due } => WaitingView { ready_at: Some(time(*due)), ..nothing },
        Waiting::Diverged(divergence) => {
            WaitingView { diverged: Some(divergence_view(divergence)), ..nothing }
        }
        Waiting::Blocked { due } => WaitingView { ready_at: due.map(time), ..nothing },
        Waiting::Steps => nothing,
        Waiting::Closing(closing) => WaitingView { ending: Some(ending(closing)), ..nothing },
    }
}

fn open_wait(wait: &Wait, open: &[Approval]) -> OpenWait {
    OpenWait {
        key: wait.key.to_string(),
        mode: match wait.mode {
            WaitMode::All => wire::WaitMode::All,
            WaitMode::Any => wire::WaitMode::Any,
        },
        items: wait.items.iter().take(ITEMS_SHOWN).map(|item| awaited(item, open)).collect(),
        count: wait.items.len() as u32,
        missing: wait.missing,
        gives_up_at: time(wait.gives_up_at),
    }
}

fn awaited(item: &Awaited, open: &[Approval]) -> AwaitedView {
    let view = AwaitedView { key: item.key.to_string(), ..AwaitedView::default() };
    match &item.event {
        AwaitedEvent::Time(at) => AwaitedView { until: Some(time(*at)), ..view },
        AwaitedEvent::Signal(name) if *name == signal_name(&item.key) => {
            let asked = open.iter().find(|approval| approval.key == item.key);
            let expires_at = asked.and_then(|approval| approval.expires_at).map(time);
            AwaitedView { approval: Some(item.key.to_string()), expires_at, ..view }
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
