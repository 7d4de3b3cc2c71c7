//! The packed terms of a task: its policy and, if it has any, its stages. They are written once, with the task, and read
//! with every task that is loaded.
//!
//! Stages never change, so they are here and not in the task's own row, which every decision writes again.

use std::sync::Arc;

use verdict::plan::{Capabilities, PlanState, Stage};
use verdict::{Limits, Policy, RunState, Task, Unit};

use super::Unreadable;
use super::approval_forms::{read_terms, terms_text};
use super::pack::{PackReader, PackWriter};

/// Define what the bytes after them mean. A different encoding gets a new form.
const POLICY: u8 = 1;
const POLICY_AND_STAGES: u8 = 2;
/// Stages as before, and then the ceiling of each.
const POLICY_STAGES_AND_CEILINGS: u8 = 3;

/// What a stage has or may do: one bit each.
const REFERENCES: u64 = 1;
const CONTINUES: u64 = 2;
const ALWAYS: u64 = 4;
const GATE: u64 = 8;
const MAY_STEP: u64 = 16;
const MAY_WAIT: u64 = 32;
const MAY_SPAWN: u64 = 64;
const ASKS: u64 = 128;
const PREPARED: u64 = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    pub policy: Policy,
    /// Empty for a task without stages.
    pub stages: Arc<[Stage]>,
}

impl Terms {
    #[must_use]
    pub fn of(task: &Task) -> Self {
        let stages = task.run.as_deref().and_then(stages_of);
        Self { policy: task.policy.clone(), stages: stages.unwrap_or_default() }
    }

    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        let mut writer = PackWriter(&mut bytes);
        let form = self.form();
        writer.byte(form);
        writer.policy(&self.policy);
        if form != POLICY {
            pack_stages(&mut writer, &self.stages);
        }
        if form == POLICY_STAGES_AND_CEILINGS {
            self.stages.iter().for_each(|stage| pack_ceiling(&mut writer, &stage.ceiling));
        }
        bytes
    }

    fn form(&self) -> u8 {
        match (self.stages.is_empty(), has_ceilings(&self.stages)) {
            (true, _) => POLICY,
            (false, false) => POLICY_AND_STAGES,
            (false, true) => POLICY_STAGES_AND_CEILINGS,
        }
    }

    pub fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut from = PackReader(bytes);
        unpack(&mut from).filter(|_| from.is_empty()).ok_or_else(|| {
            let source = serde::de::Error::custom("the bytes are not packed terms");
            Unreadable { what: "policy", source }
        })
    }
}

fn stages_of(run: &RunState) -> Option<Arc<[Stage]>> {
    match run.plan.as_deref()? {
        PlanState::Stages(stages) => Some(stages.stages.clone()),
        PlanState::Root(_) | PlanState::Step(_) => None,
    }
}

fn unpack(from: &mut PackReader<'_>) -> Option<Terms> {
    let form = from.byte()?;
    let policy = from.policy()?;
    let stages = match form {
        POLICY => Arc::default(),
        POLICY_AND_STAGES => unpack_stages(from)?,
        POLICY_STAGES_AND_CEILINGS => unpack_with_ceilings(from)?,
        _ => return None,
    };
    Some(Terms { policy, stages })
}

/// Whether the stages are more than [`pack_stages`] packs.
pub(super) fn has_ceilings(stages: &[Stage]) -> bool {
    stages.iter().any(|stage| !stage.ceiling.is_empty())
}

fn pack_ceiling(to: &mut PackWriter<'_>, ceiling: &Limits) {
    for unit in Unit::ALL {
        to.optional(ceiling.get(unit), PackWriter::number);
    }
}

fn unpack_ceiling(from: &mut PackReader<'_>) -> Option<Limits> {
    let mut ceiling = Limits::default();
    for unit in Unit::ALL {
        ceiling.set(unit, from.optional(PackReader::number)?);
    }
    Some(ceiling)
}

fn unpack_with_ceilings(from: &mut PackReader<'_>) -> Option<Arc<[Stage]>> {
    let stages = unpack_stages(from)?;
    let with_ceiling = |stage: &Stage| {
        let ceiling = unpack_ceiling(from)?;
        Some(Stage { ceiling, ..stage.clone() })
    };
    stages.iter().map(with_ceiling).collect()
}

/// Everything but ceilings. Most stages of a plan have the policy of the one before.
pub(super) fn pack_stages(to: &mut PackWriter<'_>, stages: &[Stage]) {
    to.number(stages.len() as u64);
    let mut before = None;
    for stage in stages {
        let other = Some(&stage.policy).filter(|policy| before != Some(*policy));
        before = Some(&stage.policy);
        pack_stage(to, stage, other);
    }
}

fn pack_stage(to: &mut PackWriter<'_>, stage: &Stage, other_policy: Option<&Policy>) {
    let Stage {
        key,
        kind,
        queue,
        policy: _,
        ceiling: _,
        time_limit,
        input,
        has_references,
        continues_on_error,
        is_always,
        is_gate,
        may: Capabilities { steps, waits, children },
        asks,
        is_prepared,
    } = stage;
    for name in [key, kind, queue] {
        to.text(name.as_str());
    }
    to.optional(other_policy, PackWriter::policy);
    to.optional(*time_limit, PackWriter::span);
    to.digest(input);
    let bits = [
        (*has_references, REFERENCES),
        (*continues_on_error, CONTINUES),
        (*is_always, ALWAYS),
        (*is_gate, GATE),
        (*steps, MAY_STEP),
        (*waits, MAY_WAIT),
        (*children, MAY_SPAWN),
        (asks.is_some(), ASKS),
        (*is_prepared, PREPARED),
    ];
    to.number(bits.into_iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum());
    if let Some(terms) = asks {
        to.text(&terms_text(terms));
    }
}

pub(super) fn unpack_stages(from: &mut PackReader<'_>) -> Option<Arc<[Stage]>> {
    let count = from.number()?;
    let mut stages: Vec<Stage> = Vec::new();
    for _ in 0..count {
        let before = stages.last().map(|stage| &stage.policy);
        let stage = unpack_stage(from, before)?;
        stages.push(stage);
    }
    Some(stages.into())
}

fn unpack_stage(from: &mut PackReader<'_>, before: Option<&Policy>) -> Option<Stage> {
    let (key, kind, queue) = (from.name()?, from.name()?, from.name()?);
    let policy = from.optional(PackReader::policy)?.or_else(|| before.cloned())?;
    let time_limit = from.optional(PackReader::span)?;
    let input = from.digest()?;
    let bits = from.number()?;
    let has = |bit| bits & bit != 0;
    let asks = match has(ASKS) {
        true => Some(Arc::new(read_terms(from.text()?)?)),
        false => None,
    };
    let may = Capabilities { steps: has(MAY_STEP), waits: has(MAY_WAIT), children: has(MAY_SPAWN) };
    Some(Stage {
        key,
        kind,
        queue,
        policy,
        ceiling: Limits::default(),
        time_limit,
        input,
        has_references: has(REFERENCES),
        continues_on_error: has(CONTINUES),
        is_always: has(ALWAYS),
        is_gate: has(GATE),
        may,
        asks,
        is_prepared: has(PREPARED),
    })
}
