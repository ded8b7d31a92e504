//! The statement that lists effects, newest first, for every store alike. Which index finds them depends on the states that are asked
//! for, and a partial index is only used where the text has its condition: so it is put together here, of our own names.

use servanda_gates::effect::EffectState;

use crate::codec::effect_columns;

/// The statement for some states, all if there are none; `limit` is the store's way to write its one parameter.
///
/// What is under way and what is unknown is found by its index. What has ended is found by going through the effects from the newest,
/// which only a person's command does, and which mostly ends after a page.
pub(crate) fn list_statement(states: &[EffectState], limit: &str) -> String {
    use EffectState::{Claimed, Dispatching, OutcomeUnknown};
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
        return format!("select {columns} from effects where {condition} order by effect_id desc limit {limit}");
    }
    let mut parts = Vec::new();
    if !open.is_empty() {
        parts.push(format!("select {columns} from effects where upstream is not null and {}", named(&open)));
    }
    if is_unknown {
        parts.push(format!("select {columns} from effects where state = 'outcome_unknown'"));
    }
    // Sorted by an expression, so that the order of the handles is no reason to go through all of them.
    format!("select * from ({}) as listed order by effect_id || '' desc limit {limit}", parts.join(" union all "))
}
