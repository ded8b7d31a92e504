//! Whole flows against an authorization server that is a table.

use std::collections::BTreeMap;

use reqwest::Url;
use serde_json::json;

use super::*;
use crate::allowed_url::{Network, NetworkTrust};

const NOW: Timestamp = Timestamp::from_unix_ms(1_000);
const REDIRECT: &str = "http://127.0.0.1:1234/callback";

/// What the servers answer, and what they were sent.
struct Play {
    documents: BTreeMap<&'static str, Value>,
    /// Taken from the end.
    answers: Vec<(u16, Value)>,
    returned: String,
    told: Vec<String>,
}

fn stage() -> Play {
    let resource = json!({"resource": "https://mcp.test/mcp", "authorization_servers": ["https://as.test"], "scopes_supported": ["a"]});
    let server = json!({
        "issuer": "https://as.test",
        "authorization_endpoint": "https://as.test/authorize?prompt=consent",
        "token_endpoint": "https://as.test/token",
        "registration_endpoint": "https://as.test/register",
        "code_challenge_methods_supported": ["S256"],
        "scopes_supported": ["a", "offline_access"],
    });
    Play {
        documents: BTreeMap::from([
            ("https://mcp.test/.well-known/oauth-protected-resource/mcp", resource),
            ("https://as.test/.well-known/oauth-authorization-server", server),
        ]),
        answers: vec![(200, json!({"access_token": "t", "token_type": "Bearer"})), (201, json!({"client_id": "me"}))],
        returned: "code=c&state=st".to_owned(),
        told: Vec::new(),
    }
}

fn consent() -> GrantSource {
    GrantSource::Consent(ConsentSession {
        redirect: REDIRECT.to_owned(),
        state: Secret::from("st".to_owned()),
        verifier: Secret::from("v".to_owned()),
        earlier: None,
    })
}

fn plan(means: GrantSource) -> FlowPlan {
    FlowPlan { client: OauthClientConfig::default(), scopes: None, before: None, challenged: None, means }
}

impl Play {
    fn play(&mut self, plan: FlowPlan) -> Result<GrantedTokens, FlowError> {
        let known = DiscoveryInput {
            trust: NetworkTrust::new(Url::parse("https://mcp.test/mcp").unwrap(), Network::Public),
            challenged: true,
            resource_metadata: None,
            issuer: None,
        };
        let mut turn = TokenFlow::begin(plan, known, NOW)?;
        loop {
            let (flow, action) = match turn {
                FlowStep::Do(flow, action) => (flow, action),
                FlowStep::Granted(granted) => return Ok(*granted),
            };
            let event = match action {
                FlowAction::Fetch(place) => FlowEvent::Fetched(match self.documents.get(place.url().as_str()) {
                    Some(document) => DocumentFetch::Document(document.to_string().into_bytes()),
                    None => DocumentFetch::Nothing,
                }),
                FlowAction::Register(place, request) => {
                    self.told.push(format!("register {} {}", place.url(), request["redirect_uris"]));
                    self.answer()
                }
                FlowAction::OpenBrowser(address) => {
                    self.told.push(format!("show {address}"));
                    FlowEvent::Returned(self.returned.clone())
                }
                FlowAction::RequestToken(request) => {
                    self.told.push(format!("ask {} {}", request.address.url(), request.form.as_text().unwrap()));
                    self.answer()
                }
            };
            turn = flow.step(event, NOW)?;
        }
    }

    fn answer(&mut self) -> FlowEvent {
        let (status, body) = self.answers.pop().unwrap();
        FlowEvent::Answered { status, body: Secret::from(body.to_string()) }
    }
}

#[test]
fn a_user_agrees_and_a_token_is_issued() {
    let mut stage = stage();
    let granted = stage.play(plan(consent())).unwrap();
    assert_eq!((granted.client.id.as_str(), granted.tokens.access.as_text()), ("me", Some("t")));
    assert_eq!(granted.scopes.line().as_deref(), Some("a offline_access"));
    let expected = [
        "register https://as.test/register [\"http://127.0.0.1:1234/callback\"]",
        "show https://as.test/authorize?prompt=consent&response_type=code&client_id=me&\
         redirect_uri=http%3A%2F%2F127.0.0.1%3A1234%2Fcallback&state=st&\
         code_challenge=TJQJIodQt0S2XuOBZHw0Ra-GXulO8JuzgLujqFQrJQo&code_challenge_method=S256&\
         resource=https%3A%2F%2Fmcp.test%2Fmcp&scope=a+offline_access",
        "ask https://as.test/token grant_type=authorization_code&code=c&code_verifier=v&\
         redirect_uri=http%3A%2F%2F127.0.0.1%3A1234%2Fcallback&resource=https%3A%2F%2Fmcp.test%2Fmcp&client_id=me",
    ];
    assert_eq!(stage.told[0], expected[0]);
    assert_eq!(stage.told[2], expected[2]);
    let (before, after) = (&stage.told[1], expected[1]);
    let without =
        |text: &str| text.split('&').filter(|part| !part.starts_with("code_challenge=")).collect::<Vec<_>>().join("&");
    assert_eq!(without(before), without(after));
    assert!(before.contains(&format!("code_challenge={}", pkce::s256_challenge(&Secret::from("v".to_owned())))));
}

#[test]
fn a_client_of_one_issuer_is_not_shown_to_another() {
    let earlier = |issuer: &str| {
        let GrantSource::Consent(consent) = consent() else { unreachable!() };
        let client = OauthClient { id: "earlier".to_owned(), proof: crate::client::ClientAuthentication::None };
        plan(GrantSource::Consent(ConsentSession { earlier: Some((issuer.to_owned(), client)), ..consent }))
    };
    let mut same = stage();
    same.answers.pop();
    assert_eq!(same.play(earlier("https://as.test")).unwrap().client.id, "earlier");
    assert!(same.told[0].starts_with("show"), "{:?}", same.told);
    let mut moved = stage();
    assert_eq!(moved.play(earlier("https://old.test")).unwrap().client.id, "me");
    assert!(!moved.told.iter().any(|told| told.contains("earlier")), "{:?}", moved.told);
}

#[test]
fn nothing_is_sent_to_a_server_that_cannot_prove_codes() {
    for methods in [json!(null), json!([]), json!(["plain"])] {
        let mut stage = stage();
        let server = stage.documents.get_mut("https://as.test/.well-known/oauth-authorization-server").unwrap();
        server["code_challenge_methods_supported"] = methods;
        assert_eq!(stage.play(plan(consent())).unwrap_err(), FlowError::Unproven);
        assert!(stage.told.is_empty());
    }
}

#[test]
fn an_answer_that_is_not_for_us_never_becomes_a_token_request() {
    let table = [
        ("code=c&state=other", ConsentError::State),
        ("code=c&state=st&iss=https%3A%2F%2Fevil.test", ConsentError::Issuer),
        ("error=access_denied&state=st", ConsentError::Denied { word: "access_denied".to_owned() }),
    ];
    for (returned, expected) in table {
        let mut stage = stage();
        returned.clone_into(&mut stage.returned);
        assert_eq!(stage.play(plan(consent())).unwrap_err(), FlowError::NoConsent(expected));
        assert!(!stage.told.iter().any(|told| told.starts_with("ask")), "{:?}", stage.told);
    }
}

#[test]
fn a_step_up_asks_for_what_was_asked_before_as_well() {
    let mut stage = stage();
    let scopes = |line: &str| OauthScopes::read(line);
    let granted = stage.play(FlowPlan { before: scopes("a"), challenged: scopes("write"), ..plan(consent()) }).unwrap();
    assert_eq!(granted.scopes.line().as_deref(), Some("a offline_access write"));
}

#[test]
fn without_a_user_the_client_or_a_statement_stands_in() {
    let configured = OauthClientConfig { id: Some("me".to_owned()), ..OauthClientConfig::default() };
    let with = |means: GrantSource| FlowPlan { client: configured.clone(), ..plan(means) };
    let subject = || SubjectToken { token: Secret::from("s".to_owned()), kind: "k".to_owned() };
    let for_what = "scope=a&resource=https%3A%2F%2Fmcp.test%2Fmcp&client_id=me";
    let exchange =
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=s&subject_token_type=k";
    let bearer = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
    let table = [
        (GrantSource::ClientCredentials, format!("grant_type=client_credentials&{for_what}")),
        (GrantSource::Exchange(subject()), format!("{exchange}&{for_what}")),
        (GrantSource::Assertion(Secret::from("j".to_owned())), format!("{bearer}&assertion=j&{for_what}")),
    ];
    for (means, expected) in table {
        let mut stage = stage();
        stage.answers.pop();
        stage.play(with(means)).unwrap();
        assert_eq!(stage.told, [format!("ask https://as.test/token {expected}")]);
    }
    let trust = NetworkTrust::new(Url::parse("https://idp.test").unwrap(), Network::Public);
    let relay = RelayServer {
        subject: subject(),
        endpoint: trust.follow("https://idp.test/token").unwrap(),
        issuer: "https://idp.test".to_owned(),
        client: OauthClient { id: "there".to_owned(), proof: crate::client::ClientAuthentication::None },
    };
    let mut stage = stage();
    stage.answers.pop();
    stage.answers.push((200, json!({"access_token": "jag", "token_type": "N_A", "issued_token_type": ID_JAG})));
    stage.play(with(GrantSource::Relayed(Box::new(relay)))).unwrap();
    assert!(stage.told[0].starts_with(&format!("ask https://idp.test/token {exchange}&requested_token_type=")));
    assert!(stage.told[0].contains("&audience=https%3A%2F%2Fas.test&") && stage.told[0].ends_with("client_id=there"));
    assert_eq!(stage.told[1], format!("ask https://as.test/token {bearer}&assertion=jag&{for_what}"));
}

#[test]
fn nothing_is_taken_out_of_turn() {
    let known = DiscoveryInput {
        trust: NetworkTrust::new(Url::parse("https://mcp.test/mcp").unwrap(), Network::Public),
        challenged: true,
        resource_metadata: None,
        issuer: None,
    };
    let Ok(FlowStep::Do(flow, _)) = TokenFlow::begin(plan(consent()), known, NOW) else { panic!() };
    let stolen = flow.step(FlowEvent::Returned("code=c&state=st".to_owned()), NOW).unwrap_err();
    assert_eq!(stolen, FlowError::OutOfTurn);
}
