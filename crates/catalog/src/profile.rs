//! Which properties of a client decide about its list: its era, because a server of both eras may offer different tools in
//! each, and everything that a legacy server may ask of it. Nothing else.
//!
//! There are [`PROFILES_MAX`] such profiles whatever clients send, so no profile ever displaces another, and no client can have
//! a tool judged by another list by filling up the table. Differences that depend on anything else are judged when the server
//! is asked on that client's connection; the profile keeps the last judgement of its kind.

use serde_json::{Map, Value, json, value::RawValue};
use servanda_mcp::{ClientCapabilities, Era};

/// How many profiles there are: eras 2, roots 3, sampling 5, elicitation 5.
pub(crate) const PROFILES_MAX: usize = 150;

/// The properties of a client that may decide what it is offered.
#[derive(Debug, Clone, Copy)]
pub struct Viewer<'a> {
    /// Its era.
    pub era: Era,
    /// What it can do for servers.
    pub capabilities: &'a ClientCapabilities,
}

/// The key under which lists are kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientProfile {
    pub(crate) era: Era,
    capabilities: ClientCapabilities,
}

impl ClientProfile {
    /// The profile whose list a client gets if its own profile has none.
    pub(crate) fn base() -> Self {
        Self { era: Era::Modern, capabilities: ClientCapabilities::none() }
    }

    /// The profile of a client.
    pub(crate) fn from_viewer<'a>(viewer: impl Into<Viewer<'a>>) -> Self {
        let Viewer { era, capabilities } = viewer.into();
        Self { era, capabilities: asked_of(capabilities) }
    }
}

/// A client known only by its capabilities counts as modern.
impl<'a> From<&'a ClientCapabilities> for Viewer<'a> {
    fn from(capabilities: &'a ClientCapabilities) -> Self {
        Self { era: Era::Modern, capabilities }
    }
}

/// The capabilities that a legacy server may use.
fn asked_of(capabilities: &ClientCapabilities) -> ClientCapabilities {
    if !capabilities.answers_anything() {
        return ClientCapabilities::none();
    }
    let declared: Value = serde_json::from_str(capabilities.as_json()).unwrap_or_default();
    let mut kept = Map::new();
    for (name, members) in [("elicitation", ["form", "url"]), ("sampling", ["context", "tools"])] {
        if let Some(declared) = declared.get(name).filter(|declared| declared.is_object()) {
            let has = |member: &&str| declared.get(*member).is_some_and(Value::is_object);
            let members = members.iter().filter(|member| has(member)).map(|member| ((*member).to_owned(), json!({})));
            kept.insert(name.to_owned(), Value::Object(members.collect()));
        }
    }
    if let Some(roots) = declared.get("roots").filter(|roots| roots.is_object()) {
        let tells = roots.get("listChanged") == Some(&Value::Bool(true));
        kept.insert("roots".to_owned(), if tells { json!({ "listChanged": true }) } else { json!({}) });
    }
    let raw = RawValue::from_string(Value::Object(kept).to_string()).ok();
    ClientCapabilities::parse(raw.as_deref())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn profile_json(text: &str) -> String {
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        asked_of(&ClientCapabilities::parse(Some(&raw))).as_json().to_owned()
    }

    #[test]
    fn only_what_a_server_may_ask_counts() {
        let table = [
            ("{}", "{}"),
            (r#"{"experimental":{"x":{}},"roots":true}"#, "{}"),
            (r#"{"experimental":{"x":{}},"sampling":{"y":1}}"#, r#"{"sampling":{}}"#),
            (r#"{"sampling":{"tools":{"z":1},"context":{}}}"#, r#"{"sampling":{"context":{},"tools":{}}}"#),
            (r#"{"elicitation":{"url":{},"form":null}}"#, r#"{"elicitation":{"url":{}}}"#),
            (r#"{"roots":{"listChanged":true,"n":1}}"#, r#"{"roots":{"listChanged":true}}"#),
            (r#"{"roots":{"listChanged":false}}"#, r#"{"roots":{}}"#),
        ];
        for (declared, expected) in table {
            assert_eq!(profile_json(declared), expected, "{declared}");
            assert_eq!(profile_json(&profile_json(declared)), expected, "a profile is its own");
        }
    }

    #[test]
    fn there_are_so_many_and_no_more() {
        let part = |name: &str, members: [&str; 2]| -> Vec<String> {
            let objects = [vec![], vec![members[0]], vec![members[1]], members.to_vec()];
            let written = objects.iter().map(|members| {
                let members: Vec<String> = members.iter().map(|member| format!(r#""{member}":{{}}"#)).collect();
                format!(r#""{name}":{{{}}},"#, members.join(","))
            });
            written.chain([String::new()]).collect()
        };
        let roots = ["", r#""roots":{},"#, r#""roots":{"listChanged":true},"#, r#""roots":{"listChanged":7},"#];
        let mut profiles = BTreeSet::new();
        for roots in roots {
            for sampling in part("sampling", ["tools", "context"]) {
                for elicitation in part("elicitation", ["form", "url"]) {
                    profiles.insert(profile_json(&format!("{{{roots}{sampling}{elicitation}\"experimental\":{{}}}}")));
                }
            }
        }
        assert_eq!(2 * profiles.len(), PROFILES_MAX, "of each era");
    }
}
