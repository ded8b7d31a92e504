//! The laws of narrowing, and the messages about missing rights.

use proptest::prelude::*;
use servanda_contract::tool::SideEffectClass;

use super::*;
use crate::CredentialMethod;
use crate::testing::{
    CLASSES, NOW, RESOURCES, SCOPES, TOOLS, any_class, any_narrowing, any_rights, golden_json, in_ms, scopes,
    user_rights,
};

/// The definition as sets, written independently of the implementation.
fn allowed_by_definition(rights: &Rights, need: &RequiredRights<'_>) -> bool {
    let under = |patterns: Vec<String>, name: &str, separator: char| {
        patterns.iter().any(|pattern| {
            let Some(top) = pattern.strip_suffix('*') else { return pattern == name };
            let top = top.strip_suffix(separator).unwrap_or(top);
            let below = name.starts_with(&format!("{top}{separator}")) && !name.contains("..") && !name.contains('%');
            top.is_empty() || name == top || below
        })
    };
    let scopes = match &rights.scopes {
        Scopes::All => true,
        Scopes::These(own) => need.scopes.iter().all(|scope| own.contains(scope)),
    };
    scopes
        && under(rights.tools.clone().into(), need.tool, '.')
        && need.resources.iter().all(|resource| under(rights.resources.clone().into(), resource, '/'))
        && CLASSES.iter().position(|class| *class == need.class) <= CLASSES.iter().position(|c| *c == rights.ceiling)
        && need.at < rights.expires_at
}

prop_compose! {
    fn any_call()(
        words in prop::sample::subsequence(&SCOPES[..], 0..=2),
        tool in prop::sample::select(&TOOLS[..]),
        resources in prop::sample::subsequence(&RESOURCES[..], 0..=2),
        class in any_class(),
        after in 0u64..4,
    ) -> (BTreeSet<Scope>, &'static str, Vec<String>, SideEffectClass, Timestamp) {
        (scopes(&words), tool, resources.iter().map(ToString::to_string).collect(), class, in_ms(after * 1000))
    }
}

fn permits(rights: &Rights, need: &RequiredRights<'_>) -> bool {
    rights.lacks(need).is_none()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn t9_narrowing_is_within_both_and_is_the_largest_such(a in any_rights(), b in any_rights(), c in any_rights()) {
        let both = a.narrowed_by(&b);
        prop_assert!(both.is_within(&a) && both.is_within(&b));
        if c.is_within(&a) && c.is_within(&b) {
            prop_assert!(c.is_within(&both));
        }
        prop_assert_eq!(a.is_within(&b), both == a, "within is what narrowing leaves alone");
    }

    #[test]
    fn t9_narrowing_is_associative_commutative_idempotent_monotone(
        a in any_rights(), b in any_rights(), c in any_rights()
    ) {
        prop_assert_eq!(a.narrowed_by(&b), b.narrowed_by(&a));
        prop_assert_eq!(a.narrowed_by(&b).narrowed_by(&c), a.narrowed_by(&b.narrowed_by(&c)));
        prop_assert_eq!(a.narrowed_by(&a), a.clone());
        prop_assert_eq!(a.narrowed_by(&Rights::unlimited()), a.clone());
        let smaller = a.narrowed_by(&b);
        prop_assert!(smaller.narrowed_by(&c).is_within(&a.narrowed_by(&c)));
    }

    #[test]
    fn t9_a_call_is_permitted_by_the_meet_exactly_if_by_both(
        a in any_rights(), b in any_rights(), call in any_call()
    ) {
        let (scopes, tool, resources, class, at) = call;
        let need = RequiredRights { scopes: &scopes, tool, resources: &resources, class, at };
        prop_assert_eq!(permits(&a, &need), allowed_by_definition(&a, &need));
        prop_assert_eq!(permits(&a.narrowed_by(&b), &need), permits(&a, &need) && permits(&b, &need));
        if a.is_within(&b) && permits(&a, &need) {
            prop_assert!(permits(&b, &need));
        }
    }

    #[test]
    fn t9_every_delegation_is_within_its_parent(parent in any_rights(), steps in prop::collection::vec(any_narrowing(), 1..6)) {
        let mut rights = parent.clone();
        for step in steps {
            match rights.delegated(&step) {
                Err(DepthExhausted(())) => prop_assert_eq!(rights.depth_left, 0),
                Ok(child) => {
                    prop_assert!(rights.depth_left > 0 && child.depth_left < rights.depth_left);
                    prop_assert!(child.is_within(&rights) && child.is_within(&step.as_rights()));
                    rights = child;
                }
            }
        }
        prop_assert!(rights.is_within(&parent));
    }

    #[test]
    fn rights_survive_being_written(rights in any_rights(), narrowing in any_narrowing()) {
        let text = serde_json::to_string(&rights).unwrap();
        prop_assert_eq!(serde_json::from_str::<Rights>(&text).unwrap(), rights);
        let text = serde_json::to_string(&narrowing).unwrap();
        prop_assert_eq!(serde_json::from_str::<Narrowing>(&text).unwrap(), narrowing);
    }
}

#[test]
fn what_lacks_is_said_all_at_once() {
    let needed = scopes(&["billing:write", "hr:read", "hr:write"]);
    let resources = ["invoice/1".to_owned(), "payroll/9".to_owned()];
    let need = RequiredRights {
        scopes: &needed,
        tool: "hr.pay",
        resources: &resources,
        class: SideEffectClass::CriticalMutation,
        at: in_ms(86_400_000),
    };
    let lack = user_rights().lacks(&need).unwrap();
    assert_eq!(lack.scopes_missing, scopes(&["hr:read", "hr:write"]));
    assert_eq!(lack.scopes_needed, needed);
    assert_eq!(lack.tool.as_deref(), Some("hr.pay"));
    assert_eq!(lack.resources, ["payroll/9"]);
    assert_eq!(lack.ceiling, Some(SideEffectClass::HighRiskExternal));
    assert_eq!(lack.expired_at, Some(in_ms(86_400_000)));
    assert_eq!(
        lack.message(),
        "the credential does not cover this call: it expired at 2027-01-16T08:00:00.000Z; it lacks the scopes \
         `hr:read hr:write`; it is not for the tool `hr.pay`; it is not for 1 of the resources this call touches; it \
         allows nothing graver than HIGH_RISK_EXTERNAL"
    );
    assert!(!lack.message().contains("payroll"), "resources are made of arguments");
    assert!(!lack.only_scopes());
}

#[test]
fn missing_scopes_alone_are_to_be_asked_for_together() {
    let needed = scopes(&["billing:write", "hr:read"]);
    let need = RequiredRights {
        scopes: &needed,
        tool: "billing.pay",
        resources: &[],
        class: SideEffectClass::ReadOnly,
        at: NOW,
    };
    let lack = user_rights().lacks(&need).unwrap();
    assert!(lack.only_scopes());
    let token = CredentialMethod::AccessToken { issuer: "https://login.test".to_owned() };
    assert_eq!(lack.hint(&token), "ask the authorization server for the scopes `billing:write hr:read`");
    assert!(lack.hint(&CredentialMethod::ApiKey).starts_with("ask for a key with the scopes `billing:write hr:read`"));
    assert!(lack.hint(&CredentialMethod::AgentCredential).starts_with("get a wider credential"));
}

#[test]
fn patterns_cover_what_they_say() {
    let table = [
        ("invoice/*", "invoice/1", true),
        ("invoice/*", "invoice/1/lines", true),
        ("invoice/*", "invoice/*", true),
        ("invoice/*", "invoice", true),
        ("invoice/*", "invoices/1", false),
        ("invoice/*", "*", false),
        ("invoice/*", "invoice/../customer/1", false),
        ("invoice/*", "invoice/..\\customer", false),
        ("invoice/*", "invoice//1", false),
        ("invoice/1", "invoice/*", false),
        ("invoice/1", "invoice/10", false),
        ("*", "anything/../at all", true),
        ("book://*", "book://company", true),
        ("book://*", "book://company/1", true),
        ("book://*", "books://company", false),
        ("book://company", "book://company", true),
        ("book://company", "book://company/1", false),
        ("book://company/*", "book://company/1", true),
        ("book://company/*", "book://company2/1", false),
        ("book://company/*", "book://company/../rival/1", false),
        ("book://company/*", "book://company/%2e%2E/rival", false),
        ("book://company/*", "book://company/x%2f..%5c..%2Frival", false),
        ("book://company/*", "book://company//1", false),
        ("book://company/*", "book://company/100%25", true),
        ("book://company/*", "*", false),
        ("file:///home/*", "file:///home/ada", true),
        ("file:///home/*", "file://home/ada", false),
        ("file:///*", "file:///etc/passwd", true),
        ("file:///*", "file:////etc/passwd", false),
        ("servanda://company/*", "servanda://company/book://company", true),
        ("servanda://company/*", "servanda://company/file:///home", true),
        ("servanda://company/*", "servanda://rival/book://company", false),
        ("servanda://company/book://*", "servanda://company/book://company", true),
        ("servanda://company/book://*", "servanda://company/ledger://company", false),
    ];
    for (pattern, name, covered) in table {
        assert_eq!(ResourcePatterns::read(&[pattern]).unwrap().covers(name), covered, "{pattern} {name}");
    }
}

#[test]
fn text_that_is_no_pattern_is_refused_and_not_repeated() {
    for text in [
        "",
        "/",
        "/*",
        "a/*/b",
        "a*",
        "**",
        "a b",
        "a/",
        "a//b",
        "book:///",
        "book:////a",
        "book://a//b",
        "://a",
        "1://a",
        "book://%2e%2e/a",
        "book://a*",
        "a/../b",
        "..",
        "a\u{0}",
        "a\\..\\b",
        &"x".repeat(300),
    ] {
        let error = ResourcePatterns::read(&["ok", text]).unwrap_err();
        assert_eq!(error, InvalidNamePatterns::NotAPattern { index: 1, kind: "resource", separator: '/' }, "{text}");
    }
    assert_eq!(ToolPatterns::read(&vec!["a"; PATTERNS_MAX + 1]).unwrap_err(), InvalidNamePatterns::TooMany);
    for word in ["", "a b", "a\"", "a\\", "ä", &"x".repeat(129)] {
        assert_eq!(Scope::read(word), Err(InvalidScopeText::NotAScope), "{word}");
    }
    let many: Vec<String> = (0..=SCOPES_MAX).map(|number| number.to_string()).collect();
    assert_eq!(Scopes::from_words(many), Err(InvalidScopeText::TooMany));
}

#[test]
fn no_word_means_all_scopes() {
    for text in [r#"["all"]"#, r#"["*"]"#] {
        let scopes: Scopes = serde_json::from_str(text).unwrap();
        assert!(!Scopes::All.is_within(&scopes), "{text}");
    }
    assert!(serde_json::from_str::<Scopes>(r#""*""#).is_err());
    assert_eq!(serde_json::from_str::<Scopes>(r#""all""#).unwrap(), Scopes::All);
}

#[test]
fn rights_are_written_in_full_and_missing_members_are_no_rights() {
    golden_json("rights.json", &user_rights());
    golden_json("rights_unlimited.json", &Rights::unlimited());
    let whole = serde_json::to_value(user_rights()).unwrap();
    for name in whole.as_object().unwrap().keys() {
        let mut part = whole.clone();
        part.as_object_mut().unwrap().remove(name);
        assert!(serde_json::from_value::<Rights>(part).is_err(), "{name}");
    }
}
