//! What agents and tools write stays data: no string of theirs becomes markup, whatever it says.

use serde_json::{Value, json};
use servanda_contract::legibility;
use servanda_requirements::shared;

use crate::{
    browser::Browser,
    fixture::{Gateway, Users, Wanted},
};

const MARK: &str = "zqj";

/// A page without the values between its tags: what a browser takes for markup.
fn markup(html: &str) -> Vec<&str> {
    html.split('<').skip(1).map(|tag| tag.split('>').next().unwrap_or_default()).collect()
}

#[tokio::test]
async fn naughty_strings_are_shown_and_never_markup() {
    let Some(file) = shared("corpora/blns/blns.json") else { return };
    let strings: Vec<String> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert!(strings.len() > 400);
    let gateway = Gateway::new(Users::Many);
    let mut cleo = Browser::with_key(&gateway, "cleo", &[]).await;
    let plain = gateway.open(Wanted { arguments: json!({"a": "b"}), ..Wanted::default() }).await;
    let plain_page = cleo.get(&format!("/approvals/{}", plain.id)).await.html;
    let expected = markup(&plain_page).len();
    for (number, text) in strings.iter().enumerate() {
        let ticket = gateway
            .open(Wanted {
                arguments: json!({ "text": format!("{MARK}{text}") , text.clone(): number, "n": number }),
                principal: if text.trim().is_empty() { "ada".to_owned() } else { text.chars().take(100).collect() },
                consequence: Some(text.clone()),
                before: Some(if number % 2 == 0 { Ok(json!({ "said": text })) } else { Err(text.clone()) }),
                ..Wanted::default()
            })
            .await;
        let page = cleo.get(&format!("/approvals/{}", ticket.id)).await;
        // `check_html` looked at every tag. The text itself is there, escaped.
        let shown = escaped(&legibility::reveal(&format!("{MARK}{text}")));
        // The value itself, and not only the canonical bytes.
        let shown = format!("<code class=\"value\">{shown}</code>");
        assert!(page.html.contains(&shown), "{text:?}: {}", page.html);
        let tags = markup(&page.html);
        assert!(tags.len() >= expected, "{text:?}");
        let foreign = ["img", "svg", "iframe", "object", "embed", "base", "audio", "video", "body onload", "style"];
        for tag in tags.iter().filter(|tag| !tag.starts_with("img src=\"/assets/")) {
            assert!(!foreign.iter().any(|name| tag.starts_with(name)), "{text:?}: {tag}");
        }
        assert_eq!(tags.iter().filter(|tag| tag.starts_with("script")).count(), 1, "{text:?}");
        let review = cleo.get(&format!("/approvals/review?ticket={}:{}", ticket.id, ticket.subject.payload)).await;
        assert!(review.html.contains(&shown), "{text:?}");
        cleo.get("/approvals").await;
    }
}

#[tokio::test]
async fn what_cannot_be_seen_is_spelled_out_and_warned_of_in_words() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway
        .open(Wanted {
            arguments: json!({
                "file": "invoice\u{202e}fdp.exe", "host": "https://xn--pple-43d.com/", "tail": "x ", "lines": "a\n\n  b",
            }),
            consequence: Some("sends \u{202e}this".to_owned()),
            principal: "a\u{200b}da".to_owned(),
            agent: Some(("bot\u{2066}", false)),
            ..Wanted::default()
        })
        .await;
    let mut ben = Browser::with_key(&gateway, "ben", &[]).await;
    for path in ["/approvals".to_owned(), format!("/approvals/{}", ticket.id)] {
        let html = ben.get(&path).await.html;
        for hidden in ['\u{202e}', '\u{200b}', '\u{2066}'] {
            assert!(!html.contains(hidden), "{path}");
        }
        assert!(html.contains("a&#60;U+200B&#62;da") && html.contains("sends &#60;U+202E&#62;this"), "{path}: {html}");
    }
    let html = ben.get(&format!("/approvals/{}", ticket.id)).await.html;
    for shown in [
        "<code class=\"value\">invoice&#60;U+202E&#62;fdp.exe</code>",
        "Look twice: a character that people cannot see or that change the direction of the text.",
        "Look twice: the host `xn--pple-43d.com` is not written in plain letters.",
        "Look twice: white space around it.",
        "a\n\n  b",
        "bot&#60;U+2066&#62; (the name is only claimed)",
        "an argument has characters that you cannot see",
    ] {
        assert!(html.contains(shown), "{shown}: {html}");
    }
    let canonical: Value = serde_json::from_slice(&ticket.subject.arguments).unwrap();
    assert_eq!(canonical["file"], "invoice\u{202e}fdp.exe", "the bytes are untouched");
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '<' | '>' | '&' | '"' | '\'' => escaped.extend(["&#", &u32::from(character).to_string(), ";"]),
            other => escaped.push(other),
        }
    }
    escaped
}
