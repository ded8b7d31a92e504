//! Collects what is expected of a call's tool: by its task, its stated intent, the operator's rules, and an earlier call that it should be
//! like. Gate 6 compares. This module names the tools that would have fitted, because it knows the other tools.

use std::collections::BTreeSet;

use serde_json::Value;
use servanda_contract::{
    GateName, Proposal, Refusal,
    expectation::{BehaviourPattern, Expectation, ExpectationSource, Expectations, Intent},
    record::Outcome,
};
use servanda_gates::{CompiledContract, ToolExpectation};

use crate::{client::Requester, core::Core, world::WorldSnapshot};

/// The most names that a hint lists.
const NAMES_MAX: usize = 5;

/// Everything that is expected of a call's tool.
pub(crate) async fn expected_of_call(
    core: &Core,
    snapshot: &WorldSnapshot,
    proposal: &Proposal,
    contract: &CompiledContract,
) -> Vec<ToolExpectation> {
    let Expectations { tasks, rules } = &snapshot.expectations;
    let aims = &proposal.aims;
    let mut expected = Vec::new();
    let upstream = &contract.contract().binding.upstream;
    let client = proposal.caller.client.as_deref().unwrap_or_default();
    // A client gives its name and its version; a rule is about the name.
    let (client_name, _) = client.rsplit_once(' ').unwrap_or((client, ""));
    let concerned = rules.iter().filter(|rule| {
        let among = |names: &[String], called: &[&str]| {
            names.is_empty() || names.iter().any(|name| called.contains(&name.as_str()))
        };
        among(&rule.clients, &[client, client_name])
            && among(&rule.upstreams, &[upstream])
            && !(rule.without_task && aims.task.is_some())
    });
    expected.extend(concerned.map(|rule| {
        ToolExpectation::Known(Expectation {
            source: ExpectationSource::Rule(rule.name.clone()),
            allowed: rule.allowed.clone(),
        })
    }));
    expected.extend(aims.task.as_ref().map(|name| match tasks.get(name) {
        Some(allowed) => ToolExpectation::Known(Expectation {
            source: ExpectationSource::Task(name.clone()),
            allowed: allowed.clone(),
        }),
        None => unknown_task(tasks.keys()),
    }));
    expected.extend(aims.intent.as_ref().map(|name| match Intent::from_name(name) {
        Some(intent) => ToolExpectation::Known(intent.expectation()),
        None => ToolExpectation::Unclear {
            message: "`_meta[\"servanda/intent\"]` is none of `read`, `write` and `destructive`".to_owned(),
            hint: "use one of the three, or leave it out".to_owned(),
        },
    }));
    if let Some(call_id) = &aims.like {
        expected.push(Box::pin(behaviour_of_earlier_call(core, snapshot, proposal, call_id)).await);
    }
    expected
}

/// Adds to a refusal of the behaviour gate which tools would have fitted: first those that take the same arguments, then those of the same
/// server. Adds none if the kind of tool was not what was wrong.
pub(crate) fn name_fitting(
    refusal: &mut Refusal,
    snapshot: &WorldSnapshot,
    requester: &Requester,
    expected: &[ToolExpectation],
    refused: &CompiledContract,
) {
    let fits = |contract: &CompiledContract| {
        expected
            .iter()
            .all(|expected| matches!(expected, ToolExpectation::Known(one) if one.is_met_by(contract.contract())))
    };
    let unclear = expected.iter().any(|expected| matches!(expected, ToolExpectation::Unclear { .. }));
    if refusal.gate != GateName::Behaviour || unclear || fits(refused) {
        return;
    }
    let upstream = &refused.contract().binding.upstream;
    let taken = |contract: &CompiledContract| {
        let properties = contract.contract().affordance.input_schema.get("properties").and_then(Value::as_object);
        properties.into_iter().flat_map(|properties| properties.keys().cloned()).collect::<BTreeSet<String>>()
    };
    let wanted = taken(refused);
    // A hint names only tools that the requester can see.
    let shown = snapshot.visible_listing(snapshot.catalog.listing(requester.viewer()), requester);
    let mut names: Vec<(bool, bool, String)> = shown
        .tools
        .iter()
        .filter_map(|tool| Some((tool.name.as_str(), snapshot.catalog.entry(&tool.name)?)))
        .filter(|(_, entry)| fits(&entry.contract))
        .map(|(name, entry)| {
            let elsewhere = entry.contract.contract().binding.upstream != *upstream;
            (taken(&entry.contract) != wanted, elsewhere, name.to_owned())
        })
        .collect();
    names.sort();
    let (shown, more) = (names.iter().take(NAMES_MAX), names.len().saturating_sub(NAMES_MAX));
    let shown: Vec<String> = shown.map(|(.., name)| format!("`{name}`")).collect();
    let also = if more > 0 { format!(" and {more} more") } else { String::new() };
    refusal.hint = if shown.is_empty() {
        format!("{}; no tool of that kind is available", refusal.hint)
    } else {
        format!("{}; tools of that kind: {}{also}", refusal.hint, shown.join(", "))
    };
}

fn unknown_task<'a>(known: impl Iterator<Item = &'a String>) -> ToolExpectation {
    let known: Vec<String> = known.take(NAMES_MAX).map(|name| format!("`{name}`")).collect();
    let hint = if known.is_empty() {
        "no tasks are declared here: leave it out, or ask the operator to add it under `tasks`".to_owned()
    } else {
        format!("name one that is declared, such as {}, or leave it out", known.join(", "))
    };
    ToolExpectation::Unclear {
        message: "`_meta[\"servanda/task\"]` names a task that is not declared".to_owned(),
        hint,
    }
}

/// The behaviour of the tool of an earlier call of the same caller, if that call was completed.
async fn behaviour_of_earlier_call(
    core: &Core,
    snapshot: &WorldSnapshot,
    proposal: &Proposal,
    call_id: &str,
) -> ToolExpectation {
    let unclear = |message: &str| ToolExpectation::Unclear {
        message: message.to_owned(),
        hint: "name a call of yours that was completed, or leave `_meta[\"servanda/like\"]` out".to_owned(),
    };
    let found = match core.journal.find_record(call_id).await {
        Ok(found) => found,
        Err(error) => return unclear(&format!("the earlier call could not be looked up: {error}")),
    };
    let caller = &proposal.caller;
    // Another user's call counts as unknown.
    let Some(record) =
        found.filter(|record| record.caller.is_same_user(caller) && record.outcome == Outcome::Completed)
    else {
        return unclear("the earlier call is not known, or was not completed");
    };
    let digest = record.contract.map(|reference| reference.digest);
    let mut entries = snapshot.catalog.entries();
    let entry = entries.find(|(_, entry)| Some(entry.contract.digest()) == digest);
    let Some(behaviour) = entry.and_then(|(_, entry)| entry.contract.contract().behaviour.clone()) else {
        return unclear("the contract of the earlier call's tool has changed since, or declares no behaviour");
    };
    let source = ExpectationSource::Call(call_id.to_owned());
    ToolExpectation::Known(Expectation { source, allowed: vec![BehaviourPattern::exactly(&behaviour)] })
}
