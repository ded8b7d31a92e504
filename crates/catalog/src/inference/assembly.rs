//! Turns a reading into the entry of a server's file: what was decided about a tool and why. Everything the entry does not say
//! comes from the layers below it.

use serde_json::{Map, Value, json};
use servanda_contract::{
    layers::{Offered, ToolEntry},
    tool::{EgressPolicy, SideEffectClass, TimeoutClass},
};
use servanda_gates::EFFECT_KEYWORD;

use super::{
    duration,
    evidence::{Reach, Reading},
    programs,
};
use crate::pins::Definition;

/// The entry of a tool.
pub(super) fn entry(
    definition: &Definition,
    offered: &Offered,
    reading: &Reading,
    notes: &mut Vec<String>,
) -> ToolEntry {
    let mut entry = ToolEntry::new(side_effect_class(reading.reach), reading.behaviour.clone());
    entry.why = Some(reading.why.clone());
    entry.doubts.clone_from(&reading.disagreements);
    if !reading.certain && entry.doubts.is_empty() {
        entry.doubts.push("its definition says too little to be sure, so the graver class was taken".to_owned());
    }
    if egress(definition, reading) == EgressPolicy::None {
        entry = entry.with("security", json!({ "egress_policy": EgressPolicy::None }));
    }
    let timeout_class = duration::timeout_class(definition, reading);
    if timeout_class != TimeoutClass::Standard {
        entry = entry.with("execution", json!({ "timeout_class": timeout_class }));
    }
    let marked = programs::marks(&offered.input_schema, definition, notes);
    if !marked.is_empty() {
        let properties: Map<String, Value> =
            marked.into_iter().map(|(name, language)| (name, json!({ EFFECT_KEYWORD: language }))).collect();
        entry = entry.with("affordance", json!({ "input_schema": { "properties": properties } }));
    }
    entry
}

const fn side_effect_class(reach: Reach) -> SideEffectClass {
    match reach {
        Reach::ReadOnly => SideEffectClass::ReadOnly,
        Reach::Internal => SideEffectClass::MediumRiskWrite,
        Reach::External => SideEffectClass::HighRiskExternal,
        Reach::Critical => SideEffectClass::CriticalMutation,
    }
}

fn egress(definition: &Definition, reading: &Reading) -> EgressPolicy {
    match (definition.hint("openWorldHint"), reading.reach) {
        (Some(false), Reach::ReadOnly | Reach::Internal) => EgressPolicy::None,
        _ => EgressPolicy::UnrestrictedWithApproval,
    }
}
