//! The same for texts that are not programs: paths, requests and addresses.

use serde_json::{Value, json};

use super::{super::*, on_a_thread};

const UNITS: &[&str] = &[
    "/",
    "//",
    "./",
    "../",
    "/..",
    "\\",
    "%2e",
    "%2f",
    "%25",
    "%",
    "%c0",
    "~",
    "C:",
    "a/",
    " ",
    ". ",
    "\u{2215}",
    "\u{ff0e}",
    "file:",
    ":",
    "?",
    "&",
    ";",
    "=",
    "#",
    "a=b&",
    "_method=",
    "_method=DELETE&",
    "+",
    "@",
    "[",
    "]",
    "[::1]",
    ".",
    "a.",
    "-",
    "xn--",
    "xn--a.",
    "1.",
    "0x7f.",
    "\u{df}",
    "\u{200d}",
    "\u{5d0}",
    "\u{301}",
    "https://",
    "http://a/",
    "https:",
    "user:pass@",
    ":80",
    "\n",
    "a: b\n",
    "X-HTTP-Method-Override: GET\n",
    "\t",
    "\0",
    "\u{e9}",
];

#[test]
fn every_part_of_a_path_or_an_address_repeated_overflows_nothing() {
    on_a_thread(|| {
        let open = UrlRules::new(&[], &[]).expect("rules");
        let roots = PathRoots::new(["/srv/data"]).expect("roots");
        for unit in UNITS {
            for count in [20_000, 4_000, 1_000, 60] {
                for before in ["", "/srv/data/", "https://", "https://a.example/", "https://a.example/?", "GET "] {
                    let text = format!("{before}{}", unit.repeat(count));
                    let _ = (roots.admit(&text), normalise(&text), open.admit(&text));
                    let _ = UrlRules::new(&[], std::slice::from_ref(&text));
                    let _ =
                        (is_safe_method(&text), classify_request("GET", &text, []), classify_request(&text, "/", []));
                    let _ = classify_request("GET", "/", [(text.as_str(), text.as_str())]);
                    let _ = asks_for_another_method(&Value::from(text));
                }
            }
        }
        // Wide, because the parse gate bounds only depth.
        let wide: Vec<Value> =
            (0..20_000).map(|number| json!({ "name": format!("n{number}"), "value": [number] })).collect();
        assert!(!asks_for_another_method(&Value::from(wide)));
    });
}
