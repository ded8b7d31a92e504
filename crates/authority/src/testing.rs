//! Shared by the tests of this crate: golden files, random rights over a small world, and a principal to begin with.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use proptest::{collection, option, prelude::*};
use servanda_contract::{Timestamp, tool::SideEffectClass};

use crate::{
    AuthenticatedCaller,
    rights::{Narrowing, ResourcePatterns, Rights, RightsDimension, Scope, Scopes, ToolPatterns},
};

/// The present time in the tests.
pub(crate) const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

pub(crate) const SCOPES: [&str; 4] = ["billing:read", "billing:write", "crm:read", "all"];
pub(crate) const TOOLS: [&str; 7] = ["a", "a.b", "a.b.c", "a.bc", "b", "b.c", "b.c.d"];
pub(crate) const RESOURCES: [&str; 14] = [
    "x",
    "x/1",
    "x/1/2",
    "x/10",
    "y/1",
    "x/*",
    "*",
    "x/../y",
    "lib://a",
    "lib://a/b",
    "lib://a/%2e%2E/b",
    "lib:///a",
    "servanda://up/lib://a",
    "servanda://other/lib://a",
];
const TOOL_PATTERNS: [&str; 9] = ["*", "a", "a.*", "a.b", "a.b.*", "a.b.c", "a.bc", "b.*", "b.c.*"];
const RESOURCE_PATTERNS: [&str; 14] = [
    "*",
    "x",
    "x/*",
    "x/1",
    "x/1/*",
    "x/10",
    "y/*",
    "lib://*",
    "lib://a",
    "lib://a/*",
    "lib:///*",
    "servanda://up/*",
    "servanda://up/lib://*",
    "servanda://*",
];
pub(crate) const CLASSES: [SideEffectClass; 6] = [
    SideEffectClass::ReadOnly,
    SideEffectClass::EphemeralWrite,
    SideEffectClass::LowRiskInternal,
    SideEffectClass::MediumRiskWrite,
    SideEffectClass::HighRiskExternal,
    SideEffectClass::CriticalMutation,
];

/// Compares with a checked-in file, or writes it when `UPDATE_GOLDEN` is set.
pub(crate) fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, actual).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        expected, actual,
        "tests/golden/{name} differs. If that is meant: UPDATE_GOLDEN=1 cargo test -p servanda-authority"
    );
}

pub(crate) fn golden_json(name: &str, actual: &impl serde::Serialize) {
    golden(name, &format!("{}\n", serde_json::to_string_pretty(actual).unwrap()));
}

pub(crate) fn scopes(words: &[&str]) -> BTreeSet<Scope> {
    words.iter().map(|word| Scope::read(word).unwrap()).collect()
}

/// Rights that a user may have, for a day.
pub(crate) fn user_rights() -> Rights {
    Rights {
        scopes: Scopes::from_words(["billing:read", "billing:write", "crm:read"]).unwrap(),
        tools: ToolPatterns::read(&["billing.*", "crm.search"]).unwrap(),
        resources: ResourcePatterns::read(&["invoice/*", "customer/7"]).unwrap(),
        ceiling: SideEffectClass::HighRiskExternal,
        budget: [(RightsDimension::Write, 20), (RightsDimension::FinancialMicros, 5_000_000)].into(),
        expires_at: in_ms(86_400_000),
        depth_left: 3,
    }
}

pub(crate) fn in_ms(after_ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(NOW.unix_ms() + after_ms)
}

/// An authenticated user, by way of a real key.
pub(crate) fn user(rights: Rights) -> AuthenticatedCaller {
    user_of("acme", "ada", rights)
}

pub(crate) fn user_of(tenant: &str, principal: &str, rights: Rights) -> AuthenticatedCaller {
    use crate::api_key::{ApiKeySpec, make};
    let expires_at = rights.expires_at;
    let terms = ApiKeySpec {
        tenant: tenant.to_owned(),
        principal: principal.to_owned(),
        groups: std::collections::BTreeSet::new(),
        label: "test".to_owned(),
        rights,
        expires_at,
    };
    let made = make(terms, NOW).unwrap();
    made.stored.authenticate(&crate::api_key::PresentedKey::read(made.text.as_text().unwrap()).unwrap(), NOW).unwrap()
}

pub(crate) fn any_rights() -> impl Strategy<Value = Rights> {
    (any_scopes(), any_names(&TOOL_PATTERNS), any_names(&RESOURCE_PATTERNS), any_class(), any_budget(), 0u64..4, 0u8..4)
        .prop_map(|(scopes, tools, resources, ceiling, budget, expires, depth_left)| Rights {
            scopes,
            tools: ToolPatterns::read(&tools).unwrap(),
            resources: ResourcePatterns::read(&resources).unwrap(),
            ceiling,
            budget,
            expires_at: in_ms(expires * 1000),
            depth_left,
        })
}

pub(crate) fn any_narrowing() -> impl Strategy<Value = Narrowing> {
    (any_rights(), collection::vec(any::<bool>(), 7)).prop_map(|(rights, said)| Narrowing {
        scopes: said[0].then_some(rights.scopes),
        tools: said[1].then_some(rights.tools),
        resources: said[2].then_some(rights.resources),
        ceiling: said[3].then_some(rights.ceiling),
        budget: if said[4] { rights.budget } else { BTreeMap::default() },
        expires_at: said[5].then_some(rights.expires_at),
        depth_left: said[6].then_some(rights.depth_left),
    })
}

pub(crate) fn any_class() -> impl Strategy<Value = SideEffectClass> {
    prop::sample::select(&CLASSES[..])
}

fn any_scopes() -> impl Strategy<Value = Scopes> {
    option::weighted(0.8, prop::sample::subsequence(&SCOPES[..], 0..=SCOPES.len()))
        .prop_map(|words| words.map_or(Scopes::All, |words| Scopes::from_words(words).unwrap()))
}

fn any_names(patterns: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(patterns, 0..=4)
}

fn any_budget() -> impl Strategy<Value = BTreeMap<RightsDimension, u64>> {
    let dimension =
        prop::sample::select(vec![RightsDimension::Read, RightsDimension::Write, RightsDimension::FinancialMicros]);
    collection::btree_map(dimension, 0u64..5, 0..3)
}
