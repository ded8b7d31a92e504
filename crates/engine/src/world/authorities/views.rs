//! The list that a requester sees: the tools of which some call could be allowed, by its credential and by the policies that decide
//! calls. A missing scope hides nothing, because the refusal of a call tells the client which scope to ask for.
//!
//! The list says of each tool what becomes of the requester's calls: decided at once, held for people, or refused for a missing scope.
//!
//! A list is computed once for each kind of requester and cached. If nothing is hidden and nothing is to be said that the catalog's list does
//! not say, the requester gets that list itself, not a copy.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState},
    sync::{Arc, PoisonError, RwLock},
};

use servanda_approval::ApprovalSettings;
use servanda_authority::rights::{Scopes, ToolPatterns};
use servanda_catalog::{Catalog, ListedDisposition, ListedTool, Listing};
use servanda_contract::{Timestamp, tool::SideEffectClass};
use servanda_gates::CompiledContract;
use servanda_policy::{ApprovalOutlook, CallCircumstances, ListDecision, Policies, Principal};

use crate::client::Requester;

/// How many lists are cached. When there are more, the cache is emptied and filled again. The lists share their tools.
const VIEWS_MAX: usize = 1_024;

/// The cached lists.
#[derive(Debug, Default)]
pub(super) struct ListingViewCache {
    state: RandomState,
    /// By a hash of everything that the list depends on. Two lists with the same hash replace each other.
    known: RwLock<HashMap<u64, CachedListingView>>,
}

#[derive(Debug)]
struct CachedListingView {
    /// The whole list. It is held so that its address cannot be reused by another list.
    whole: Arc<Listing>,
    /// The principal, held for the same reason.
    principal: Arc<Principal>,
    client: Option<String>,
    tools: ToolPatterns,
    scopes: Scopes,
    ceiling: SideEffectClass,
    shown: Arc<Listing>,
}

/// One requester's view of a list.
pub(super) struct ListingView<'a> {
    pub(super) policies: &'a Policies,
    pub(super) environment: &'a str,
    pub(super) approvals: &'a ApprovalSettings,
    pub(super) catalog: &'a Catalog,
    pub(super) principal: Arc<Principal>,
    pub(super) requester: &'a Requester,
}

impl ListingView<'_> {
    /// The list that the requester sees.
    pub(super) fn resolve(self, views: &ListingViewCache, whole: Arc<Listing>) -> Arc<Listing> {
        let number = self.hash(&views.state, &whole);
        let known = views.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&number).filter(|known| self.matches(known, &whole)) {
            return Arc::clone(&known.shown);
        }
        drop(known);
        let shown = self.compute(&whole);
        let rights = self.requester.authority.rights();
        let found = CachedListingView {
            client: self.client().map(str::to_owned),
            tools: rights.tools.clone(),
            scopes: rights.scopes.clone(),
            ceiling: rights.ceiling,
            whole,
            shown: Arc::clone(&shown),
            principal: self.principal,
        };
        let mut known = views.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= VIEWS_MAX {
            known.clear();
        }
        known.insert(number, found);
        shown
    }

    fn hash(&self, state: &RandomState, whole: &Arc<Listing>) -> u64 {
        let mut hasher = state.build_hasher();
        (Arc::as_ptr(whole), Arc::as_ptr(&self.principal), self.client()).hash(&mut hasher);
        // Two credentials of one principal may be for different tools.
        self.requester.authority.credential().hash(&mut hasher);
        hasher.finish()
    }

    fn matches(&self, known: &CachedListingView, whole: &Arc<Listing>) -> bool {
        let rights = self.requester.authority.rights();
        Arc::ptr_eq(&known.whole, whole)
            && Arc::ptr_eq(&known.principal, &self.principal)
            && known.client.as_deref() == self.client()
            && known.ceiling == rights.ceiling
            && known.tools == rights.tools
            && known.scopes == rights.scopes
    }

    /// The client's name for itself, if some policy asks for it.
    fn client(&self) -> Option<&str> {
        self.requester.caller.client.as_deref().filter(|_| self.policies.look_at_client())
    }

    fn compute(&self, whole: &Arc<Listing>) -> Arc<Listing> {
        let circumstances = CallCircumstances {
            tenant: &self.requester.caller.tenant,
            environment: self.environment,
            // A list does not depend on the time.
            time: Timestamp::from_unix_ms(0),
            client: self.client(),
            task: None,
            intent: None,
            question: None,
            program_class: None,
        };
        let shown = |tool: &Arc<ListedTool>| {
            let entry = self.catalog.entry(&tool.name).filter(|entry| self.shows(&entry.contract, &circumstances))?;
            Some(tool.for_disposition(self.disposition(&entry.contract)))
        };
        let tools: Vec<Arc<ListedTool>> = whole.tools.iter().filter_map(shown).collect();
        let is_whole = tools.len() == whole.tools.len();
        if is_whole && tools.iter().zip(&whole.tools).all(|(shown, usual)| Arc::ptr_eq(shown, usual)) {
            return Arc::clone(whole);
        }
        Arc::new(Listing { generation: whole.generation, tools })
    }

    /// What becomes of the requester's calls of a tool that it sees.
    fn disposition(&self, contract: &CompiledContract) -> ListedDisposition {
        if !self.requester.authority.rights().scopes.missing(contract.scopes()).is_empty() {
            return ListedDisposition::Refused;
        }
        let name = &contract.contract().identity.name;
        match self.policies.approval_outlook(&self.principal, name, self.approvals) {
            ApprovalOutlook::NotNeeded => ListedDisposition::Allowed,
            ApprovalOutlook::Depends => ListedDisposition::MayNeedApproval,
            ApprovalOutlook::Needed => ListedDisposition::NeedsApproval,
        }
    }

    /// Whether some call of a tool could be allowed: with any arguments, at any time, and with all scopes.
    fn shows(&self, contract: &CompiledContract, circumstances: &CallCircumstances<'_>) -> bool {
        let (rights, name) = (self.requester.authority.rights(), &contract.contract().identity.name);
        rights.tools.covers(name)
            && contract.mildest_class() <= rights.ceiling
            && self.policies.list_decision(&self.principal, name, circumstances) != ListDecision::Denied
    }
}
