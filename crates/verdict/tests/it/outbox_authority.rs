//! What the outbox may decide, shown by the types of its decisions and by walking through all of them: it owns deliveries,
//! and has no way to a task, to the work of a task, or to another effect.

use std::marker::PhantomData;

use verdict::effect::decide::append;
use verdict::effect::{
    Claim, DeadReason, Effect, EffectEvent, EffectRequest, EffectState, EffectTerms, EffectVerdict,
    Intent, Line, OnDead, Reconciled, Sent, Standing, decide,
};
use verdict::{Event, Json, Message, Name, Request, Span, Task, Time};

use crate::effects::intent;

const NOW: Time = Time::from_millis(1_000_000);

/// Tells whether a type is `Copy`: the constant of the type itself is found first, and exists only if it is.
struct Of<T>(PhantomData<T>);

impl<T: Copy> Of<T> {
    const IS_COPY: bool = true;
}

trait Otherwise {
    const IS_COPY: bool = false;
}

impl<T> Otherwise for Of<T> {}

#[test]
fn a_decision_about_a_delivery_has_no_room_for_a_task_its_work_or_another_effect() {
    // S2-13, S2-14, S2-77, S2-78, S2-79: what the outbox decides is a list of events of fixed size, and nothing that tells
    // of a task, a request, a message or an intent is one of those.
    const { assert!(Of::<EffectEvent>::IS_COPY) };
    const { assert!(!Of::<Task>::IS_COPY && !Of::<Event>::IS_COPY) };
    const { assert!(!Of::<Request>::IS_COPY && !Of::<Message>::IS_COPY) };
    const { assert!(!Of::<Intent>::IS_COPY && !Of::<Json>::IS_COPY && !Of::<Name>::IS_COPY) };
    // All there is, member by member. A new member stops this from compiling, and whoever adds it reads why.
    let members = |event: EffectEvent| match event {
        EffectEvent::Claimed(Claim { fence: _, until: Time { .. } }) => "the claim of a sender",
        EffectEvent::Rescheduled {
            sent: None | Some(_),
            due: Time { .. },
            counts: true | false,
        } => "when the next try is",
        EffectEvent::Delivered { sent: None | Some(_), at: Time { .. } } => "that it arrived",
        EffectEvent::Lost { since: Time { .. } } => "that nobody knows",
        EffectEvent::Died { sent: None | Some(_), reason, at: Time { .. } } => match reason {
            DeadReason::TriesExhausted | DeadReason::Gone | DeadReason::EndpointDeleted => "why",
        },
        EffectEvent::Redriven { due: Time { .. } } => "new tries",
        EffectEvent::Passed { at: Time { .. } } => "that the line goes on",
        EffectEvent::EndpointGone => "that the receiver is gone",
    };
    assert_eq!(members(EffectEvent::EndpointGone), "that the receiver is gone");
    let said = |sent: Sent| match sent {
        Sent::Status { code: 0..=u16::MAX, retry_after: None | Some(Span { .. }) } => true,
        Sent::Unreached | Sent::Unanswered | Sent::Untried => false,
    };
    assert!(!said(Sent::Untried));
    // What the decision is about, in the same way.
    let Standing { line: Line { last, settled, delivered }, effect, next: _ } = standing(1, 0);
    let Effect { intent: _, number, tries: 0, fence: 0, state: _ } = effect else { panic!() };
    assert_eq!((last, settled, delivered, number), (2, 0, 0, 1));
}

fn standing(number: u64, settled: u64) -> Standing {
    let (line, first) = append(Line::default(), intent(1), NOW);
    let (line, second) = append(line, intent(2), NOW);
    let line = Line { settled, ..line };
    match number {
        1 => Standing { line, effect: first, next: Some(second) },
        _ => Standing { line, effect: second, next: None },
    }
}

fn states() -> [EffectState; 8] {
    let claim = Claim { fence: 1, until: NOW };
    let dead = |reason, is_passed| EffectState::Dead { at: NOW, reason, is_passed };
    [
        EffectState::Queued,
        EffectState::Pending { due: NOW },
        EffectState::InFlight(claim),
        EffectState::Delivered { at: NOW },
        EffectState::Unknown { since: NOW },
        dead(DeadReason::TriesExhausted, false),
        dead(DeadReason::Gone, true),
        dead(DeadReason::EndpointDeleted, true),
    ]
}

fn requests() -> Vec<EffectRequest> {
    let status = |code| Sent::Status { code, retry_after: None };
    let sent = [200, 409, 410, 422, 429, 500].map(status);
    let sent = sent.into_iter().chain([Sent::Unreached, Sent::Unanswered, Sent::Untried]);
    let settled = sent.map(|sent| EffectRequest::Settle { fence: 1, sent });
    let others = [
        EffectRequest::Claim,
        EffectRequest::Sweep,
        EffectRequest::Orphaned { fence: 1 },
        EffectRequest::Reconcile(Reconciled::Arrived),
        EffectRequest::Reconcile(Reconciled::NotArrived),
        EffectRequest::Redrive,
        EffectRequest::Release,
        EffectRequest::Abandon,
    ];
    settled.chain(others).collect()
}

#[test]
fn whatever_becomes_of_a_delivery_no_effect_is_added_and_none_says_something_else() {
    // S2-79, D3: every request in every state, for a head and for one that was passed.
    let mut decided = 0;
    for state in states() {
        for (number, settled) in [(1, 0), (1, 1), (2, 1), (2, 0)] {
            for on_dead in [OnDead::Block, OnDead::Skip] {
                let mut before = standing(number, settled);
                before.effect.state = state;
                let terms = EffectTerms { on_dead, tries_max: 1, ..EffectTerms::default() };
                for request in requests() {
                    let EffectVerdict::Decided(events) = decide(&before, &terms, request, NOW)
                    else {
                        continue;
                    };
                    decided += 1;
                    let after = before.clone().settle(&events);
                    assert_eq!(after.line.last, before.line.last, "{request:?} added an effect");
                    assert_eq!(after.effect.intent, before.effect.intent, "{request:?}");
                    assert_eq!(after.effect.number, before.effect.number, "{request:?}");
                    let said = |next: &Option<Effect>| next.as_ref().map(|it| it.intent.clone());
                    assert_eq!(said(&after.next), said(&before.next), "{request:?}");
                }
            }
        }
    }
    assert!(decided > 50, "only {decided} of the combinations are possible");
}
