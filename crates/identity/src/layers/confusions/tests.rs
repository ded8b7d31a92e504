//! Groups of tools that take the same arguments.

use proptest::prelude::*;
use serde_json::{Value, json};
use servanda_contract::tool::{Action, Behaviour, Mutability, OutputDomain};

use super::{Conduct, ConfusionCandidate, ConfusionSeverity, DistinguishingField, confusions};

fn behaviour(mutability: Mutability, action: Action) -> Conduct {
    Behaviour::new(mutability, action, OutputDomain::Data).into()
}

fn descriptor(id: &str, input_schema: Value, conduct: Conduct) -> ConfusionCandidate {
    ConfusionCandidate { id: id.to_owned(), server: "git".to_owned(), name: id.to_owned(), input_schema, conduct }
}

fn by_id(schema: &Value, conducts: &[Conduct]) -> Vec<ConfusionCandidate> {
    let numbered = conducts.iter().enumerate();
    numbered.map(|(number, conduct)| descriptor(&format!("tool{number}"), schema.clone(), *conduct)).collect()
}

#[test]
fn titles_descriptions_and_order_do_not_matter_but_a_property_called_title_does() {
    let told = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "title": "Args",
        "properties": {
            "title": { "type": "string", "description": "of the page" },
            "kind": { "enum": ["a", "b"] },
        },
        "required": ["title", "kind"],
    });
    let plain = json!({
        "required": ["kind", "title"],
        "properties": { "kind": { "enum": ["b", "a"], "title": "Kind", "x-effect": "sql" }, "title": { "type": "string" } },
        "type": "object",
    });
    let without =
        json!({ "type": "object", "properties": { "kind": { "enum": ["a", "b"] } }, "required": ["title", "kind"] });
    let nothing = [json!({ "type": "object" }), json!({ "type": "object", "properties": {}, "required": [] })];
    let mut tools: Vec<ConfusionCandidate> = [told, plain, without]
        .into_iter()
        .chain(nothing)
        .enumerate()
        .map(|(number, schema)| descriptor(&format!("tool{number}"), schema, Conduct::default()))
        .collect();
    tools.push(descriptor("alone", json!({ "type": "object", "additionalProperties": false }), Conduct::default()));
    let found = confusions(&tools);
    let ids: Vec<Vec<&str>> =
        found.iter().map(|group| group.tools.iter().map(|tool| tool.id.as_str()).collect()).collect();
    assert_eq!(ids, [vec!["tool0", "tool1"], vec!["tool3", "tool4"]]);
    assert_eq!(found[0].parameters, ["kind", "title"]);
    assert!(found[1].parameters.is_empty());
}

#[test]
fn severity_is_by_what_a_mix_up_would_do() {
    use Action::{Create, Delete, Read, Search, Update};
    let (read, search) = (behaviour(Mutability::Pure, Read), behaviour(Mutability::Pure, Search));
    let (create, update) = (behaviour(Mutability::Mutates, Create), behaviour(Mutability::Mutates, Update));
    let delete = behaviour(Mutability::Mutates, Delete);
    let unknown = Conduct::default();
    let table = [
        (vec![read, update], ConfusionSeverity::High),
        (vec![unknown, read, update], ConfusionSeverity::High),
        (vec![update, delete], ConfusionSeverity::High),
        (vec![read, search], ConfusionSeverity::Medium),
        (vec![create, update], ConfusionSeverity::Medium),
        (vec![create, update, unknown], ConfusionSeverity::Medium),
        (vec![read, read], ConfusionSeverity::Low),
        (vec![read, unknown], ConfusionSeverity::Unknown),
        (vec![unknown, unknown], ConfusionSeverity::Unknown),
    ];
    for (conducts, severity) in table {
        let tools = by_id(&json!({ "type": "object" }), &conducts);
        assert_eq!(confusions(&tools)[0].severity, severity, "{conducts:?}");
    }
}

#[test]
fn what_separates_them_is_told() {
    let schema = json!({ "type": "object", "properties": { "id": { "type": "string" } } });
    let (read, update) = (behaviour(Mutability::Pure, Action::Read), behaviour(Mutability::Mutates, Action::Update));
    let tools = by_id(&schema, &[read, update]);
    assert_eq!(
        confusions(&tools)[0].separated_by,
        [DistinguishingField::Mutability, DistinguishingField::Action, DistinguishingField::Name]
    );
    let tools = by_id(&schema, &[read, read]);
    let found = confusions(&tools);
    assert_eq!(found[0].separated_by, [DistinguishingField::Name]);
    assert!(!found[0].is_separated_by_conduct(), "nothing but their names");
    assert_eq!(found[0].alike().concat().len(), 2);
    let tools = by_id(&schema, &[read, update, read, update, behaviour(Mutability::Pure, Action::Search)]);
    let found = confusions(&tools);
    let alike: Vec<Vec<&str>> =
        found[0].alike().iter().map(|group| group.iter().map(|tool| tool.id.as_str()).collect()).collect();
    assert_eq!(alike, [["tool0", "tool2"], ["tool1", "tool3"]], "some of a group that is separated");
    let little = Conduct { mutability: Some(Mutability::Pure), ..Conduct::default() };
    let tools = by_id(&schema, &[read, update, little]);
    let found = confusions(&tools);
    let alike: Vec<&str> = found[0].alike().concat().iter().map(|tool| tool.id.as_str()).collect();
    assert_eq!(alike, ["tool0", "tool2"], "what is not known tells from nothing");
    let mut copies = by_id(&schema, &[read, update, Conduct::default()]);
    for copy in &mut copies {
        copy.name = "get".to_owned();
    }
    assert_eq!(confusions(&copies)[0].separated_by, [], "what is not known of all separates nothing");
    copies[1].server = "hub".to_owned();
    assert_eq!(confusions(&copies)[0].separated_by, [DistinguishingField::Server]);
}

#[test]
fn annotations_say_only_what_they_say() {
    let of = |annotations: Value| Conduct::from_annotations(&annotations);
    assert_eq!(of(Value::Null), Conduct::default());
    let reads = of(json!({ "readOnlyHint": true, "destructiveHint": true }));
    assert_eq!((reads.mutability, reads.destructive), (Some(Mutability::Pure), Some(false)));
    let writes = of(json!({ "readOnlyHint": false }));
    assert_eq!((writes.mutability, writes.destructive), (Some(Mutability::Mutates), None));
}

proptest! {
    /// The order of the tools does not matter.
    #[test]
    fn groups_do_not_depend_on_the_order(shapes in prop::collection::vec(0..4_u8, 0..12), turn in 0..12_usize) {
        let tools: Vec<ConfusionCandidate> = shapes.iter().enumerate().map(|(number, shape)| {
            let schema = json!({ "type": "object", "properties": { format!("p{shape}"): { "type": "string" } } });
            descriptor(&format!("tool{number:02}"), schema, Conduct::default())
        }).collect();
        let mut turned = tools.clone();
        turned.rotate_left(turn.min(tools.len()));
        prop_assert_eq!(confusions(&tools), confusions(&turned));
    }
}
