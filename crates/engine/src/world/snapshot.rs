//! One world: which tools exist, which servers perform them, and which of them exist for which caller. A world never changes; `present`
//! holds the one in force.

use std::{collections::BTreeMap, sync::Arc};

use servanda_catalog::{
    Catalog, CatalogEntry, CatalogError, ListedTool, Listing,
    names::{ExposedNaming, NameTable},
};
use servanda_contract::{Caller, ToolContract, expectation::Expectations};
use servanda_gates::{CompiledContract, budget::Allowance};
use servanda_upstream::Upstream;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    authorities::Authorities,
    discovery::{Discovery, LoggedObjections},
    member::UpstreamMember,
    own_tool::OwnTool,
    plan_tool::{PLAN_TOOL, plan_tool},
    result_tool::{RESULT_TOOL, result_tool},
    server::UpstreamServer,
};
use crate::{callbacks::Callbacks, client::Requester, questions::QuestionRules};

/// The tools that exist and the servers that perform them.
#[derive(Debug, Clone)]
pub struct World {
    /// The tools.
    pub catalog: Arc<Catalog>,
    /// The MCP servers, by id.
    pub upstreams: BTreeMap<String, Upstream>,
    /// How names and URIs are exposed.
    pub naming: ExposedNaming,
    /// What the operator expects of tools.
    pub expectations: Expectations,
    /// The receivers that are told how long work ends.
    pub callbacks: Arc<Callbacks>,
    /// What the operator permits to whom.
    pub authorities: Arc<Authorities>,
    /// The budgets that the operator grants to whom.
    pub allowances: Arc<[Allowance]>,
}

/// A world with what the engine keeps about each server in it.
#[derive(Debug)]
pub(crate) struct WorldSnapshot {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) discovery: Arc<Discovery>,
    pub(crate) upstreams: BTreeMap<String, Upstream>,
    pub(crate) naming: ExposedNaming,
    pub(crate) expectations: Expectations,
    pub(crate) callbacks: Arc<Callbacks>,
    pub(crate) authorities: Arc<Authorities>,
    pub(crate) allowances: Arc<[Allowance]>,
    members: BTreeMap<String, Arc<UpstreamMember>>,
    /// The gateway's own tool, which fetches the results of long work; none if there is no long work.
    own_tool: Option<&'static (Arc<CompiledContract>, Arc<ListedTool>)>,
    /// The gateway's own tool that takes plans; none if the operator wants no plans.
    plan_tool: Option<&'static (Arc<CompiledContract>, Arc<ListedTool>)>,
    /// Stops the followers of this world's changes when its last call has ended.
    pub(crate) stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

impl WorldSnapshot {
    /// A world; `logged_objections` are those that were logged in earlier worlds.
    pub(crate) fn new(world: World, logged_objections: Arc<LoggedObjections>) -> Self {
        let World { catalog, upstreams, naming, expectations, callbacks, authorities, allowances } = world;
        let servers =
            upstreams.iter().map(|(id, upstream)| (id.clone(), Arc::new(upstream.clone()) as Arc<dyn UpstreamServer>));
        let servers = servers.collect();
        let discovery =
            Arc::new(Discovery::with_logged_objections(logged_objections, Arc::clone(&catalog), &upstreams));
        Self {
            discovery,
            upstreams,
            expectations,
            callbacks,
            allowances,
            ..Self::with_servers(catalog, servers, naming, authorities)
        }
    }

    /// The present contract of an earlier call; none if the exposed name means another tool now.
    pub(crate) fn contract(&self, exposed_tool: &str, name: &str) -> Option<Arc<CompiledContract>> {
        let contract = self.catalog.entry(exposed_tool)?.contract.clone();
        (contract.contract().identity.name == name).then_some(contract)
    }

    pub(crate) fn with_servers(
        catalog: Arc<Catalog>,
        servers: BTreeMap<String, Arc<dyn UpstreamServer>>,
        naming: ExposedNaming,
        authorities: Arc<Authorities>,
    ) -> Self {
        let member = |(id, server): (String, Arc<dyn UpstreamServer>)| {
            let member = UpstreamMember::new(&id, server, naming);
            (id, Arc::new(member))
        };
        let stop = CancellationToken::new();
        Self {
            discovery: Arc::new(Discovery::new(Arc::clone(&catalog), &BTreeMap::new())),
            own_tool: own_tool_beside(&catalog),
            plan_tool: plan_tool_beside(&catalog, &authorities),
            catalog,
            upstreams: BTreeMap::new(),
            naming,
            expectations: Expectations::default(),
            callbacks: Arc::default(),
            authorities,
            allowances: Arc::default(),
            members: servers.into_iter().map(member).collect(),
            _stop_when_dropped: stop.clone().drop_guard(),
            stop,
        }
    }

    /// The same world with a table of names that continues an earlier one. Only for a world that is not in force yet.
    pub(crate) fn after_names(self, earlier: &NameTable) -> Result<Self, CatalogError> {
        let catalog = Arc::new(self.catalog.with_names_after(earlier)?);
        let logged_objections = self.discovery.logged_objections();
        let discovery =
            Arc::new(Discovery::with_logged_objections(logged_objections, Arc::clone(&catalog), &self.upstreams));
        let plan_tool = plan_tool_beside(&catalog, &self.authorities);
        Ok(Self { own_tool: own_tool_beside(&catalog), plan_tool, discovery, catalog, ..self })
    }

    /// The list with the gateway's own tools at its end: one for results if `has_handles` and there is long work that this caller may ask
    /// about, and one for plans.
    pub(crate) fn with_own_tools(&self, listing: Arc<Listing>, caller: &Caller, has_handles: bool) -> Arc<Listing> {
        let of_results = self.own_tool.filter(|_| has_handles && self.has_long_work_for(caller));
        let own: Vec<_> = of_results.into_iter().chain(self.plan_tool).map(|(_, tool)| tool).collect();
        if own.is_empty() {
            return listing;
        }
        let tools = listing.tools.iter().chain(own).cloned().collect();
        Arc::new(Listing { generation: listing.generation, tools })
    }

    /// The gateway's own tool and its contract, if the name is that of one and the caller is offered it.
    pub(crate) fn own_tool(&self, name: &str, caller: &Caller) -> Option<(OwnTool, Arc<CompiledContract>)> {
        let is_of_name = |(_, tool): &&(Arc<CompiledContract>, Arc<ListedTool>)| tool.name == name;
        if let Some((contract, _)) = self.own_tool.filter(is_of_name) {
            return self.has_long_work_for(caller).then(|| (OwnTool::Result, Arc::clone(contract)));
        }
        let (contract, _) = self.plan_tool.filter(is_of_name)?;
        Some((OwnTool::ProposePlan, Arc::clone(contract)))
    }

    /// Whether agents may propose plans.
    pub(crate) const fn takes_plans(&self) -> bool {
        self.plan_tool.is_some()
    }

    /// Whether an upstream that exists for this caller has long work. An upstream of another tenant does not exist for it, and neither
    /// does the tool that comes with it.
    fn has_long_work_for(&self, caller: &Caller) -> bool {
        !self.authorities.has_tenants()
            || long_entries(&self.catalog)
                .any(|entry| !self.is_foreign(&entry.contract.contract().binding.upstream, caller))
    }

    /// What a server may ask during a call, before the contract and the policies of that call limit it.
    pub(crate) fn question_rules(&self, member: &UpstreamMember) -> QuestionRules {
        QuestionRules::new(&member.id, self.members.len() == 1)
    }

    /// Which questions a server may ask outside of calls: the kinds that every contract of its tools permits, and none if policies decide
    /// about questions.
    pub(crate) fn question_rules_outside_calls(&self, member: &UpstreamMember) -> QuestionRules {
        let contracts = self.catalog.entries().map(|(_, entry)| entry.contract.contract());
        let contracts = contracts.filter(|contract| *contract.binding.upstream == *member.id);
        self.question_rules(member).outside_calls(contracts, self.authorities.policies().look_at_questions())
    }

    /// A server by its id.
    pub(crate) fn member(&self, id: &str) -> Option<&Arc<UpstreamMember>> {
        self.members.get(id)
    }

    /// The part of a list that the requester sees: the tools of which some call could be allowed.
    pub(crate) fn visible_listing(&self, listing: Arc<Listing>, requester: &Requester) -> Arc<Listing> {
        self.authorities.visible_listing(&self.catalog, listing, requester)
    }

    /// Whether an upstream does not exist as far as this caller may know.
    pub(crate) fn is_foreign(&self, upstream: &str, caller: &Caller) -> bool {
        self.authorities.is_foreign(upstream, &caller.tenant)
    }

    /// The same for the tool of an exposed name.
    pub(crate) fn is_foreign_tool(&self, name: &str, caller: &Caller) -> bool {
        self.authorities.has_tenants() && self.catalog.upstream_of(name).is_some_and(|id| self.is_foreign(id, caller))
    }

    /// The servers that exist for a caller, in the same order as all.
    pub(crate) fn members_for(&self, caller: &Caller) -> impl Iterator<Item = &Arc<UpstreamMember>> {
        self.members.values().filter(|member| !self.is_foreign(&member.id, caller))
    }

    /// The servers whose resources and prompts a requester may read: those that exist for it and have a tool that its credential covers.
    /// A requester that may call nothing at a server reads nothing there.
    pub(crate) fn members_read_by<'s>(
        &'s self,
        requester: &'s Requester,
    ) -> impl Iterator<Item = &'s Arc<UpstreamMember>> {
        self.members_for(&requester.caller).filter(|member| self.is_read_by(member, requester))
    }

    /// One of these servers, by its id.
    pub(crate) fn member_read_by(&self, id: &str, requester: &Requester) -> Option<&Arc<UpstreamMember>> {
        let member = self.member(id).filter(|member| !self.is_foreign(&member.id, &requester.caller));
        member.filter(|member| self.is_read_by(member, requester))
    }

    fn is_read_by(&self, member: &UpstreamMember, requester: &Requester) -> bool {
        let tools = &requester.authority.rights().tools;
        let is_for =
            |contract: &ToolContract| *contract.binding.upstream == *member.id && tools.covers(&contract.identity.name);
        tools.is_all() || self.catalog.entries().any(|(_, entry)| is_for(entry.contract.contract()))
    }

    /// All servers, in the order of their ids.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Arc<UpstreamMember>> {
        self.members.values()
    }

    /// The server of an exposed URI, if the requester may ask it, and the URI there.
    pub(crate) fn by_uri<'u>(
        &self,
        exposed: &'u str,
        requester: &Requester,
    ) -> Option<(&Arc<UpstreamMember>, &'u str)> {
        let (upstream, uri) = self.naming.original_uri(exposed)?;
        let member = match upstream {
            Some(id) => self.member_read_by(id, requester)?,
            // Bare names are only used with a single upstream.
            None => self.members_for(&requester.caller).next().filter(|member| self.is_read_by(member, requester))?,
        };
        Some((member, uri))
    }
}

/// The gateway's own tool, if there is long work and the tool's name neither is nor was the name of another tool.
fn own_tool_beside(catalog: &Catalog) -> Option<&'static (Arc<CompiledContract>, Arc<ListedTool>)> {
    let long = !catalog.names().knows(RESULT_TOOL) && long_entries(catalog).next().is_some();
    long.then(result_tool).flatten()
}

/// The gateway's own tool for plans, if the operator wants plans and the tool's name neither is nor was the name of another tool.
fn plan_tool_beside(
    catalog: &Catalog,
    authorities: &Authorities,
) -> Option<&'static (Arc<CompiledContract>, Arc<ListedTool>)> {
    let is_free = !catalog.names().knows(PLAN_TOOL);
    (is_free && authorities.approvals().takes_plans()).then(plan_tool).flatten()
}

fn long_entries(catalog: &Catalog) -> impl Iterator<Item = &CatalogEntry> {
    catalog.entries().map(|(_, entry)| entry).filter(|entry| entry.contract.contract().is_long())
}
