//! Tools as people see them, and people's holds and releases.

use std::sync::Arc;

use servanda_catalog::{CatalogEntry, ToolStanding};
use servanda_contract::Digest;
use servanda_effects::JournalError;
use servanda_gates::CompiledContract;
use servanda_mcp::ClientCapabilities;

use super::{Oversight, OversightView, checked_statement};
use crate::{
    approvals::Person,
    quarantine::{QuarantineChange, QuarantineChangeError, QuarantineHistory, UpstreamToolKey, history_of},
};

/// A tool, and how it stands.
#[derive(Debug, Clone)]
pub struct ToolOverview {
    /// Its exposed name.
    pub name: String,
    /// Its contract.
    pub contract: Arc<CompiledContract>,
    /// How it stands for a client without capabilities.
    pub standing: Arc<ToolStanding>,
    /// Why its server does not answer, if it does not.
    pub unreachable: Option<String>,
    /// The definition that a person agreed to, if one did.
    pub pin: Option<ToolPin>,
    /// Whether other tenants use its server, so that it is not held or released from the console.
    pub is_shared: bool,
}

/// What a person agreed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPin {
    /// The digest of the definition.
    pub digest: Digest,
    /// When, in RFC 3339.
    pub at: String,
}

/// What a person does about a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldChange {
    /// Its exposed name.
    pub tool: String,
    /// The state of its quarantine that the person was shown ([`QuarantineHistory::mark`]).
    pub seen: String,
    /// Whether it is held back, or released.
    pub holds: bool,
    /// Why.
    pub reason: String,
}

/// Why a tool is not held back or released.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HoldChangeError {
    /// There is no such tool, or it is not this person's to see.
    #[error("there is no tool `{0}`")]
    NoTool(String),
    /// The person's role does not include it.
    #[error("the role `operator` holds tools back and releases them")]
    NotPermitted,
    /// Other tenants use the tool, too.
    #[error("other tenants use the server of this tool: `servanda quarantine` changes it for all of them")]
    Shared,
    /// The reason is missing, too long, or more than a line.
    #[error("a reason is one line")]
    Reason,
    /// The change is not made.
    #[error(transparent)]
    NotMade(#[from] QuarantineChangeError),
}

impl Oversight<'_> {
    /// The tools of a person's tenant, by name. None for people without a role.
    pub fn tools(&self, person: &Person) -> Option<Vec<ToolOverview>> {
        let view = self.view(person);
        let entries = view.snapshot.catalog.entries().filter(|(_, entry)| view.sees_tool(entry));
        view.sees_tenant().then(|| entries.map(|(name, entry)| view.report(name, entry)).collect())
    }

    /// One tool by its exposed name, and everything that happened to it, if the person sees it.
    pub async fn tool(
        &self,
        person: &Person,
        name: &str,
    ) -> Result<Option<(ToolOverview, QuarantineHistory)>, JournalError> {
        let view = self.view(person);
        let Some((name, entry)) = view.tool(name) else { return Ok(None) };
        let history = history_of(self.core.notebook.as_ref(), &key(entry), self.core.clock.now()).await?;
        Ok(Some((view.report(name, entry), history)))
    }

    /// Holds a tool back or releases it by a person's word: in this gateway at once, in others within seconds.
    pub async fn change_hold(&self, person: &Person, change: HoldChange) -> Result<QuarantineHistory, HoldChangeError> {
        let HoldChange { tool, seen, holds, reason } = change;
        let view = self.view(person);
        let (_, entry) = view.tool(&tool).ok_or_else(|| HoldChangeError::NoTool(tool.clone()))?;
        if !view.may_operate() {
            return Err(HoldChangeError::NotPermitted);
        }
        if view.is_shared(entry) {
            return Err(HoldChangeError::Shared);
        }
        let reason = checked_statement(&reason).ok_or(HoldChangeError::Reason)?.to_owned();
        let contract = entry.contract.contract().identity.name.clone();
        let change = QuarantineChange {
            tool: key(entry),
            contract,
            contract_digest: Some(entry.contract.digest()),
            holds,
            reason,
            by: view.name(),
            seen: Some(seen),
        };
        let changed = self.core.quarantine.change(change).await;
        let (person, tenant) = (person.principal.as_str(), person.tenant.as_str());
        match &changed {
            Ok(_) => tracing::info!(tool, person, tenant, holds, "a person changed the quarantine of a tool"),
            Err(error) => tracing::info!(tool, person, tenant, holds, %error, "a quarantine was not changed"),
        }
        Ok(changed?)
    }
}

impl OversightView<'_> {
    fn sees_tool(&self, entry: &CatalogEntry) -> bool {
        let upstream = &entry.contract.contract().binding.upstream;
        self.sees_tenant() && !self.snapshot.authorities.is_foreign(upstream, &self.person.tenant)
    }

    fn tool(&self, name: &str) -> Option<(&str, &CatalogEntry)> {
        let mut entries = self.snapshot.catalog.entries();
        entries.find(|(own, _)| *own == name).filter(|(_, entry)| self.sees_tool(entry))
    }

    fn is_shared(&self, entry: &CatalogEntry) -> bool {
        match self.snapshot.authorities.tenants().of_upstream(&entry.contract.contract().binding.upstream) {
            Some(tenants) => tenants.iter().any(|tenant| *tenant != self.person.tenant),
            None => !self.other_tenants().is_empty(),
        }
    }

    fn report(&self, name: &str, entry: &CatalogEntry) -> ToolOverview {
        let (catalog, binding) = (&self.snapshot.catalog, &entry.contract.contract().binding);
        let lock = catalog.lock_file();
        let pin = lock.as_ref().and_then(|lock| lock.pin(&binding.upstream, &binding.tool));
        ToolOverview {
            name: name.to_owned(),
            contract: Arc::clone(&entry.contract),
            standing: catalog.standing(name, &ClientCapabilities::none()),
            unreachable: catalog.unreachable_reason(&binding.upstream),
            pin: pin.map(|pin| ToolPin { digest: pin.digest, at: pin.pinned_at.clone() }),
            is_shared: self.is_shared(entry),
        }
    }
}

fn key(entry: &CatalogEntry) -> UpstreamToolKey {
    let binding = &entry.contract.contract().binding;
    UpstreamToolKey { upstream: binding.upstream.clone(), tool: binding.tool.clone() }
}
