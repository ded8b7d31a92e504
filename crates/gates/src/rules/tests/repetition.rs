//! Every production of CEL, repeated: nothing overflows a thread's stack, whether or not the rule is admitted. An admitted rule is
//! evaluated within the same stack.

use serde_json::json;

use super::compile;

/// The text before, the unit that is repeated, the text after, and what closes each unit.
const PRODUCTIONS: &[(&str, &str, &str, &str)] = &[
    ("", "(", "true", ")"),
    ("", "[", "1", "] == []"),
    ("", "[", "1", "]"),
    ("", "[[", "1", "]]"),
    ("", "{'a':", "1", "}"),
    ("", "{", "1", ":1}"),
    ("", "[1,", "1", "]"),
    ("[", "1,", "1]", ""),
    ("{", "1:1,", "1:1}", ""),
    ("", "!", "true", ""),
    ("", "! ", "true", ""),
    ("", "!!", "true", ""),
    ("", "-", "1", ""),
    ("", "- ", "args.a", ""),
    ("", "-(", "1", ")"),
    ("", "!(", "true", ")"),
    ("", "true?", "1", ":1"),
    ("", "true?1:", "1", ""),
    ("", "true ? true : ", "true", ""),
    ("", "true?true?", "1", ":1:1"),
    ("args", ".a", "", ""),
    ("args", ".a()", "", ""),
    ("args", ".size()", "", ""),
    ("args", ".a(args)", "", ""),
    ("args", "[0]", "", ""),
    ("args", "['a']", "", ""),
    ("args", "[", "0", "]"),
    ("args", "[args", "", "]"),
    ("args.a", " + args.a", "", ""),
    ("1", "+1", "", ""),
    ("1", "-1", "", ""),
    ("1", "*1", "", ""),
    ("1", "/1", "", ""),
    ("1", "%1", "", ""),
    ("true", "&&true", "", ""),
    ("true", "||true", "", ""),
    ("true", "&&true||true", "", ""),
    ("true", "||!true", "", ""),
    ("1", "==1", "", ""),
    ("1", "<1", "", ""),
    ("1", " in [1]", "", ""),
    ("1", " in ", "1", ""),
    ("", "1 in [", "1", "]"),
    ("", "size(", "args.a", ")"),
    ("", "string(", "1", ")"),
    ("", "has(args.a)&&", "true", ""),
    ("", "has(", "args.a", ")"),
    ("has(args", ".a", ")", ""),
    ("", "f(", "1", ")"),
    ("f(", "1,", "1)", ""),
    ("", "a{a:", "1", "}"),
    ("a{", "a:1,", "a:1}", ""),
    ("a", ".a", "{}", ""),
    ("", ".a", "", ""),
    ("", "[1].all(x,", "true", ")"),
    ("", "[1].map(x,", "1", ")"),
    ("", "[1].filter(x,", "true", ")"),
    ("", "[1].exists_one(x,", "true", ")"),
    ("args.list", ".map(x,x)", ".size()==0", ""),
    ("args.list", ".filter(x,true)", ".size()==0", ""),
    ("args.list", ".map(x,[x])", ".size()==0", ""),
    ("args.list.all(x,", "args.list.all(x,", "true", ")"),
    ("'", "a", "'", ""),
    ("'", "\\n", "'", ""),
    ("'", "\\", "", ""),
    ("", "'a'+", "'a'", ""),
    ("", "'", "", ""),
    ("", "'''", "", ""),
    ("", "\"", "", ""),
    ("", "r'", "", ""),
    ("", "b'a'+", "b'a'", ""),
    ("args.a.matches('", "(", "a", ")')"),
    ("args.a.matches('", "a|", "a')", ""),
    ("args.a.matches('", "a*", "')", ""),
    ("args.a.matches('", "(a", "", ")*')"),
    ("args.a.matches('", "[", "a", "]')"),
    ("args.a.matches('a", "{9}", "')", ""),
    ("", "args.a.matches('a')&&", "true", ""),
    ("", "//", "", ""),
    ("", "// a\n", "true", ""),
    ("", "1", "", ""),
    ("", "1u", "", ""),
    ("", "0x", "", ""),
    ("", "1e", "", ""),
    ("", ".", "", ""),
    ("", ",", "", ""),
    ("", "?", "", ""),
    ("", ":", "", ""),
    ("", "?.", "", ""),
    ("", "`", "", ""),
    ("", "\\", "", ""),
    ("", " ", "", ""),
    ("", "\n", "true", ""),
    ("", "a ", "", ""),
    ("", "\u{e9}", "", ""),
    ("", "true ", "", ""),
    ("", ")", "", ""),
    ("", "}", "", ""),
];

/// Counts beyond every limit, counts whose text is just short enough, and lower ones.
const COUNTS: [usize; 9] = [20_000, 4_000, 2_000, 1_000, 400, 120, 25, 12, 6];

#[test]
fn every_production_of_cel_repeated_overflows_nothing() {
    let work = || {
        let arguments = json!({ "a": "aaaa", "list": [1, "a", [], {}], "b": 1 });
        for (before, unit, after, close) in PRODUCTIONS {
            for count in COUNTS {
                let text = format!("{before}{}{after}{}", unit.repeat(count), close.repeat(count));
                println!("{count} times {before}{unit}{after}{close}");
                if let Ok(rules) = compile(&text) {
                    let _ = rules.violations(&arguments);
                }
            }
        }
    };
    // The stack size of a worker thread.
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}
