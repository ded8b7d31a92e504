//! What the operator permits to whom, in one world: the policies in force, policies on trial, the tenants of upstreams, and the callers
//! as principals of the policies.
//!
//! Policies are validated against this world's contracts, so they are replaced with it. The principal of a caller and the list that a
//! requester sees are computed once and cached; both caches are bounded.

mod principals;
mod recorded_request;
mod views;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use servanda_approval::ApprovalSettings;
use servanda_authority::AuthenticatedCaller;
use servanda_catalog::{Catalog, Listing};
use servanda_gates::{CompiledContract, Mandate, PoliciesInForce};
use servanda_policy::{
    BuiltInPermits, Policies, PolicyLimits, PolicyLoadFailure, Principal, PrincipalError, ShadowPolicies, ToolFacts,
    Vocabulary, VocabularyError,
};

pub use recorded_request::RecordedPolicyRequest;

use self::{principals::PolicyPrincipalCache, views::ListingViewCache};
use crate::client::Requester;

/// The policies of a world.
pub struct Authorities {
    policies: Policies,
    shadow: Option<ShadowPolicies>,
    approvals: ApprovalSettings,
    environment: String,
    tenants: UpstreamTenants,
    principals: PolicyPrincipalCache,
    views: ListingViewCache,
}

/// The tenants of each upstream, by its id. An upstream that is not named here, or has no tenants, is open to all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamTenants(BTreeMap<String, BTreeSet<String>>);

/// Why policies could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum AuthoritiesError {
    /// The contracts cannot be described to the policy engine.
    #[error(transparent)]
    Vocabulary(#[from] VocabularyError),
    /// A policy is invalid.
    #[error(transparent)]
    Policies(#[from] PolicyLoadFailure),
}

impl Authorities {
    /// The policies in force, in an environment of this name.
    pub fn new(policies: Policies, environment: &str) -> Self {
        Self {
            policies,
            shadow: None,
            approvals: ApprovalSettings::default(),
            environment: environment.to_owned(),
            tenants: UpstreamTenants::default(),
            principals: PolicyPrincipalCache::default(),
            views: ListingViewCache::default(),
        }
    }

    /// The same with policies on trial beside them. Both must have the same vocabulary.
    #[must_use]
    pub fn with_shadow(self, shadow: ShadowPolicies) -> Self {
        Self { shadow: Some(shadow), ..self }
    }

    /// The same with upstreams that belong to tenants. The policies' vocabulary must say the same about their tools.
    #[must_use]
    pub fn with_tenants(self, tenants: UpstreamTenants) -> Self {
        Self { tenants, ..self }
    }

    /// The same with the operator's settings for approvals.
    #[must_use]
    pub fn with_approvals(self, approvals: ApprovalSettings) -> Self {
        Self { approvals, ..self }
    }

    /// When approvals are needed, from whom, and what people may do.
    pub fn approvals(&self) -> &ApprovalSettings {
        &self.approvals
    }

    /// The defaults for the tools of a catalog, if the operator wrote no policies.
    pub fn with_default_policies(catalog: &Catalog) -> Result<Self, AuthoritiesError> {
        let contracts = catalog.entries().map(|(_, entry)| &*entry.contract);
        let vocabulary = UpstreamTenants::default().vocabulary(contracts)?;
        let policies = Policies::load(Arc::new(vocabulary), &[], BuiltInPermits::On, &PolicyLimits::default())?;
        Ok(Self::new(policies, "local"))
    }

    /// The name of the environment.
    pub fn environment(&self) -> &str {
        &self.environment
    }

    /// The tenants of upstreams.
    pub(crate) const fn tenants(&self) -> &UpstreamTenants {
        &self.tenants
    }

    /// The policies in force.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// The policies on trial.
    pub fn shadow(&self) -> Option<&ShadowPolicies> {
        self.shadow.as_ref()
    }

    /// The caller as a principal of the policies.
    pub fn principal(&self, authenticated: &AuthenticatedCaller) -> Result<Arc<Principal>, PrincipalError> {
        self.principals.resolve(authenticated, self.policies.vocabulary())
    }

    /// What a call of this caller is judged under.
    pub fn mandate<'a>(&'a self, authenticated: &'a AuthenticatedCaller, principal: &'a Principal) -> Mandate<'a> {
        let (policies, shadow) = (&self.policies, self.shadow.as_ref());
        let policy = PoliciesInForce { policies, shadow, principal, environment: &self.environment };
        Mandate { authenticated, policy, approvals: &self.approvals }
    }

    /// The part of a list that a requester sees. If nothing is hidden, this is the same list, not a copy.
    pub(crate) fn visible_listing(
        &self,
        catalog: &Catalog,
        listing: Arc<Listing>,
        requester: &Requester,
    ) -> Arc<Listing> {
        let Ok(principal) = self.principal(&requester.authority) else {
            // A requester that cannot be a principal of the policies can call nothing.
            return Arc::new(Listing { generation: listing.generation, tools: Vec::new() });
        };
        let (policies, environment, approvals) = (&self.policies, self.environment.as_str(), &self.approvals);
        views::ListingView { policies, environment, approvals, catalog, principal, requester }
            .resolve(&self.views, listing)
    }

    /// Whether an upstream belongs to other tenants than this one.
    pub(crate) fn is_foreign(&self, upstream: &str, tenant: &str) -> bool {
        self.tenants.of_upstream(upstream).is_some_and(|tenants| !tenants.contains(tenant))
    }

    /// The tenants of all these upstreams together; none if one of them is open to all.
    pub(crate) fn tenants_of<'u>(&self, upstreams: impl IntoIterator<Item = &'u str>) -> Option<Arc<BTreeSet<String>>> {
        let tenants: Option<Vec<&BTreeSet<String>>> =
            upstreams.into_iter().map(|id| self.tenants.of_upstream(id)).collect();
        Some(Arc::new(tenants?.into_iter().flatten().cloned().collect()))
    }

    /// Whether any upstream belongs to tenants.
    pub(crate) fn has_tenants(&self) -> bool {
        !self.tenants.0.is_empty()
    }
}

impl UpstreamTenants {
    /// The vocabulary of contracts whose upstreams belong to these tenants.
    pub fn vocabulary<'a>(
        &self,
        contracts: impl IntoIterator<Item = &'a CompiledContract>,
    ) -> Result<Vocabulary, VocabularyError> {
        Vocabulary::from_tools(contracts.into_iter().map(|compiled| {
            let facts = ToolFacts::from(compiled.contract());
            let tenants = self.of_upstream(&facts.contract.binding.upstream).unwrap_or(facts.tenants);
            let (program_decides_class, input) = (compiled.program_decides_class(), Some(compiled.input()));
            ToolFacts { tenants, program_decides_class, input, ..facts }
        }))
    }

    /// The tenants of an upstream; none if it is open to all.
    pub(crate) fn of_upstream(&self, upstream: &str) -> Option<&BTreeSet<String>> {
        self.0.get(upstream)
    }

    /// Every tenant that has an upstream.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.0.values().flatten().map(String::as_str)
    }
}

impl FromIterator<(String, BTreeSet<String>)> for UpstreamTenants {
    fn from_iter<I: IntoIterator<Item = (String, BTreeSet<String>)>>(tenants: I) -> Self {
        Self(tenants.into_iter().filter(|(_, tenants)| !tenants.is_empty()).collect())
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authorities").field("policies", &self.policies).finish_non_exhaustive()
    }
}
