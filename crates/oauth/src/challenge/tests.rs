//! Headers as servers write them, and as an attacker writes them.

use proptest::prelude::*;

use super::*;

/// `scheme(name=value;…)`, one for each challenge.
fn shown(values: &[&str]) -> String {
    let challenges = read(values.iter().copied());
    let shown = challenges.iter().map(|challenge| {
        let parameters: Vec<_> = challenge.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}({})", challenge.scheme, parameters.join(";"))
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn challenges_are_told_apart() {
    let table: &[(&[&str], &str)] = &[
        (&["Bearer"], "bearer()"),
        (&["Bearer realm=\"a, b\", scope=\"x y\""], "bearer(realm=a, b;scope=x y)"),
        (&["Basic realm=\"a\", Bearer scope=\"x\""], "basic(realm=a) bearer(scope=x)"),
        (&["Negotiate YII=, Bearer error=invalid_token"], "negotiate() bearer(error=invalid_token)"),
        (&["Negotiate, Basic realm=a"], "negotiate() basic(realm=a)"),
        (&["Basic realm=a", "Bearer scope=b"], "basic(realm=a) bearer(scope=b)"),
        (&["BEARER Scope = \"x\" , , error=\"e\""], "bearer(scope=x;error=e)"),
        (&["Bearer scope=\"a \\\"b\\\\\""], "bearer(scope=a \"b\\)"),
        // The first parameter of a name counts: a later one may come from someone else.
        (&["Bearer scope=\"a\", scope=\"b\""], "bearer(scope=a)"),
        // A broken part ends its value, not the other values.
        (&["Bearer scope=\"never closed", "Basic realm=a"], "bearer() basic(realm=a)"),
        (&["Bearer error=\"a\" b/c, Basic realm=x"], "bearer(error=a)"),
        (&["=", ",,,", "", "\u{e9}"], ""),
    ];
    for (values, expected) in table {
        assert_eq!(shown(values), *expected, "{values:?}");
    }
}

#[test]
fn only_a_challenge_for_a_bearer_token_is_a_demand() {
    let demand = Demand::from_headers([
        "Basic realm=\"x\"",
        "Bearer error=\"insufficient_scope\", scope=\"b a b\", resource_metadata=\"https://x.test/m\"",
    ]);
    let demand = demand.unwrap();
    assert_eq!(demand.resource_metadata.as_deref(), Some("https://x.test/m"));
    assert_eq!(demand.scopes.unwrap().line().unwrap(), "a b");
    assert!(demand.insufficient_scope);
    assert_eq!(Demand::from_headers(["Basic realm=\"Bearer scope=x\""]), None);
    assert_eq!(Demand::from_headers(["Bearer error=\"invalid_token\""]), Some(Demand::default()));
}

#[test]
fn too_much_is_not_read() {
    let long = format!("Bearer scope=\"{}\"", "x".repeat(HEADER_BYTES_MAX));
    assert_eq!(shown(&[&long]), "");
    let many = vec!["A"; 100].join(", ");
    assert_eq!(read([many.as_str()]).len(), CHALLENGES_MAX);
    let parameters: Vec<_> = (0..100).map(|number| format!("p{number}=x")).collect();
    assert_eq!(read([format!("A {}", parameters.join(",")).as_str()])[0].parameters.len(), PARAMETERS_MAX);
}

proptest! {
    #[test]
    fn no_header_makes_it_panic(values in proptest::collection::vec(".{0,200}", 0..4)) {
        read(values.iter().map(String::as_str));
    }

    #[test]
    fn what_is_quoted_comes_back(value in "[ -~]{0,60}") {
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
        let header = format!("Basic a=b, Bearer scope=\"{quoted}\", error=x");
        let read = read([header.as_str()]);
        prop_assert_eq!(read[1].parameter("scope"), Some(value.as_str()));
        prop_assert_eq!(read[1].parameter("error"), Some("x"));
    }
}
