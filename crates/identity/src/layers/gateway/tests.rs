//! Names at the gateway, and what happens to them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use servanda_contract::digest::{Digest, DigestDomain};

use super::{
    ApprovalSubject, ExposedName, NameLimitProfile, NamePolicy, NameTable, NamingScheme, Resolution, UpstreamId,
    UpstreamTool,
};

fn tool(upstream: &str, name: &str) -> UpstreamTool {
    UpstreamTool { upstream: UpstreamId::new(upstream).unwrap(), name: name.to_owned() }
}

fn tools() -> impl Strategy<Value = UpstreamTool> {
    let names = prop_oneof!["[ab_.-]{0,4}", ".{0,3}", "x{50,130}", "[a-z]{1,3}_[0-9a-f]{8}", Just("docs".to_owned())];
    (prop_oneof!["[a-c]", "[a-c](_[a-c]|-){1,3}[a-c]", Just("docs".to_owned())], names)
        .prop_filter_map("an id", |(upstream, name)| Some(UpstreamTool { upstream: UpstreamId::new(&upstream)?, name }))
}

fn policies() -> impl Strategy<Value = NamePolicy> {
    let naming = prop_oneof![Just(NamingScheme::Prefixed), Just(NamingScheme::Bare)];
    (naming, prop::sample::select(NameLimitProfile::ALL.to_vec())).prop_map(|(naming, profile)| NamePolicy {
        naming,
        profile,
        reserved: BTreeSet::new(),
    })
}

proptest! {
    #[test]
    fn every_name_is_one_that_the_profile_takes(policy in policies(), tool in tools()) {
        for name in [policy.name(&tool), policy.hashed_name(&tool)] {
            prop_assert!(policy.profile.accepts(name.as_str()), "{}", name);
        }
    }

    /// With prefixes, different tools have different names whichever others there are: no conflict has to be resolved.
    #[test]
    fn prefixed_names_never_meet(one in tools(), other in tools(), profile in prop::sample::select(NameLimitProfile::ALL.to_vec())) {
        let policy = NamePolicy { profile, ..NamePolicy::default() };
        prop_assert_eq!(policy.name(&one) == policy.name(&other), one == other);
    }

    /// On a wire with namespaces no upstream's tool reads as a deferred one, and different tools have different addresses.
    #[test]
    fn upstream_tools_stay_in_their_namespace(one in tools(), other in tools()) {
        let (Some(first), Some(second)) = (one.address(), other.address()) else { return Ok(()) };
        prop_assert!(first.namespace.is_some() && !first.is_reserved());
        prop_assert_eq!(first == second, one == other);
    }

    /// Tools that come and go do not rename the others, and a remembered name means only one tool.
    #[test]
    fn lists_come_and_go_and_names_stay(
        policy in policies(),
        lists in prop::collection::vec(prop::collection::vec(tools(), 0..6), 1..6),
    ) {
        let mut table = NameTable::new(policy, 1000);
        let mut meant: std::collections::BTreeMap<ExposedName, UpstreamTool> = std::collections::BTreeMap::new();
        let mut named: std::collections::BTreeMap<UpstreamTool, ExposedName> = std::collections::BTreeMap::new();
        for list in lists {
            let listed = table.replace_tools(list.clone());
            prop_assert!(listed.unnamed.is_empty());
            for (name, tool) in table.iter() {
                prop_assert_eq!(meant.entry(name.clone()).or_insert_with(|| tool.clone()), tool);
                prop_assert_eq!(named.entry(tool.clone()).or_insert_with(|| name.clone()), name);
            }
            for (name, tool) in &meant {
                match table.resolve(name.as_str()) {
                    Resolution::Current(found) => prop_assert!(found == tool && list.contains(tool)),
                    Resolution::Gone { tool: found, .. } => prop_assert!(found == tool && !list.contains(tool)),
                    other => prop_assert!(false, "{other:?}"),
                }
            }
        }
    }
}

proptest! {
    /// A stored table is restored unchanged, and gives the same names after the next list as without the restart.
    #[test]
    fn a_table_that_was_written_down_is_the_same_table(
        policy in policies(),
        after in policies(),
        lists in prop::collection::vec(prop::collection::vec(tools(), 0..6), 1..5),
        next in prop::collection::vec(tools(), 0..6),
    ) {
        let mut table = NameTable::new(policy.clone(), 1000);
        for list in lists {
            table.replace_tools(list);
        }
        let mut recalled = NameTable::restore(policy, 1000, table.generation(), table.entries());
        table.replace_policy_and_tools(after.clone(), next.clone());
        recalled.replace_policy_and_tools(after, next);
        prop_assert_eq!(recalled.generation(), table.generation());
        prop_assert_eq!(recalled.entries().collect::<Vec<_>>(), table.entries().collect::<Vec<_>>());
    }

    /// However the policy changes, a name means its tool for as long as it is remembered.
    #[test]
    fn no_change_of_policy_hands_a_name_on(
        changes in prop::collection::vec((policies(), prop::collection::vec(tools(), 0..5)), 1..6),
    ) {
        let mut table = NameTable::new(NamePolicy::default(), 1000);
        let mut meant: std::collections::BTreeMap<ExposedName, UpstreamTool> = std::collections::BTreeMap::new();
        for (policy, list) in changes {
            table.replace_policy_and_tools(policy, list);
            for (name, tool) in table.iter() {
                prop_assert_eq!(meant.entry(name.clone()).or_insert_with(|| tool.clone()), tool);
                prop_assert_eq!(table.present(name.as_str()), Some(name));
            }
            for (name, tool) in &meant {
                prop_assert!(table.knows(name.as_str()));
                match table.resolve(name.as_str()) {
                    Resolution::Current(found) => prop_assert_eq!(found, tool),
                    Resolution::Renamed { tool: found, now, .. } => {
                        prop_assert_eq!(found, tool);
                        prop_assert_eq!(table.present(name.as_str()), Some(now));
                    }
                    Resolution::Gone { tool: found, .. } => {
                        prop_assert_eq!(found, tool);
                        prop_assert_eq!(table.present(name.as_str()), None);
                    }
                    unknown @ Resolution::Unknown { .. } => prop_assert!(false, "{unknown:?}"),
                }
            }
        }
    }

    #[test]
    fn any_text_gives_an_id(text in prop_oneof![".{0,40}", "[a_9-]{0,40}"]) {
        let id = UpstreamId::from_text(&text);
        prop_assert_eq!(UpstreamId::new(id.as_str()), Some(id.clone()), "{} gives {}", text, id);
    }
}

#[test]
fn ids_cannot_make_prefixes_meet() {
    for id in ["files", "my-db", "a_b", "X9"] {
        assert_eq!(UpstreamId::from_text(id), UpstreamId::new(id).unwrap());
    }
    for id in ["", "9x", "a__b", "a_", "_a", "a b", "é", &"a".repeat(33)] {
        assert_eq!(UpstreamId::new(id), None, "{id}");
    }
}

#[test]
fn plain_names_stay_plain() {
    let policy = NamePolicy::default();
    assert_eq!(policy.name(&tool("files", "read_file")).as_str(), "files__read_file");
    assert_eq!(policy.name(&tool("docs", "docs")).as_str(), "docs__docs");
    let bare = NamePolicy { naming: NamingScheme::Bare, ..policy.clone() };
    assert_eq!(bare.name(&tool("files", "read_file")).as_str(), "read_file");
    let dotted = policy.name(&tool("files", "read.file"));
    assert!(dotted.as_str().starts_with("files__read_file_"), "{dotted}");
    let mcp = NamePolicy { profile: NameLimitProfile::Mcp, ..policy };
    assert_eq!(mcp.name(&tool("files", "read.file")).as_str(), "files__read.file");
}

#[test]
fn a_tool_cannot_be_named_like_the_hashed_name_of_another() {
    let policy = NamePolicy::default();
    let dotted = policy.name(&tool("files", "read.file"));
    let forged = dotted.as_str().strip_prefix("files__").unwrap();
    assert_ne!(policy.name(&tool("files", forged)), dotted);
}

#[test]
fn the_gateways_own_names_are_nobodys() {
    let reserved = BTreeSet::from(["find_tools".to_owned()]);
    let policy = NamePolicy { naming: NamingScheme::Bare, reserved, ..NamePolicy::default() };
    assert_ne!(policy.name(&tool("docs", "find_tools")).as_str(), "find_tools");
}

#[test]
fn profiles_keep_to_their_limits() {
    let long = "a".repeat(200);
    for (profile, chars_max) in [
        (NameLimitProfile::Portable, 63),
        (NameLimitProfile::OpenAi, 64),
        (NameLimitProfile::Anthropic, 128),
        (NameLimitProfile::Gemini, 63),
        (NameLimitProfile::Mcp, 128),
    ] {
        assert!(profile.accepts(&long[..chars_max]) && !profile.accepts(&long[..=chars_max]), "{profile:?}");
        assert!(!profile.accepts("") && !profile.accepts("a b") && !profile.accepts("é"), "{profile:?}");
    }
    let first_digit = [NameLimitProfile::OpenAi, NameLimitProfile::Anthropic, NameLimitProfile::Mcp];
    let dot = [NameLimitProfile::Gemini, NameLimitProfile::Mcp];
    for profile in NameLimitProfile::ALL {
        assert_eq!(profile.accepts("9a"), first_digit.contains(&profile), "{profile:?}");
        assert_eq!(profile.accepts("a.b"), dot.contains(&profile), "{profile:?}");
        assert_eq!(profile.accepts("a:b"), profile == NameLimitProfile::Gemini, "{profile:?}");
    }
}

#[test]
fn a_call_with_an_old_name_finds_its_tool_or_a_clear_refusal() {
    let mut table = NameTable::new(NamePolicy::default(), 8);
    let (read, search) = (tool("files", "read_file"), tool("docs", "search"));
    table.replace_tools([read.clone(), search.clone()]);
    assert_eq!(table.resolve("files__read_file"), Resolution::Current(&read));
    let gone = table.replace_tools([search.clone()]).generation;
    assert_eq!(table.resolve("files__read_file"), Resolution::Gone { tool: &read, since: gone });
    table.replace_tools([search.clone(), read.clone()]);
    assert_eq!(table.resolve("files__read_file"), Resolution::Current(&read));
    let since = table.rename(NamePolicy { naming: NamingScheme::Bare, ..NamePolicy::default() }).generation;
    let now = table.name_of(&read).unwrap();
    assert_eq!(now.as_str(), "read_file");
    assert_eq!(table.resolve("files__read_file"), Resolution::Renamed { tool: &read, now, since });
}

/// Agents that know the name on the first server must not reach the same name on another server.
#[test]
fn a_name_is_not_handed_on_while_it_is_remembered() {
    let mut table = NameTable::new(NamePolicy { naming: NamingScheme::Bare, ..NamePolicy::default() }, 8);
    let (docs, evil) = (tool("docs", "search"), tool("evil", "search"));
    table.replace_tools([docs.clone()]);
    table.replace_tools([evil.clone()]);
    assert!(matches!(table.resolve("search"), Resolution::Gone { tool, .. } if *tool == docs));
    let hashed = table.name_of(&evil).unwrap().as_str().to_owned();
    assert!(hashed.starts_with("search_"), "{hashed}");
    table.replace_tools([evil.clone(), tool("evil", "fetch")]);
    assert_eq!(table.resolve(&hashed), Resolution::Current(&evil), "and it keeps the name it got");
}

#[test]
fn two_that_want_one_name_both_get_another() {
    let mut table = NameTable::new(NamePolicy { naming: NamingScheme::Bare, ..NamePolicy::default() }, 8);
    table.replace_tools([tool("docs", "search"), tool("mail", "search"), tool("docs", "search")]);
    assert!(matches!(table.resolve("search"), Resolution::Unknown { .. }));
    assert_eq!(table.iter().count(), 2);
}

#[test]
fn only_so_many_old_names_are_remembered() {
    let mut table = NameTable::new(NamePolicy::default(), 1);
    table.replace_tools([tool("a", "first")]);
    table.replace_tools([tool("a", "second")]);
    table.replace_tools([]);
    assert!(matches!(table.resolve("a__second"), Resolution::Gone { .. }));
    assert_eq!(table.resolve("a__first"), Resolution::Unknown { near: vec![] });
}

/// Two gateways with one store: neither forgets what the other told its agents, and neither accepts the other's word about its
/// own names.
#[test]
fn what_another_gateway_told_is_learned() {
    let bare = || NamePolicy { naming: NamingScheme::Bare, ..NamePolicy::default() };
    let (ours, theirs) = (tool("docs", "search"), tool("mail", "search"));
    let (mut table, mut other) = (NameTable::new(bare(), 8), NameTable::new(bare(), 8));
    table.replace_tools([ours.clone()]);
    other.replace_tools([theirs.clone()]);
    other.replace_tools([tool("mail", "send")]);
    table.merge_retired(&other);
    assert_eq!(table.resolve("search"), Resolution::Current(&ours));
    assert!(matches!(table.resolve("send"), Resolution::Gone { tool, .. } if tool.upstream.as_str() == "mail"));
    table.replace_tools([tool("docs", "send")]);
    assert!(matches!(table.resolve("send"), Resolution::Gone { .. }), "it is not handed on");
    let mut small = NameTable::new(bare(), 1);
    small.merge_retired(&table);
    assert_eq!(small.entries().count(), 1, "and no more is learned than is remembered");
}

#[test]
fn near_names_are_misspellings_and_never_other_verbs() {
    let mut table = NameTable::new(NamePolicy::default(), 8);
    table.replace_tools([tool("files", "read_file"), tool("files", "write_file"), tool("docs", "search")]);
    let near = |name: &str| match table.resolve(name) {
        Resolution::Unknown { near } => near.into_iter().map(str::to_owned).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(near("files__raed_file"), ["files__read_file"]);
    assert_eq!(near("read_file"), ["files__read_file"], "a model that left out the prefix");
    assert_eq!(near("files__delete_file"), Vec::<String>::new());
    assert_eq!(near("weather"), Vec::<String>::new());
    let long = "read_".repeat(60);
    let mut table = NameTable::new(NamePolicy::default(), 8);
    table.replace_tools([tool("files", &long)]);
    assert_eq!(table.resolve(&long[1..]), Resolution::Unknown { near: vec![] }, "too long to be looked for");
}

/// An approval on one server does not apply to the same exposed name on another, nor to a changed contract.
#[test]
fn approvals_are_about_structure() {
    let subject = |tool: UpstreamTool, contract: &[u8]| ApprovalSubject {
        tenant: "local".to_owned(),
        principal: "ann".to_owned(),
        tool,
        contract: Digest::compute(DigestDomain::Contract, &[contract]),
    };
    let bare = NamePolicy { naming: NamingScheme::Bare, ..NamePolicy::default() };
    let (docs, evil) = (tool("docs", "search"), tool("evil", "search"));
    assert_eq!(bare.name(&docs), bare.name(&evil));
    let approved = BTreeSet::from([subject(docs.clone(), b"1")]);
    assert!(approved.contains(&subject(docs.clone(), b"1")));
    assert!(!approved.contains(&subject(evil, b"1")));
    assert!(!approved.contains(&subject(docs, b"2")));
}
