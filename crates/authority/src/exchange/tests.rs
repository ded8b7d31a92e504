//! Tables of exchanges: what is asked, granted and refused, and how.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    Secret,
    capability::RootKeys,
    rights::{ResourcePatterns, RightsDimension, ToolPatterns},
    testing::{NOW, any_narrowing, golden_json, in_ms, user, user_of, user_rights},
};

fn rules() -> ExchangeRules {
    ExchangeRules {
        targets: vec!["https://gateway.test/mcp".to_owned()],
        lifetime_ms_default: 900_000,
        lifetime_ms_max: 3_600_000,
    }
}

fn form(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(parameters).finish().into_bytes()
}

const GOOD: [(&str, &str); 4] = [
    ("grant_type", GRANT_TYPE),
    ("subject_token", "user-credential-canary"),
    ("subject_token_type", ACCESS_TOKEN_TYPE),
    ("servanda_terms", r#"{"agent":"planner"}"#),
];

/// A valid form with these parameters replaced or added; an empty value removes one.
fn with(changes: &[(&str, &str)]) -> Vec<u8> {
    let kept = GOOD.iter().filter(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
    form(&kept.chain(changes).copied().collect::<Vec<_>>())
}

fn asked(changes: &[(&str, &str)]) -> ExchangeRequest {
    ExchangeRequest::read(&with(changes)).unwrap()
}

fn decided(changes: &[(&str, &str)]) -> Result<Delegation, ExchangeError> {
    decide(&asked(changes), &user(user_rights()), None, &rules(), NOW)
}

/// Decides, delegates and verifies: the resulting agent.
fn minted(subject: &AuthenticatedCaller, delegation: Delegation) -> AuthenticatedCaller {
    let keys = RootKeys::new("k", BTreeMap::from([("k".to_owned(), Secret::new([7; 32]))])).unwrap();
    let made = keys.delegate(subject, delegation, NOW).unwrap();
    keys.verify(made.text.as_text().unwrap(), NOW).unwrap()
}

/// The resulting rights of the agent.
fn issued(subject: &AuthenticatedCaller, delegation: Delegation) -> Rights {
    minted(subject, delegation).rights().clone()
}

#[test]
fn forms_are_read() {
    let read = asked(&[
        ("actor_token", "agent-credential"),
        ("actor_token_type", JWT_TYPE),
        ("resource", "https://gateway.test/mcp"),
        ("audience", "https://gateway.test/mcp"),
        ("scope", "billing:read crm:read"),
        ("requested_token_type", ACCESS_TOKEN_TYPE),
        ("unknown", "is left alone"),
        ("servanda_terms", r#"{"lifetime_ms":60000,"narrowing":{"tools":["billing.*"],"budget":{"write":1}}}"#),
    ]);
    assert_eq!(read.subject_token.as_text(), Some("user-credential-canary"));
    assert_eq!(read.actor_token.unwrap().as_text(), Some("agent-credential"));
    assert_eq!(read.targets.len(), 2);
    assert_eq!(read.scopes, Some(Scopes::from_words(["billing:read", "crm:read"]).unwrap()));
    assert_eq!(read.terms.lifetime_ms, Some(60_000));
    assert_eq!(read.terms.narrowing.budget[&RightsDimension::Write], 1);
}

#[test]
fn forms_that_are_not_in_order_are_refused() {
    let many = "x=1&".repeat(40).into_bytes();
    let twice = [with(&[]), b"&subject_token=other".to_vec()].concat();
    let table: Vec<(Vec<u8>, ErrorCode)> = vec![
        (Vec::new(), ErrorCode::InvalidRequest),
        (vec![b'a'; FORM_BYTES_MAX + 1], ErrorCode::InvalidRequest),
        (many, ErrorCode::InvalidRequest),
        (twice, ErrorCode::InvalidRequest),
        (with(&[("grant_type", "password")]), ErrorCode::UnsupportedGrantType),
        (with(&[("subject_token", "")]), ErrorCode::InvalidRequest),
        (with(&[("subject_token_type", "")]), ErrorCode::InvalidRequest),
        (with(&[("subject_token_type", "urn:ietf:params:oauth:token-type:saml2")]), ErrorCode::InvalidRequest),
        (with(&[("actor_token", "a")]), ErrorCode::InvalidRequest),
        (with(&[("actor_token_type", JWT_TYPE)]), ErrorCode::InvalidRequest),
        (
            with(&[("requested_token_type", "urn:ietf:params:oauth:token-type:refresh_token")]),
            ErrorCode::InvalidRequest,
        ),
        (with(&[("scope", "a\"b")]), ErrorCode::InvalidScope),
        (with(&[("servanda_terms", r#"{"agent":"a","agent":"b"}"#)]), ErrorCode::InvalidRequest),
        (with(&[("servanda_terms", r#"{"widen":true}"#)]), ErrorCode::InvalidRequest),
        (with(&[("servanda_terms", "[")]), ErrorCode::InvalidRequest),
        (with(&[("resource", "a"); 9]), ErrorCode::InvalidRequest),
    ];
    for (form, expected) in table {
        let error = ExchangeRequest::read(&form).unwrap_err();
        assert_eq!(error.code(), expected, "{error}: {}", String::from_utf8_lossy(&form));
        assert_eq!(error.status(), 400);
        assert!(!format!("{error:?}{error}").contains("canary"));
    }
}

#[test]
fn what_nothing_is_said_about_is_the_subjects_for_the_usual_time() {
    let subject = user(user_rights());
    let rights = issued(&subject, decided(&[]).unwrap());
    let expected = Rights { expires_at: in_ms(900_000), depth_left: 2, ..user_rights() };
    assert_eq!(rights, expected);
}

#[test]
fn t9_what_is_given_is_asked_and_the_subjects() {
    let terms = r#"{"agent":"planner","lifetime_ms":999999999999,"narrowing":{"tools":["billing.pay","hr.*"],
        "resources":["*"],"ceiling":"CRITICAL_MUTATION","budget":{"write":500,"read":9},"depth_left":7}}"#;
    let delegation = decided(&[("scope", "billing:read"), ("servanda_terms", terms)]).unwrap();
    let rights = issued(&user(user_rights()), delegation);
    assert_eq!(
        rights,
        Rights {
            scopes: Scopes::from_words(["billing:read"]).unwrap(),
            tools: ToolPatterns::read(&["billing.pay"]).unwrap(),
            budget: [
                (RightsDimension::Write, 20),
                (RightsDimension::Read, 9),
                (RightsDimension::FinancialMicros, 5_000_000)
            ]
            .into(),
            expires_at: in_ms(3_600_000),
            depth_left: 2,
            ..user_rights()
        }
    );
}

#[test]
fn t9_more_than_the_subject_has_is_refused_all_at_once() {
    let error = decided(&[("scope", "billing:read hr:write hr:read")]).unwrap_err();
    assert_eq!(error, ExchangeError::Scope { missing: "hr:read hr:write".to_owned() });
    golden_json("exchange_error.json", &error.answer());
    let terms = r#"{"agent":"planner","narrowing":{"scopes":["billing:read","hr:read"]}}"#;
    let error = decided(&[("servanda_terms", terms)]).unwrap_err();
    assert_eq!(error, ExchangeError::Scope { missing: "hr:read".to_owned() }, "wherever it is asked for");
    for terms in
        [r#"{"agent":"planner","narrowing":{"tools":["hr.*"]}}"#, r#"{"agent":"planner","narrowing":{"scopes":[]}}"#]
    {
        assert_eq!(decided(&[("servanda_terms", terms)]).unwrap_err(), ExchangeError::NothingLeft);
    }
    let spent = user(Rights { depth_left: 0, ..user_rights() });
    let refused = decide(&asked(&[]), &spent, None, &rules(), NOW).unwrap_err();
    assert_eq!((refused.code(), refused), (ErrorCode::InvalidRequest, ExchangeError::Depth));
    let ada = user(user_rights());
    let late = decide(&asked(&[]), &ada, None, &rules(), in_ms(86_400_000)).unwrap_err();
    assert_eq!(late, ExchangeError::Lifetime);
}

#[test]
fn t8_credentials_are_made_for_this_server_only() {
    assert!(decided(&[("resource", "https://gateway.test/mcp")]).is_ok());
    let both = [("resource", "https://gateway.test/mcp"), ("audience", "https://other.test")];
    let error = decided(&both).unwrap_err();
    assert_eq!((error.code(), error), (ErrorCode::InvalidTarget, ExchangeError::Target { index: 1 }));
}

#[test]
fn who_acts_is_proven_or_named_and_of_the_same_tenant() {
    let ada = user(user_rights());
    let actor_form = [("actor_token", "a"), ("actor_token_type", JWT_TYPE), ("servanda_terms", "")];
    let narrow =
        Rights { tools: ToolPatterns::read(&["billing.read.*"]).unwrap(), scopes: Scopes::none(), ..user_rights() };
    let bot = user_of("acme", "bot", narrow);
    let delegation = decide(&asked(&actor_form), &ada, Some(&bot), &rules(), NOW).unwrap();
    assert_eq!((delegation.actor.name(), delegation.actor.is_proven()), ("bot", true));
    assert!(!decided(&[]).unwrap().actor.is_proven(), "only named");
    assert_eq!(delegation.actor_lineage, bot.lineage());
    assert_eq!(delegation.actor_budgets, bot.budgets(), "what it draws for others is drawn under its own credential");
    let rights = issued(&ada, delegation);
    assert_eq!(rights.tools, ToolPatterns::read(&["billing.read.*"]).unwrap(), "the agent's own limits bind");
    assert_eq!(rights.scopes, user_rights().scopes, "scopes are the user's to give");

    let stranger = user_of("globex", "bot", user_rights());
    assert_eq!(decide(&asked(&actor_form), &ada, Some(&stranger), &rules(), NOW).unwrap_err(), ExchangeError::Actor);
    let keys = RootKeys::new("k", BTreeMap::from([("k".to_owned(), Secret::new([7; 32]))])).unwrap();
    let made = keys.delegate(&bot, decided(&[]).unwrap(), NOW).unwrap();
    let for_bot = keys.verify(made.text.as_text().unwrap(), NOW).unwrap();
    assert_eq!(decide(&asked(&actor_form), &ada, Some(&for_bot), &rules(), NOW).unwrap_err(), ExchangeError::Actor);
    let renamed = [actor_form[0], actor_form[1], ("servanda_terms", r#"{"agent":"planner"}"#)];
    assert_eq!(decide(&asked(&renamed), &ada, Some(&bot), &rules(), NOW).unwrap_err(), ExchangeError::Actor);
    assert_eq!(decided(&[("servanda_terms", "")]).unwrap_err(), ExchangeError::Actor);
    // An actor token that was shown but not checked does not prove a name.
    assert_eq!(decide(&asked(&renamed), &ada, None, &rules(), NOW).unwrap_err(), ExchangeError::Actor);
    assert_eq!(decided(&[("servanda_terms", r#"{"agent":"a\nb"}"#)]).unwrap_err(), ExchangeError::Actor);
}

#[test]
fn the_answer_is_golden() {
    let subject = user(user_rights());
    let keys = RootKeys::new("k", BTreeMap::from([("k".to_owned(), Secret::new([7; 32]))])).unwrap();
    let made = keys.delegate(&subject, decided(&[("scope", "billing:read")]).unwrap(), NOW).unwrap();
    let answer = ExchangeAnswer::for_credential(&made, NOW).unwrap();
    let mut value = serde_json::to_value(&answer).unwrap();
    assert_eq!(value["access_token"], json!(made.text.as_text().unwrap()));
    value["access_token"] = json!("(the credential)");
    golden_json("exchange_answer.json", &value);
    assert!(!format!("{answer:?}").contains("sva1"));
}

proptest! {
    #[test]
    fn t9_no_exchange_gives_more_than_the_subject_or_the_actor_has(
        narrowing in any_narrowing(),
        subject_narrowing in any_narrowing(),
        actor_narrowing in any_narrowing(),
    ) {
        let alive = |narrowing: &crate::Narrowing| {
            let rights = user_rights().narrowed_by(&narrowing.as_rights());
            Rights { tools: narrowing.as_rights().tools, expires_at: in_ms(5000), depth_left: 2, ..rights }
        };
        let (subject, actor) = (user(alive(&subject_narrowing)), user_of("acme", "bot", alive(&actor_narrowing)));
        let request = ExchangeRequest { terms: TokenExchangeTerms { narrowing, ..TokenExchangeTerms::default() }, ..asked(&[]) };
        if let Ok(delegation) = decide(&request, &subject, Some(&actor), &rules(), NOW) {
            let found = minted(&subject, delegation);
            for of in [&subject, &actor] {
                prop_assert!(of.budgets().iter().all(|budget| found.budgets().contains(budget)), "drawn there too");
            }
            let rights = found.rights();
            prop_assert!(rights.is_within(subject.rights()));
            prop_assert!(rights.tools.is_within(&actor.rights().tools));
            prop_assert!(rights.resources.is_within(&ResourcePatterns::all().narrowed_by(&actor.rights().resources)));
            prop_assert!(rights.ceiling <= actor.rights().ceiling && rights.expires_at <= actor.rights().expires_at);
            prop_assert!(rights.depth_left <= actor.rights().depth_left);
        }
    }
}
