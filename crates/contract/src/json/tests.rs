mod repetition;

use std::fs;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{JsonLimits, StrictError, canonicalize, decode};
use crate::{
    digest::{Digest, DigestDomain},
    testing::{files, golden, shared},
};

const LIMITS: JsonLimits = JsonLimits { bytes_max: 1 << 20, depth_max: 64 };

fn strict(text: &str) -> Result<Value, StrictError> {
    decode(text.as_bytes(), LIMITS)
}

fn canonical(value: &Value) -> Vec<u8> {
    canonicalize(value).unwrap().bytes().to_vec()
}

/// The variant's name, on which a caller's repair depends.
fn name(error: &StrictError) -> String {
    format!("{error:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

// === public corpora ===

#[test]
fn json_test_suite() {
    let Some(folder) = shared("corpora/JSONTestSuite/test_parsing") else { return };
    let (mut accepted, mut refused_by_name, mut rejected, mut undefined) = (0, Vec::new(), 0, Vec::new());
    for (file, text) in files(&folder) {
        let result = decode(&text, LIMITS);
        match (file.get(..2).unwrap(), result) {
            ("y_", Ok(_)) => accepted += 1,
            // Valid JSON by its grammar. The strict profile refuses it, and names the key, not the syntax, as the reason.
            ("y_", Err(StrictError::DuplicateKey { .. })) => refused_by_name.push(file),
            ("y_", Err(error)) => panic!("{file}: {error}"),
            ("n_", Err(_)) => rejected += 1,
            ("n_", Ok(value)) => panic!("{file} was accepted as {value}"),
            (_, Ok(_)) => undefined.push(format!("{file}: accepted")),
            (_, Err(error)) => undefined.push(format!("{file}: {}", name(&error))),
        }
    }
    println!(
        "JSONTestSuite: {}/95 are JSON, {} of them refused for a duplicate key; {rejected}/188 bad ones refused",
        accepted + refused_by_name.len(),
        refused_by_name.len()
    );
    assert_eq!(accepted + refused_by_name.len(), 95);
    assert_eq!(refused_by_name, ["y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"]);
    assert_eq!(rejected, 188);
    golden("json_test_suite_undefined.txt", &format!("{}\n", undefined.join("\n")));
}

#[test]
fn texts_that_parsers_read_differently() {
    let Some(folder) = shared("corpora/JSONTestSuite/test_transform") else { return };
    let read: Vec<String> = files(&folder)
        .iter()
        .map(|(file, text)| match decode(text, LIMITS) {
            Ok(value) => format!("{file}: {value}"),
            Err(error) => format!("{file}: {}", name(&error)),
        })
        .collect();
    golden("json_test_suite_transform.txt", &format!("{}\n", read.join("\n")));
}

#[test]
fn rfc_8785_vectors() {
    let Some(folder) = shared("corpora/json-canonicalization/testdata") else { return };
    let inputs = files(&folder.join("input"));
    for (file, input) in &inputs {
        let bytes = canonical(&decode(input, LIMITS).unwrap());
        assert_eq!(bytes, fs::read(folder.join("output").join(file)).unwrap(), "{file}");
        let hex = fs::read_to_string(folder.join("outhex").join(file.replace(".json", ".txt"))).unwrap();
        let expected: Vec<u8> = hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        assert_eq!(bytes, expected, "{file}");
    }
    assert_eq!(inputs.len(), 6);
}

#[test]
fn naughty_strings_round_trip_as_arguments() {
    let Some(file) = shared("corpora/blns/blns.json") else { return };
    let strings: Vec<String> = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    for text in &strings {
        // As a value and as a member name.
        let arguments = json!({ "text": text, text.as_str(): 1 });
        let bytes = canonical(&arguments);
        assert_eq!(decode(&bytes, LIMITS).as_ref(), Ok(&arguments), "{text:?}");
        assert_eq!(canonical(&arguments), bytes);
    }
    assert!(strings.len() > 500, "{}", strings.len());
}

// === what strict adds to JSON ===

#[test]
fn each_refusal_has_its_name_and_its_own_hint() {
    let cases = [
        ("Syntax", r#"{"a":1,}"#),
        ("Syntax", "{'a':1}"),
        ("Syntax", "{} {}"),
        ("Syntax", ""),
        ("ByteOrderMark", "\u{feff}{}"),
        ("NotANumber", r#"{"a":NaN}"#),
        ("NotANumber", r#"{"a": [1, Infinity]}"#),
        ("NotANumber", "{\n  \"a\": -Infinity\n}"),
        ("LoneSurrogate", r#"{"a":"\ud800"}"#),
        ("LoneSurrogate", r#"{"a":"\ud800x"}"#),
        ("LoneSurrogate", r#"{"a":"\udc00"}"#),
        ("LoneSurrogate", r#"{"a":"\ud800\ud800"}"#),
        ("LoneSurrogate", r#"{"a":"\udc00\ud800"}"#),
        ("LoneSurrogate", r#"{"\udfff":1}"#),
        ("DuplicateKey", r#"{"a":1,"a":1}"#),
        ("DuplicateKey", r#"{"a":1,"\u0061":2}"#),
        ("DuplicateKey", r#"{"x":[{"b":{"a":1,"c":2,"a":3}}]}"#),
        ("DuplicateKey", r#"{"a at line 7 column 7":1,"a at line 7 column 7":2}"#),
        ("IntegerTooLarge", "[9007199254740992]"),
        ("IntegerTooLarge", "[9007199254740993]"),
        ("IntegerTooLarge", "[-9007199254740993]"),
        ("IntegerTooLarge", "[12345678901234567890123]"),
        ("IntegerTooLarge", "[18446744073709551616]"),
        // Not integer literals, but their canonical form would be an integer that has lost digits.
        ("IntegerTooLarge", "[9007199254740993.0]"),
        ("IntegerTooLarge", "[9007199254740993e0]"),
        ("IntegerTooLarge", "[-1e20]"),
        ("NumberOutOfRange", "[1e400]"),
        ("NumberOutOfRange", "[-1e400]"),
    ];
    let mut hints = std::collections::BTreeMap::new();
    for (expected, text) in cases {
        let error = strict(text).expect_err(text);
        assert_eq!(name(&error), expected, "{text}: {error}");
        hints.insert(error.hint(), expected);
    }
    for error in [
        decode(b"\"\xff\"", LIMITS).unwrap_err(),
        decode(b"[[[]]]", JsonLimits { depth_max: 2, ..LIMITS }).unwrap_err(),
        decode(b"[1,2]", JsonLimits { bytes_max: 4, ..LIMITS }).unwrap_err(),
    ] {
        hints.insert(error.hint(), "limits");
    }
    assert_eq!(hints.len(), 10, "two errors share a hint: {hints:#?}");
}

#[test]
fn an_error_says_where() {
    let cases = [
        ("{\n  \"a\": 1,\n  \"a\": 2\n}", "the key `a` stands twice in the same object at line 3 column 5"),
        // A key that imitates the library's own text about a position.
        (
            r#"{"a at line 9":1,"a at line 9":2}"#,
            "the key `a at line 9` stands twice in the same object at line 1 column 30",
        ),
        (r#"{"n": [1, 9007199254740993]}"#, "an integer is beyond ±9007199254740991 at byte 10"),
        (r#"{"a": nul}"#, "not JSON: expected ident at line 1 column 10"),
        (r#"{"a": -Infinity}"#, "not JSON: `NaN` and `Infinity` are no numbers at line 1 column 8"),
        (r#"{"a": "\ud800"}"#, "a `\\u` escape is half of a surrogate pair at line 1 column 14"),
        ("[1e999]", "a number is out of range at line 1 column 6"),
        ("[[[1]]]", "nested deeper than 2 levels"),
    ];
    for (text, expected) in cases {
        let error = decode(text.as_bytes(), JsonLimits { depth_max: 2, ..LIMITS }).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

#[test]
fn numbers_that_every_reader_holds_are_accepted() {
    for text in [
        "9007199254740991",
        "-9007199254740991",
        "1E30",
        "1e21",
        "-123e65",
        "0.1",
        "-0",
        "5e-324",
        r#""9007199254740993""#,
        r#""a \" 12345678901234567890123 \\""#,
        r#"{"12345678901234567890123": 1E30}"#,
    ] {
        assert!(strict(text).is_ok(), "{text}: {:?}", strict(text));
    }
}

#[test]
fn one_number_has_one_value_however_it_is_written() {
    for text in ["1", "1.0", "1e0", "10e-1", "0.1e1"] {
        assert_eq!(strict(text).unwrap(), json!(1), "{text}");
    }
    for text in ["0", "-0", "-0.0", "0e9"] {
        assert_eq!(strict(text).unwrap(), json!(0), "{text}");
    }
}

#[test]
fn depth_is_limited_without_using_up_the_stack() {
    for depth_max in [1, 2, 64, 126, 127] {
        let limits = JsonLimits { bytes_max: 1 << 20, depth_max };
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(decode(nested(depth_max).as_bytes(), limits).is_ok(), "{depth_max}");
        let too_deep = decode(nested(depth_max + 1).as_bytes(), limits);
        assert_eq!(too_deep, Err(StrictError::TooDeep { depth_max }), "{depth_max}");
    }
    let objects = format!("{}1{}", r#"{"a":"#.repeat(128), "}".repeat(128));
    for text in ["[".repeat(100_000), r#"{"a":"#.repeat(100_000), objects] {
        let limits = JsonLimits { bytes_max: 1 << 20, depth_max: 1_000_000 };
        assert_eq!(decode(text.as_bytes(), limits), Err(StrictError::TooDeep { depth_max: 127 }));
    }
}

#[test]
fn size_is_limited_before_anything_is_read() {
    let limits = JsonLimits { bytes_max: 4, depth_max: 8 };
    assert!(decode(b"[1] ", limits).is_ok());
    // Not even JSON: the length alone decides.
    assert_eq!(decode(b"\xff\xff\xff\xff\xff", limits), Err(StrictError::TooLarge { bytes: 5, bytes_max: 4 }));
}

#[test]
fn numbers_that_strict_text_cannot_mean_are_written_as_another_implementation_writes_them() {
    let exact_max = 1_u64 << 53;
    for number in [
        json!(exact_max),
        json!(exact_max + 1),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(-9_007_199_254_740_993_i64),
        json!(-0.0),
        json!(1e21),
        json!(f64::MIN_POSITIVE),
    ] {
        assert_eq!(canonical(&number), serde_json_canonicalizer::to_vec(&number).unwrap(), "{number}");
    }
    // By UTF-16 an emoji (a surrogate pair) comes before a private use character; by UTF-8 after it.
    let names = json!({ "\u{e000}": 1, "\u{1f600}": 2, "a": 3 });
    assert_eq!(canonical(&names), serde_json_canonicalizer::to_vec(&names).unwrap());
}

// === laws ===

/// Any value that strict text can mean.
fn value() -> impl Strategy<Value = Value> {
    let exact = -9_007_199_254_740_991_i64..=9_007_199_254_740_991;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        exact.prop_map(Value::from),
        prop_oneof![any::<f64>(), -1e6..1e6]
            .prop_filter_map("strict", |number| strict(&json!(number).to_string()).ok()),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let members = proptest::collection::vec((any::<String>(), inner.clone()), 0..6);
        prop_oneof![
            proptest::collection::vec(inner, 0..6).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// The same value as text with other white space, members reversed and every character escaped.
fn rewritten(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[ {}\n]", items.iter().map(rewritten).collect::<Vec<_>>().join("\t, ")),
        Value::Object(members) => {
            let members = members.iter().rev();
            let written: Vec<String> =
                members.map(|(key, member)| format!("{}: {}", escaped(key), rewritten(member))).collect();
            format!("{{\r\n{} }}", written.join(" ,"))
        }
        Value::String(text) => escaped(text),
        other => other.to_string(),
    }
}

fn escaped(text: &str) -> String {
    let units: Vec<String> = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    format!("\"{}\"", units.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn canonical_bytes_mean_the_value(value in value()) {
        let bytes = canonical(&value);
        prop_assert_eq!(decode(&bytes, LIMITS), Ok(value));
    }

    #[test]
    fn another_implementation_of_the_rfc_writes_the_same_bytes(value in value()) {
        prop_assert_eq!(canonical(&value), serde_json_canonicalizer::to_vec(&value).unwrap());
    }

    #[test]
    fn canonicalising_twice_is_canonicalising_once(value in value()) {
        let once = canonical(&value);
        prop_assert_eq!(canonical(&decode(&once, LIMITS).unwrap()), once);
    }

    #[test]
    fn order_white_space_and_escapes_do_not_matter(value in value()) {
        let again = strict(&rewritten(&value));
        prop_assert_eq!(again.as_ref().map(canonical), Ok(canonical(&value)));
    }

    #[test]
    fn a_flipped_bit_changes_the_digest(value in value(), position: prop::sample::Index, bit in 0_u32..8) {
        let bytes = canonical(&value);
        let mut flipped = bytes.clone();
        flipped[position.index(bytes.len())] ^= 1 << bit;
        prop_assert_ne!(Digest::compute(DigestDomain::Proposal, &[&bytes]), Digest::compute(DigestDomain::Proposal, &[&flipped]));
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&text, LIMITS);
    }
}
