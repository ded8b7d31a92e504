//! The laws of the layers. What single inputs lead to is in the vectors; here is what holds for all.

mod approvals;
mod calls;
mod identity;
mod naming;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ExplicitNamespace, Loading, NameSource, PublicName, Tool, ToolIdentity, ToolKind};

/// Names in which everything that could be confused with something else comes up often.
fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab.]{1,4}",
        1 => Just("deferred_top_level:a".to_owned()),
        1 => Just("a.a".to_owned()),
        1 => ".{0,3}",
    ]
}

fn tools() -> impl Strategy<Value = ToolIdentity> {
    (names(), prop::option::of(names()), any::<bool>(), prop::bool::weighted(0.1)).prop_map(
        |(name, namespace, deferred, other)| ToolIdentity {
            kind: if other { ToolKind::Other } else { ToolKind::Function },
            name: PublicName::new(name),
            namespace: namespace.and_then(ExplicitNamespace::new),
            loading: if deferred { Loading::Deferred } else { Loading::Eager },
            label: None,
            source: NameSource::Chosen,
        },
    )
}

fn tool(identity: ToolIdentity) -> Tool<()> {
    Tool { identity, target: () }
}

fn named(name: &str) -> ToolIdentity {
    ToolIdentity::function(PublicName::new(name).unwrap())
}

/// The call that reaches a tool, as the wire has it.
fn call_of(identity: &ToolIdentity, id: &str) -> Value {
    let name = identity.name.as_ref().map(PublicName::as_str);
    let mut call = json!({ "type": "function_call", "name": name, "call_id": id, "arguments": "{}" });
    let namespace = identity.namespace.as_ref().map(ExplicitNamespace::as_str);
    if let Some(namespace) = namespace.or(name.filter(|_| identity.is_deferred_top_level())) {
        call["namespace"] = json!(namespace);
    }
    call
}
