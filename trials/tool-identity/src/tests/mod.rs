//! The laws of the layers. The vectors have single inputs; here is what holds for all.

mod approvals;
mod calls;
mod gateway;
mod identity;
mod naming;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ExplicitNamespace, Loading, NameSource, PublicName, Tool, ToolIdentity, ToolKind};

/// Names with many texts that could be confused with something else.
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

/// Two tools; often different ones with equal texts: one dotted text, split in different places.
fn pairs() -> impl Strategy<Value = (ToolIdentity, ToolIdentity)> {
    let parts = prop::collection::vec(prop_oneof!["[ab]", Just("deferred_top_level:a".to_owned())], 2..5);
    let alike = (parts, any::<[u8; 2]>()).prop_map(|(parts, places)| {
        let [one, other] = places.map(|place| {
            let (namespace, name) = parts.split_at(usize::from(place) % parts.len());
            ToolIdentity { namespace: ExplicitNamespace::new(namespace.join(".")), ..named(&name.join(".")) }
        });
        (one, other)
    });
    let lazy = names().prop_filter_map("a name", |name| {
        let lazy =
            ToolIdentity { loading: Loading::Deferred, ..ToolIdentity::function(PublicName::new(name.as_str())?) };
        Some((lazy, named(&format!("deferred_top_level:{name}"))))
    });
    let turned = (prop_oneof![alike, lazy, (tools(), tools())], any::<bool>());
    turned.prop_map(|((one, other), turned)| if turned { (other, one) } else { (one, other) })
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
