//! Every production of JSON, repeated: nothing overflows a thread's stack.

use super::{JsonLimits, canonicalize, decode};

/// The prefix, the unit that is repeated, the suffix, and what closes each unit.
const PRODUCTIONS: &[(&str, &str, &str, &str)] = &[
    ("", "[", "1", "]"),
    ("", "{\"a\":", "1", "}"),
    ("", "[{\"a\":", "1", "}]"),
    ("", "[[],", "1", "]"),
    ("", "[", "", ""),
    ("", "{\"a\":", "", ""),
    ("[", "1,", "1]", ""),
    ("[", "[],", "[]]", ""),
    ("[", "{},", "{}]", ""),
    ("[", "\"a\",", "1]", ""),
    ("[", "null,", "1]", ""),
    ("[", "9007199254740993,", "1]", ""),
    ("[", "1e300,", "1]", ""),
    ("{", "\"a\":1,", "\"b\":1}", ""),
    ("", "1", "", ""),
    ("-", "0", "", ""),
    ("1.", "1", "", ""),
    ("1e", "1", "", ""),
    ("", "-", "1", ""),
    ("\"", "a", "\"", ""),
    ("\"", "\\n", "\"", ""),
    ("\"", "\\u0041", "\"", ""),
    ("\"", "\\ud83d\\ude00", "\"", ""),
    ("\"", "\\ud800", "\"", ""),
    ("", "\"", "", ""),
    ("", "\\", "", ""),
    ("", " ", "1", ""),
    ("", "\n", "NaN", ""),
    ("", ",", "", ""),
    ("", "null", "", ""),
    ("", "]", "", ""),
    ("\"", "\u{e9}", "\"", ""),
];

#[test]
fn every_production_of_json_repeated_overflows_nothing() {
    let work = || {
        for (before, unit, after, close) in PRODUCTIONS {
            for count in [20_000, 126, 60, 20] {
                let text = format!("{before}{}{after}{}", unit.repeat(count), close.repeat(count));
                // The deepest limit that callers may set, and deeper ones.
                for depth_max in [64, 127, usize::MAX] {
                    if let Ok(value) = decode(text.as_bytes(), JsonLimits { bytes_max: 8 << 20, depth_max }) {
                        let _ = canonicalize(&value).unwrap();
                    }
                }
            }
        }
        let members: Vec<String> = (0..20_000).map(|number| format!("\"m{number}\":1")).collect();
        let wide = format!("{{{}}}", members.join(","));
        assert!(decode(wide.as_bytes(), JsonLimits { bytes_max: 8 << 20, depth_max: 64 }).is_ok());
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}
