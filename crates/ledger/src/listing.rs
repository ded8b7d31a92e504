//! The statement that lists effects, newest first and a page at a time, for every store alike. The states in
//! the query decide which index finds them, and a database uses a partial index only if the statement contains
//! its condition. Therefore the statement is composed here, from constants only.

use servanda_effects::effect::EffectState;

use crate::codec::effect_columns;

/// The parts of the statement that differ between databases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListingDialect<'a> {
    /// The condition that a handle comes after the last one of the previous page.
    pub(crate) below: &'a str,
    /// The parameter for the number of rows.
    pub(crate) limit: &'a str,
    /// The parameter for the tenant, if only its effects are listed.
    pub(crate) tenant: Option<&'a str>,
    /// Makes the database use the index of unknown effects, if it has to be told.
    pub(crate) by_unknown_index: &'a str,
    /// Makes the database use the index of a tenant's effects, if it has to be told.
    pub(crate) by_tenant_index: &'a str,
}

/// The statement for some states; no states means all.
///
/// Effects under way and unknown effects are found by their index. Effects that have ended are found by walking
/// through all effects of the tenant from the newest; without a tenant, through all effects. Only a person's command does that, and it
/// usually ends after a page.
pub(crate) fn list_statement(states: &[EffectState], dialect: ListingDialect<'_>) -> String {
    use EffectState::{Claimed, Dispatching, OutcomeUnknown};
    let ListingDialect { below, limit, tenant, by_unknown_index, by_tenant_index } = dialect;
    let (of_tenant, by_tenant_index) = match tenant {
        Some(tenant) => (format!(" and tenant = {tenant}"), by_tenant_index),
        None => (String::new(), ""),
    };
    let columns = effect_columns!();
    let named = |states: &[EffectState]| {
        let names: Vec<String> = states.iter().map(|state| format!("'{}'", state.name())).collect();
        format!("state in ({})", names.join(", "))
    };
    let open: Vec<EffectState> =
        states.iter().copied().filter(|state| matches!(state, Claimed | Dispatching)).collect();
    let is_unknown = states.contains(&OutcomeUnknown);
    if states.is_empty() || states.len() > open.len() + usize::from(is_unknown) {
        let condition = if states.is_empty() { "true".to_owned() } else { named(states) };
        return format!(
            "select {columns} from effects {by_tenant_index} where {condition} and {below}{of_tenant} order by effect_id desc limit {limit}"
        );
    }
    // The condition on the handle is the index's own, and always holds.
    let unknown = format!(
        "select {columns} from effects {by_unknown_index} where state = 'outcome_unknown' and effect_id is not null and {below}{of_tenant}"
    );
    if open.is_empty() {
        return format!("{unknown} order by effect_id desc limit {limit}");
    }
    let mut parts = vec![format!(
        "select {columns} from effects where upstream is not null and {} and {below}{of_tenant}",
        named(&open)
    )];
    parts.extend(is_unknown.then_some(unknown));
    // Sorted by an expression, so that the database does not walk through all handles just to get their order.
    format!("select * from ({}) as listed order by effect_id || '' desc limit {limit}", parts.join(" union all "))
}
