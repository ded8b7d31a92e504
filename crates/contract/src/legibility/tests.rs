use std::{collections::BTreeMap, fs};

use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};

use super::{NameFault, faults, hidden_characters, name_fault, one_line, reveal, reveal_exactly, skeleton};
use crate::testing::shared;

#[test]
fn what_does_not_show_is_found_and_revealed() {
    let cases = [
        ("zero\u{200b}width", "zero<U+200B>width"),
        ("\u{feff}begins", "<U+FEFF>begins"),
        ("soft\u{ad}hyphen", "soft<U+00AD>hyphen"),
        ("over\u{202e}ride", "over<U+202E>ride"),
        ("iso\u{2066}late\u{2069}", "iso<U+2066>late<U+2069>"),
        ("mark\u{200f}", "mark<U+200F>"),
        ("tag\u{e0041}\u{e0042}", "tag<U+E0041><U+E0042>"),
        ("supplement\u{e0100}\u{e01ef}", "supplement<U+E0100><U+E01EF>"),
        ("selector\u{fe00}", "selector<U+FE00>"),
        ("times\u{2062}two", "times<U+2062>two"),
        ("private\u{e000}\u{f0000}", "private<U+E000><U+F0000>"),
        ("\u{1b}[31mred", "<U+001B>[31mred"),
        ("c1 \u{9b}31m", "c1 <U+009B>31m"),
        ("nul\0", "nul<U+0000>"),
        ("lone\rreturn", "lone<U+000D>return"),
        ("bell\u{7}", "bell<U+0007>"),
        ("filler\u{3164}\u{115f}", "filler<U+3164><U+115F>"),
        ("line\u{2028}paragraph\u{2029}", "line<U+2028>paragraph<U+2029>"),
        ("none\u{ffff}\u{1fffe}", "none<U+FFFF><U+1FFFE>"),
        // Selectors and joiners in places where they have no meaning.
        ("letter\u{fe0f}", "letter<U+FE0F>"),
        ("a\u{200d}b", "a<U+200D>b"),
        ("🙂\u{200d}", "🙂<U+200D>"),
        ("\u{200d}🙂", "<U+200D>🙂"),
        ("⚠\u{fe0f}\u{fe0f}", "⚠\u{fe0f}<U+FE0F>"),
        ("7\u{fe0f}", "7<U+FE0F>"),
        ("می\u{200d}b", "می<U+200D>b"),
    ];
    for (text, shown) in cases {
        assert!(!hidden_characters(text).is_empty(), "{shown}");
        assert_eq!(reveal(text), shown);
    }
    assert_eq!(one_line("a\nb\u{1b}\tc"), "a b<U+001B> c");
}

#[test]
fn a_text_that_looks_like_a_spelled_out_character_is_told_apart() {
    let cases = [
        ("a\u{202e}b", "a<U+202E>b"),
        ("a<U+202E>b", "a<U+003C>U+202E>b"),
        ("<U+003C>U+202E>", "<U+003C>U+003C>U+202E>"),
        ("<<U+a><U+A>", "<<U+003C>U+a><U+003C>U+A>"),
        ("<U+>, <U+202E and <U+G>", "<U+>, <U+202E and <U+G>"),
        ("lines\r\nend", "lines<U+000D>\nend"),
        ("👩\u{200d}👧 <b>", "👩\u{200d}👧 <b>"),
    ];
    for (text, shown) in cases {
        assert_eq!(reveal_exactly(text), shown);
    }
}

/// The law: what is shown is another text for every text.
#[test]
fn no_two_texts_look_the_same() {
    let piece = prop::sample::select(vec![
        "<", "U+", "<U+", "003C", "202E", ">", "\u{202e}", "\u{200d}", "👩", "\r", "\n", "a", " ", "\u{fe0f}",
    ]);
    let text = prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    TestRunner::default()
        .run(&(text.clone(), text), |(one, other)| {
            prop_assert!(one == other || reveal_exactly(&one) != reveal_exactly(&other), "{one:?} {other:?}");
            prop_assert!(hidden_characters(&reveal_exactly(&one)).is_empty(), "{one:?}");
            Ok(())
        })
        .unwrap();
}

#[test]
fn what_people_write_shows() {
    for text in [
        "",
        "Plain text with\ttabs\nand lines\r\nof both kinds.",
        "naïve façade – “quoted” … € ½ → ≤",
        "請求書を作成します。　全角",
        "Создаёт счёт",
        "חשבונית فاتورة",
        "⚠\u{fe0f} WARNING ✔\u{fe0e} ©\u{fe0f}",
        "👩\u{200d}👩\u{200d}👧 🏳\u{fe0f}\u{200d}🌈 👍🏽 🧑🏽\u{200d}🚀 ❤\u{fe0f}\u{200d}🔥",
        "1\u{fe0f}\u{20e3} #\u{fe0f}\u{20e3} 🇩🇪",
        // Persian and Hindi cannot be spelled without joiners.
        "می\u{200c}خواهم",
        "क्\u{200d}ष",
    ] {
        assert_eq!(hidden_characters(text), [], "{text}");
        assert_eq!(reveal(text), text);
    }
}

#[test]
fn names_are_of_one_script() {
    for name in
        ["read_file", "a.b/c d", "lire_été", "読む", "ファイルを読む", "read_読む", "файл", "αρχείο", "파일_읽기", ""]
    {
        assert_eq!(name_fault(name), None, "{name}");
    }
    for name in ["p\u{430}y_invoice", "\u{441}opy file \u{3b1}", "αрхив"] {
        assert!(matches!(name_fault(name), Some(NameFault::MixedScripts { .. })), "{name}");
    }
    for name in ["ｆｕｌｌ", "find🔍", "x\u{2044}y", "ℌ"] {
        assert!(matches!(name_fault(name), Some(NameFault::Unusual { .. })), "{name}");
    }
    assert!(name_fault("read\u{200b}").is_some_and(|fault| fault.is_hidden()));
}

#[test]
fn names_that_look_alike_have_one_skeleton() {
    for (one, other) in
        [("pay", "р\u{430}у"), ("list_1", "list_l"), ("turn", "tum"), ("l0g", "lOg"), ("read", "re\u{ad}ad")]
    {
        assert_eq!(skeleton(one), skeleton(other), "{one} {other}");
    }
    for (one, other) in [("read_file", "write_file"), ("get_a", "get_b"), ("List", "list"), ("read_file", "read-file")]
    {
        assert_ne!(skeleton(one), skeleton(other), "{one} {other}");
    }
}

#[test]
fn faults_say_where() {
    let document = json!({
        "description": "a\u{200b}b",
        "properties": { "na\u{200b}me": { "enum": ["ok", "x\u{e0001}"] }, "p\u{430}th": {} },
        "required": ["na\u{200b}me"],
        "other": { "p\u{430}th": 1 },
    });
    let found: Vec<String> = faults(&document).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "`/description`: has U+200B (zero width) as character 2",
            "`/properties/na<U+200B>me`: the name has U+200B (zero width) as character 3",
            "`/properties/na<U+200B>me/enum/1`: has U+E0001 (a tag character, which can spell out hidden text) as character 2",
            "`/properties/pаth`: the name mixes scripts: U+0430 among other letters",
            "`/required/0`: has U+200B (zero width) as character 3",
        ]
    );
    let many = json!(vec!["\u{200b}"; 100]);
    assert_eq!(faults(&many).len(), 20);
}

/// Revealed text hides nothing any more, and text that hides nothing stays unchanged.
#[test]
fn revealed_text_shows() {
    let mixed = prop_oneof![
        any::<char>(),
        prop::char::range('\u{200b}', '\u{206f}'),
        prop::char::range('\u{fe00}', '\u{fe0f}')
    ];
    TestRunner::default()
        .run(&prop::collection::vec(mixed, 0..40), |characters| {
            let text: String = characters.into_iter().collect();
            let shown = reveal(&text);
            prop_assert_eq!(hidden_characters(&shown), []);
            prop_assert_eq!(shown == text, hidden_characters(&text).is_empty());
            Ok(())
        })
        .unwrap();
}

/// Every definition of the real servers reads as what it is. Operators would switch off a rule that refused one of them.
#[test]
fn real_tools_are_legible() {
    let Some(file) = shared("corpora/tools/tools.jsonl") else { return };
    let (mut tools, mut refused) = (0, Vec::new());
    let mut skeletons: BTreeMap<(String, String), String> = BTreeMap::new();
    for line in fs::read_to_string(file).unwrap().lines() {
        let tool: Value = serde_json::from_str(line).unwrap();
        tools += 1;
        let name = tool["name"].as_str().unwrap();
        for fault in faults(&tool) {
            refused.push(format!("{}: {fault}", tool["id"]));
        }
        refused.extend(name_fault(name).map(|fault| format!("{}: {fault}", tool["id"])));
        let key = (tool["server"].to_string(), skeleton(name));
        if let Some(other) = skeletons.insert(key, name.to_owned()).filter(|other| other != name) {
            refused.push(format!("{}: looks like {other}", tool["id"]));
        }
    }
    println!("tools.jsonl: {} of {tools} real tools are refused as illegible", refused.len());
    assert_eq!(tools, 6_804);
    assert_eq!(refused, Vec::<String>::new());
}

/// Naughty strings that hide something are found; those that only look odd are left alone.
#[test]
fn naughty_strings_that_hide_are_found() {
    let Some(file) = shared("corpora/blns/blns.json") else { return };
    let strings: Vec<String> = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let caught = strings.iter().filter(|text| !hidden_characters(text).is_empty()).count();
    println!("blns.json: {caught} of {} strings hide something", strings.len());
    for (text, hides) in [
        ("\u{202a}\u{202a}test\u{202a}", true),
        ("\u{feff}", true),
        ("Ω≈ç√∫˜µ≤≥÷", false),
        ("👩🏽", false),
        ("0\u{fe0f}\u{20e3} 1\u{fe0f}\u{20e3}", false),
    ] {
        let found = strings.iter().find(|known| known.starts_with(text)).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(!hidden_characters(found).is_empty(), hides, "{}", reveal(found));
    }
}
