//! Every production of Cedar, repeated: nothing overflows a thread's stack, whether or not the policy is accepted. An accepted
//! policy decides calls within the same stack.

use super::{contracts, decide, load_in, payment, vocabulary_of};
use crate::BuiltInPermits;

/// The prefix, the unit that is repeated, the suffix, and what closes each unit; all of it is a condition.
const CONDITIONS: &[(&str, &str, &str, &str)] = &[
    ("", "(", "true", ")"),
    ("", "[", "1", "]"),
    ("", "{a:", "1", "}"),
    ("", "!", "true", ""),
    ("", "-", "1", ""),
    ("", "- ", "1 == 1", ""),
    ("", "!(", "true", ")"),
    ("", "if true then ", "true", " else true"),
    ("", "if true then true else ", "true", ""),
    ("", "if ", "true", " then true else true"),
    ("true", " && true", "", ""),
    ("true", " || true", "", ""),
    ("", "true && (", "true", ")"),
    ("1", " + 1", " == 1", ""),
    ("1", " * 1", " == 1", ""),
    ("1", " == 1", "", ""),
    ("1", " < 1", "", ""),
    ("principal", " in principal", "", ""),
    ("principal", " has a", "", ""),
    ("context", ".a", "", ""),
    ("context", "[\"a\"]", "", ""),
    ("context has a", ".a", "", ""),
    ("context", ".contains(1)", "", ""),
    ("", "context.contains(", "1", ")"),
    ("", "decimal(", "\"1.0\"", ")"),
    ("[", "1,", "1]", ""),
    ("{", "a:1,", "b:1}", ""),
    ("", "[[],", "1", "]"),
    ("", "a::", "b", ""),
    ("\"", "a", "\" like \"a\"", ""),
    ("\"a\" like \"", "*a", "\"", ""),
    ("\"", "\\n", "\" == \"a\"", ""),
    ("", "\"", "", ""),
    ("", "principal is User && ", "true", ""),
    ("", "// a\n", "true", ""),
    ("", "1", "", ""),
    ("", "}", "", ""),
    ("", "{", "", ""),
    ("", ";", "", ""),
];

/// The same outside conditions.
const TEXTS: &[(&str, &str, &str)] = &[
    ("", "permit (principal, action, resource);", ""),
    ("", "permit", ""),
    ("", ";", ""),
    ("", ";\n", ""),
    ("", "@id(\"a\") ", "permit (principal, action, resource);"),
    ("permit (principal, action, resource)", " when { true }", ";"),
    ("permit (principal, action, resource)", " unless { false }", ";"),
    ("permit (principal, action in [", "Action::\"call:bank.pay\",", "Action::\"call:bank.pay\"], resource);"),
    ("permit (principal in ", "a::", "User::\"a\", action, resource);"),
    ("", "// a\n", ""),
    ("", "\r", ""),
    ("", "(", ""),
    ("", "\u{e9}", ""),
];

#[test]
fn every_production_of_cedar_repeated_overflows_nothing() {
    let work = || {
        let vocabulary = vocabulary_of(&contracts());
        let take = |text: &str| {
            if let Ok(policies) = load_in(&vocabulary, text, BuiltInPermits::Off) {
                let _ = decide(&policies, "bank.pay", &payment(1));
            }
        };
        for (before, unit, after, close) in CONDITIONS {
            // Counts beyond every limit, within the bytes that a policy may have, and just below the other limits.
            for count in [20_000, 2_000, 64, 32, 23, 8] {
                println!("{count} times {before}{unit}{after}{close}");
                let condition = format!("{before}{}{after}{}", unit.repeat(count), close.repeat(count));
                take(&format!("permit (principal, action, resource) when {{ {condition} }};"));
            }
        }
        for (before, unit, after) in TEXTS {
            // 20,000 whole policies are within the limits, and loading them takes a minute without optimisation.
            for count in [if unit.ends_with(");") { 2_000 } else { 20_000 }, 200] {
                println!("{count} times {before}{unit}{after}");
                take(&format!("{before}{}{after}", unit.repeat(count)));
            }
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}
