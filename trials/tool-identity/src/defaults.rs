//! Default names of handoffs and of agents that are used as tools, and the check of names generated for callables.

use super::{IdentityError, NameSource, PublicName};

/// The longest generated name.
const GENERATED_CHARS_MAX: usize = 64;

/// The name of a handoff to an agent: the chosen one, unchanged, or one derived from the agent's name.
pub fn handoff_name(agent: &str, chosen: Option<&str>) -> Option<(PublicName, NameSource)> {
    chosen_or(chosen, agent, &format!("transfer_to_{agent}"))
}

/// The name of an agent that is used as a tool; none only if nothing was chosen and the agent has no name.
pub fn agent_tool_name(agent: &str, chosen: Option<&str>) -> Option<(PublicName, NameSource)> {
    chosen_or(chosen, agent, agent)
}

/// A name generated for a callable, if every provider accepts it. Chosen names are not checked here.
pub fn generated_name(name: &str) -> Result<PublicName, IdentityError> {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    let named = PublicName::new(name).filter(|_| plain && name.len() <= GENERATED_CHARS_MAX);
    named.ok_or_else(|| IdentityError::InvalidGeneratedName(name.to_owned()))
}

fn chosen_or(chosen: Option<&str>, agent: &str, default: &str) -> Option<(PublicName, NameSource)> {
    let chosen = chosen.and_then(PublicName::new).map(|name| (name, NameSource::Chosen));
    chosen.or_else(|| Some((PublicName::new(function_style(default))?, NameSource::Agent(agent.to_owned()))))
}

/// One `_` for every code point that is not an ASCII letter, digit or `_`; the rest in lower case.
fn function_style(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text.chars().map(|character| if plain(character) { character.to_ascii_lowercase() } else { '_' }).collect()
}
