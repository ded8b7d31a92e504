//! A client's declared capabilities. Kept as they were written, because a server may know more of them than we do; the
//! gateway reads only what decides whether a server's request may be passed on.

use std::sync::{Arc, LazyLock};

use serde_json::value::RawValue;

use crate::{envelope::to_json, fields::method, object::RawObject};

/// The extension whose capability lets a server answer with a task.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Legacy only: which requests a client accepts as tasks. The gateway has tasks of its own.
const TASKS: &str = "tasks";

const EXTENSIONS: &str = "extensions";

/// A client's capabilities, as JSON with its members sorted by name. Equal capabilities are equal texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientCapabilities(Arc<str>);

impl ClientCapabilities {
    /// No capabilities.
    pub fn none() -> Self {
        static NONE: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("{}"));
        Self(Arc::clone(&NONE))
    }

    /// Everything that a server may ask of a client. For listing what a server offers to the most capable clients.
    pub fn all() -> Self {
        Self(Arc::from(r#"{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":{}}"#))
    }

    /// What the client wrote; no capabilities if that is not an object.
    pub fn parse(raw: Option<&RawValue>) -> Self {
        // The most common value is not parsed for every request.
        let raw = raw.filter(|raw| raw.get() != "{}");
        let object = raw.and_then(|raw| serde_json::from_str::<RawObject<'_>>(raw.get()).ok());
        object.map_or_else(Self::none, |object| Self(object.without(&[TASKS]).sorted().to_json().into()))
    }

    /// The JSON object, ready to be sent.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// Whether a server may make this request of the client. An elicitation's mode is in its parameters.
    pub fn answers(&self, method: &str, params: Option<&RawValue>) -> bool {
        match method {
            method::ROOTS_LIST => self.has(&["roots"]),
            method::SAMPLING_CREATE => self.has(&["sampling"]),
            method::ELICITATION_CREATE if mode(params).as_deref() == Some("url") => self.has(&["elicitation", "url"]),
            // An empty object means forms: before there were modes, there were only forms.
            method::ELICITATION_CREATE => {
                self.has(&["elicitation", "form"]) || (self.has(&["elicitation"]) && !self.has(&["elicitation", "url"]))
            }
            _ => false,
        }
    }

    /// Whether a legacy server may make any request of the client.
    pub fn answers_anything(&self) -> bool {
        ["roots", "sampling", "elicitation"].iter().any(|name| self.has(&[name]))
    }

    /// What a client must declare before a server may make this request of it, as JSON.
    pub fn required_for(method: &str, params: Option<&RawValue>) -> Option<&'static str> {
        Some(match method {
            method::ROOTS_LIST => r#"{"roots":{}}"#,
            method::SAMPLING_CREATE => r#"{"sampling":{}}"#,
            method::ELICITATION_CREATE if mode(params).as_deref() == Some("url") => r#"{"elicitation":{"url":{}}}"#,
            method::ELICITATION_CREATE => r#"{"elicitation":{}}"#,
            _ => return None,
        })
    }

    /// The same without an extension.
    #[must_use]
    pub fn without_extension(&self, extension: &str) -> Self {
        if !self.has_extension(extension) {
            return self.clone();
        }
        let Ok(object) = serde_json::from_str::<RawObject<'_>>(&self.0) else { return self.clone() };
        let others = |raw: &RawValue| {
            let extensions = serde_json::from_str::<RawObject<'_>>(raw.get()).unwrap_or_default();
            extensions.without(&[extension]).to_json()
        };
        Self(object.to_json_with(|name, raw| (name == EXTENSIONS).then(|| others(raw))).into())
    }

    /// The same with an extension that has no settings.
    #[must_use]
    pub fn with_extension(&self, extension: &str) -> Self {
        if self.has_extension(extension) {
            return self.clone();
        }
        let Ok(object) = serde_json::from_str::<RawObject<'_>>(&self.0) else { return self.clone() };
        let known = object.get(EXTENSIONS).map_or("{}", RawValue::get);
        let known = serde_json::from_str::<RawObject<'_>>(known).unwrap_or_default();
        let mut whole = String::from("{");
        object.clone().without(&[EXTENSIONS]).write_members(&mut whole);
        whole.extend([&to_json(EXTENSIONS), ":{"]);
        known.without(&[extension]).write_members(&mut whole);
        whole.extend([&to_json(extension), ":{}}}"]);
        serde_json::from_str::<RawObject<'_>>(&whole)
            .map_or_else(|_| self.clone(), |all| Self(all.sorted().to_json().into()))
    }

    /// Whether the client supports an extension.
    pub fn has_extension(&self, extension: &str) -> bool {
        self.has(&[EXTENSIONS, extension])
    }

    fn has(&self, path: &[&str]) -> bool {
        let mut text: &str = &self.0;
        // Most clients have none, and every call asks several times.
        if text == "{}" {
            return false;
        }
        for name in path {
            let Ok(object) = serde_json::from_str::<RawObject<'_>>(text) else { return false };
            let Some(member) = object.get(name) else { return false };
            text = member.get();
        }
        text.starts_with('{')
    }
}

impl Default for ClientCapabilities {
    fn default() -> Self {
        Self::none()
    }
}

fn mode(params: Option<&RawValue>) -> Option<String> {
    let object: RawObject<'_> = serde_json::from_str(params?.get()).ok()?;
    serde_json::from_str(object.get("mode")?.get()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::ClientCapabilities;

    fn capabilities(text: &str) -> ClientCapabilities {
        ClientCapabilities::parse(Some(&RawValue::from_string(text.to_owned()).unwrap()))
    }

    #[test]
    fn what_may_be_asked_of_a_client() {
        let url = RawValue::from_string(r#"{"mode":"url"}"#.to_owned()).unwrap();
        // capabilities, roots, sampling, form, url
        let table = [
            ("{}", false, false, false, false),
            (r#"{"roots":{}}"#, true, false, false, false),
            (r#"{"roots":{"listChanged":true},"sampling":{}}"#, true, true, false, false),
            (r#"{"elicitation":{}}"#, false, false, true, false),
            (r#"{"elicitation":{"form":{}}}"#, false, false, true, false),
            (r#"{"elicitation":{"url":{}}}"#, false, false, false, true),
            (r#"{"elicitation":{"url":{},"form":{}}}"#, false, false, true, true),
            (r#"{"roots":true,"sampling":null}"#, false, false, false, false),
            ("[]", false, false, false, false),
        ];
        for (text, roots, sampling, form, by_url) in table {
            let client = capabilities(text);
            let asked = [
                client.answers("roots/list", None),
                client.answers("sampling/createMessage", None),
                client.answers("elicitation/create", None),
                client.answers("elicitation/create", Some(&url)),
            ];
            assert_eq!(asked, [roots, sampling, form, by_url], "{text}");
            assert!(!client.answers("tools/call", None));
        }
    }

    #[test]
    fn equal_capabilities_are_one_text_and_unknown_ones_stay() {
        let one = capabilities(r#"{"sampling":{},"roots":{},"acme/x":{"a": 1},"tasks":{}}"#);
        let other = capabilities(r#"{"acme/x":{"a": 1},"roots":{},"sampling":{}}"#);
        assert_eq!(one, other);
        assert_eq!(one.as_json(), r#"{"acme/x":{"a": 1},"roots":{},"sampling":{}}"#);
        assert!(
            capabilities(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#)
                .has_extension(super::TASKS_EXTENSION)
        );
    }

    #[test]
    fn an_extension_comes_and_goes_alone() {
        let table = [
            ("{}", r#"{"extensions":{"t":{}}}"#, "{}"),
            (r#"{"roots":{}}"#, r#"{"extensions":{"t":{}},"roots":{}}"#, r#"{"roots":{}}"#),
            (
                r#"{"a":{},"extensions":{"x":{"y": 1}}}"#,
                r#"{"a":{},"extensions":{"x":{"y": 1},"t":{}}}"#,
                r#"{"a":{},"extensions":{"x":{"y": 1}}}"#,
            ),
            (r#"{"extensions":{"t":{"s":1}}}"#, r#"{"extensions":{"t":{"s":1}}}"#, r#"{"extensions":{}}"#),
            (r#"{"extensions":{"t":true}}"#, r#"{"extensions":{"t":{}}}"#, r#"{"extensions":{"t":true}}"#),
        ];
        for (written, with, without) in table {
            assert_eq!(capabilities(written).with_extension("t").as_json(), with, "{written}");
            assert_eq!(capabilities(written).without_extension("t").as_json(), without, "{written}");
        }
    }

    #[test]
    fn what_is_required_is_what_answers() {
        let url = RawValue::from_string(r#"{"mode":"url"}"#.to_owned()).unwrap();
        for (method, params) in [
            ("roots/list", None),
            ("sampling/createMessage", None),
            ("elicitation/create", None),
            ("elicitation/create", Some(&*url)),
        ] {
            let required = ClientCapabilities::required_for(method, params).unwrap();
            assert!(capabilities(required).answers(method, params), "{method}");
        }
        assert_eq!(ClientCapabilities::required_for("tools/call", None), None);
    }
}
