//! What one call is, so that two can be compared: its kind, the requested tool and what it asks of the tool.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{CallId, HostedRequest, HostedTool, InvocationKind, invocation_of, meaning::Meaning};
use crate::{LookupKey, PublicName};

/// Members that say what a call asks for. Ids, states and a provider's additions are not among them.
const ASKING_MEMBERS: [&str; 7] =
    ["arguments", "input", "action", "actions", "operation", "operations", "pending_safety_checks"];

/// A call that can be compared with another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Its id.
    pub id: CallId,
    /// Which tool it asks for, and how.
    pub scope: Scope,
    asked: BTreeMap<&'static str, Meaning>,
}

/// Which tool a call asks for, whatever the arguments: what lasting decisions apply to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A function tool.
    Function(LookupKey),
    /// A tool of a hosted server.
    Hosted(HostedTool),
    /// Any other kind of tool, by its name if it says one.
    Other(InvocationKind, Option<PublicName>),
}

impl Invocation {
    /// The call in an item. `key` is that of the chosen tool, if one was chosen; otherwise the call's own is used.
    ///
    /// `None` if the item is not a call, has no valid id, or does not say what it asks for.
    pub fn of(item: &Value, key: Option<&LookupKey>) -> Option<Self> {
        let (kind, id) = invocation_of(item)?;
        let scope = Scope::of(kind, item, key)?;
        let item = if kind == InvocationKind::HostedRequest { provider_data(item) } else { item };
        let required: &[&str] = match kind {
            InvocationKind::Function | InvocationKind::HostedRequest => &["arguments"],
            InvocationKind::Custom => &["input"],
            InvocationKind::Shell | InvocationKind::LocalShell | InvocationKind::Computer => &["action"],
            InvocationKind::ApplyPatch => &["operation", "operations"],
        };
        required.iter().any(|member| item.get(member).is_some()).then_some(())?;
        let asked = ASKING_MEMBERS.into_iter().filter_map(|member| Some((member, said(member, item.get(member)?)?)));
        Some(Self { id: id?, scope, asked: asked.collect() })
    }

    /// Its kind.
    pub fn kind(&self) -> InvocationKind {
        self.scope.kind()
    }
}

impl Scope {
    fn of(kind: InvocationKind, item: &Value, key: Option<&LookupKey>) -> Option<Self> {
        match kind {
            InvocationKind::Function => key.cloned().or_else(|| LookupKey::of_call(item)).map(Self::Function),
            InvocationKind::HostedRequest => HostedRequest::read(item)?.tool().map(Self::Hosted),
            InvocationKind::Custom => Some(Self::Other(kind, Some(PublicName::read(item.get("name"))?))),
            _ => Some(Self::Other(kind, PublicName::read(item.get("name")))),
        }
    }

    /// The kind of call.
    pub fn kind(&self) -> InvocationKind {
        match self {
            Self::Function(_) => InvocationKind::Function,
            Self::Hosted(_) => InvocationKind::HostedRequest,
            Self::Other(kind, _) => *kind,
        }
    }
}

/// Where a hosted request says what it asks: in the provider's data, else beside it.
fn provider_data(item: &Value) -> &Value {
    item.get("provider_data").filter(|data| data.get("arguments").is_some()).unwrap_or(item)
}

/// Arguments that are JSON are compared by meaning, others as text. In the other members, null counts as absent.
fn said(member: &str, value: &Value) -> Option<Meaning> {
    match value {
        Value::Null => None,
        Value::String(text) if member == "arguments" => Some(Meaning::of_text(text)),
        _ if member == "arguments" => Some(Meaning::of_value(value)),
        _ => Some(Meaning::of_value(&without_nulls(value))),
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let said = members.iter().filter(|(_, member)| !member.is_null());
            Value::Object(said.map(|(name, member)| (name.clone(), without_nulls(member))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        _ => value.clone(),
    }
}
