//! The statement that lists effects, newest first and a page at a time, for every store alike. Which index finds them depends on the
//! states that are asked for, and a partial index is only used where the text has its condition: so it is put together here, of our
//! own names.

use servanda_effects::effect::EffectState;

use crate::codec::effect_columns;

/// How a store writes what differs between databases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListingDialect<'a> {
    /// The condition that a handle is behind the one where the page before ended.
    pub(crate) below: &'a str,
    /// The parameter for how many.
    pub(crate) limit: &'a str,
    /// What makes the database take the index of what is unknown, where it has to be told.
    pub(crate) by_unknown_index: &'a str,
}

/// The statement for some states, all if there are none.
///
/// What is under way and what is unknown is found by its index. What has ended is found by going through the effects from the newest,
/// which only a person's command does, and which mostly ends after a page.
pub(crate) fn list_statement(states: &[EffectState], dialect: ListingDialect<'_>) -> String {
    use EffectState::{Claimed, Dispatching, OutcomeUnknown};
    let ListingDialect { below, limit, by_unknown_index } = dialect;
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
            "select {columns} from effects where {condition} and {below} order by effect_id desc limit {limit}"
        );
    }
    // The condition on the handle is the index's, and always holds.
    let unknown = format!(
        "select {columns} from effects {by_unknown_index} where state = 'outcome_unknown' and effect_id is not null and {below}"
    );
    if open.is_empty() {
        return format!("{unknown} order by effect_id desc limit {limit}");
    }
    let mut parts =
        vec![format!("select {columns} from effects where upstream is not null and {} and {below}", named(&open))];
    parts.extend(is_unknown.then_some(unknown));
    // Sorted by an expression, so that the order of the handles is no reason to go through all of them.
    format!("select * from ({}) as listed order by effect_id || '' desc limit {limit}", parts.join(" union all "))
}
