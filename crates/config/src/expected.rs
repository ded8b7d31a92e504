//! The configuration of expected tools: which kinds of tools calls may use, by task and by rules for every task.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_contract::expectation::{BehaviourPattern, ExpectationRule, Expectations};

use crate::Config;

/// A task, as clients name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskConfig {
    /// The allowed behaviours; a tool must have one of them.
    #[schemars(length(min = 1))]
    pub allow: Vec<BehaviourPattern>,
}

/// A rule for some calls, whatever their task is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectationConfig {
    /// Only calls of these clients, by the name they give; all by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// Only calls to these upstreams; all by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upstreams: Vec<String>,
    /// Only calls that name no task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_task: bool,
    /// The allowed behaviours; a tool must have one of them.
    #[schemars(length(min = 1))]
    pub allow: Vec<BehaviourPattern>,
}

/// The expectations that the engine enforces.
pub(super) fn expectations(
    tasks: &BTreeMap<String, TaskConfig>,
    rules: &BTreeMap<String, ExpectationConfig>,
) -> Expectations {
    let tasks = tasks.iter().map(|(name, task)| (name.clone(), task.allow.clone())).collect();
    let rule = |(name, rule): (&String, &ExpectationConfig)| ExpectationRule {
        name: name.clone(),
        clients: rule.clients.clone(),
        upstreams: rule.upstreams.clone(),
        without_task: rule.without_task,
        allowed: rule.allow.clone(),
    };
    Expectations { tasks, rules: rules.iter().map(rule).collect() }
}

/// The first field with an impossible value, and why.
pub(super) fn fault(config: &Config) -> Option<(String, String)> {
    let empty = "`allow` is empty: no tool would ever fit; to allow every kind, say `- {}`".to_owned();
    let task = config.tasks.iter().find(|(_, task)| task.allow.is_empty()).map(|(name, _)| format!("tasks.{name}"));
    let rule = config.expectations.iter().find(|(_, rule)| rule.allow.is_empty());
    if let Some(field) = task.or_else(|| rule.map(|(name, _)| format!("expectations.{name}"))) {
        return Some((field, empty));
    }
    config.expectations.iter().find_map(|(name, rule)| {
        let unknown = rule.upstreams.iter().find(|id| !config.upstreams.contains_key(*id))?;
        Some((format!("expectations.{name}.upstreams"), format!("there is no upstream `{unknown}`")))
    })
}
