//! Events that no role decided: a pause state says so, whatever the reason (A0-11).
//!
//! An event ends by its scheduler. Where it cannot, because every try was lost, the scheduler gave it up or its
//! run was cancelled, nothing follows from it any more, and a person has to decide.

use crate::deployment::{Event, PauseReason, PauseState};

/// How an event ended without its role.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'e> {
    /// The run that it was.
    pub run: &'e str,
    pub is_cancelled: bool,
    /// What is known of the reason.
    pub why: &'e str,
    pub at: u64,
}

/// The pause state of such an end. Without an event, what was stored of it cannot be read. The same end makes the same pause
/// state; an event that was tried again and ended so again makes another one.
#[must_use]
pub fn pause(event: Option<&Event>, ended: &Ended<'_>, now: u64) -> PauseState {
    let Ended { run, is_cancelled, why, at } = *ended;
    let reason = if is_cancelled { PauseReason::Cancelled } else { PauseReason::Halted };
    let subject = event.and_then(|event| event.subject.as_ref());
    let cause = event.map_or(run, |event| event.id.as_str());
    let mut actions = vec![match (is_cancelled, event) {
        (true, _) => format!("Decide whether {cause} should still become work; {why}."),
        (false, Some(_)) => format!("Mend what kept {cause} from becoming work: {why}."),
        (false, None) => format!("Find out what the event of {run} was: {why}."),
    }];
    if event.is_some() {
        actions.push(format!("To have it tried again, run `tenure runs retry {run}`."));
    }
    if let Some(subject) = subject {
        actions.push(format!("Or go on with {subject} by hand; nothing follows by itself."));
    }
    PauseState::new(reason, cause, at, &actions, now).about(subject)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::ACTIONS_MAX;
    use crate::deployment::ArtifactRef;

    fn event() -> Event {
        let subject = ArtifactRef { kind: "plank".to_owned(), id: "p".to_owned() };
        let id = format!("plank-arrived/{subject}/2");
        let mut event = Event::about_deployment("plank-arrived", "x", 1);
        (event.id, event.subject, event.transition_no) = (id, Some(subject), Some(2));
        event
    }

    fn ended(is_cancelled: bool, at: u64) -> Ended<'static> {
        Ended { run: "run_1", is_cancelled, why: "it was lost 100 times", at }
    }

    #[test]
    fn every_end_has_one_pause_state_with_one_to_three_actions() {
        let event = event();
        for (event, is_cancelled) in
            [(Some(&event), true), (Some(&event), false), (None, true), (None, false)]
        {
            let pause = pause(event, &ended(is_cancelled, 7), 9);
            assert!((1..=ACTIONS_MAX).contains(&pause.actions.len()), "{pause:?}");
            assert_eq!(pause.subject.as_ref(), event.and_then(|it| it.subject.as_ref()));
            assert_eq!(pause.reason == PauseReason::Cancelled, is_cancelled);
            let again = super::pause(event, &ended(is_cancelled, 7), 12);
            assert_eq!(again.id, pause.id, "written later, the same end");
            assert_ne!(super::pause(event, &ended(is_cancelled, 8), 9).id, pause.id);
        }
    }
}
