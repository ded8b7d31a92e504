//! The namespace in a call's wire form: removed before a deferred tool is run, restored in stored calls.

use serde_json::{Value, json};

use crate::{ExplicitNamespace, LookupKey, PublicName, ToolIdentity};

/// The call as the chosen tool accepts it: without the namespace that only marks the tool as deferred.
pub fn without_synthetic_namespace(tool: &ToolIdentity, call: &Value) -> Value {
    let names_tool = |member| PublicName::read(call.get(member)).as_ref() == tool.public_name();
    let mut call = call.clone();
    if tool.is_deferred_top_level()
        && names_tool("name")
        && names_tool("namespace")
        && let Some(members) = call.as_object_mut()
    {
        members.shift_remove("namespace");
    }
    call
}

/// The stored call with the namespace of its key. A namespace in the call itself stays.
pub fn restore_namespace(key: Option<&LookupKey>, call: &Value) -> Value {
    let namespace = match key {
        Some(LookupKey::Namespaced { namespace, .. }) => Some(namespace.as_str()),
        Some(LookupKey::DeferredTopLevel(name)) => Some(name.as_str()),
        Some(LookupKey::Bare(_)) | None => None,
    };
    let same_name = PublicName::read(call.get("name")).as_ref() == key.map(LookupKey::name);
    let says_none = ExplicitNamespace::read(call.get("namespace")).is_none();
    let mut call = call.clone();
    if let (Some(namespace), true, Some(members)) = (namespace, same_name && says_none, call.as_object_mut()) {
        members.insert("namespace".to_owned(), json!(namespace));
    }
    call
}
