//! Turns inferred behaviour into an entry of a server's file: the decisions about a tool, and why. The layers below supply
//! everything that the entry does not say.

use serde_json::{Map, Value, json};
use servanda_contract::{
    layers::{DefinitionLayer, ToolEntry},
    tool::{DataClassification, EgressPolicy, SideEffectClass},
};
use servanda_gates::EFFECT_KEYWORD;

use super::{
    duration,
    evidence::{InferredBehaviour, ToolReach},
    programs, secrets,
};
use crate::pins::Definition;

/// The entry of a tool.
pub(super) fn entry(
    definition: &Definition,
    offered: &DefinitionLayer,
    reading: &InferredBehaviour,
    notes: &mut Vec<String>,
) -> ToolEntry {
    let mut entry = ToolEntry::new(side_effect_class(reading.reach), reading.behaviour.clone());
    entry.why = Some(reading.why.clone());
    entry.doubts.clone_from(&reading.disagreements);
    if !reading.certain && entry.doubts.is_empty() {
        let doubt = if reading.reach == ToolReach::ReadOnly {
            "its definition says too little to be sure: only its author says that it reads"
        } else {
            "its definition says too little to be sure, so the graver class was taken"
        };
        entry.doubts.push(doubt.to_owned());
    }
    if egress(definition, reading) == EgressPolicy::None {
        entry = entry.with("security", json!({ "egress_policy": EgressPolicy::None }));
    }
    let data_classification = secrets::classification(definition, reading, notes);
    if data_classification != DataClassification::Internal {
        entry = entry.with("security", json!({ "data_classification": data_classification }));
    }
    if let Some((timeout_class, timeout_ms)) = duration::longer_limit(definition, reading) {
        entry = entry.with("execution", json!({ "timeout_class": timeout_class }));
        entry = entry.with("runtime", json!({ "timeout_ms": timeout_ms }));
    }
    let marked = programs::program_arguments(&offered.input_schema, definition, reading.is_decided_by_program(), notes);
    if !marked.is_empty() {
        let properties: Map<String, Value> =
            marked.into_iter().map(|(name, effect)| (name, json!({ EFFECT_KEYWORD: effect }))).collect();
        entry = entry.with("affordance", json!({ "input_schema": { "properties": properties } }));
    }
    entry
}

const fn side_effect_class(reach: ToolReach) -> SideEffectClass {
    match reach {
        ToolReach::ReadOnly => SideEffectClass::ReadOnly,
        ToolReach::Temporary => SideEffectClass::EphemeralWrite,
        ToolReach::Minor => SideEffectClass::LowRiskInternal,
        ToolReach::Internal => SideEffectClass::MediumRiskWrite,
        ToolReach::External => SideEffectClass::HighRiskExternal,
        ToolReach::Critical => SideEffectClass::CriticalMutation,
    }
}

fn egress(definition: &Definition, reading: &InferredBehaviour) -> EgressPolicy {
    match (definition.hint("openWorldHint"), reading.reach) {
        (Some(false), reach) if reach <= ToolReach::Internal => EgressPolicy::None,
        _ => EgressPolicy::UnrestrictedWithApproval,
    }
}
