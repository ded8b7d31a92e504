//! The vocabulary in Cedar's own schema language: policies are validated against the text that people see.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{
    entity_types::{CALL, CALL_OF, quoted},
    types::{ArgumentType, Attribute},
    vocabulary::Vocabulary,
};

/// The action that stands for every tool that a policy does not name. No contract can have this name, because it has spaces.
const ANY_OTHER: &str = "call:any other tool";

const ENTITIES: &str = r#"// Who calls. Ids are `tenant/name`, e.g. User::"local/local".
entity Group;
entity User in [Group] {
  id: String,
  tenant: String,
  scopes: Set<String>,
  groups: Set<String>,
};
// The principal of a call is the agent that is proven to act, else the user. An agent is in its user and in its user's groups.
// A name that is only claimed never permits anything, and what is forbidden to it is forbidden.
entity Agent in [User, Group] {
  id: String,
  tenant: String,
  scopes: Set<String>,
  groups: Set<String>,
  user?: User,
};

// What is called. A tool's id is the name of its contract.
entity Upstream;
entity Tool in [Upstream] {
  name: String,
  version: String,
  upstream: String,
  owner: String,
  tenants?: Set<String>,
  // READ_ONLY, EPHEMERAL_WRITE, LOW_RISK_INTERNAL, MEDIUM_RISK_WRITE, HIGH_RISK_EXTERNAL, CRITICAL_MUTATION: risk 0 to 5.
  side_effect_class: String,
  risk: Long,
  // public, internal, confidential, regulated, secret: sensitivity 0 to 4.
  data_classification: String,
  sensitivity: Long,
  mutates: Bool,
  confirmation_required: Bool,
  tenant_scoped: Bool,
  behaviour?: { mutability: String, action: String, output_domain: String },
  required_scopes: Set<String>,
  egress: String,
};

type Environment = { name: String, time: datetime, time_ms: Long };

// Every tool has an action of its own, in this group. `context.question` is there while the upstream asks the caller something during
// a call, which is decided by itself: "form", "url", "sampling" or "roots".
action "call";
"#;

impl Vocabulary {
    /// The schema in Cedar's language, for people and their editors.
    pub fn schema_text(&self) -> String {
        whole(self)
    }
}

/// The schema of all tools.
pub(crate) fn whole(vocabulary: &Vocabulary) -> String {
    let mut text = ENTITIES.to_owned();
    for (name, tool) in vocabulary.tools() {
        text.push('\n');
        for untyped in vocabulary.untyped().iter().filter(|untyped| untyped.tool == *name) {
            // A server may put any text into a pointer; a line break in it must not end the comment.
            let _ = writeln!(text, "// not seen: {}: {}", untyped.pointer.escape_debug(), untyped.reason);
        }
        action(&mut text, &format!("{CALL_OF}{name}"), Some(&tool.facts.parameters().arguments));
    }
    text
}

/// The schema of some tools, and of one that stands for all others. The validity of a policy that reads no arguments depends on
/// nothing else, and checking it takes the time of a few tools instead of all.
pub(crate) fn part<'a>(vocabulary: &Vocabulary, tools: impl Iterator<Item = &'a str>, others: bool) -> String {
    let mut text = ENTITIES.to_owned();
    for name in tools {
        if let Some(tool) = vocabulary.tool(name) {
            action(&mut text, &format!("{CALL_OF}{name}"), Some(&tool.facts.parameters().arguments));
        }
    }
    if others {
        action(&mut text, ANY_OTHER, None);
    }
    text
}

fn action(text: &mut String, name: &str, arguments: Option<&BTreeMap<String, Attribute>>) {
    let _ = write!(text, "action {} in [{}] appliesTo {{\n  principal: [User, Agent],\n", quoted(name), quoted(CALL));
    text.push_str("  resource: [Tool],\n  context: {\n");
    if let Some(arguments) = arguments {
        text.push_str("    args: ");
        record(text, arguments, 2);
        text.push_str(",\n");
    }
    text.push_str("    env: Environment,\n    tenant: String,\n    client?: String,\n    task?: String,\n");
    text.push_str("    intent?: String,\n    question?: String,\n  },\n};\n");
}

fn record(text: &mut String, members: &BTreeMap<String, Attribute>, indent: usize) {
    if members.is_empty() {
        text.push_str("{}");
        return;
    }
    text.push_str("{\n");
    for (name, attribute) in members {
        let mark = if attribute.required { "" } else { "?" };
        let _ = write!(text, "{}{}{mark}: ", "  ".repeat(indent + 1), quoted(name));
        kind(text, &attribute.kind, indent + 1);
        text.push_str(",\n");
    }
    let _ = write!(text, "{}}}", "  ".repeat(indent));
}

fn kind(text: &mut String, argument: &ArgumentType, indent: usize) {
    match argument {
        ArgumentType::Text => text.push_str("String"),
        ArgumentType::Long => text.push_str("Long"),
        ArgumentType::Bool => text.push_str("Bool"),
        ArgumentType::Decimal => text.push_str("decimal"),
        ArgumentType::Set(inner) => {
            text.push_str("Set<");
            kind(text, inner, indent);
            text.push('>');
        }
        ArgumentType::Record(members) => record(text, members, indent),
    }
}
