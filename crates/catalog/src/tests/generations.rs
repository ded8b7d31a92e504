//! Names from list to list: a name that an agent learned once means that tool, or nothing.

use std::{collections::BTreeMap, sync::OnceLock};

use proptest::prelude::*;
use servanda_contract::tool::ToolContract;
use servanda_gates::{CompiledContract, RegisteredContracts, admit};

use super::{definition, nobody, offer, read};
use crate::{
    Catalog, CatalogError, ResolveError,
    inference::infer,
    name_store,
    names::{ExposedNaming, NameLimitProfile, NamePolicy, NameTable},
};

fn draft(upstream: &str, tool: &str) -> ToolContract {
    static READ: OnceLock<ToolContract> = OnceLock::new();
    let mut contract = READ.get_or_init(|| infer("files", &read(&definition("a"))).unwrap().contract).clone();
    contract.identity.name = format!("{upstream}.{}", if tool.is_ascii() { tool } else { "other" });
    (contract.binding.upstream, contract.binding.tool) = (upstream.to_owned(), tool.to_owned());
    contract
}

fn contract(upstream: &str, tool: &str) -> CompiledContract {
    admit(draft(upstream, tool), &RegisteredContracts::new()).unwrap()
}

fn catalog(tools: &[(&str, &str)], policy: impl Into<NamePolicy>) -> Catalog {
    Catalog::new(tools.iter().map(|(upstream, tool)| contract(upstream, tool)), policy).unwrap()
}

/// The catalog after a restart: only the serialised names are left of the earlier one.
fn restarted(before: &Catalog, next: &Catalog) -> Catalog {
    let written = name_store::write(before.names()).unwrap();
    next.with_names_after(&name_store::read(&written).unwrap()).unwrap()
}

/// The contract that a name means, or why it means none.
fn meant(catalog: &Catalog, name: &str) -> Result<String, ResolveError> {
    let found = catalog.resolve(name, &nobody())?;
    let entry = catalog.entry(name).expect("what is resolved has an entry");
    assert_eq!(entry.contract.digest(), found.digest());
    Ok(found.contract().identity.name.clone())
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.entries().map(|(name, _)| name).collect()
}

#[test]
fn a_name_from_before_means_its_tool_after_a_reload_and_after_a_restart() {
    let tools = [("files", "read"), ("files", "write")];
    let before = catalog(&tools, ExposedNaming::Bare);
    assert_eq!(meant(&before, "read"), Ok("files.read".to_owned()));
    let next = catalog(&tools, ExposedNaming::Prefixed);
    for now in [next.with_names_after(before.names()).unwrap(), restarted(&before, &next)] {
        assert_eq!(names(&now), ["files__read", "files__write"]);
        assert_eq!(meant(&now, "read"), Ok("files.read".to_owned()));
        assert_eq!(meant(&now, "files__read"), Ok("files.read".to_owned()));
        assert_eq!(now.present_name("read"), Some("files__read"));
        // The tool's standing is the same under each of its names.
        offer(&now, &["write"]);
        assert_eq!(meant(&now, "read"), Err(ResolveError::Withdrawn { upstream: "files".to_owned() }));
        assert_eq!(now.standing("read", &nobody()), now.standing("files__read", &nobody()));
        assert_eq!(now.listing(&nobody()).tools.len(), 1, "an old name is not listed");
    }
    assert!(matches!(meant(&next, "read"), Err(ResolveError::Unknown { .. })), "a prefix is never left out by itself");
}

#[test]
fn a_tool_that_is_gone_is_said_to_be_gone() {
    let before = catalog(&[("files", "read"), ("docs", "search")], ExposedNaming::Prefixed);
    let next = catalog(&[("files", "read")], ExposedNaming::Prefixed);
    for now in [next.with_names_after(before.names()).unwrap(), restarted(&before, &next)] {
        assert_eq!(meant(&now, "docs__search"), Err(ResolveError::Gone { upstream: "docs".to_owned() }));
        assert!(now.entry("docs__search").is_none() && now.names().knows("docs__search"));
        assert_eq!(
            meant(&now, "docs__serch"),
            Err(ResolveError::Unknown { did_you_mean: None }),
            "nor is it suggested"
        );
        let back = catalog(&[("files", "read"), ("docs", "search")], ExposedNaming::Prefixed)
            .with_names_after(now.names())
            .unwrap();
        assert_eq!(meant(&back, "docs__search"), Ok("docs.search".to_owned()));
    }
}

/// With bare names, an agent that means the first upstream's tool would call another upstream's.
#[test]
fn a_name_is_not_handed_on_to_another_upstreams_tool() {
    let before = catalog(&[("docs", "search")], ExposedNaming::Bare);
    let next = catalog(&[("evil", "search")], ExposedNaming::Bare);
    assert_eq!(names(&next), ["search"]);
    for now in [next.with_names_after(before.names()).unwrap(), restarted(&before, &next)] {
        assert_eq!(meant(&now, "search"), Err(ResolveError::Gone { upstream: "docs".to_owned() }));
        let [name] = names(&now)[..] else { panic!("one tool") };
        assert!(name.starts_with("search_"), "{name}");
        assert_eq!(meant(&now, name), Ok("evil.search".to_owned()));
        let listed: serde_json::Value = serde_json::from_str(now.listing(&nobody()).tools[0].definition.get()).unwrap();
        assert_eq!(listed["name"], name, "it is listed by the name it has");
    }
}

/// Two contracts for one tool are a mistake, even if the table would find names for both.
#[test]
fn two_contracts_for_one_name_are_refused_whatever_is_remembered() {
    let before = catalog(&[("docs", "search")], ExposedNaming::Bare);
    let two = [contract("docs", "search"), contract("mail", "search")];
    assert!(matches!(Catalog::new(two, ExposedNaming::Bare), Err(CatalogError::SameName { .. })));
    let prefixed = catalog(&[("docs", "search"), ("mail", "search")], ExposedNaming::Prefixed);
    assert_eq!(names(&prefixed.with_names_after(before.names()).unwrap()), ["docs__search", "mail__search"]);
}

#[test]
fn a_profile_gives_names_by_its_own_limits() {
    let long = "x".repeat(100);
    for (profile, dotted, whole) in [
        (NameLimitProfile::Portable, false, false),
        (NameLimitProfile::OpenAi, false, false),
        (NameLimitProfile::Anthropic, false, true),
        (NameLimitProfile::Gemini, true, false),
        (NameLimitProfile::Mcp, true, true),
    ] {
        let policy = NamePolicy { profile, ..ExposedNaming::Prefixed.into() };
        let before = catalog(&[("files", "read.it"), ("files", &long)], ExposedNaming::Prefixed);
        let now = catalog(&[("files", "read.it"), ("files", &long)], policy).with_names_after(before.names()).unwrap();
        assert!(names(&now).iter().all(|name| profile.accepts(name)), "{profile:?}");
        assert_eq!(names(&now).contains(&"files__read.it"), dotted, "{profile:?}");
        assert_eq!(names(&now).contains(&format!("files__{long}").as_str()), whole, "{profile:?}");
        for name in names(&before) {
            assert_eq!(meant(&now, name), meant(&before, name), "{profile:?} {name}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_told() {
    assert!(matches!(name_store::read("{}"), Err(name_store::NameStoreError::Form(_))));
    assert!(matches!(name_store::read(r#"{"version":2}"#), Err(name_store::NameStoreError::Version(2))));
    let written = name_store::write(catalog(&[("files", "read")], ExposedNaming::Prefixed).names()).unwrap();
    let form = r#"{"version":1,"generation":1,"names":[{"name":"files__read","upstream":"files","tool":"read"}]}"#;
    assert_eq!(written, form, "the form is in stores: another one is another version");
}

/// Old names become many only if someone creates them on purpose: the oldest are forgotten.
#[test]
fn only_so_many_names_are_remembered() {
    let mut table = NameTable::new(NamePolicy::default(), crate::names::RETIRED_NAMES_MAX);
    for batch in 0..5 {
        let tools = (0..1000).map(|number| crate::names::upstream_tool("files", &format!("tool-{batch}-{number}")));
        table.replace_tools(tools);
    }
    table.replace_tools([]);
    assert_eq!(table.entries().count(), 4096);
    let again = name_store::read(&name_store::write(&table).unwrap()).unwrap();
    assert!(
        name_store::is_same_table(&again, &table) && !again.knows("files__tool-0-0") && again.knows("files__tool-4-0")
    );
}

fn tool_lists() -> impl Strategy<Value = Vec<(bool, Vec<(&'static str, &'static str)>)>> {
    let tools = [
        ("files", "read"),
        ("files", "read.file"),
        ("files", "read_file"),
        ("docs", "read"),
        ("docs", "docs"),
        ("docs", "files__read"),
        ("docs", "a_0123abcd"),
    ];
    let list = prop::sample::subsequence(tools.to_vec(), 0..=tools.len());
    prop::collection::vec((any::<bool>(), list), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Through catalogs and restarts: tools that come and go rename no other tool, and a name means one tool for ever.
    #[test]
    fn names_stay_when_other_tools_come_and_go(lists in tool_lists()) {
        let mut before: Option<Catalog> = None;
        let mut named: BTreeMap<String, String> = BTreeMap::new();
        let mut heard: BTreeMap<String, String> = BTreeMap::new();
        for (restarts, list) in lists {
            let alone: BTreeMap<_, _> =
                list.iter().map(|tool| (tool, names(&catalog(&[*tool], ExposedNaming::Prefixed))[0].to_owned())).collect();
            let next = catalog(&list, ExposedNaming::Prefixed);
            let now = match &before {
                None => next,
                Some(before) if restarts => restarted(before, &next),
                Some(before) => next.with_names_after(before.names()).unwrap(),
            };
            prop_assert_eq!(now.entries().count(), list.len());
            for (name, entry) in now.entries() {
                let contract = entry.contract.contract();
                let tool = (contract.binding.upstream.as_str(), contract.binding.tool.as_str());
                prop_assert_eq!(alone.get(&tool).map(String::as_str), Some(name), "as if it were alone");
                let tool = format!("{}/{}", tool.0, tool.1);
                prop_assert_eq!(named.entry(tool.clone()).or_insert_with(|| name.to_owned()).as_str(), name);
                prop_assert_eq!(heard.entry(name.to_owned()).or_insert_with(|| tool.clone()), &tool);
            }
            for (name, tool) in &heard {
                let offered = list.iter().any(|(upstream, own)| format!("{upstream}/{own}") == *tool);
                match now.resolve(name, &nobody()) {
                    Ok(found) => {
                        let binding = &found.contract().binding;
                        prop_assert_eq!(&format!("{}/{}", binding.upstream, binding.tool), tool);
                        prop_assert!(offered);
                    }
                    Err(ResolveError::Gone { .. }) => prop_assert!(!offered),
                    Err(other) => prop_assert!(false, "{name}: {other:?}"),
                }
            }
            before = Some(now);
        }
    }
}
