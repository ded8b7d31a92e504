//! What the operator lets whom do, in one world: the policies in force, others that are tried out, whose tools there are, and who the
//! callers are to all of them.
//!
//! Policies are validated against this world's contracts, so they are replaced with it. Who a caller is to the policies and what they are
//! shown is worked out once and kept; there is at most so much of it.

mod principals;
mod recorded_request;
mod views;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

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
    environment: String,
    tenants: UpstreamTenants,
    principals: PolicyPrincipalCache,
    views: ListingViewCache,
}

/// Whose an upstream is, by its id. One that is not named, or has no tenants, is everybody's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamTenants(BTreeMap<String, BTreeSet<String>>);

/// Why there are no policies.
#[derive(Debug, thiserror::Error)]
pub enum AuthoritiesError {
    /// The contracts cannot be told to the policy engine.
    #[error(transparent)]
    Vocabulary(#[from] VocabularyError),
    /// A policy is wrong.
    #[error(transparent)]
    Policies(#[from] PolicyLoadFailure),
}

impl Authorities {
    /// Policies in force, in an environment of that name.
    pub fn new(policies: Policies, environment: &str) -> Self {
        Self {
            policies,
            shadow: None,
            environment: environment.to_owned(),
            tenants: UpstreamTenants::default(),
            principals: PolicyPrincipalCache::default(),
            views: ListingViewCache::default(),
        }
    }

    /// The same beside policies that are tried out. Both have to have one vocabulary.
    #[must_use]
    pub fn with_shadow(self, shadow: ShadowPolicies) -> Self {
        Self { shadow: Some(shadow), ..self }
    }

    /// The same where some upstreams are not everybody's. The policies' vocabulary has to say the same of their tools.
    #[must_use]
    pub fn with_tenants(self, tenants: UpstreamTenants) -> Self {
        Self { tenants, ..self }
    }

    /// What holds for the tools of a catalog where nobody wrote anything.
    pub fn with_default_policies(catalog: &Catalog) -> Result<Self, AuthoritiesError> {
        let contracts = catalog.entries().map(|(_, entry)| &*entry.contract);
        let vocabulary = UpstreamTenants::default().vocabulary(contracts)?;
        let policies = Policies::load(Arc::new(vocabulary), &[], BuiltInPermits::On, &PolicyLimits::default())?;
        Ok(Self::new(policies, "local"))
    }

    /// The policies in force.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Those that are tried out.
    pub fn shadow(&self) -> Option<&ShadowPolicies> {
        self.shadow.as_ref()
    }

    /// Who a caller is to the policies.
    pub fn principal(&self, authenticated: &AuthenticatedCaller) -> Result<Arc<Principal>, PrincipalError> {
        self.principals.resolve(authenticated, self.policies.vocabulary())
    }

    /// What a call of theirs is judged under.
    pub fn mandate<'a>(&'a self, authenticated: &'a AuthenticatedCaller, principal: &'a Principal) -> Mandate<'a> {
        let (policies, shadow) = (&self.policies, self.shadow.as_ref());
        let policy = PoliciesInForce { policies, shadow, principal, environment: &self.environment };
        Mandate { authenticated, policy }
    }

    /// What a requester is shown of a list: the very same one where nothing is kept from them.
    pub(crate) fn visible_listing(
        &self,
        catalog: &Catalog,
        listing: Arc<Listing>,
        requester: &Requester,
    ) -> Arc<Listing> {
        let Ok(principal) = self.principal(&requester.authority) else {
            // Whoever no policy can speak of can call nothing.
            return Arc::new(Listing { generation: listing.generation, tools: Vec::new() });
        };
        views::ListingView { policies: &self.policies, environment: &self.environment, catalog, principal, requester }
            .resolve(&self.views, listing)
    }

    /// Whether an upstream is some tenants' and not this one's.
    pub(crate) fn is_foreign(&self, upstream: &str, tenant: &str) -> bool {
        self.tenants.for_upstream(upstream).is_some_and(|tenants| !tenants.contains(tenant))
    }

    /// Whose all of these upstreams are together; none if one of them is everybody's.
    pub(crate) fn tenants_of<'u>(&self, upstreams: impl IntoIterator<Item = &'u str>) -> Option<Arc<BTreeSet<String>>> {
        let tenants: Option<Vec<&BTreeSet<String>>> =
            upstreams.into_iter().map(|id| self.tenants.for_upstream(id)).collect();
        Some(Arc::new(tenants?.into_iter().flatten().cloned().collect()))
    }

    /// Whether any upstream is not everybody's.
    pub(crate) fn has_tenants(&self) -> bool {
        !self.tenants.0.is_empty()
    }
}

impl UpstreamTenants {
    /// The vocabulary of contracts whose upstreams are these tenants'.
    pub fn vocabulary<'a>(
        &self,
        contracts: impl IntoIterator<Item = &'a CompiledContract>,
    ) -> Result<Vocabulary, VocabularyError> {
        Vocabulary::from_tools(contracts.into_iter().map(|compiled| {
            let facts = ToolFacts::from(compiled.contract());
            let tenants = self.for_upstream(&facts.contract.binding.upstream).unwrap_or(facts.tenants);
            let (program_decides_class, input) = (compiled.program_decides_class(), Some(compiled.input()));
            ToolFacts { tenants, program_decides_class, input, ..facts }
        }))
    }

    fn for_upstream(&self, upstream: &str) -> Option<&BTreeSet<String>> {
        self.0.get(upstream)
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
