//! Which effects to list: every condition narrows the list, and a cursor continues after a page.

use servanda_contract::tool::EffectClass;

use super::{Effect, EffectId, EffectState};

/// Which effects to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EffectQuery {
    /// Only in these states; all if empty.
    pub states: Vec<EffectState>,
    /// Only effects that match this.
    pub filter: EffectFilter,
    /// Only effects that come after this one in the list, which is the last of the previous page.
    pub after: Option<EffectId>,
    /// The most effects to list, newest first.
    pub limit: u32,
}

/// Conditions on effects. All that are set have to hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EffectFilter {
    /// The tool, by its exposed name or its contract's.
    pub tool: Option<String>,
    /// The upstream's id in the configuration.
    pub upstream: Option<String>,
    /// The tenant of the call.
    pub tenant: Option<String>,
    /// The principal of the call.
    pub principal: Option<String>,
    /// The effect class.
    pub class: Option<EffectClass>,
    /// Begun at this time or later.
    pub since_ms: Option<u64>,
    /// Begun before this time.
    pub until_ms: Option<u64>,
}

impl EffectFilter {
    /// Whether there is no condition at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a store finds everything that matches by its columns: there is no condition but the tenant.
    pub fn is_of_columns(&self) -> bool {
        Self { tenant: None, ..self.clone() }.is_empty()
    }

    /// Whether all conditions hold.
    pub fn matches(&self, effect: &Effect) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        let Self { tool, upstream, tenant, principal, class, since_ms, until_ms } = self;
        (is(tool, &effect.order.exposed_tool) || is(tool, &effect.key.tool))
            && is(upstream, &effect.order.upstream)
            && is(tenant, &effect.key.tenant)
            && is(principal, &effect.key.principal)
            && class.is_none_or(|class| class == effect.class)
            && since_ms.is_none_or(|since_ms| effect.created_ms >= since_ms)
            && until_ms.is_none_or(|until_ms| effect.created_ms < until_ms)
    }
}
