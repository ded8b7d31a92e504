//! Translates the URIs of resources into their exposed form wherever they appear: lists, contents, links in results and prompts,
//! notifications. Only those members change; the bytes around them stay.

use serde_json::value::RawValue;
use servanda_catalog::names::ExposedNaming;
use servanda_mcp::{RawObject, envelope::to_json};

/// How an upstream's resources are named to requesters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exposure<'a> {
    pub(crate) naming: ExposedNaming,
    pub(crate) upstream: &'a str,
}

impl Exposure<'_> {
    /// The exposed form of one URI.
    pub(crate) fn uri(&self, uri: &str) -> String {
        self.naming.expose_uri(self.upstream, uri)
    }

    /// An array of objects whose member `name` is a URI or a URI template. None if nothing changes.
    pub(crate) fn expose_each(&self, items: &RawValue, name: &str) -> Option<String> {
        self.each(items, |item| self.member(item, name))
    }

    /// The `content` of a tool result: links and embedded resources.
    pub(crate) fn blocks(&self, content: &RawValue) -> Option<String> {
        self.each(content, |block| self.block(block))
    }

    /// The `messages` of a prompt. A message's content is one block or, as some servers write it, several.
    pub(crate) fn messages(&self, messages: &RawValue) -> Option<String> {
        self.each(messages, |message| {
            self.inside(message, "content", |content| {
                if content.get().starts_with('[') { self.blocks(content) } else { self.block(content) }
            })
        })
    }

    /// An object whose member `name` is a URI. None if nothing changes.
    pub(crate) fn member(&self, object: &RawValue, name: &str) -> Option<String> {
        self.inside(object, name, |raw| {
            let uri: String = serde_json::from_str(raw.get()).ok()?;
            Some(to_json(&self.uri(&uri)))
        })
    }

    fn block(&self, block: &RawValue) -> Option<String> {
        let members: RawObject<'_> = serde_json::from_str(block.get()).ok()?;
        let kind: String = serde_json::from_str(members.get("type")?.get()).ok()?;
        match kind.as_str() {
            "resource_link" => self.member(block, "uri"),
            "resource" => self.inside(block, "resource", |resource| self.member(resource, "uri")),
            _ => None,
        }
    }

    fn inside(&self, object: &RawValue, name: &str, other: impl Fn(&RawValue) -> Option<String>) -> Option<String> {
        if self.naming == ExposedNaming::Bare {
            return None;
        }
        let members: RawObject<'_> = serde_json::from_str(object.get()).ok()?;
        let other = other(members.get(name)?)?;
        Some(members.to_json_with(|member, _| (member == name).then(|| other.clone())))
    }

    fn each(&self, items: &RawValue, other: impl Fn(&RawValue) -> Option<String>) -> Option<String> {
        // Most results contain no URI, and then they need not be parsed.
        if self.naming == ExposedNaming::Bare || !items.get().contains("uri") {
            return None;
        }
        let items: Vec<&RawValue> = serde_json::from_str(items.get()).ok()?;
        let items: Vec<String> =
            items.into_iter().map(|item| other(item).unwrap_or_else(|| item.get().to_owned())).collect();
        Some(format!("[{}]", items.join(",")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use servanda_catalog::names::ExposedNaming;

    use super::Exposure;

    const EXPOSED: Exposure<'_> = Exposure { naming: ExposedNaming::Prefixed, upstream: "up" };
    const BARE: Exposure<'_> = Exposure { naming: ExposedNaming::Bare, upstream: "up" };

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    /// Checks what a rewrite makes of a text; the text itself if nothing changes.
    fn check(rewrite: impl Fn(Exposure<'_>, &RawValue) -> Option<String>, text: &str, expected: &str) {
        let given = raw(text);
        assert_eq!(rewrite(EXPOSED, &given).unwrap_or_else(|| text.to_owned()), expected);
        assert_eq!(rewrite(BARE, &given), None, "bare names change nothing");
    }

    #[test]
    fn lists() {
        check(
            |exposure, raw| exposure.expose_each(raw, "uri"),
            r#"[{"uri":"a://b","size": 1.0},{"name":"no uri"},7,{"uri":7}]"#,
            r#"[{"uri":"servanda://up/a://b","size":1.0},{"name":"no uri"},7,{"uri":7}]"#,
        );
        check(
            |exposure, raw| exposure.expose_each(raw, "uriTemplate"),
            r#"[{"uriTemplate":"a://{id}","uri":"stays"}]"#,
            r#"[{"uriTemplate":"servanda://up/a://{id}","uri":"stays"}]"#,
        );
    }

    #[test]
    fn blocks_of_results() {
        let rewrite = |exposure: Exposure<'_>, raw: &RawValue| exposure.blocks(raw);
        check(rewrite, r#"[{"type":"text","text":"uri"}]"#, r#"[{"type":"text","text":"uri"}]"#);
        check(
            rewrite,
            r#"[{"type":"resource_link","uri":"a","x":1e2},{"type":"resource","resource":{"uri":"b","blob":""}},{"uri":"c"}]"#,
            r#"[{"type":"resource_link","uri":"servanda://up/a","x":1e2},{"type":"resource","resource":{"uri":"servanda://up/b","blob":""}},{"uri":"c"}]"#,
        );
    }

    #[test]
    fn messages_of_prompts() {
        check(
            |exposure, raw| exposure.messages(raw),
            r#"[{"role":"user","content":{"type":"resource","resource":{"uri":"a"}}},{"content":[{"type":"resource_link","uri":"b"}]}]"#,
            r#"[{"role":"user","content":{"type":"resource","resource":{"uri":"servanda://up/a"}}},{"content":[{"type":"resource_link","uri":"servanda://up/b"}]}]"#,
        );
    }

    #[test]
    fn what_has_no_such_shape_stays() {
        for text in ["7", r#"{"uri":"x"}"#, r#"["uri"]"#, r#"[{"uri":"a","uri":"b"}]"#] {
            let given = raw(text);
            let rewritten = EXPOSED.expose_each(&given, "uri");
            assert_eq!(rewritten.unwrap_or_else(|| text.to_owned()), text);
        }
    }
}
