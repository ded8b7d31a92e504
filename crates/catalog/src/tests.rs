//! The catalog: names to contracts, what upstreams offer, and what was probably meant.

use servanda_gates::{CompiledContract, Registered, admit};

use super::{Availability, Catalog, CatalogError, NotResolved, inference::infer, names::Naming};

fn contract(tool: &str) -> CompiledContract {
    let definition = serde_json::json!({ "name": tool, "inputSchema": { "type": "object" } });
    let descriptor = serde_json::from_value(definition).unwrap();
    admit(infer("files", &descriptor).contract, &Registered::new()).unwrap()
}

fn catalog(tools: &[&str]) -> Catalog {
    Catalog::new(tools.iter().map(|tool| contract(tool)), Naming::Prefixed).unwrap()
}

#[test]
fn there_is_no_fallback_of_any_kind() {
    let catalog = catalog(&["read_text_file", "write_file"]);
    assert!(catalog.resolve("files__write_file").is_ok());
    for name in ["write_file", "files_write_file", "files__Write_file", "files__write_file ", ""] {
        assert!(catalog.resolve(name).is_err(), "{name}");
    }
}

#[test]
fn what_was_meant_is_never_another_verb() {
    let meant = |catalog: &Catalog, name: &str| match catalog.resolve(name) {
        Err(NotResolved::Unknown { did_you_mean }) => did_you_mean,
        other => panic!("{other:?}"),
    };
    let both = catalog(&["read_text_file", "write_file"]);
    assert_eq!(meant(&both, "files__wirte_file").as_deref(), Some("files__write_file"));
    assert_eq!(meant(&both, "write_file").as_deref(), Some("files__write_file"));
    assert_eq!(meant(&both, "files__read_file").as_deref(), Some("files__read_text_file"));
    assert_eq!(meant(&catalog(&["write_file"]), "files__read_file"), None);
    assert_eq!(meant(&both, "something_else"), None);
}

#[test]
fn a_withdrawn_tool_is_said_to_be_withdrawn_and_comes_back() {
    let catalog = catalog(&["read_text_file", "write_file"]);
    let mut changes = catalog.changes();
    let availability =
        |name: &str| catalog.availability(catalog.entries().find(|(known, _)| *known == name).unwrap().1);
    assert_eq!(availability("files__write_file"), Availability::Unasked);
    catalog.observe("files", ["read_text_file".to_owned()]);
    assert_eq!(availability("files__write_file"), Availability::Withdrawn);
    assert!(matches!(catalog.resolve("files__write_file"), Err(NotResolved::Withdrawn { .. })));
    assert_eq!(catalog.listing().tools.len(), 1);
    assert!(changes.has_changed().unwrap());
    changes.borrow_and_update();
    catalog.observe("files", ["read_text_file".to_owned(), "unknown".to_owned()]);
    assert!(!changes.has_changed().unwrap(), "a tool without a contract does not exist");
    catalog.observe("files", ["write_file".to_owned(), "read_text_file".to_owned()]);
    assert_eq!(
        catalog.listing().tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        ["files__read_text_file", "files__write_file"]
    );
}

#[test]
fn two_contracts_cannot_have_one_name() {
    let error = Catalog::new([contract("a"), contract("a")], Naming::Bare).unwrap_err();
    assert!(matches!(error, CatalogError::SameName { .. }), "{error}");
}

#[test]
fn names_that_had_to_be_changed_stay_apart() {
    let names: std::collections::BTreeSet<String> =
        ["読む", "書く", "a b", "a_b"].iter().map(|tool| contract(tool).contract().identity.name.clone()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
}
