//! A call that waits for a decision.

use serde_json::Value;

use super::{ApprovalKeys, BareAlias};
use crate::{LookupKey, Tool, ToolAddress, TraceName, call::CallId};

/// A call that waits for a decision, with everything that is known about the meant tool.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingApproval {
    /// The address in the call.
    pub address: ToolAddress,
    /// The meant tool.
    pub lookup_key: LookupKey,
    /// The namespace to show: as written in the call, even if empty; a deferred tool's name if it has none.
    pub shown_namespace: Option<String>,
    /// The name to show.
    pub display_name: TraceName,
    /// The id of the call.
    pub call_id: Option<CallId>,
    /// Whether the bare name is an alias.
    pub alias: Option<BareAlias>,
    /// The texts that a decision is filed under.
    pub keys: ApprovalKeys,
    /// The call.
    pub call: Value,
}

impl PendingApproval {
    /// The call of a tool among the visible ones; `None` if the call has no name.
    pub fn new<'a, T: 'a>(
        tool: &Tool<T>,
        visible: impl IntoIterator<Item = &'a Tool<T>>,
        call: &Value,
    ) -> Option<Self> {
        let address = ToolAddress::from_call(call)?;
        let deferred = tool.identity.is_deferred_top_level();
        let lookup_key = match tool.identity.lookup_key() {
            Some(key) if deferred => key,
            _ => LookupKey::of(&address),
        };
        let said = call.get("namespace").and_then(Value::as_str).map(str::to_owned);
        let alias = BareAlias::permitted(tool, visible);
        Some(Self {
            shown_namespace: said.or_else(|| deferred.then(|| address.name.as_str().to_owned())),
            display_name: address.trace_name(),
            call_id: CallId::read(call.get("call_id")),
            keys: ApprovalKeys::new(&address.name, &lookup_key, alias),
            alias,
            lookup_key,
            address,
            call: call.clone(),
        })
    }
}
