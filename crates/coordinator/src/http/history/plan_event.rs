//! What the history says about a plan: how many steps an entry is about, never all of them.

use serde_json::{Value, json};
use verdict::plan::{PlanEvent, PlanForm, ToldTo};

use super::super::translate::time;

pub(super) fn detail(event: &PlanEvent) -> Value {
    match event {
        PlanEvent::Planned(PlanForm::Stages { stages, .. }) => json!({ "stages": stages.len() }),
        PlanEvent::Planned(PlanForm::Steps { count, .. }) => json!({ "steps": count }),
        PlanEvent::StageEntered(turn) => json!({ "stage": turn.stage }),
        PlanEvent::StepsSpawned(steps) => {
            let key = |step: &verdict::plan::SpawnedStep| step.step.child.key.to_string();
            let (first, last) = (steps.first().map(key), steps.last().map(key));
            json!({ "steps": steps.len(), "first": first, "last": last })
        }
        PlanEvent::StepBlamed(blame) => {
            json!({ "step": blame.key.as_str(), "state": blame.state.name() })
        }
        PlanEvent::DownstreamsTold { ended, told, has_more } => {
            let count = |to| told.iter().filter(|told| told.to == to).count();
            json!({
                "ended": ended.key.as_str(), "state": ended.state.name(), "counted": told.len(),
                "released": count(ToldTo::Run), "skipped": count(ToldTo::Skip), "hasMore": has_more,
            })
        }
        PlanEvent::StepSpawned { is_blocked, .. } => json!({ "blocked": is_blocked }),
        PlanEvent::Released { deadline, .. } => json!({ "deadline": deadline.map(time) }),
        PlanEvent::Prepared { shown } => json!({ "composed": shown.is_some() }),
        PlanEvent::DoneBy(keys) => {
            json!({ "keys": keys.iter().map(|key| key.as_str()).collect::<Vec<_>>() })
        }
    }
}
