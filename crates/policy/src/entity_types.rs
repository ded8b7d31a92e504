//! The vocabulary's names as Cedar types, created once.

use cedar_policy::{EntityId, EntityTypeName, EntityUid, ParseErrors};

/// The prefix of a tool's name in the name of its action.
pub(crate) const CALL_OF: &str = "call:";
/// The group that contains every tool's action.
pub(crate) const CALL: &str = "call";

/// The entity types.
#[derive(Debug, Clone)]
pub(crate) struct EntityTypes {
    pub user: EntityTypeName,
    pub agent: EntityTypeName,
    pub group: EntityTypeName,
    pub tool: EntityTypeName,
    pub upstream: EntityTypeName,
    pub action: EntityTypeName,
}

impl EntityTypes {
    pub(crate) fn new() -> Result<Self, Box<ParseErrors>> {
        Ok(Self {
            user: "User".parse()?,
            agent: "Agent".parse()?,
            group: "Group".parse()?,
            tool: "Tool".parse()?,
            upstream: "Upstream".parse()?,
            action: "Action".parse()?,
        })
    }

    pub(crate) fn tool_action(&self, tool: &str) -> EntityUid {
        uid(&self.action, &format!("{CALL_OF}{tool}"))
    }
}

/// An entity. The id is used verbatim: quotes and escapes in it have no meaning.
pub(crate) fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

/// The tool whose action this is.
pub(crate) fn tool_of(action: &EntityUid) -> Option<String> {
    let of_action = action.type_name().basename() == "Action";
    action.id().unescaped().strip_prefix(CALL_OF).filter(|_| of_action).map(str::to_owned)
}

/// Text as a Cedar string literal.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.escape_debug())
}
