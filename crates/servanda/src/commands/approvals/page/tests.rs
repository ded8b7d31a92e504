//! A packet in the terminal, for every hostile text of the corpora (T6, T33): one line a value, nothing that does not show, and exactly the
//! bytes that an approval signs. The oracle uses no code of the gateway.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use servanda_approval::{ApprovalPacket, Ticket};
use servanda_contract::{Digest, digest::DigestDomain, json as strict_json};
use servanda_requirements::{
    hostile_texts,
    reading::{meant_by, unseen},
};

/// Texts in one packet.
const TEXTS_EACH: usize = 24;

fn ticket(arguments: &Value, said: &Value, word: &str) -> Ticket {
    let arguments = strict_json::canonicalize(arguments).unwrap().bytes().clone();
    let contract = Digest::compute(DigestDomain::Contract, &[b"pay"]);
    let parts: [&[u8]; 4] = [b"acme", b"bank.pay", contract.as_bytes(), &arguments];
    let digest = Digest::compute(DigestDomain::Proposal, &parts);
    let mut ticket: Ticket = serde_json::from_value(json!({
        "id": "apr_1", "key": digest, "state": "pending", "created_ms": 1000, "changed_ms": 1000,
        "decide_by": { "clock_ms": 9000, "ledger_ms": 9000 },
        "demand": {
            "pattern": "operator", "quorum": 1, "presence": "session", "decide_within_ms": 8000, "use_within_ms": 8000,
            "causes": ["class"], "class": "HIGH_RISK_EXTERNAL",
        },
        "subject": {
            "tenant": "acme", "principal": word, "actors": [{ "name": word, "proven": false }], "run": "run", "call_id": "call_1",
            "trace_id": word, "tool": "pay", "contract": "bank.pay", "contract_version": "1.0.0", "contract_digest": contract,
            "upstream": word, "payload": digest, "consequence": word, "after": word, "operation": word, "price": word,
            "compensation": word,
            "before": { "tool": word, "at_ms": 900, "state": { "Ok": said } },
            "upstream_preview": { "at_ms": 900, "preview": { "said": said } },
        },
    }))
    .unwrap();
    ticket.subject.arguments = Bytes::copy_from_slice(&arguments);
    ticket
}

fn said(texts: &[&str]) -> Value {
    let values = texts.iter().enumerate().map(|(number, text)| (format!("v{number:02}"), json!(text)));
    let names = texts.iter().enumerate().map(|(number, text)| (format!("n{number:02}{text}"), json!(number)));
    Value::Object(values.chain(names).collect::<Map<String, Value>>())
}

/// The lines of a packet without its warnings, which are what may differ.
fn lines(ticket: &Ticket) -> Vec<String> {
    let shown = super::packet(&ApprovalPacket::new(ticket, |_| true, 2000));
    let is_warning = |line: &str| line.starts_with("      warning: ") || line.starts_with("  look twice  ");
    shown.split('\n').filter(|line| !is_warning(line)).map(str::to_owned).collect()
}

/// What the lines of values say: blocks of consecutive ones, with pointers and values.
fn blocks(lines: &[String]) -> Vec<Vec<(String, String)>> {
    let leaf = |line: &String| {
        let (pointer, rest) = line.strip_prefix("    ")?.split_once(" = ")?;
        let (value, _) = rest.rsplit_once("  (")?;
        pointer.starts_with('/').then(|| (meant_by(pointer), meant_by(value)))
    };
    let leaves: Vec<_> = lines.iter().map(leaf).collect();
    leaves
        .split(Option::is_none)
        .filter(|block| !block.is_empty())
        .map(|block| block.iter().flatten().cloned().collect())
        .collect()
}

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

#[test]
fn a_packet_in_the_terminal_is_what_is_approved_whatever_the_text_says() {
    let Some(texts) = hostile_texts() else { return };
    assert!(texts.len() > 4_000, "{}", texts.len());
    let harmless: Vec<String> = (0..TEXTS_EACH).map(|number| format!("plain{number}")).collect();
    let mut compared = 0;
    for texts in texts.chunks(TEXTS_EACH) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let same: Vec<&str> = harmless.iter().map(String::as_str).take(texts.len()).collect();
        let plain = said(&same);
        let plain = lines(&ticket(&plain, &plain, "plain"));
        let hostile = said(&texts);
        let hostile_ticket = ticket(&hostile, &hostile, texts[0]);
        let shown = lines(&hostile_ticket);
        assert_eq!(shown.len(), plain.len(), "{texts:?}");
        for line in &shown {
            assert_eq!(unseen(line), None, "{line:?}");
        }
        let blocks = blocks(&shown);
        assert_eq!(blocks.len(), 3, "arguments, state before, and the server's preview: {shown:#?}");
        for mut block in blocks {
            block.sort();
            assert_eq!(block, expected(&hostile), "{texts:?}");
        }
        let bytes = shown.iter().find_map(|line| line.strip_prefix("  exact bytes   ")).unwrap();
        // Very long ones are left to `--json`.
        let is_long = bytes.ends_with(" of them; --json shows them");
        assert!(is_long || meant_by(bytes).as_bytes() == hostile_ticket.subject.arguments, "{texts:?}");
        compared += usize::from(!is_long);
    }
    assert!(compared > 100, "{compared}");
}

/// Values that would look alike, or like the end of a line.
#[test]
fn what_could_be_read_in_two_ways_is_told_apart() {
    let shown = |arguments: Value| lines(&ticket(&arguments, &json!({}), "plain")).join("\n");
    assert_ne!(shown(json!({ "a = b": "c" })), shown(json!({ "a": "b = c" })));
    assert_ne!(shown(json!({ "a": "x\ny" })), shown(json!({ "a": "x\\ny" })));
    assert_ne!(shown(json!({ "a": ["x"] })), shown(json!({ "a": { "0": "x" } })));
    assert!(shown(json!({ "a": "x\n    /b = 1  (number)" })).contains("/a = x<U+000A>    /b = 1  (number)  (text)"));
}
