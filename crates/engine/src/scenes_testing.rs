//! Snapshots of scripted servers, without policies unless a test writes some, and requesters that hold a key.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use servanda_approval::ApprovalSettings;
use servanda_authority::{
    Rights,
    api_key::{self, ApiKeySpec, CreatedApiKey, PresentedKey},
    rights::Scopes,
};
use servanda_catalog::{Catalog, names::ExposedNaming};
use servanda_contract::{Timestamp, ToolContract};
use servanda_gates::{RegisteredContracts, admit};
use servanda_policy::{BuiltInPermits, Policies, PolicyLimits, PolicySource, ShadowPolicies};

use super::{ScriptedServer, contract};
use crate::{
    Authorities, Requester, UpstreamTenants,
    world::{WorldSnapshot, server::UpstreamServer},
};

pub(crate) fn snapshot(naming: ExposedNaming, servers: &[(&str, Arc<ScriptedServer>)]) -> WorldSnapshot {
    ruled(naming, servers, &TestRules::default())
}

/// What an operator wrote.
#[derive(Debug, Default)]
pub(crate) struct TestRules<'a> {
    pub(crate) policies: &'a str,
    pub(crate) shadow: Option<&'a str>,
    pub(crate) tenants: UpstreamTenants,
}

/// A snapshot with policies and tenants.
pub(crate) fn ruled(
    naming: ExposedNaming,
    servers: &[(&str, Arc<ScriptedServer>)],
    rules: &TestRules<'_>,
) -> WorldSnapshot {
    let contracts = servers.iter().flat_map(|(id, _)| [contract(id, "echo", false), contract(id, "write", true)]);
    let catalog = Catalog::new(contracts, naming).unwrap();
    let servers = servers.iter().map(|(id, server)| ((*id).to_owned(), server.clone() as Arc<dyn UpstreamServer>));
    let contracts = catalog.entries().map(|(_, entry)| &*entry.contract);
    let vocabulary = Arc::new(rules.tenants.vocabulary(contracts).unwrap());
    let load = |text| {
        let sources = [PolicySource { name: "test.cedar", text }];
        Policies::load(Arc::clone(&vocabulary), &sources, BuiltInPermits::On, &PolicyLimits::default()).unwrap()
    };
    let mut authorities = Authorities::new(load(rules.policies), "test").with_tenants(rules.tenants.clone());
    authorities = authorities.with_approvals(only_where_asked());
    if let Some(text) = rules.shadow {
        authorities = authorities.with_shadow(ShadowPolicies::new(load(text)));
    }
    let authorities = Arc::new(authorities);
    WorldSnapshot::with_servers(Arc::new(catalog), servers.collect(), naming, authorities)
}

/// A snapshot of one server whose tools have these contracts.
pub(crate) fn snapshot_of(server: &Arc<ScriptedServer>, contracts: Vec<ToolContract>) -> WorldSnapshot {
    let contracts = contracts.into_iter().map(|contract| admit(contract, &RegisteredContracts::new()).unwrap());
    let catalog = Catalog::new(contracts, ExposedNaming::Bare).unwrap();
    let servers = BTreeMap::from([("up".to_owned(), server.clone() as Arc<dyn UpstreamServer>)]);
    let authorities = Authorities::with_default_policies(&catalog).unwrap().with_approvals(only_where_asked());
    WorldSnapshot::with_servers(Arc::new(catalog), servers, ExposedNaming::Bare, Arc::new(authorities))
}

/// Approvals only where a contract or a policy asks for them, and calls do not wait for people.
pub(crate) fn only_where_asked() -> ApprovalSettings {
    ApprovalSettings { by_class: false, wait_ms_max: 0, ..ApprovalSettings::default() }
}

/// A requester of a tenant with a real key, made now, that covers every call of the scripted servers.
pub(crate) fn requester_of(tenant: &str, principal: &str, now: Timestamp) -> Requester {
    requester_with(tenant, principal, everything(), now)
}

/// The rights to every call of the scripted servers.
pub(crate) fn everything() -> Rights {
    Rights { scopes: Scopes::from_words(["billing:write"]).unwrap(), ..Rights::unlimited() }
}

/// A requester of a tenant with a real key, made now, with those rights.
pub(crate) fn requester_with(tenant: &str, principal: &str, rights: Rights, now: Timestamp) -> Requester {
    let terms = ApiKeySpec {
        tenant: tenant.to_owned(),
        principal: principal.to_owned(),
        groups: BTreeSet::new(),
        label: "test".to_owned(),
        rights,
        expires_at: Timestamp::from_unix_ms(now.unix_ms() + 60_000),
    };
    let CreatedApiKey { stored, text } = api_key::make(terms, now).unwrap();
    let presented = PresentedKey::read(text.as_text().unwrap()).unwrap();
    let authority = Arc::new(stored.authenticate(&presented, now).unwrap());
    Requester {
        caller: authority.caller().into(),
        authority,
        affinity: format!("{tenant}/{principal}").into(),
        ..Requester::local()
    }
}
