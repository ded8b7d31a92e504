//! One world: which tools exist, who performs them, and which of them are there for which caller. Nothing in it is replaced later; the
//! present world is in `present`.

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
    result_tool::{RESULT_TOOL, result_tool},
    server::UpstreamServer,
};
use crate::{callbacks::Callbacks, client::Requester, questions::QuestionRules};

/// Which tools exist and who performs them.
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
    /// Who wants to be told how long work ends.
    pub callbacks: Arc<Callbacks>,
    /// What the operator lets whom do.
    pub authorities: Arc<Authorities>,
    /// How much the operator lets whom draw.
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
    /// The tool by which long work is asked for, where there is any.
    own_tool: Option<&'static (Arc<CompiledContract>, Arc<ListedTool>)>,
    /// Ends what follows this world's changes, when the last call of it is over.
    pub(crate) stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

impl WorldSnapshot {
    /// A world; `doubts` are those that were told in the one before it.
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

    /// The contract of a call that was made before, as it is now: the exposed name may mean another tool meanwhile.
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

    /// The same world as the one that comes after the lists of an earlier table of names. For a world that nobody is in yet.
    pub(crate) fn after_names(self, earlier: &NameTable) -> Result<Self, CatalogError> {
        let catalog = Arc::new(self.catalog.with_names_after(earlier)?);
        let logged_objections = self.discovery.logged_objections();
        let discovery =
            Arc::new(Discovery::with_logged_objections(logged_objections, Arc::clone(&catalog), &self.upstreams));
        Ok(Self { own_tool: own_tool_beside(&catalog), discovery, catalog, ..self })
    }

    /// A list with the gateway's own tool after the others, where there is long work that this caller may ask for.
    pub(crate) fn with_own_tools(&self, listing: Arc<Listing>, caller: &Caller) -> Arc<Listing> {
        let Some((_, tool)) = self.own_tool.filter(|_| self.has_long_work_for(caller)) else { return listing };
        let tools = listing.tools.iter().chain([tool]).cloned().collect();
        Arc::new(Listing { generation: listing.generation, tools })
    }

    /// The contract of the gateway's own tool, if the name is its and it is offered to that caller.
    pub(crate) fn own_tool(&self, name: &str, caller: &Caller) -> Option<Arc<CompiledContract>> {
        let (contract, tool) = self.own_tool?;
        (tool.name == name && self.has_long_work_for(caller)).then(|| Arc::clone(contract))
    }

    /// Whether an upstream of that caller has long work: another tenant's is not there, and so is nothing that comes with it.
    fn has_long_work_for(&self, caller: &Caller) -> bool {
        !self.authorities.has_tenants()
            || long_entries(&self.catalog)
                .any(|entry| !self.is_foreign(&entry.contract.contract().binding.upstream, caller))
    }

    /// What a server may ask during a call, before the contract and the policies of that call limit it.
    pub(crate) fn question_rules(&self, member: &UpstreamMember) -> QuestionRules {
        QuestionRules::new(&member.id, self.members.len() == 1)
    }

    /// What a server may ask outside of any single call: the kinds that every contract of its tools permits, and none if policies decide
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

    /// What that requester is shown of a list: the tools that some call of theirs could be allowed for.
    pub(crate) fn visible_listing(&self, listing: Arc<Listing>, requester: &Requester) -> Arc<Listing> {
        self.authorities.visible_listing(&self.catalog, listing, requester)
    }

    /// Whether there is no such upstream, tool or resource, as far as that caller may know.
    pub(crate) fn is_foreign(&self, upstream: &str, caller: &Caller) -> bool {
        self.authorities.is_foreign(upstream, &caller.tenant)
    }

    /// The same for the tool of an exposed name.
    pub(crate) fn is_foreign_tool(&self, name: &str, caller: &Caller) -> bool {
        self.authorities.has_tenants() && self.catalog.upstream_of(name).is_some_and(|id| self.is_foreign(id, caller))
    }

    /// The servers that are there for a caller, in the same order as all.
    pub(crate) fn members_for(&self, caller: &Caller) -> impl Iterator<Item = &Arc<UpstreamMember>> {
        self.members.values().filter(|member| !self.is_foreign(&member.id, caller))
    }

    /// The servers whose resources and prompts a requester may ask for: of those that are there for it, the ones that have a tool
    /// its credential is for. Who may call nothing there reads nothing there.
    pub(crate) fn members_read_by<'s>(
        &'s self,
        requester: &'s Requester,
    ) -> impl Iterator<Item = &'s Arc<UpstreamMember>> {
        self.members_for(&requester.caller).filter(|member| self.is_read_by(member, requester))
    }

    /// One of them by its id.
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

    /// All servers, in the order of the configuration, which is that of their ids.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Arc<UpstreamMember>> {
        self.members.values()
    }

    /// The server of an exposed URI, if that requester may ask it, and the URI there.
    pub(crate) fn by_uri<'u>(
        &self,
        exposed: &'u str,
        requester: &Requester,
    ) -> Option<(&Arc<UpstreamMember>, &'u str)> {
        let (upstream, uri) = self.naming.original_uri(exposed)?;
        let member = match upstream {
            Some(id) => self.member_read_by(id, requester)?,
            // Bare names are for a single upstream.
            None => self.members_for(&requester.caller).next().filter(|member| self.is_read_by(member, requester))?,
        };
        Some((member, uri))
    }
}

/// The gateway's own tool, where there is long work to ask for and its name neither is nor was another tool's.
fn own_tool_beside(catalog: &Catalog) -> Option<&'static (Arc<CompiledContract>, Arc<ListedTool>)> {
    let long = !catalog.names().knows(RESULT_TOOL) && long_entries(catalog).next().is_some();
    long.then(result_tool).flatten()
}

fn long_entries(catalog: &Catalog) -> impl Iterator<Item = &CatalogEntry> {
    catalog.entries().map(|(_, entry)| entry).filter(|entry| entry.contract.contract().is_long())
}
