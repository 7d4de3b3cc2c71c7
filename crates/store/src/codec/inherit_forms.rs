//! The stored form of what a fork takes over. As in [`super::run_forms`], members that are absent are left out.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::run::{Checkpoint, Child, ChildCall, Inherit, Inherited, Signal};
use verdict::{Digest, Name, State, TaskId};

use super::run_forms::{CheckpointForm, ChildCallForm, SignalForm, list};
use super::scalars::as_text;

#[derive(Serialize, Deserialize)]
#[serde(remote = "Inherit")]
pub(super) struct InheritForm {
    #[serde(with = "as_text")]
    from: TaskId,
    #[serde(with = "as_text")]
    record: Digest,
    #[serde(with = "inherited")]
    items: Vec<Inherited>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Inherited", rename_all = "snake_case")]
enum InheritedForm {
    Signal(#[serde(with = "SignalForm")] Signal),
    Checkpoint(#[serde(with = "CheckpointForm")] Checkpoint),
    Child(#[serde(with = "ChildForm")] Child),
    Again(#[serde(with = "ChildCallForm")] ChildCall),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Child")]
pub(super) struct ChildForm {
    #[serde(with = "as_text")]
    key: Name,
    #[serde(with = "as_text")]
    id: TaskId,
    #[serde(with = "as_text")]
    digest: Digest,
    #[serde(rename = "detached")]
    is_detached: bool,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    end: Option<State>,
}

list!(inherited, Vec<Inherited>, Inherited, "InheritedForm");
super::forms::boxed!(boxed_inherited_child, Child, ChildForm);
