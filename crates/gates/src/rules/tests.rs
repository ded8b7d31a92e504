mod repetition;

use serde_json::{Value, json};
use servanda_contract::tool::SemanticRule;

use super::{COST_MAX, CompiledRules, cost, nesting};

fn rule(rule: &str) -> SemanticRule {
    SemanticRule { id: "r".to_owned(), rule: rule.to_owned(), message: "m".to_owned(), when: None, fields: Vec::new() }
}

fn compile(text: &str) -> Result<CompiledRules, String> {
    CompiledRules::compile(&[rule(text)]).map_err(|reasons| reasons.join("; "))
}

/// Why a rule does not pass; empty if it does.
fn verdict(text: &str, arguments: &Value) -> String {
    let violations = compile(text).unwrap().violations(arguments);
    violations.first().map(|error| error.actual.clone()).unwrap_or_default()
}

const BROKEN: &str = "false for these values";

#[test]
fn what_rules_are_for() {
    let cases = [
        // Dates compare as text because they are written most significant first.
        ("args.end > args.start", json!({ "start": "2026-11-15", "end": "2026-11-16" }), ""),
        ("args.end > args.start", json!({ "start": "2026-11-15", "end": "2026-11-15" }), BROKEN),
        // Times with offsets do not; they are turned into instants. Half past nine in Berlin is before nine in London.
        (
            "timestamp(args.end) > timestamp(args.start)",
            json!({ "start": "2026-11-15T09:30:00+01:00", "end": "2026-11-15T09:00:00Z" }),
            "",
        ),
        (
            "timestamp(args.end) > timestamp(args.start)",
            json!({ "start": "2026-11-15T09:00:00Z", "end": "2026-11-15T09:30:00+01:00" }),
            BROKEN,
        ),
        (
            "timestamp(args.end) - timestamp(args.start) <= duration('1h')",
            json!({ "start": "2026-11-15T09:00:00Z", "end": "2026-11-15T10:00:01Z" }),
            BROKEN,
        ),
        // Integers and fractions are numbers alike.
        ("args.price > 0", json!({ "price": 1.5 }), ""),
        ("args.price > 0", json!({ "price": 1 }), ""),
        ("args.price > 0", json!({ "price": -0.5 }), BROKEN),
        ("args.price >= 1.5", json!({ "price": 2 }), ""),
        ("args.count == 2", json!({ "count": 2 }), ""),
        ("args.price == 1.0", json!({ "price": 1 }), ""),
        ("args.low < args.high", json!({ "low": 1, "high": 1.5 }), ""),
        // Lists, membership, patterns, alternatives.
        ("args.lines.all(line, line.count > 0)", json!({ "lines": [{ "count": 1 }, { "count": 0 }] }), BROKEN),
        ("args.lines.exists(line, line.sku == args.main)", json!({ "lines": [{ "sku": "a" }], "main": "a" }), ""),
        (
            "args.lines.map(line, line.sku).filter(sku, sku != '').size() == size(args.lines)",
            json!({ "lines": [{ "sku": "a" }] }),
            "",
        ),
        ("args.country in ['DE', 'IT']", json!({ "country": "FR" }), BROKEN),
        ("args.code.matches('^[A-Z]{2}[0-9]+$')", json!({ "code": "AB12" }), ""),
        ("has(args.email) || has(args.phone)", json!({ "phone": "1" }), ""),
        ("has(args.email) || has(args.phone)", json!({}), BROKEN),
        ("args.kind == 'card' ? has(args.number) : true", json!({ "kind": "cash" }), ""),
        ("type(args.value) == string", json!({ "value": "x" }), ""),
    ];
    for (rule, arguments, expected) in cases {
        assert_eq!(verdict(rule, &arguments), expected, "{rule} {arguments}");
    }
}

#[test]
fn a_rule_that_cannot_be_decided_does_not_pass() {
    let cases = [
        ("args.note != ''", json!({}), "not decidable: `note` is absent"),
        ("args.inner.note != ''", json!({ "inner": {} }), "not decidable: `note` is absent"),
        ("args.list[3] == 1", json!({ "list": [1] }), "not decidable: something it needs is absent"),
        ("args[args.name] == 1", json!({ "name": "secret" }), "not decidable: something it needs is absent"),
        ("1 / args.count == 1", json!({ "count": 0 }), "not decidable: it divides by zero"),
        (
            "args.count * args.count > 0",
            json!({ "count": 9_007_199_254_740_991_i64 }),
            "not decidable: a number grows too large",
        ),
        ("args.count > 'x'", json!({ "count": 1 }), "not decidable: the values have types that do not go together"),
        (
            "timestamp(args.day) > timestamp(args.day)",
            json!({ "day": "soon" }),
            "not decidable: `timestamp` does not take this value",
        ),
        ("args.count", json!({ "count": 1 }), "not decidable: it is neither true nor false"),
        ("'true'", json!({}), "not decidable: it is neither true nor false"),
        ("args", json!({}), "not decidable: it is neither true nor false"),
    ];
    for (rule, arguments, expected) in cases {
        assert_eq!(verdict(rule, &arguments), expected, "{rule} {arguments}");
    }
}

#[test]
fn when_decides_whether_a_rule_applies_and_fails_closed_too() {
    let rule = SemanticRule {
        when: Some("args.kind == 'a'".to_owned()),
        fields: vec!["/x/y".to_owned()],
        ..rule("args.x > 0")
    };
    let rules = CompiledRules::compile(&[rule]).unwrap();
    let told = |arguments: Value| {
        let violations = rules.violations(&arguments);
        violations
            .first()
            .map(|error| (error.pointer.clone(), error.field.clone(), error.actual.clone(), error.message.clone()))
    };
    assert_eq!(told(json!({ "kind": "b" })), None);
    assert_eq!(told(json!({ "kind": "a", "x": 1 })), None);
    let expected = ("/x/y".to_owned(), "x.y".to_owned(), BROKEN.to_owned(), "m (rule `r`)".to_owned());
    assert_eq!(told(json!({ "kind": "a", "x": 0 })), Some(expected));
    assert_eq!(told(json!({ "x": 1 })).unwrap().2, "not decidable: `kind` is absent");
    assert_eq!(told(json!({ "kind": 3, "x": 1 })), None, "another type is not equal, which is an answer");
}

#[test]
fn what_is_refused_at_admission() {
    let long = format!("args.a == '{}'", "x".repeat(2_100));
    let deep = format!("{}true{}", "(".repeat(7), ")".repeat(7));
    let wide = vec!["args.a"; 30].join(" + ");
    let abyss = format!("[1].all(x, {}", "[(".repeat(1_000));
    let cases = [
        ("args.", "does not compile"),
        ("", "does not compile"),
        (long.as_str(), "longer than 2048 characters: write several rules"),
        ("user.name == 'x'", "knows only `args`, not `user`"),
        ("args.list.all(x, y > 1)", "knows only `args`, not `y`"),
        ("args.list.all(x, x > 1) && x > 1", "knows only `args`, not `x`"),
        ("now() > 1", "knows no function `now`"),
        ("args.a.frobnicate()", "knows no function `frobnicate`"),
        ("args.text.matches(args.pattern)", "`matches` takes its pattern as literal text only"),
        ("args.text.matches('(')", "linear time"),
        (r"args.text.matches('(a)\\1')", "linear time"),
        ("args.text.matches('(a{0,1000}){0,1000}')", "linear time"),
        ("Thing{a: 1} == args.a", "does not exist"),
        (deep.as_str(), "has brackets nested deeper than 6 levels"),
        (abyss.as_str(), "has brackets nested deeper than 6 levels"),
        (wide.as_str(), "nested deeper than 24 levels"),
    ];
    for (rule, expected) in cases {
        match compile(rule) {
            Ok(_) => panic!("compiled: {rule:.80}"),
            Err(reason) => assert!(reason.contains(expected), "{rule:.80}: {reason}"),
        }
    }
    assert!(compile(&format!("args.a == '{}'", "x".repeat(2_000))).is_ok());
    assert!(compile("args.list.all(x, args.list.exists(y, x == y))").is_ok());
}

/// Checked by the bound itself, not by a clock.
#[test]
fn loops_inside_loops_are_refused_instead_of_run() {
    let nested = "args.list.all(a, args.list.all(b, args.list.exists(c, a == b || b == c)))";
    assert_eq!(verdict(nested, &json!({ "list": vec![1; 20] })), "");
    let refused = "not decidable: it would take too many steps for arguments of this size";
    assert_eq!(verdict(nested, &json!({ "list": vec![1; 1_000] })), refused);
    let single = "args.list.all(a, a > 0)";
    assert_eq!(verdict(single, &json!({ "list": vec![1; 10_000] })), "");
}

fn bound(rule: &str, arguments: &Value) -> u64 {
    let rules = compile(rule).unwrap();
    cost::bound(rules.0[0].rule.expression(), &[("args", arguments)])
}

#[test]
fn what_a_rule_builds_counts() {
    let small = json!({ "a": "x", "list": [1, 2, 3] });
    // Each step makes the value four times as heavy: a few more of them, and it fills the memory of a machine.
    let heavier = |step: &str, times: usize| format!("[args.a]{}.size() == 1", step.repeat(times));
    for step in [".map(x, x + x + x + x)", ".map(x, [x, x, x, x])", ".map(x, {1: x, 2: x, 3: x, 4: x})"] {
        assert!(bound(&heavier(step, 3), &small) < COST_MAX, "{step}");
        assert!(bound(&heavier(step, 12), &small) > COST_MAX, "{step}");
    }
    // The same by binding, one inside the other.
    let mut bound_inside = "true".to_owned();
    for level in (0..3).rev() {
        let outer = if level == 0 { "args.a".to_owned() } else { format!("v{}", level - 1) };
        bound_inside = format!("[{}].all(v{level}, {bound_inside})", vec![outer; 10].join(" + "));
    }
    assert!(bound(&bound_inside, &json!({ "a": "x".repeat(10_000) })) > COST_MAX);
    // Lists of whole arguments, iterated again.
    let copies = "args.list.map(a, args).map(b, b.list).all(c, c.all(d, d > 0))";
    assert!(bound(copies, &json!({ "list": vec![1; 10] })) < COST_MAX);
    assert!(bound(copies, &json!({ "list": vec![1; 3_000] })) > COST_MAX);
}

#[test]
fn the_bound_follows_the_arguments() {
    let heavy = json!({ "list": vec!["x".repeat(1_000); 100], "text": "y".repeat(50_000), "one": 1 });
    // A rule does not pay for arguments that it does not use.
    assert!(bound("args.one > 0", &heavy) < 100);
    assert!(bound("args.list.all(x, x != '')", &heavy) > 100_000);
    assert!(bound("args.text.contains('z')", &heavy) > 50_000);
    assert!(bound("args.text.matches('^y+$')", &heavy) > 200_000);
    assert!(bound("args.absent.all(x, x)", &heavy) < 1_000);
}

#[test]
fn brackets_are_counted_where_the_parser_would_see_them() {
    let cases = [
        ("a", 0),
        ("(a) + (b)", 1),
        ("f([{'x': (1)}])", 4),
        ("'(((' + \"[[[\" + '''({''''", 0),
        (r"'\'(((' + '\\'", 0),
        (r"r'\' + ((1))", 2),
        (r"bR'\' + ((1))", 2),
        // Not a prefix but the end of a name, so the backslash escapes.
        (r"ar'\'((1))'", 0),
        ("(1 // )))\n + (2)", 2),
        ("// (((", 0),
        ("'open (((", 0),
        (")))(", 1),
        ("'ä(' + (1)", 1),
    ];
    for (text, expected) in cases {
        assert_eq!(nesting::bracket_depth(text), expected, "{text}");
    }
}

/// The deepest rules that are admitted run on the stack of a test thread, which is that of a worker thread.
#[test]
fn the_deepest_rules_run() {
    let wide = format!("{} > 0", vec!["args.a"; 20].join(" + "));
    assert_eq!(verdict(&wide, &json!({ "a": 1 })), "");
    let mut deep = "true".to_owned();
    for level in 0..6 {
        deep = format!("[1].all(x{level}, {deep})");
    }
    assert_eq!(verdict(&deep, &json!({})), "");
    assert_eq!(verdict("[[[[[[1]]]]]] == [[[[[[1]]]]]]", &json!({})), "");
    assert_eq!(verdict(&vec!["args.a == 1"; 130].join(" && "), &json!({ "a": 1 })), "");
}
