//! What lists show of a contract, and in which order.

use std::{fmt::Write as _, sync::Arc};

use super::*;
use crate::{Availability, ListedDisposition, ListedTool};

#[test]
fn a_model_is_shown_how_to_name_its_operation_where_something_is_changed() {
    let shown = |contract: ToolContract| {
        let catalog =
            Catalog::new([admit(contract, &RegisteredContracts::new()).unwrap()], ExposedNaming::Bare).unwrap();
        let listing = catalog.listing(&nobody());
        let listed: Value = serde_json::from_str(listing.tools[0].definition.get()).unwrap();
        listed["inputSchema"]["properties"]["servanda_operation_id"].clone()
    };
    assert_eq!(shown(proposal("write_file"))["maxLength"], 255);
    assert_eq!(shown(proposal("read_file")), Value::Null);
    let mut own = proposal("write_file");
    let properties = own.affordance.input_schema["properties"].as_object_mut().unwrap();
    properties.insert("servanda_operation_id".to_owned(), json!({ "type": "integer" }));
    assert_eq!(shown(own), json!({ "type": "integer" }), "a tool's own argument stays its own");
}

/// Lists show only what a client uses before it calls: every token here is paid for in every list.
#[test]
fn a_list_says_of_a_contract_only_what_is_not_as_usual() {
    let told = |contract: ToolContract, silent: bool| {
        let catalog =
            Catalog::new([admit(contract, &RegisteredContracts::new()).unwrap()], ExposedNaming::Bare).unwrap();
        if silent {
            catalog.mark_unreachable("files", "gone");
        }
        let listing = catalog.listing(&nobody());
        let listed: Value = serde_json::from_str(listing.tools[0].definition.get()).unwrap();
        listed["_meta"].clone()
    };
    let contract = |asks: bool| {
        let mut contract = proposal("read_file");
        contract.transactional.confirmation_required = asks;
        contract
    };
    let usual = json!({ "servanda/contract": { "side_effect_class": "READ_ONLY" } });
    assert_eq!(told(contract(false), false), usual);
    let asks = json!({ "servanda/contract": { "side_effect_class": "READ_ONLY", "disposition": "needs_approval" } });
    assert_eq!(told(contract(true), false), asks);
    let irreversible = |approval: Value| {
        let mut contract = proposal("write_file");
        let effect = contract.effect.as_mut().unwrap();
        effect.mutation_class = Some(servanda_contract::tool::MutationClass::WriteIrreversible);
        contract.approval = Some(serde_json::from_value(approval).unwrap());
        told(contract, false)["servanda/contract"]["dry_run"].clone()
    };
    assert_eq!(irreversible(json!({ "required": true })), "preview");
    assert_eq!(irreversible(json!({})), Value::Null, "its previews are not worth a word in every list");
    assert_eq!(irreversible(json!({ "dry_run": { "argument": "simulate", "value": true } })), "upstream");
    let away = json!({ "servanda/contract": { "side_effect_class": "READ_ONLY", "availability": "unavailable" } });
    assert_eq!(told(contract(false), true), away);
}

/// What a client reads before it calls: all four hints, because a missing one is read as the graver (Codex), the class, and what becomes of
/// a call.
#[test]
fn a_definition_has_every_hint_and_what_becomes_of_a_call() {
    let listed = |mutation_class: Option<&str>, change: fn(&mut ToolContract)| {
        let mut contract = proposal(if mutation_class.is_some() { "write_file" } else { "read_file" });
        if let (Some(class), Some(effect)) = (mutation_class, contract.effect.as_mut()) {
            effect.mutation_class = Some(serde_json::from_value(json!(class)).unwrap());
            contract.transactional.compensation_tool = (class == "write_reversible").then(|| "files.undo".to_owned());
        }
        change(&mut contract);
        ListedTool::render("t", &admit(contract, &RegisteredContracts::new()).unwrap(), Availability::Available)
            .unwrap()
    };
    let asks = |contract: &mut ToolContract| contract.transactional.confirmation_required = true;
    let tools = [
        ("reads", listed(None, |_| {})),
        ("reads, and a person is asked", listed(None, asks)),
        ("can be undone", listed(Some("write_reversible"), |_| {})),
        ("cannot be undone", listed(Some("write_irreversible"), |_| {})),
        ("cannot be undone, and a person is asked", listed(Some("write_irreversible"), asks)),
    ];
    let mut shown = String::new();
    for (what, tool) in tools {
        let tool = Arc::new(tool);
        let all = [
            ListedDisposition::Allowed,
            ListedDisposition::MayNeedApproval,
            ListedDisposition::NeedsApproval,
            ListedDisposition::Refused,
        ];
        let usual: Value = serde_json::from_str(tool.definition.get()).unwrap();
        let _ = writeln!(shown, "{what}\n  usually {} {}", usual["annotations"], usual["_meta"]);
        for disposition in all {
            let variant = tool.for_disposition(disposition);
            assert!(Arc::ptr_eq(&variant, &tool.for_disposition(disposition)), "it is rendered once");
            let value: Value = serde_json::from_str(variant.definition.get()).unwrap();
            let _ = writeln!(shown, "  {disposition:?} {}", value["_meta"]);
            for (name, member) in usual.as_object().unwrap().iter().filter(|(name, _)| *name != "_meta") {
                assert_eq!(value[name], *member, "{what} {disposition:?}: only what is said beside it differs");
            }
            let hints: Vec<&str> = value["annotations"].as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(hints, ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]);
        }
    }
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/dispositions.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(golden, &shown).unwrap();
    }
    assert_eq!(shown, std::fs::read_to_string(golden).unwrap_or_default(), "UPDATE_GOLDEN=1 writes it again");
}

#[test]
fn what_a_schema_says_to_the_gates_alone_is_not_shown() {
    for tool in ["read_file", "write_file"] {
        let mut contract = proposal(tool);
        let properties = contract.affordance.input_schema["properties"].as_object_mut().unwrap();
        properties["path"]["x-effect"] = json!("shell");
        let catalog =
            Catalog::new([admit(contract, &RegisteredContracts::new()).unwrap()], ExposedNaming::Bare).unwrap();
        let listed: Value = serde_json::from_str(catalog.listing(&nobody()).tools[0].definition.get()).unwrap();
        assert_eq!(
            listed["inputSchema"]["properties"]["path"],
            proposal(tool).affordance.input_schema["properties"]["path"]
        );
    }
}

#[test]
fn tools_stand_in_their_servers_order_and_stay_there() {
    let catalog = catalog(&["a", "b", "c"]);
    assert_eq!(names(&catalog, &nobody()), ["files__a", "files__b", "files__c"], "nothing is known but names");
    offer(&catalog, &["c", "a"]);
    assert_eq!(names(&catalog, &nobody()), ["files__c", "files__a"]);
    let generation = catalog.listing(&nobody()).generation;
    offer(&catalog, &["a", "c"]);
    assert_eq!(catalog.listing(&nobody()).generation, generation, "a server that shuffles has not changed anything");
    offer(&catalog, &["b", "a", "c"]);
    assert_eq!(names(&catalog, &nobody()), ["files__c", "files__a", "files__b"]);
}

#[test]
fn how_a_tool_may_be_run_is_passed_on_and_not_pinned() {
    let mut long = definition("read_file");
    let digest = read(&long).digest();
    long["execution"] = json!({ "taskSupport": "optional", "more": 1 });
    assert_eq!(read(&long).digest(), digest);
    let mut odd = definition("write_file");
    odd["execution"] = json!({ "taskSupport": "perhaps" });
    let catalog = catalog(&["read_file", "write_file"]);
    catalog.observe("files", &nobody(), &inventory(&[long, odd]));
    let listed = |name: &str| -> Value {
        let listing = catalog.listing(&nobody());
        let tool = listing.tools.iter().find(|tool| tool.name == name).unwrap();
        serde_json::from_str(tool.definition.get()).unwrap()
    };
    assert_eq!(listed("files__read_file")["execution"], json!({ "taskSupport": "optional" }));
    assert_eq!(listed("files__write_file").get("execution"), None);
}

#[test]
fn long_work_may_be_run_as_a_task_whatever_its_server_offers() {
    for (theirs, shown) in [(None, "optional"), (Some("forbidden"), "optional"), (Some("required"), "required")] {
        let mut long = proposal("read_file");
        long.execution = Some(serde_json::from_value(json!({ "timeout_class": "async" })).unwrap());
        let catalog =
            Catalog::new([admit(long, &RegisteredContracts::new()).unwrap()], ExposedNaming::Prefixed).unwrap();
        let mut offered = definition("read_file");
        if let Some(theirs) = theirs {
            offered["execution"] = json!({ "taskSupport": theirs });
        }
        catalog.observe("files", &nobody(), &inventory(&[offered]));
        let listing = catalog.listing(&nobody());
        let listed: Value = serde_json::from_str(listing.tools[0].definition.get()).unwrap();
        assert_eq!(listed["execution"]["taskSupport"], shown, "{theirs:?}");
    }
}
