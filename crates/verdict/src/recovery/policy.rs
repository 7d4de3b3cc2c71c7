//! Recovery policies as a subject: administrators set and delete them.
//!
//! What a policy means for failures and candidates is decided elsewhere, from the policy as it is in that moment.

use super::{RecoveryPolicy, RecoveryRefusal};
use crate::desk::Desk;
use crate::id::{Name, Scope};
use crate::known::{Body, Known};
use crate::object::{ObjectKey, ObjectType};
use crate::subject::{Needs, Subject};
use crate::time::Time;
use crate::verdict::{Answer, Refusal};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRequest {
    pub scope: Scope,
    pub call: PolicyCall,
    /// The API key of the caller.
    pub by: Name,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyCall {
    /// The policy of its name from now on.
    Set(Box<RecoveryPolicy>),
    /// Deletes the one of this name.
    Delete(Name),
}

impl PolicyCall {
    const fn name(&self) -> &Name {
        match self {
            PolicyCall::Set(policy) => &policy.name,
            PolicyCall::Delete(name) => name,
        }
    }
}

pub fn policy_key(scope: &Scope, name: &Name) -> ObjectKey {
    let (scope, id) = (scope.clone(), name.clone());
    ObjectKey { scope, object_type: ObjectType::RecoveryPolicy, id }
}

/// Recovery policies as a subject.
#[derive(Debug)]
pub enum RecoveryPolicies {}

impl Subject for RecoveryPolicies {
    type Request = PolicyRequest;

    fn needs(request: &PolicyRequest, _: &Known, _: Time) -> Needs {
        let key = policy_key(&request.scope, request.call.name());
        Needs { objects: [key].into(), ..Needs::default() }
    }

    fn decide(desk: &mut Desk<'_>, request: &PolicyRequest) -> Answer {
        let key = policy_key(&request.scope, request.call.name());
        let after = match &request.call {
            PolicyCall::Set(policy) => Some((**policy).clone()),
            PolicyCall::Delete(_) => deleted(desk, &key),
        };
        let Some(after) = after else {
            return Answer::Refused(Refusal::Recovery(RecoveryRefusal::PolicyNotFound));
        };
        desk.write(key, Body::Policy(Box::new(after.clone())));
        Answer::Policy(Box::new(after))
    }
}

/// The policy as it is kept once it is deleted, so that its log has everything.
fn deleted(desk: &Desk<'_>, key: &ObjectKey) -> Option<RecoveryPolicy> {
    match &desk.object(key)?.body {
        Body::Policy(policy) if !policy.is_deleted => {
            Some(RecoveryPolicy { is_deleted: true, ..(**policy).clone() })
        }
        _ => None,
    }
}
