//! A packet on its page, for every hostile text of the corpora as a value, as a name, and as something that a tool said (T6, T33): what a
//! person sees shows, is data, and stands for exactly the bytes that an approval signs. The oracle uses no code of the console.

use serde_json::{Map, Value, json};
use servanda_contract::preview::UpstreamPreview;
use servanda_requirements::{
    hostile_texts,
    reading::{meant_by, unseen},
};

use crate::{
    browser::Browser,
    fixture::{Gateway, Users, Wanted},
    markup::{Piece, ShownLeaf, attribute, leaves, pieces, structure, text_after},
};

/// Texts on one page.
const TEXTS_EACH: usize = 24;

/// An object with each text as a value and as a part of a name.
fn said(texts: &[&str]) -> Value {
    let values = texts.iter().enumerate().map(|(number, text)| (format!("v{number:02}"), json!(text)));
    let names = texts.iter().enumerate().map(|(number, text)| (format!("n{number:02}{text}"), json!(number)));
    Value::Object(values.chain(names).collect::<Map<String, Value>>())
}

/// What a table of values must show of an object: pointers and values, in any order.
fn expected(said: &Value) -> Vec<(String, String)> {
    let members = said.as_object().unwrap().iter();
    let mut all: Vec<_> = members
        .map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (format!("/{}", name.replace('~', "~0").replace('/', "~1")), value)
        })
        .collect();
    all.sort();
    all
}

fn meant(table: &[ShownLeaf]) -> Vec<(String, String)> {
    let mut all: Vec<_> = table.iter().map(|leaf| (meant_by(&leaf.pointer), meant_by(&leaf.value))).collect();
    all.sort();
    all
}

/// Nothing that does not show is on the page. Tabs show where values stand.
fn check_seen(page: &[Piece], about: &str) {
    for piece in page {
        let texts: Vec<&str> = match piece {
            Piece::Text(text) => vec![text],
            Piece::Tag { attributes, .. } => attributes.iter().map(|(_, value)| value.as_str()).collect(),
        };
        for text in texts {
            assert_eq!(unseen(&text.replace('\t', " ")), None, "{about}: {text:?}");
        }
    }
}

async fn page(gateway: &Gateway, browser: &mut Browser, texts: &[&str]) -> (Vec<Piece>, Vec<u8>) {
    let said = said(texts);
    let ticket = gateway
        .open(Wanted {
            arguments: said.clone(),
            consequence: Some(texts.concat().chars().take(400).collect()),
            before: Some(Ok(said.clone())),
            preview: Some(UpstreamPreview::Said(said)),
            ..Wanted::default()
        })
        .await;
    let page = browser.get(&format!("/approvals/{}", ticket.id)).await;
    (pieces(&page.html), ticket.subject.arguments.to_vec())
}

#[tokio::test]
async fn what_a_person_sees_is_what_is_approved_whatever_the_text_says() {
    let Some(texts) = hostile_texts() else { return };
    assert!(texts.len() > 4_000, "{}", texts.len());
    let gateway = Gateway::new(Users::Many);
    let mut cleo = Browser::with_key(&gateway, "cleo", &[]).await;
    let harmless: Vec<String> = (0..TEXTS_EACH).map(|number| format!("plain text {number}")).collect();
    for texts in texts.chunks(TEXTS_EACH) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let about = format!("{texts:?}");
        let same: Vec<&str> = harmless.iter().map(String::as_str).take(texts.len()).collect();
        let (plain, _) = page(&gateway, &mut cleo, &same).await;
        let (shown, arguments) = page(&gateway, &mut cleo, &texts).await;
        check_seen(&shown, &about);
        assert_eq!(structure(&shown), structure(&plain), "{about}");
        let said = said(&texts);
        let tables = leaves(&shown);
        assert_eq!(tables.len(), 3, "arguments, state before, and the server's preview");
        for table in &tables {
            assert_eq!(meant(table), expected(&said), "{about}");
            for leaf in table {
                let hides =
                    unseen(&meant_by(&leaf.value).replace('\t', " ")).or_else(|| unseen(&meant_by(&leaf.pointer)));
                // A carriage return before a line feed is how some systems end lines; it is spelled out without a warning.
                let warns = leaf.is_suspicious || hides.is_none_or(|hidden| hidden == '\r');
                assert!(warns, "no warning about {hides:?}: {leaf:?}");
            }
        }
        let bytes = text_after(&shown, |piece| attribute(piece, "class") == Some("bytes"));
        assert_eq!(meant_by(&bytes).as_bytes(), arguments, "{about}");
    }
}

/// A reason why a tool could not say is prose of the tool, and stays on one line of its own place.
#[tokio::test]
async fn what_a_tool_says_instead_of_an_answer_is_data_too() {
    let Some(texts) = hostile_texts() else { return };
    let gateway = Gateway::new(Users::Many);
    let mut cleo = Browser::with_key(&gateway, "cleo", &[]).await;
    let mut structures = Vec::new();
    for text in ["plain".to_owned()].iter().chain(texts.iter().step_by(29)) {
        let ticket = gateway
            .open(Wanted {
                arguments: json!({ "number": structures.len() }),
                before: Some(Err(text.clone())),
                preview: Some(UpstreamPreview::NotAvailable(text.clone())),
                ..Wanted::default()
            })
            .await;
        let page = pieces(&cleo.get(&format!("/approvals/{}", ticket.id)).await.html);
        check_seen(&page, text);
        structures.push(structure(&page));
        assert_eq!(structures.last(), structures.first(), "{text:?}");
    }
    assert!(structures.len() > 100, "{}", structures.len());
}
