use serde_json::{Value, json};

use super::{
    ContractLayers, Defaults, DefinitionLayer, EffectiveContract, Layer, LayerError, ServerContracts, ToolEntry,
};
use crate::{document, tool::SideEffectClass};

fn defaults(value: Value) -> Defaults {
    serde_json::from_value(value).unwrap()
}

fn entry(value: Value) -> ToolEntry {
    serde_json::from_value(value).unwrap()
}

fn offered() -> DefinitionLayer {
    let schema = json!({ "type": "object", "properties": { "number": { "type": "integer" } } });
    DefinitionLayer {
        description: "Merges a pull request.".to_owned(),
        title: None,
        input_schema: schema.as_object().unwrap().clone().into(),
        output_schema: serde_json::Map::new().into(),
    }
}

fn compose(configuration: Value, server: Value, tool: Value) -> Result<EffectiveContract, LayerError> {
    let (configuration, server_defaults, entry) = (defaults(configuration), defaults(server), entry(tool));
    let offered = offered();
    ContractLayers {
        server: "github",
        tool: "merge_pull_request",
        configuration: &configuration,
        server_defaults: &server_defaults,
        entry: &entry,
        offered: Some(&offered),
    }
    .compose()
}

fn merge() -> Value {
    json!({ "class": "HIGH_RISK_EXTERNAL", "behaviour": "MUTATES|MERGE|PR|TEXT" })
}

#[test]
fn each_layer_overrides_the_one_below() {
    let limit = |ms: u64| json!({ "runtime": { "timeout_ms": ms } });
    let mut tool = merge();
    let at = |configuration: &Value, server: &Value, tool: &Value| {
        let effective = compose(configuration.clone(), server.clone(), tool.clone()).unwrap();
        (effective.contract.runtime.timeout_ms, effective.origins.at("/runtime/timeout_ms").unwrap())
    };
    let none = json!({});
    assert_eq!(at(&none, &none, &tool), (60_000, Layer::BuiltIn(SideEffectClass::HighRiskExternal)));
    assert_eq!(at(&limit(1), &none, &tool), (1, Layer::Configuration));
    assert_eq!(at(&limit(1), &limit(2), &tool), (2, Layer::Server));
    let by_class = json!({ "runtime": { "timeout_ms": 2 }, "by_class": { "HIGH_RISK_EXTERNAL": limit(3), "READ_ONLY": limit(4) } });
    assert_eq!(at(&limit(1), &by_class, &tool), (3, Layer::Server));
    tool["runtime"] = json!({ "timeout_ms": 5 });
    assert_eq!(at(&limit(1), &by_class, &tool), (5, Layer::Tool));
}

#[test]
fn the_definition_gives_texts_and_schemas_and_an_entry_tightens_them() {
    let mut tool = merge();
    tool["affordance"] = json!({ "input_schema": { "properties": { "number": { "minimum": 1 } } } });
    let EffectiveContract { contract, origins } = compose(json!({}), json!({}), tool).unwrap();
    assert_eq!(contract.affordance.model_description, "Merges a pull request.");
    assert_eq!(contract.affordance.input_schema["properties"]["number"], json!({ "type": "integer", "minimum": 1 }));
    let number = "/affordance/input_schema/properties/number";
    assert_eq!(origins.at(&format!("{number}/type")), Some(Layer::Definition));
    assert_eq!(origins.at(&format!("{number}/minimum")), Some(Layer::Tool));
    assert_eq!(origins.sole(number), None);
    assert_eq!(origins.sole("/affordance/model_description"), Some(Layer::Definition));
}

/// Must show 1: the digest depends on what the layers say together, not on which layer says it, nor on their order.
#[test]
fn layers_that_say_the_same_have_one_digest() {
    let said = json!({ "identity": { "owner": "platform" }, "runtime": { "max_retries": 0, "timeout_ms": 9_000 } });
    let turned = json!({ "runtime": { "timeout_ms": 9_000, "max_retries": 0 }, "identity": { "owner": "platform" } });
    let of_class = json!({ "by_class": { "HIGH_RISK_EXTERNAL": said } });
    let mut tool = merge();
    let none = json!({});
    let mut digests = vec![
        compose(said.clone(), none.clone(), tool.clone()),
        compose(none.clone(), turned, tool.clone()),
        compose(of_class.clone(), none.clone(), tool.clone()),
        compose(none.clone(), of_class, tool.clone()),
        compose(
            json!({ "identity": { "owner": "platform" } }),
            json!({ "runtime": { "timeout_ms": 9_000 } }),
            tool.clone(),
        ),
        compose(json!({ "runtime": { "timeout_ms": 1 } }), said.clone(), tool.clone()),
    ];
    for (section, members) in said.as_object().unwrap() {
        tool[section] = members.clone();
    }
    tool["why"] = "somebody said so".into();
    tool["reviewed"] = json!({ "by": "jane", "at": "2026-11-17" });
    digests.push(compose(none.clone(), none, tool));
    let digests: Vec<String> =
        digests.into_iter().map(|composed| composed.unwrap().contract.digest().unwrap().to_string()).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:#?}");
}

#[test]
fn a_mistake_is_told_with_its_layer_and_field() {
    let wrong = json!({ "runtime": { "timeout_msec": 5 } });
    let error = compose(json!({}), wrong.clone(), merge()).unwrap_err();
    assert_eq!((error.layer, error.field.as_str()), (Some(Layer::Server), "runtime.timeout_msec"), "{error}");
    let error = compose(json!({ "runtime": { "timeout_ms": "soon" } }), json!({}), merge()).unwrap_err();
    assert_eq!((error.layer, error.field.as_str()), (Some(Layer::Configuration), "runtime.timeout_ms"), "{error}");
    assert!(error.to_string().contains("should be a whole number"), "{error}");
}

#[test]
fn what_is_about_one_tool_is_no_default() {
    for wrong in [
        json!({ "affordance": {} }),
        json!({ "behaviour": "PURE|READ|DATA" }),
        json!({ "identity": { "name": "x" } }),
        json!({ "transactional": { "side_effect_class": "READ_ONLY" } }),
        json!({ "by_class": { "READ_ONLY": { "transactional": { "side_effect_class": "READ_ONLY" } } } }),
    ] {
        let error = serde_json::from_value::<Defaults>(wrong.clone()).unwrap_err().to_string();
        assert!(error.contains("is about one tool"), "{wrong}: {error}");
    }
    for (wrong, expected) in [
        (json!({ "runtme": {} }), "there is no member `runtme`"),
        (json!({ "by_class": { "HARMLESS": {} } }), "by_class"),
    ] {
        let error = serde_json::from_value::<Defaults>(wrong.clone()).unwrap_err().to_string();
        assert!(error.contains(expected), "{wrong}: {error}");
    }
}

#[test]
fn an_entry_says_its_class_once() {
    let wrong = [
        (json!({}), "`class` is missing"),
        (json!({ "class": "HARMLESS" }), "`class`: "),
        (
            json!({ "class": "READ_ONLY", "transactional": { "side_effect_class": "EPHEMERAL_WRITE" } }),
            "leave one of them out",
        ),
        (json!({ "class": "READ_ONLY", "behaviour": "PURE|READ" }), "three or four words"),
        (json!({ "class": "READ_ONLY", "behaviour": "PURE|LOOK|DATA" }), "`behaviour`"),
        (json!({ "class": "READ_ONLY", "binding": {} }), "there is no member `binding`"),
    ];
    for (value, expected) in wrong {
        let error = serde_json::from_value::<ToolEntry>(value.clone()).unwrap_err().to_string();
        assert!(error.contains(expected), "{value}: {error}");
    }
    assert_eq!(
        entry(json!({ "transactional": { "side_effect_class": "READ_ONLY" } })).class(),
        SideEffectClass::ReadOnly
    );
}

#[test]
fn without_a_pin_the_entry_brings_its_schemas() {
    let (none, mut bare) = (Defaults::default(), merge());
    let layers = |entry| ContractLayers {
        server: "s",
        tool: "t",
        configuration: &none,
        server_defaults: &none,
        entry,
        offered: None,
    };
    let without = entry(bare.clone());
    let error = layers(&without).compose().unwrap_err();
    assert!(error.to_string().contains("no pinned definition"), "{error}");
    bare["affordance"] = json!({ "model_description": "x", "input_schema": { "type": "object" }, "output_schema": {} });
    let with = entry(bare);
    assert!(layers(&with).compose().is_ok());
}

#[test]
fn a_file_reads_and_writes_to_the_same() {
    let text = "\
server: github
defaults:
  identity: {owner: platform}
  by_class:
    READ_ONLY: {runtime: {timeout_ms: 10000}}
tools:
  get_me: {class: READ_ONLY, behaviour: PURE|READ|USER|TEXT, why: '`get` in its name'}
  merge_pull_request:
    class: HIGH_RISK_EXTERNAL
    behaviour: MUTATES|MERGE|PR|TEXT
    doubts: [it cannot be taken back]
    reviewed: {by: jane, at: '2026-11-17'}
    transactional: {confirmation_required: true}
";
    let file: ServerContracts = document::read("contracts/github.yaml", text).unwrap();
    let again = document::write(&file).unwrap();
    assert_eq!(document::read::<ServerContracts>("again.yaml", &again).unwrap(), file, "{again}");
    assert!(again.contains("behaviour: MUTATES|MERGE|PR|TEXT"), "{again}");
    let error =
        document::read::<ServerContracts>("contracts/github.yaml", &text.replace("get_me: {class", "get_me: {clas"));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("contracts/github.yaml:7:") && error.contains("tools.get_me"), "{error}");
}
