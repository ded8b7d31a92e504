//! The embedded contracts: admitted by the gateway's own rules, complete, and about the tools there are.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use servanda_contract::{ToolContract, document};
use servanda_gates::{RegisteredContracts, admit};

use crate::catalogue::{self, ListedToolGroups};
use crate::contracts::CONTRACTS;
use crate::tool::SampleTool;

const ALL: ListedToolGroups = ListedToolGroups { misbehaviour: true, beta: false };
const HONEST_COUNT: usize = 19;

fn contracts() -> Vec<(&'static str, ToolContract)> {
    let read = |(file, text)| (file, document::read(file, text).unwrap_or_else(|error| panic!("{error}")));
    CONTRACTS.into_iter().map(read).collect()
}

fn names(schema: &Map<String, Value>, member: &str) -> BTreeSet<String> {
    match schema.get(member) {
        Some(Value::Object(members)) => members.keys().cloned().collect(),
        Some(Value::Array(items)) => items.iter().map(|item| item.as_str().unwrap().to_owned()).collect(),
        _ => BTreeSet::new(),
    }
}

fn tool_of(contract: &ToolContract) -> &'static SampleTool {
    let name = &contract.binding.tool;
    catalogue::find(ALL, name).unwrap_or_else(|| panic!("the company has no tool `{name}`"))
}

#[test]
fn every_contract_is_admitted_beside_the_others() {
    let mut registered = RegisteredContracts::new();
    for (file, contract) in contracts() {
        let admitted = admit(contract, &registered).unwrap_or_else(|rejection| panic!("{file}: {rejection}"));
        let identity = &admitted.contract().identity;
        let key = (identity.name.clone(), identity.version.clone());
        assert!(registered.insert(key, admitted.digest()).is_none(), "{file}: a name is used twice");
    }
}

#[test]
fn every_contract_takes_and_promises_the_fields_of_its_tool() {
    for (file, contract) in contracts() {
        let tool = tool_of(&contract);
        let sides = [
            ("input", (tool.input)(), &contract.affordance.input_schema),
            ("output", tool.output.map_or(Value::Null, |output| output()), &contract.affordance.output_schema),
        ];
        for (side, offered, promised) in sides {
            let offered = offered.as_object().cloned().unwrap_or_default();
            for member in ["properties", "required"] {
                assert_eq!(names(promised, member), names(&offered, member), "{file}: {side} {member}");
            }
        }
    }
}

#[test]
fn every_contract_is_named_after_its_tool_and_has_examples() {
    for (file, contract) in contracts() {
        let tool = &contract.binding.tool;
        assert_eq!(file, format!("{tool}.yaml"));
        assert_eq!(contract.identity.name, format!("company.{tool}"));
        assert_eq!(contract.binding.upstream, "company");
        assert!(!contract.affordance.examples.is_empty(), "{file}: no examples");
    }
}

#[test]
fn other_tools_a_contract_names_have_contracts_too() {
    let contracts = contracts();
    let known: BTreeSet<&str> = contracts.iter().map(|(_, contract)| contract.identity.name.as_str()).collect();
    for (file, contract) in &contracts {
        let compensation = contract.transactional.compensation_tool.iter();
        let asked = contract.preconditions.iter().map(|condition| &condition.tool);
        let looking = contract.verification.iter().filter_map(|verification| verification.tool.as_ref());
        for name in compensation.chain(asked).chain(looking) {
            assert!(known.contains(name.as_str()), "{file}: there is no contract `{name}`");
        }
    }
}

#[test]
fn every_honest_tool_and_every_file_has_its_place_in_the_table() {
    let bound: BTreeSet<String> = contracts().into_iter().map(|(_, contract)| contract.binding.tool).collect();
    let honest = ListedToolGroups { misbehaviour: false, ..ALL };
    let covered = bound.iter().filter(|tool| catalogue::find(honest, tool).is_some()).count();
    assert_eq!(covered, HONEST_COUNT);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/contracts");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(files.collect::<BTreeSet<_>>(), CONTRACTS.iter().map(|(file, _)| (*file).to_owned()).collect());
}
