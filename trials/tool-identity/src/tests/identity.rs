//! Keys, names and lookups.

use proptest::prelude::*;
use serde_json::json;

use super::{call_of, named, names, pairs, tool, tools};
use crate::{
    CollisionPolicy, ExplicitNamespace, Handoff, IdentityError, Loading, LookupKey, LookupTable, NameConflict,
    NameSource, NamespaceDeclaration, PublicName, Tool, ToolAddress, ToolKind, collisions,
    lookup::{self, Route},
};

fn addresses() -> impl Strategy<Value = ToolAddress> {
    (names(), prop::option::of(names())).prop_filter_map("a name", |(name, namespace)| {
        Some(ToolAddress { name: PublicName::new(name)?, namespace: namespace.and_then(ExplicitNamespace::new) })
    })
}

proptest! {
    /// No two addresses mean the same tool, whatever their written forms look like.
    #[test]
    fn different_addresses_have_different_keys(one in addresses(), other in addresses()) {
        prop_assert_eq!(LookupKey::of(&one) == LookupKey::of(&other), one == other);
    }

    /// A tool has exactly one key, or none, and the wire form of its call asks for that key.
    #[test]
    fn a_tool_is_called_by_the_one_key_it_has(identity in tools()) {
        prop_assert_eq!(identity.lookup_key().is_some(), identity.public_name().is_some());
        if identity.public_name().is_some() {
            prop_assert_eq!(LookupKey::of_call(&call_of(&identity, "c")), identity.lookup_key());
        }
    }

    #[test]
    fn a_stored_key_comes_back(identity in tools()) {
        let key = identity.lookup_key();
        prop_assert_eq!(key.as_ref().and_then(|key| LookupKey::decode(&key.encode())), key);
    }

    /// Of tools that can be together, each is found by its key or overshadowed by a later one of the same key, and no two
    /// different tools have the same written form.
    #[test]
    fn tables_find_what_is_meant(identities in prop::collection::vec(pairs(), 0..3), asked in addresses()) {
        let tools: Vec<Tool<()>> = identities.into_iter().flat_map(|(one, other)| [tool(one), tool(other)]).collect();
        let Ok(table) = LookupTable::build(&tools) else {
            prop_assert!(lookup::validate(&tools).is_err());
            return Ok(());
        };
        for (position, tool) in tools.iter().enumerate() {
            let Some(key) = tool.identity.lookup_key() else { continue };
            let last = tools.iter().rposition(|other| other.identity.lookup_key().as_ref() == Some(&key));
            prop_assert!(std::ptr::eq(table.get(&key).unwrap(), &raw const tools[last.unwrap()]), "{}", position);
            let namespaced = |tool: &Tool<()>| tool.identity.namespace.is_some();
            let alike = tools.iter().filter(|other| other.identity.qualified_name() == tool.identity.qualified_name());
            let others: Vec<&Tool<()>> = alike.filter(|other| other.identity.public_name().is_some()).collect();
            prop_assert!(others.len() == 1 || !others.iter().any(|other| namespaced(other)));
        }
        // No fallback: a call reaches only a tool with the requested key.
        if let Ok(Route::Tool(found)) = table.route::<()>([], &asked) {
            prop_assert_eq!(found.identity.lookup_key(), Some(LookupKey::of(&asked)));
        }
    }

    /// Resolving twice gives the same result, in the given order.
    #[test]
    fn settling_names_twice_changes_nothing(
        identities in prop::collection::vec(tools(), 0..6),
        names in prop::collection::vec(names(), 0..4),
    ) {
        let tools: Vec<Tool<()>> = identities.into_iter().map(tool).collect();
        let handoffs = names.into_iter().filter_map(PublicName::new);
        let handoffs: Vec<Handoff<()>> =
            handoffs.map(|name| Handoff { name, source: NameSource::Chosen, target: () }).collect();
        let (tools, handoffs): (Vec<_>, Vec<_>) = (tools.iter().collect(), handoffs.iter().collect());
        if let Ok(kept) = collisions::resolve(&tools, &handoffs, CollisionPolicy::KeepLast) {
            let again = collisions::resolve(&kept.tools, &kept.handoffs, CollisionPolicy::Refuse).unwrap();
            prop_assert_eq!((again.tools.len(), again.handoffs.len()), (kept.tools.len(), kept.handoffs.len()));
        }
    }
}

#[test]
fn a_dotted_name_is_one_name() {
    let dotted = call_of(&named("crm.search"), "c");
    assert_eq!(LookupKey::of_call(&dotted), Some(LookupKey::Bare(PublicName::new("crm.search").unwrap())));
    let pair = json!({ "name": "search", "namespace": "crm" });
    assert_ne!(LookupKey::of_call(&dotted), LookupKey::of_call(&pair));
}

#[test]
fn a_handoff_is_taken_before_a_tool_but_not_into_a_namespace() {
    let tools = [tool(named("route"))];
    let table = LookupTable::build(&tools).unwrap();
    let name = PublicName::new("route").unwrap();
    let handoffs = [Handoff { name: name.clone(), source: NameSource::Chosen, target: () }];
    let bare = ToolAddress { name, namespace: None };
    assert!(matches!(table.route(&handoffs, &bare), Ok(Route::Handoff(_))));
    let inside = ToolAddress { namespace: ExplicitNamespace::new("crm"), ..bare };
    let missed = table.route(&handoffs, &inside).unwrap_err();
    assert_eq!((missed.code(), missed.subject()), ("tool_not_found", Some("crm.route")));
}

#[test]
fn a_namespace_is_declared_for_functions_under_other_names_than_its_own() {
    let declared = NamespaceDeclaration::new(" crm\u{1c}", "what is known of customers").unwrap();
    assert_eq!(declared.name().as_str(), "crm");
    assert!(declared.attach(&[named("crm")]).is_err());
    let mut other = named("search");
    other.kind = ToolKind::Other;
    assert_eq!(declared.attach(&[other]), Err(IdentityError::NotAFunctionTool));
    let mut lazy = named("search");
    lazy.loading = Loading::Deferred;
    let attached = declared.attach(&[lazy]).unwrap();
    assert!(
        matches!(attached[0].lookup_key(), Some(LookupKey::Namespaced { .. })),
        "lazy tools of a namespace stay in it"
    );
}

#[test]
fn agents_whose_names_become_one_are_told_as_such() {
    let handoff = |agent: &str| {
        let (name, source) = crate::defaults::handoff_name(agent, None).unwrap();
        Handoff { name, source, target: () }
    };
    let conflict = |one: &str, other: &str| {
        let handoffs = [handoff(one), handoff(other)];
        let refused = collisions::resolve::<(), ()>(&[], &handoffs.iter().collect::<Vec<_>>(), CollisionPolicy::Refuse);
        match refused {
            Err(IdentityError::NameConflict { conflict, .. }) => conflict,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(conflict("Billing Agent", "billing-agent"), NameConflict::DerivedHandoffs);
    assert_eq!(conflict("billing", "billing"), NameConflict::Handoffs);
}
