//! People who sign in through an identity provider: who they are, what they may do, and when their sessions end.

use http::{HeaderValue, Method, StatusCode, header};
use serde_json::json;
use servanda_authn::{AuthnSettings, ProviderSettings, revocation};
use servanda_authority::CredentialId;
use servanda_contract::{time::Clock as _, tool::Presence};
use servanda_doors::http::Authenticator as _;
use servanda_effects::{NoteKind, Notebook as _};

use crate::{
    browser::{Browser, HOST, Page},
    fixture::{Gateway, RESOURCE, Users, Wanted, many},
    identity_provider::IdentityProvider,
};

/// A gateway whose people sign in through a provider.
pub(crate) struct Company {
    pub(crate) gateway: Gateway,
    pub(crate) provider: IdentityProvider,
}

impl Company {
    pub(crate) async fn new() -> Self {
        let gateway = Gateway::at(Users::Many, Some(format!("http://{HOST}")));
        let provider = IdentityProvider::start(gateway.clock.clone()).await;
        let company = Self { gateway, provider };
        company.use_settings(|_| {});
        company
    }

    pub(crate) fn use_settings(&self, change: impl FnOnce(&mut ProviderSettings)) {
        let mut settings = self.provider.settings();
        change(&mut settings);
        self.gateway.authenticator.replace(many(Some(settings), Vec::new()));
    }

    /// A person's browser that has begun to sign in, and the address at the provider to which it is sent.
    pub(crate) async fn begun(&self, next: &str) -> (Browser, String) {
        let mut browser = Browser::new(&self.gateway);
        let address = begin(&mut browser, next).await;
        (browser, address)
    }

    /// What comes of a person who agrees at the provider.
    pub(crate) async fn answered(&self, person: &str) -> (Browser, Page) {
        let (mut browser, address) = self.begun("/approvals").await;
        let page = come_back(&mut browser, &self.provider.agree(&address, person)).await;
        (browser, page)
    }

    pub(crate) async fn signed_in(&self, person: &str) -> Browser {
        let (browser, page) = self.answered(person).await;
        assert_eq!((page.status, page.location()), (StatusCode::SEE_OTHER, "/approvals"), "{}", page.html);
        assert!(browser.cookie.is_some() && browser.attempt.is_none());
        browser
    }
}

/// Begins to sign in, as the page's form does.
pub(crate) async fn begin(browser: &mut Browser, next: &str) -> String {
    let ways = browser.get(&format!("/sign-in?next={next}")).await;
    let page = browser.submit(&ways.form_to("/sign-in/oidc"), &[]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.html);
    assert!(browser.attempt.is_some());
    page.refresh()
}

/// Comes back from the provider, in the two steps that a browser makes.
pub(crate) async fn come_back(browser: &mut Browser, query: &str) -> Page {
    let arrival = browser.arrive(&format!("/sign-in/oidc/answer?{query}")).await;
    assert_eq!(arrival.status, StatusCode::OK, "{}", arrival.html);
    browser.get(&arrival.refresh()).await
}

#[tokio::test]
async fn a_person_signs_in_and_approves_and_is_recorded() {
    let company = Company::new().await;
    let ticket = company.gateway.open(Wanted::default()).await;
    let path = format!("/approvals/{}", ticket.id);
    let mut ways = Browser::new(&company.gateway);
    let shown = ways.get("/sign-in").await.html;
    assert!(shown.contains("Sign in with Acme") && shown.contains("Or use a key"), "{shown}");
    let (mut browser, address) = company.begun(&path).await;
    for part in [
        "client_id=console",
        "scope=openid+groups",
        "redirect_uri=http%3A%2F%2F127.0.0.1%3A7332%2Fsign-in%2Foidc%2Fanswer",
    ] {
        assert!(address.contains(part), "{part}: {address}");
    }
    assert!(!address.contains("prompt="), "the first time nobody is asked again");
    let page = come_back(&mut browser, &company.provider.agree(&address, "ben")).await;
    assert_eq!((page.status, page.location()), (StatusCode::SEE_OTHER, path.as_str()));
    let form = browser.get(&path).await.form("approve");
    let decided = browser.submit(&form, &[]).await;
    assert!(decided.status.is_success() || decided.status.is_redirection(), "{}", decided.html);
    let ticket = company.gateway.ticket(&ticket.id).await;
    let decision = &ticket.decisions[0];
    let recorded = serde_json::to_string(decision).unwrap();
    assert!(recorded.contains("\"ben\"") && recorded.contains("console:oidc:"), "{recorded}");
    let notes =
        company.gateway.notebook.list(NoteKind::ConsoleSession, "", 100, company.gateway.clock.now()).await.unwrap();
    for secret in ["code-1", "access-1"] {
        assert!(!format!("{notes:?}").contains(secret), "the store has no token and no code");
    }
}

#[tokio::test]
async fn groups_of_the_provider_give_roles() {
    let company = Company::new().await;
    let ticket = company.gateway.open(Wanted { groups: &["finance"], ..Wanted::default() }).await;
    let path = format!("/approvals/{}", ticket.id);
    for (person, sees, decides) in
        [("fay", true, true), ("vera", true, false), ("ben", true, false), ("otto", false, false)]
    {
        let mut browser = company.signed_in(person).await;
        let page = browser.get(&path).await;
        assert_eq!(page.status == StatusCode::OK, sees, "{person}");
        assert_eq!(page.has_form("approve"), decides, "{person}");
        // Also without the page's form: a viewer who makes one up.
        let payload = ticket.subject.payload.to_string();
        let forged = browser.post(&path, &[("verdict", "approve"), ("payload", &payload), ("form_token", "x")]).await;
        assert!(forged.status.is_client_error(), "{person}: {}", forged.status);
    }
    assert_eq!(company.gateway.ticket(&ticket.id).await.decisions.len(), 0);
}

#[tokio::test]
async fn the_owner_of_an_agent_is_the_same_person_at_the_doors_and_in_the_console() {
    let company = Company::new().await;
    let provider = &company.provider;
    let settings = many(Some(provider.settings()), vec![provider.issuer_settings(RESOURCE)]);
    company.gateway.authenticator.replace(settings);
    let admit = async |token: &str| {
        let header = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        company.gateway.authenticator.admit(Some(&header)).await
    };
    let agent = admit(&provider.access_token(RESOURCE, "ada")).await.unwrap();
    let principal = agent.principal().to_owned();
    assert_eq!(agent.tenant(), "acme");
    let ticket = company.gateway.open(Wanted { principal, ..Wanted::default() }).await;
    let path = format!("/approvals/{}", ticket.id);
    let mut ada = company.signed_in("ada").await;
    let page = ada.get(&path).await;
    assert!(page.status == StatusCode::OK && !page.has_form("approve"), "her own agent's request");
    let mut ben = company.signed_in("ben").await;
    assert!(ben.get(&path).await.has_form("approve"));
    // What signs people in opens no door for agents: an ID token is for the console's client.
    let id_token_like = provider.access_token(crate::identity_provider::CLIENT, "ada");
    assert!(admit(&id_token_like).await.is_err());
}

#[tokio::test]
async fn a_sign_in_is_fresh_only_if_the_provider_asked_again() {
    let company = Company::new().await;
    let ticket = company.gateway.open(Wanted { presence: Presence::Fresh, ..Wanted::default() }).await;
    let path = format!("/approvals/{}", ticket.id);
    // Nobody asked, so that what the provider says about its own session does not count.
    let now_s = company.gateway.clock_ms() / 1000;
    company.provider.claim(json!({"auth_time": now_s}));
    let mut ben = company.signed_in("ben").await;
    let page = ben.get(&path).await;
    assert!(!page.has_form("approve") && page.html.contains("Sign in again"), "{}", page.html);
    // Again: the provider is told to ask, and must say that it did.
    let address = begin(&mut ben, &path).await;
    assert!(address.contains("&prompt=login&max_age=0"), "{address}");
    for claims in [json!({"auth_time": null}), json!({"auth_time": now_s - 3600}), json!({"auth_time": now_s + 3600})] {
        company.provider.claim(claims.clone());
        let address = begin(&mut ben, &path).await;
        let page = come_back(&mut ben, &company.provider.agree(&address, "ben")).await;
        assert!(
            page.status == StatusCode::FORBIDDEN && page.html.contains("not_asked_again"),
            "{claims}: {}",
            page.html
        );
        assert!(!ben.get(&path).await.has_form("approve"), "the session is as old as before");
    }
    company.provider.claim(json!({}));
    let before = ben.cookie.clone();
    let address = begin(&mut ben, &path).await;
    let page = come_back(&mut ben, &company.provider.agree(&address, "ben")).await;
    assert_eq!(page.location(), path, "{}", page.html);
    let mut earlier = Browser { cookie: before, ..ben.clone() };
    assert_eq!(earlier.get(&path).await.status, StatusCode::SEE_OTHER, "the session of before has ended");
    assert!(ben.get(&path).await.has_form("approve"));
    company.gateway.clock.pass_ms(5 * 60_000 + 2_000);
    assert!(!ben.get(&path).await.has_form("approve"), "five minutes later it is not fresh any more");
}

#[tokio::test]
async fn a_session_ends_with_what_opened_it() {
    let company = Company::new().await;
    let is_open = async |browser: &mut Browser| browser.get("/approvals").await.status == StatusCode::OK;
    // Settings that say who a person is end it; others do not.
    let mut ben = company.signed_in("ben").await;
    company.use_settings(|settings| settings.name = "Another name".to_owned());
    assert!(is_open(&mut ben).await);
    company.use_settings(|settings| settings.issuer.issuer.groups_claim = None);
    assert!(!is_open(&mut ben).await, "its groups were read from another claim");
    company.use_settings(|_| {});
    assert!(!is_open(&mut ben).await, "it does not come back");
    // Without a provider, and without credentials.
    for settings in [many(None, Vec::new()), AuthnSettings::Local] {
        let mut ben = company.signed_in("ben").await;
        company.gateway.authenticator.replace(settings);
        assert!(!is_open(&mut ben).await);
        company.use_settings(|_| {});
    }
}

#[tokio::test]
async fn a_sign_in_is_revoked_by_the_id_that_decisions_have_on_record() {
    let company = Company::new().await;
    let is_open = async |browser: &mut Browser| browser.get("/approvals").await.status == StatusCode::OK;
    let mut ben = company.signed_in("ben").await;
    let mut cleo = company.signed_in("cleo").await;
    let id = sign_in_of(&company, "ben").await;
    let revoked = revocation::Revocation { at: company.gateway.clock.now(), by: "olga".to_owned() };
    revocation::revoke(company.gateway.notebook.as_ref(), &id, &revoked).await.unwrap();
    assert!(!is_open(&mut ben).await && is_open(&mut cleo).await);
}

#[tokio::test]
async fn a_session_lasts_as_long_as_the_operator_says() {
    let company = Company::new().await;
    let is_open = async |browser: &mut Browser| browser.get("/approvals").await.status == StatusCode::OK;
    company.use_settings(|settings| settings.session_ms_max = 20 * 60_000);
    let mut fay = company.signed_in("fay").await;
    company.gateway.clock.pass_ms(20 * 60_000 - 5_000);
    assert!(is_open(&mut fay).await);
    company.gateway.clock.pass_ms(5_000);
    assert!(!is_open(&mut fay).await);
}

/// The id of the last sign-in of a person.
async fn sign_in_of(company: &Company, person: &str) -> CredentialId {
    let now = company.gateway.clock.now();
    let notes = company.gateway.notebook.list(NoteKind::ConsoleSession, "", 1_000, now).await.unwrap();
    let is_theirs = |value: &serde_json::Value| value["principal"] == person;
    let records = notes.iter().filter_map(|note| serde_json::from_str::<serde_json::Value>(&note.value).ok());
    let records = records.filter(is_theirs);
    let latest = records.max_by_key(|record| record["created_at"].to_string()).unwrap();
    CredentialId::read(latest["method"]["provider"]["sign_in"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn the_providers_keys_change_while_people_sign_in() {
    let company = Company::new().await;
    company.signed_in("ben").await;
    let asked = company.provider.asked("/keys");
    company.signed_in("ben").await;
    assert_eq!(company.provider.asked("/keys"), asked, "known keys are not fetched again");
    // Another key, of another kind: its id is unknown, so that the set is fetched again, at most every five seconds.
    company.provider.publish(&["rsa-1", "ec-2"]);
    company.provider.sign_with("ec-2");
    company.gateway.clock.pass_ms(5_000);
    company.signed_in("ben").await;
    assert_eq!(company.provider.asked("/keys"), asked + 1);
    // Tokens with unknown ids do not make the gateway ask again and again.
    company.provider.head(json!({"kid": "unknown"}));
    for _ in 0..5 {
        let (_, page) = company.answered("ben").await;
        assert!(page.html.contains("unknown_key"), "{}", page.html);
    }
    assert!(company.provider.asked("/keys") <= asked + 2);
    // A key that the provider withdrew signs nobody in once the set is fetched again.
    company.provider.head(json!({}));
    company.provider.publish(&["ec-2"]);
    company.provider.sign_with("rsa-1");
    company.gateway.clock.pass_ms(600_000);
    // The known set is used while it is fetched again.
    for _ in 0..20 {
        let (_, page) = company.answered("ben").await;
        if page.html.contains("unknown_key") {
            break;
        }
    }
    let (_, page) = company.answered("ben").await;
    assert!(page.html.contains("unknown_key"), "{}", page.html);
}

#[tokio::test]
async fn a_provider_that_was_known_may_be_away_for_a_while() {
    let company = Company::new().await;
    company.signed_in("ben").await;
    let (mut browser, address) = company.begun("/approvals").await;
    let query = company.provider.agree(&address, "ben");
    company.provider.change("/.well-known/openid-configuration", |answer| answer.status = 500);
    company.gateway.clock.pass_ms(9 * 60_000);
    assert_eq!(come_back(&mut browser, &query).await.location(), "/approvals");
    company.gateway.clock.pass_ms(5 * 60_000);
    company.signed_in("ben").await;
    company.gateway.clock.pass_ms(6 * 3_600_000);
    let mut late = Browser::new(&company.gateway);
    let ways = late.get("/sign-in").await;
    let asked = company.provider.asked("/.well-known/openid-configuration");
    for _ in 0..10 {
        let page = late.submit(&ways.form_to("/sign-in/oidc"), &[]).await;
        assert!(page.html.contains("provider_unreachable") && late.attempt.is_none(), "{}", page.html);
    }
    let asked_again = company.provider.asked("/.well-known/openid-configuration") - asked;
    // The keys, which are fetched by themselves, may have asked for it once more.
    assert!((1..=2).contains(&asked_again), "it is not asked for every person: {asked_again}");
    let page = late.get("/sign-in").await;
    assert!(page.html.contains("Or use a key"), "people sign in with keys meanwhile");
}

#[tokio::test]
async fn signing_out_ends_the_session() {
    let company = Company::new().await;
    let mut ben = company.signed_in("ben").await;
    let form = ben.get("/approvals").await.form_to("/sign-out");
    assert_eq!(ben.submit(&form, &[]).await.location(), "/sign-in");
    assert!(ben.cookie.is_none());
}

#[tokio::test]
async fn a_passkey_is_registered_in_a_session_that_a_key_opened() {
    let company = Company::new().await;
    let mut browser = company.signed_in("ben").await;
    browser.host = crate::browser::OWN_NAME;
    let page = browser.get("/passkeys").await;
    assert!(page.html.contains("A passkey is registered in a session that a key opened"), "{}", page.html);
}

#[tokio::test]
async fn where_no_provider_is_configured_there_is_no_way_to_one() {
    for users in [Users::One, Users::Many] {
        let gateway = Gateway::new(users);
        let mut browser = Browser::new(&gateway);
        assert!(!browser.get("/sign-in").await.html.contains("/sign-in/oidc"));
        assert_eq!(browser.post("/sign-in/oidc", &[]).await.status, StatusCode::NOT_FOUND);
        let page = browser.get("/sign-in/oidc/answer?code=x&state=y&arrived=1").await;
        assert_eq!(page.status, StatusCode::FORBIDDEN);
        let looked = browser.send(Method::HEAD, "/sign-in/oidc/answer?code=x", &[], String::new()).await;
        assert_eq!((looked.status, looked.header(header::ALLOW)), (StatusCode::METHOD_NOT_ALLOWED, Some("GET")));
    }
}
