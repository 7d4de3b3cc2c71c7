//! Terms of a policy that earlier versions of the rules do not know: they refuse a request that asks for one.

use crate::plan::{PlanForm, PlanRequest};
use crate::policy::Policy;
use crate::request::Request;
use crate::rules::Rules;
use crate::run::RunRequest;

/// Whether a request asks for a term that the rules in force do not know.
pub(super) fn is_refused(request: &Request, rules: Rules) -> bool {
    match rules {
        Rules::V1 | Rules::V2 | Rules::V3 | Rules::V4 | Rules::V5 => asks(request),
        Rules::V6 => false,
    }
}

/// A progress clock or a time to live.
fn has_newer_term(policy: &Policy) -> bool {
    policy.progress_clock.is_some() || policy.ttl.is_some()
}

fn asks(request: &Request) -> bool {
    match request {
        Request::Submit(submit) => has_newer_term(&submit.policy),
        Request::Run(request) => match &**request {
            RunRequest::Checkpoint(call) => {
                call.children.iter().any(|child| has_newer_term(&child.submit.policy))
            }
            RunRequest::Metered(metered) => asks(&metered.call),
            RunRequest::Plan(PlanRequest::Submit(plan)) => {
                let stages = match &plan.form {
                    PlanForm::Stages { stages, .. } => &stages[..],
                    PlanForm::Steps { .. } => &[],
                };
                has_newer_term(&plan.submit.policy)
                    || stages.iter().any(|stage| has_newer_term(&stage.policy))
                    || plan.steps.iter().any(|step| has_newer_term(&step.child.submit.policy))
            }
            RunRequest::Plan(_)
            | RunRequest::Signal(_)
            | RunRequest::Message(_)
            | RunRequest::Decide(_)
            | RunRequest::Inherit(_)
            | RunRequest::Resume => false,
        },
        _ => false,
    }
}
