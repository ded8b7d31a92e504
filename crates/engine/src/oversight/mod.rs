//! What people look at and do in a gateway beside approvals: effects whose outcome is unknown, tools that are held back, policies, budgets.
//!
//! Every method takes the person and is about what is theirs: people with a role see their tenant, all others what their own agents did. The
//! commands of the binary make the same changes by the same functions ([`settle_by_hand`], [`change_by_person`]).
//!
//! [`change_by_person`]: crate::quarantine::change_by_person
//!
//! Deliberately not here: which state follows which change (`servanda_effects`, `quarantine`), how people are authenticated, and pages.

mod budgets;
mod effects;
mod inquiries;
mod policies;
mod settling;
mod statement;
mod tools;

use std::{collections::BTreeSet, sync::Arc};

use servanda_approval::{PersonRole, RoleMember};

pub use self::{
    budgets::{BudgetGrant, BudgetOverview},
    effects::{EffectOverview, SeenEffects, SensitiveArguments},
    inquiries::{EffectInquiry, inquiries},
    policies::{PolicyEntry, PolicyOverview},
    settling::{PersonSettlement, SettlementError, settle_by_hand},
    statement::{STATEMENT_CHARS_MAX, checked_statement},
    tools::{HoldChange, HoldChangeError, ToolOverview, ToolPin},
};
use crate::{approvals::Person, core::Core, world::WorldSnapshot};

/// What people look at and do in a gateway.
#[derive(Debug)]
pub struct Oversight<'a> {
    core: &'a Core,
}

/// A person at a moment: what they may see and do by the configuration of that moment.
struct OversightView<'p> {
    person: &'p Person,
    snapshot: Arc<WorldSnapshot>,
    roles: BTreeSet<PersonRole>,
}

impl<'a> Oversight<'a> {
    pub(crate) const fn new(core: &'a Core) -> Self {
        Self { core }
    }

    fn view<'p>(&self, person: &'p Person) -> OversightView<'p> {
        let snapshot = self.core.snapshot();
        let roles = person.roles(snapshot.authorities.approvals());
        OversightView { person, snapshot, roles }
    }
}

impl OversightView<'_> {
    /// Whether the person sees what belongs to the tenant, and not only what their own agents did.
    fn sees_tenant(&self) -> bool {
        !self.roles.is_empty()
    }

    /// Whether the person may settle effects, and hold and release tools.
    fn may_operate(&self) -> bool {
        self.person.may_operate(self.snapshot.authorities.approvals())
    }

    /// The person, as records name them.
    fn name(&self) -> String {
        format!("{}/{}", self.person.tenant, self.person.principal)
    }

    /// The other tenants that the configuration names.
    fn other_tenants(&self) -> BTreeSet<String> {
        let authorities = &self.snapshot.authorities;
        let roles = &authorities.approvals().roles;
        let of_roles = PersonRole::ALL.into_iter().flat_map(|role| roles.members(role)).map(RoleMember::tenant);
        let of_budgets = self.snapshot.allowances.iter().filter_map(|allowance| allowance.only.tenant.as_deref());
        let of_upstreams = authorities.tenants().all();
        let all = of_roles.chain(of_budgets).chain(of_upstreams);
        all.filter(|tenant| *tenant != self.person.tenant).map(str::to_owned).collect()
    }
}
