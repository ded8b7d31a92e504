//! What servers and clients send: JSON, envelopes, text that is searched for hidden characters, and answers from which secrets are removed;
//! and documents that people write.

use servanda_authority::{Secret, scrubber::Scrubber};
use servanda_contract::{
    ToolContract, document,
    json::{self, JsonLimits},
    legibility::{faults, hidden_characters, name_fault, reveal, skeleton},
};
use servanda_mcp::{Message, RawObject, shape};

use super::{NotReady, Reader};
use crate::Grammar;

/// The gateway's default limits.
pub(super) const LIMITS: JsonLimits = JsonLimits { bytes_max: 1 << 20, depth_max: 64 };

pub(super) fn readers() -> Result<Vec<Reader>, NotReady> {
    let secret = |text: &str| Secret::from(text.to_owned());
    let secrets =
        [secret("tok_123456"), secret("se\"cret/42"), secret("aaaaaa"), secret("p@ssw0rd+99=="), secret("1234567890")];
    let scrubber = Scrubber::with_stems(&secrets, &[secret("svd_cap_")])?;
    let text_scrubber = scrubber.clone();
    Ok(vec![
        Reader::new("json", 12, json_grammar(), read_json),
        Reader::new("envelope", 12, envelope_grammar(), read_envelope),
        Reader::of_text("legibility", 8, legibility_grammar(), read_hidden),
        Reader::new("redaction_json", 5, redaction_grammar(), move |bytes| drop(scrubber.scrub_json(bytes))),
        Reader::of_text("redaction_text", 5, redaction_grammar(), move |text| drop(text_scrubber.scrub_text(text))),
        Reader::of_text("document", 4, document_grammar(), |text| {
            drop(document::read::<serde_json::Value>("a.yaml", text));
            drop(document::read::<ToolContract>("a.yaml", text));
        }),
    ])
}

/// A value that was read has canonical bytes, which are strict JSON themselves and mean the same.
fn read_json(bytes: &[u8]) {
    let Ok(value) = json::decode(bytes, LIMITS) else { return };
    let canonical = json::canonicalize(&value);
    let again = canonical
        .as_ref()
        .map(|canonical| json::decode(canonical.bytes(), JsonLimits { bytes_max: usize::MAX, ..LIMITS }));
    assert!(matches!(again, Ok(Ok(again)) if again == value), "canonical bytes mean something else");
}

fn read_envelope(bytes: &[u8]) {
    let params = match Message::parse(bytes) {
        Ok(Message::Request { params, .. } | Message::Notification { params, .. }) => params,
        Ok(Message::Response { result, .. }) => Some(result),
        Ok(Message::Failure { .. }) | Err(_) => None,
    };
    if let Some(params) = params {
        let _ = shape::inspect(params.get().as_bytes());
        drop(shape::without_own_meta(params.get().as_bytes()));
        drop(serde_json::from_str::<RawObject<'_>>(params.get()).map(|object| object.sorted().to_json()));
    }
    drop(serde_json::from_slice::<RawObject<'_>>(bytes).map(|object| object.to_json()));
}

fn read_hidden(text: &str) {
    drop((hidden_characters(text), reveal(text), name_fault(text), skeleton(text)));
    if let Ok(value) = json::decode(text.as_bytes(), LIMITS) {
        drop(faults(&value));
    }
}

fn json_grammar() -> Grammar {
    Grammar {
        words: "{ } [ ] : , \" \\ \\u \\ud800 \\u0041 \\n null true false nul NaN Infinity - -0 0 1 01 1. 1e 1e5 1E400 1.0 9007199254740993 \
            9007199254740993.0 1e21 0.1 \"a\" \"b\": \"\" \"\\\"\" // /* '"
            .split_whitespace()
            .chain([" ", "\n", "\u{feff}"])
            .collect(),
        brackets: vec![("[", "]"), ("{\"a\":", "}"), ("[[", "]]"), ("{\"a\":[", "]}"), ("\"", "\""), ("[1,", "]")],
        seeds: vec![
            "{\"a\":[1,2.5,-0,1e5,\"\\u00e9\\ud83d\\ude00\",null,true],\"b\":{\"c\":{}}}",
            "[9007199254740991,-9007199254740991,1e20,123456789.123456789,5e-324]",
            "{\"\":\"\",\"a\\nb\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}",
        ],
        members: vec!["a", "b", "", "\u{e9}", "a\nb", "0"],
    }
}

fn envelope_grammar() -> Grammar {
    Grammar {
        words: "{ } [ ] : , \" \"jsonrpc\" \"2.0\" \"jsonrpc\":\"2.0\" \"id\" \"id\":1 \"id\":null \"id\":\"x\" \"method\" \"method\":\"tools/call\" \
            \"params\" \"params\":{} \"result\" \"result\":{} \"error\" \"error\":{\"code\":-1,\"message\":\"x\"} \"_meta\" null 1 1.5 -1 \\u006d"
            .split_whitespace()
            .collect(),
        brackets: vec![("{\"params\":", "}"), ("[", "]"), ("{\"a\":", "}"), ("{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":", "}")],
        seeds: vec![
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\",\"arguments\":{\"b\":[1]},\"_meta\":{\"progressToken\":1}}}",
            "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"}],\"isError\":false}}",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,\"message\":\"x\",\"data\":{\"hint\":\"y\"}}}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":0.5}}",
        ],
        members: vec!["jsonrpc", "id", "method", "params", "result", "error", "_meta"],
    }
}

fn legibility_grammar() -> Grammar {
    Grammar {
        words: "read_file p\u{430}y \u{3b1}\u{3c1} \u{8aad}\u{3080} \u{200b} \u{200c} \u{200d} \u{202e} \u{2066} \u{fe0f} \u{fe0e} \u{20e3} \u{e0041} \
            \u{e0100} \u{1f468} \u{1f3fd} \u{26a0} \u{645}\u{6cc} \u{915}\u{94d} \u{301} \u{327} \u{fdfa} \u{ac00} \u{1100}\u{1161} \u{ff46} { } \" : , \
            \"properties\" \u{130} l1I0O rn \u{1b}[31m \u{ad} \u{f900}"
            .split_whitespace()
            .chain(["\u{2028}", "\t", " "])
            .collect(),
        brackets: vec![("\u{202a}", "\u{202c}"), ("\u{2066}", "\u{2069}"), ("{\"properties\":", "}"), ("[\"\u{200b}\",", "]"), ("a\u{301}", "")],
        seeds: vec![
            "{\"name\":\"read_file\",\"description\":\"Reads a\u{200b} file\",\"inputSchema\":{\"properties\":{\"p\u{430}th\":{}}}}",
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{1f3f3}\u{fe0f}\u{200d}\u{1f308} 1\u{fe0f}\u{20e3}",
        ],
        members: vec!["properties", "description", "na\u{200b}me", "p\u{430}th", "enum", "~/"],
    }
}

fn redaction_grammar() -> Grammar {
    Grammar {
        words: "tok_123456 TOK_123456 tok\\u005f123456 tok%5f123456 tok%255f123456 dG9rXzEyMzQ1Ng== 746f6b5f313233343536 74:6f:6b:5f:31 se\\\"cret\\/42 \
            aaaaaa aaaa svd_cap_ svd_cap_abc.def-1 p%40ssw0rd%2B99%3D%3D p&#64;ssw0rd &#x40; &amp; 1234567890 \\\\ \\ \\u %25 % \\n { } [ ] \" : , \
            YWFhYWFh 61 61: %61 \\u0061 ="
            .split_whitespace()
            .chain(["\n", " ", "dG9r\nXzEy\nMzQ1\nNg=="])
            .collect(),
        brackets: vec![("[", "]"), ("{\"a\":", "}"), ("\"", "\""), ("\\", ""), ("%25", ""), ("&amp;", ""), ("\\\\", "")],
        seeds: vec![
            "{\"content\":[{\"type\":\"text\",\"text\":\"bad token tok_123456, se\\\"cret\\/42\"}],\"n\":1234567890}",
            "Authorization: Bearer svd_cap_AbC.123~x\r\nbasic dG9rXzEyMzQ1Ng==",
        ],
        members: vec!["a", "tok_123456", "aaaaaa"],
    }
}

fn document_grammar() -> Grammar {
    Grammar {
        words: "identity: name: affordance: input_schema: rules: - ? : | > & * &a *a !! !!str !!int !!binary <<: --- ... # ' \" { } [ ] , % @ ` ~ null true 1 \
            0x1f .inf .nan 1e400 2001-01-01 yes |- >+ \\x \\u"
            .split_whitespace()
            .chain(["\n", "\n  ", "\n    ", " ", "\t", ": ", "- "])
            .collect(),
        brackets: vec![("[", "]"), ("{a: ", "}"), ("- ", ""), ("a:\n ", ""), ("? ", ""), ("&a [", "]"), ("\"", "\""), ("!a ", "")],
        seeds: vec![
            include_str!("../../../../crates/contract/tests/fixtures/void_invoice.yaml"),
            "a: &x [1, 2]\nb: *x\nc: {<<: {d: e}}\nf: |\n  text\n  more\n",
        ],
        members: Vec::new(),
    }
}
