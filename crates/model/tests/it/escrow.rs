//! Worlds of budgets: every property holds, every goal is reached, and planted bugs are found.

use tenure_model::Rules;
use tenure_model::escrow::{self, EscrowBounds, EscrowProperty};
use verdict::approval::Decision;
use verdict::run::{Body, Inherited, Recorded, RunRequest};
use verdict::{
    AttemptOutcome, Balance, BudgetEvent, Event, Moment, Next, ReadSet, Reason, Request, RunEvent,
    Subject, Verdict, Waiting, decide,
};

/// One thread each: the tests run in parallel.
fn prove(bounds: EscrowBounds) {
    let outcome = escrow::explore(bounds, 1);
    assert!(outcome.is_proof(), "{outcome}");
    // A world without choices proves nothing.
    assert!(outcome.unique > 3_000, "{outcome}");
}

#[test]
fn a_budget_that_children_share() {
    // W-10, S2-62: however their calls, ends and losses interleave, children together never have more than the limit.
    prove(escrow::shared());
}

#[test]
fn a_budget_that_is_used_up() {
    // S2-39, S2-67, S2-70, S2-94: nothing starts after the limit, what is recorded stays, and the run is not tried again.
    prove(escrow::exhausted());
}

#[test]
fn a_budget_that_asks() {
    // A2-40: beyond the soft limit nothing goes on before people agree.
    prove(escrow::asked());
}

#[test]
fn a_budget_that_is_continued() {
    // S2-94: the continuation pays for itself alone, whatever of the first run still arrives.
    prove(escrow::continued());
}

#[test]
fn every_goal_is_reached_in_some_world() {
    let worlds = escrow::all();
    let is_never =
        |bounds: &EscrowBounds, goal: &str| bounds.never.iter().any(|goals| goals.contains(&goal));
    for goal in escrow::GOALS {
        assert!(worlds.iter().any(|bounds| !is_never(bounds, goal)), "{goal}");
    }
    let named = worlds.iter().flat_map(|bounds| bounds.never).flat_map(|goals| goals.iter());
    named.for_each(|goal| assert!(escrow::GOALS.contains(goal), "no goal: {goal}"));
}

type Bug = fn(ReadSet<'_>, &Request, Moment) -> Verdict;

struct BuggyRules(Bug);

impl Rules for BuggyRules {
    fn decide(&self, read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        (self.0)(read_set, request, at)
    }
}

fn must_be_found(bounds: EscrowBounds, bug: Bug, property: EscrowProperty) {
    let found = escrow::find(bounds, BuggyRules(bug), property);
    assert!(found.is_some(), "the bug went unnoticed by {}", property.name());
}

/// The verdict of the rules when they read another balance.
fn misread(
    read_set: ReadSet<'_>,
    request: &Request,
    at: Moment,
    change: impl FnOnce(&mut Balance),
) -> Verdict {
    let mut subject = read_set.subject.clone();
    if let Subject::Live(task) = &mut subject
        && let Some(balance) = task.run.as_mut().and_then(|run| run.balance.as_mut())
    {
        change(balance);
    }
    decide(ReadSet { subject: &subject, ..read_set }, request, at)
}

fn is_end_of_child(request: &Request) -> bool {
    matches!(request, Request::Run(request)
        if matches!(&**request, RunRequest::Message(it) if matches!(it.body, Body::ChildEnded { .. })))
}

fn is_budget(event: &Event, is_it: impl Fn(&BudgetEvent) -> bool) -> bool {
    matches!(event, Event::Run(event) if matches!(&**event, RunEvent::Budget(it) if is_it(it)))
}

#[test]
fn children_that_are_promised_what_others_hold() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        misread(read_set, request, at, |balance| {
            balance.budget.limits.tokens = balance.budget.limits.tokens.map(|limit| limit + 2);
        })
    }
    must_be_found(escrow::shared(), bug, EscrowProperty::WithinLimit);
}

#[test]
fn a_share_that_comes_back_twice() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        let is_refund =
            |event: &Event| is_budget(event, |it| matches!(it, BudgetEvent::Refunded(_)));
        if let Some(place) = verdict.events.iter().position(is_refund) {
            let again = verdict.events[place].clone();
            verdict.events.insert(place, again);
        }
        verdict
    }
    must_be_found(escrow::shared(), bug, EscrowProperty::EscrowOnce);
}

#[test]
fn a_share_that_does_not_come_back() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        verdict
            .events
            .retain(|event| !is_budget(event, |it| matches!(it, BudgetEvent::Refunded(_))));
        verdict
    }
    must_be_found(escrow::shared(), bug, EscrowProperty::EscrowOnce);
}

#[test]
fn a_total_that_is_not_counted() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        verdict
            .events
            .retain(|event| !is_budget(event, |it| matches!(it, BudgetEvent::Metered(_))));
        verdict
    }
    must_be_found(escrow::exhausted(), bug, EscrowProperty::SpendKept);
}

#[test]
fn a_total_on_top_of_the_steps_that_it_includes() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let steps = read_set.subject.live().and_then(|task| task.balance());
        let steps = steps.map_or(0, |balance| balance.attempt_steps.tokens);
        let mut verdict = decide(read_set, request, at);
        for event in &mut verdict.events {
            if let Event::Run(event) = event
                && let RunEvent::Budget(event) = &mut **event
                && let BudgetEvent::Metered(total) = &mut **event
            {
                total.tokens += steps;
            }
        }
        verdict
    }
    must_be_found(escrow::exhausted(), bug, EscrowProperty::SpendKept);
}

#[test]
fn a_lost_worker_that_used_nothing() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        for event in &mut verdict.events {
            if let Event::AttemptClosed { closed, .. } = event
                && closed.outcome == AttemptOutcome::Lost
            {
                closed.outcome = AttemptOutcome::Undelivered;
            }
        }
        verdict
    }
    must_be_found(escrow::shared(), bug, EscrowProperty::SpendKept);
}

#[test]
fn a_child_that_starts_with_the_call_that_crosses_the_limit() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        match request.checkpoint_call().is_some() {
            true => misread(read_set, request, at, |it| it.budget.limits.tokens = Some(100)),
            false => decide(read_set, request, at),
        }
    }
    must_be_found(escrow::exhausted(), bug, EscrowProperty::NothingAfterLimit);
}

#[test]
fn a_halted_task_that_is_tried_again() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        for event in &mut verdict.events {
            if let Event::AttemptClosed { next, .. } = event
                && matches!(next, Next::End(end) if end.reason == Some(Reason::BudgetExhausted))
            {
                *next = Next::Retry { due: at.now };
            }
        }
        verdict
    }
    must_be_found(escrow::exhausted(), bug, EscrowProperty::HaltIsFinal);
}

#[test]
fn the_end_of_a_child_that_halts_nobody() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        match is_end_of_child(request) {
            true => misread(read_set, request, at, |it| it.budget.limits.tokens = Some(100)),
            false => decide(read_set, request, at),
        }
    }
    must_be_found(escrow::shared(), bug, EscrowProperty::HaltIsFinal);
}

#[test]
fn a_run_that_does_not_wait_for_people() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        misread(read_set, request, at, |balance| balance.is_asked = true)
    }
    must_be_found(escrow::asked(), bug, EscrowProperty::AskedFirst);
}

#[test]
fn a_no_that_counts_as_a_yes() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut request = request.clone();
        if let Request::Run(request) = &mut request
            && let RunRequest::Decide(call) = &mut **request
        {
            call.decision = Decision::Approved;
        }
        decide(read_set, &request, at)
    }
    must_be_found(escrow::asked(), bug, EscrowProperty::AskedFirst);
}

#[test]
fn a_continuation_that_pays_for_what_it_took_over() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        let is_inherit = matches!(request, Request::Run(request)
            if matches!(&**request, RunRequest::Inherit(it)
                if it.items.iter().any(|item| matches!(item, Inherited::Checkpoint(_)))));
        for event in verdict.events.iter_mut().filter(|_| is_inherit) {
            if let Event::Run(event) = event
                && let RunEvent::Checkpointed(checkpoint) = &mut **event
                && let Recorded::Step(step) = &mut checkpoint.recorded
            {
                (checkpoint.attempt, step.spend.tokens) = (1, 1);
            }
        }
        verdict
    }
    must_be_found(escrow::continued(), bug, EscrowProperty::OwnEscrow);
}

#[test]
fn a_halted_run_whose_children_are_not_told() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let is_cancel = matches!(request, Request::Run(request)
            if matches!(&**request, RunRequest::Message(it) if matches!(it.body, Body::Cancel(_))));
        match is_cancel {
            true => Verdict::nothing(),
            false => decide(read_set, request, at),
        }
    }
    must_be_found(escrow::exhausted(), bug, EscrowProperty::ClosingEnds);
}

#[test]
fn a_halted_run_that_forgets_its_children() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        for event in &mut verdict.events {
            if let Event::AttemptClosed { next, .. } = event
                && let Next::Wait(waiting) = next
                && let Waiting::Closing(closing) = &**waiting
            {
                *next = Next::End(closing.end.clone());
            }
        }
        verdict
    }
    must_be_found(escrow::exhausted(), bug, EscrowProperty::EscrowOnce);
}
