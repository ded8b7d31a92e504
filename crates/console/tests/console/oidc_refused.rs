//! Attacks on the way through the identity provider, and its mistakes: each is refused, with the reason's name on the page and in the log.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    browser::{Browser, Page},
    fixture::Wanted,
    identity_provider::{IdentityProvider, ProviderAnswer},
    oidc::{Company, begin, come_back},
};

/// What the provider's document says instead, by its issuer.
type Document = fn(&str) -> Value;
/// How the provider answers instead.
type Change = fn(&mut ProviderAnswer);
/// What the provider does wrong.
type Mistake = fn(&IdentityProvider);

/// Nobody is signed in, and page and log say why.
#[track_caller]
fn assert_refused(what: &str, browser: &Browser, page: &Page, reason: &str) {
    assert!(browser.cookie.is_none(), "{what}: a session");
    assert_eq!(page.status, StatusCode::FORBIDDEN, "{what}: {}", page.html);
    assert!(page.html.contains("You are not signed in"), "{what}: {}", page.html);
    assert!(page.html.contains(&format!("(Reason: {reason}")), "{what}: {}", page.html);
    let logged = page.wrong_credential.as_deref().unwrap_or_default();
    assert!(logged.contains(&format!("signs nobody in: {reason}")), "{what}: {logged}");
    for secret in ["code-1", "access-1", "eyJ", "prose of the provider"] {
        assert!(!logged.contains(secret) && !page.html.contains(secret), "{what}: {secret}");
    }
}

#[tokio::test]
async fn what_an_id_token_says_wrong_is_named() {
    let hour = 3_600;
    let company = Company::new().await;
    let now_s = company.gateway.clock_ms() / 1000;
    let table: Vec<(&str, Value, &str)> = vec![
        ("no nonce", json!({"nonce": null}), "wrong_nonce"),
        ("the nonce of another sign-in", json!({"nonce": "another"}), "wrong_nonce"),
        ("for another client", json!({"aud": "other"}), "wrong_audience"),
        ("for agents' doors", json!({"aud": "http://127.0.0.1/mcp"}), "wrong_audience"),
        ("for several clients", json!({"aud": ["console", "other"]}), "wrong_client"),
        ("asked for by another client", json!({"azp": "other"}), "wrong_client"),
        ("of another issuer", json!({"iss": "https://evil.test"}), "wrong_issuer"),
        ("expired", json!({"iat": now_s - hour, "exp": now_s - 60}), "expired"),
        ("without an end", json!({"exp": null}), "missing_claim"),
        ("of the future", json!({"iat": now_s + hour, "exp": now_s + 2 * hour}), "not_valid_yet"),
        ("not valid yet", json!({"nbf": now_s + hour}), "not_valid_yet"),
        ("without a subject", json!({"sub": null}), "missing_claim"),
        ("with groups elsewhere", json!({"groups": null, "_claim_names": {"groups": "src"}}), "missing_claim"),
        ("with another access token", json!({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}), "wrong_at_hash"),
    ];
    for (what, claims, reason) in table {
        company.provider.claim(claims);
        let (browser, page) = company.answered("ben").await;
        assert_refused(what, &browser, &page, reason);
    }
    company.provider.claim(json!({}));
    company.signed_in("ben").await;
}

#[tokio::test]
async fn an_id_token_that_the_provider_did_not_sign_is_named() {
    let table: [(&str, Mistake, &str); 9] = [
        (
            "alg none",
            |provider| {
                provider.head(json!({"alg": "none"}));
                provider.sign_nothing();
            },
            "wrong_algorithm",
        ),
        ("a shared secret", |provider| provider.head(json!({"alg": "HS256"})), "wrong_algorithm"),
        ("an algorithm that is not allowed", |provider| provider.head(json!({"alg": "PS256"})), "wrong_algorithm"),
        ("no signature", IdentityProvider::sign_nothing, "wrong_signature"),
        ("an unknown key", |provider| provider.sign_with("stolen"), "unknown_key"),
        (
            "another key under a known id",
            |provider| {
                provider.publish(&["rsa-1", "ec-2"]);
                provider.sign_with("stolen");
                provider.head(json!({"kid": "ec-2"}));
            },
            "wrong_signature",
        ),
        (
            "a key that the token brings along",
            |provider| {
                provider.sign_with("stolen");
                provider.head(json!({"kid": "rsa-1", "jwk": {"kty": "EC"}, "jku": "http://127.0.0.1:1/keys"}));
            },
            "unknown_key",
        ),
        ("an access token", |provider| provider.head(json!({"typ": "at+jwt"})), "not_an_id_token"),
        ("an unknown extension", |provider| provider.head(json!({"crit": ["x"]})), "malformed_id_token"),
    ];
    for (what, mistake, reason) in table {
        let company = Company::new().await;
        mistake(&company.provider);
        let (browser, page) = company.answered("ben").await;
        assert_refused(what, &browser, &page, reason);
    }
}

#[tokio::test]
async fn what_comes_back_through_the_browser_is_held_against_the_attempt() {
    let company = Company::new().await;
    let (mut browser, address) = company.begun("/approvals").await;
    let good = company.provider.agree(&address, "ben");
    let issuer = form_urlencoded::byte_serialize(company.provider.issuer.as_bytes()).collect::<String>();
    let table = [
        ("another state", good.replace("state=", "state=x"), "wrong_state"),
        ("no state", good.replace("state=", "other="), "wrong_state"),
        ("two states", format!("{good}&state=x"), "malformed_answer"),
        ("another issuer (mix-up)", good.replace(&issuer, "https%3A%2F%2Fevil.test"), "wrong_issuer"),
        ("no issuer although the provider promised it", good.replace("&iss=", "&other="), "wrong_issuer"),
        ("two codes", format!("{good}&code=x"), "malformed_answer"),
        ("no code", good.replace("code=", "other="), "malformed_answer"),
        ("too long", format!("{good}&x={}", "x".repeat(9 << 10)), "malformed_answer"),
    ];
    for (what, query, reason) in table {
        let page = browser.get(&format!("/sign-in/oidc/answer?{query}&arrived=1")).await;
        assert_refused(what, &browser, &page, reason);
    }
    // None of that used the attempt up.
    assert_eq!(come_back(&mut browser, &good).await.location(), "/approvals");
}

#[tokio::test]
async fn an_answer_is_for_the_browser_that_began() {
    let company = Company::new().await;
    let (_attacker, address) = company.begun("/approvals").await;
    let of_attacker = company.provider.agree(&address, "otto");
    // Login CSRF: the attacker's answer in a browser that has not begun, and in one that has.
    let mut victim = Browser::new(&company.gateway);
    let page = come_back(&mut victim, &of_attacker).await;
    assert_refused("a browser that has not begun", &victim, &page, "other_browser");
    let (mut victim, _) = company.begun("/approvals").await;
    let page = come_back(&mut victim, &of_attacker).await;
    assert_refused("a browser that has begun", &victim, &page, "wrong_state");
    // The victim's code, brought in under the attacker's own state: it is bound to the victim's verifier.
    let (mut attacker, address) = company.begun("/approvals").await;
    let own = company.provider.agree(&address, "otto");
    let (_, victims_address) = company.begun("/approvals").await;
    let stolen = company.provider.agree(&victims_address, "ben");
    let code = |query: &str| query.split('&').find(|pair| pair.starts_with("code=")).unwrap().to_owned();
    let page = come_back(&mut attacker, &own.replace(&code(&own), &code(&stolen))).await;
    assert_refused("a stolen code", &attacker, &page, "code_refused, invalid_grant");
    // A cookie that the gateway did not give.
    let mut forged = Browser { attempt: Some(format!("__Host-servanda-sign-in={}", "A".repeat(43))), ..attacker };
    let page = come_back(&mut forged, &own).await;
    assert_refused("a forged cookie", &forged, &page, "no_attempt");
}

#[tokio::test]
async fn an_answer_counts_once_and_for_ten_minutes() {
    let company = Company::new().await;
    let (mut browser, address) = company.begun("/approvals").await;
    let query = company.provider.agree(&address, "ben");
    let again = browser.clone();
    assert_eq!(come_back(&mut browser, &query).await.location(), "/approvals");
    let mut again = Browser { cookie: None, ..again };
    let page = come_back(&mut again, &query).await;
    assert_refused("the answer again", &again, &page, "no_attempt");
    // At the same time: the provider gives every request another code.
    let (browser, address) = company.begun("/approvals").await;
    let attempts = (0..20).map(|_| {
        let (mut browser, query) = (browser.clone(), company.provider.agree(&address, "ben"));
        tokio::spawn(async move { browser.get(&format!("/sign-in/oidc/answer?{query}&arrived=1")).await.status })
    });
    let attempts: Vec<_> = attempts.collect();
    let mut opened = 0;
    for attempt in attempts {
        opened += usize::from(attempt.await.unwrap() == StatusCode::SEE_OTHER);
    }
    assert_eq!(opened, 1);
    let (mut late, address) = company.begun("/approvals").await;
    let query = company.provider.agree(&address, "ben");
    company.gateway.clock.pass_ms(10 * 60_000);
    let page = come_back(&mut late, &query).await;
    assert_refused("after ten minutes", &late, &page, "no_attempt");
}

#[tokio::test]
async fn an_answer_to_an_attempt_under_other_settings_signs_nobody_in() {
    let company = Company::new().await;
    let (mut changed, address) = company.begun("/approvals").await;
    let query = company.provider.agree(&address, "ben");
    company.use_settings(|settings| settings.issuer.issuer.principal_prefix = "x|".to_owned());
    let page = come_back(&mut changed, &query).await;
    assert_refused("after a change of the settings", &changed, &page, "other_settings");
}

#[tokio::test]
async fn what_the_provider_refuses_is_told_without_its_prose() {
    let company = Company::new().await;
    for (error, reason, said) in [
        ("access_denied", "refused_by_provider, access_denied", "did not let you sign in here"),
        ("login_required", "refused_by_provider, login_required", "wants to ask you something first"),
        ("temporarily_unavailable", "refused_by_provider, temporarily_unavailable", "Try again in a few minutes"),
        ("unauthorized_client", "refused_by_provider, unauthorized_client", "Tell an operator"),
        ("%3Cscript%3Ealert(1)%3C%2Fscript%3E", "refused_by_provider, without a reason", "Tell an operator"),
    ] {
        let (mut browser, address) = company.begun("/approvals").await;
        let answer = company.provider.agree(&address, "ben");
        let kept = answer.split('&').filter(|pair| !pair.starts_with("code=")).collect::<Vec<_>>().join("&");
        let query = format!("error={error}&error_description=prose%20of%20the%20provider&{kept}");
        let page = come_back(&mut browser, &query).await;
        assert_refused(error, &browser, &page, reason);
        assert!(page.html.contains(said) && !page.html.contains("<script>"), "{}", page.html);
    }
}

#[tokio::test]
async fn a_token_endpoint_that_answers_wrong_is_named() {
    let issue = |body: Value| move |answer: &mut ProviderAnswer| answer.body = body.to_string();
    let company = Company::new().await;
    let refused = async |what: &str, reason: &str| {
        let (browser, page) = company.answered("ben").await;
        assert_refused(what, &browser, &page, reason);
    };
    company.provider.change("/token", issue(json!({"access_token": "a", "token_type": "Bearer"})));
    refused("no ID token", "no_id_token").await;
    company.provider.change("/token", issue(json!({"access_token": "a", "token_type": "Bearer", "id_token": "a.b.c"})));
    refused("no token at all", "malformed_id_token").await;
    company.provider.change("/token", issue(json!({"access_token": "a", "token_type": "mac", "id_token": "a.b.c"})));
    refused("another kind of token", "malformed_tokens").await;
    company.provider.change("/token", |answer| answer.body = "<html>".to_owned());
    refused("a page", "malformed_tokens").await;
    company.provider.change("/token", |answer| answer.body = " ".repeat(1 << 20));
    refused("too much", "provider_unreachable").await;
    company.provider.change("/token", |answer| {
        answer.status = 401;
        answer.body = json!({"error": "invalid_client"}).to_string();
    });
    refused("another client", "client_refused, invalid_client").await;
    let token = format!("{}/token", company.provider.issuer);
    company.provider.change("/token", move |answer| {
        answer.status = 307;
        answer.headers.push(("location", token.clone()));
    });
    refused("a circle of redirections", "tokens_refused").await;
    company.provider.change("/token", |answer| answer.status = 503);
    refused("out of order", "tokens_refused").await;
    company.use_settings(|settings| settings.client_secret = Some("env:NOT_THERE".to_owned()));
    refused("no secret", "no_client_secret").await;
}

#[tokio::test]
async fn a_provider_whose_documents_are_wrong_is_named() {
    let keys = "/keys";
    let huge = |answer: &mut ProviderAnswer| answer.body.push_str(&" ".repeat(1 << 20));
    let company = Company::new().await;
    company.provider.change(keys, huge);
    let (browser, page) = company.answered("ben").await;
    assert_refused("a huge set of keys", &browser, &page, "keys_unavailable");
    let company = Company::new().await;
    let circle = format!("{}/keys", company.provider.issuer);
    company.provider.change(keys, move |answer| {
        answer.status = 302;
        answer.headers.push(("location", circle.clone()));
    });
    let (browser, page) = company.answered("ben").await;
    assert_refused("keys in a circle of redirections", &browser, &page, "keys_unavailable");
    assert_eq!(company.provider.asked(keys), 1, "no redirection is followed");
    let documents: [(&str, Document, &str); 5] = [
        ("another issuer's document", |_| json!({"issuer": "https://evil.test"}), "provider_document_not_believed"),
        ("with a slash more", |issuer| json!({"issuer": format!("{issuer}/")}), "provider_document_not_believed"),
        (
            "a script as an address",
            |_| json!({"authorization_endpoint": "javascript:alert(1)"}),
            "provider_document_not_believed",
        ),
        (
            "an address without TLS",
            |_| json!({"token_endpoint": "http://evil.test/token"}),
            "provider_document_not_believed",
        ),
        ("no page to sign in at", |_| json!({"authorization_endpoint": null}), "no_sign_in_page"),
    ];
    for (what, document, reason) in documents {
        let company = Company::new().await;
        company.provider.say(document(&company.provider.issuer));
        let (browser, page) = refused_begin(&company).await;
        assert_refused(what, &browser, &page, reason);
    }
    let table: [(&str, Change, &str); 3] = [
        ("no document", |answer| answer.status = 404, "no_provider_document"),
        ("a huge document", |answer| answer.body.push_str(&" ".repeat(1 << 20)), "provider_unreachable"),
        (
            "a circle of redirections",
            |answer| {
                answer.status = 302;
                answer.headers.push(("location", "/.well-known/openid-configuration".to_owned()));
            },
            "provider_unreachable",
        ),
    ];
    for (what, change, reason) in table {
        let company = Company::new().await;
        company.provider.change("/.well-known/openid-configuration", change);
        let (browser, page) = refused_begin(&company).await;
        assert_refused(what, &browser, &page, reason);
    }
}

async fn refused_begin(company: &Company) -> (Browser, Page) {
    let mut browser = Browser::new(&company.gateway);
    let ways = browser.get("/sign-in").await;
    let page = browser.submit(&ways.form_to("/sign-in/oidc"), &[]).await;
    assert!(browser.attempt.is_none());
    (browser, page)
}

#[tokio::test]
async fn an_owner_who_would_not_be_known_as_one_is_not_signed_in() {
    let company = Company::new().await;
    company.use_settings(|settings| settings.compares_subjects = true);
    company.signed_in("ben").await;
    let company = Company::new().await;
    company.use_settings(|settings| settings.compares_subjects = true);
    company.provider.say(json!({"subject_types_supported": ["pairwise"]}));
    let (browser, page) = refused_begin(&company).await;
    assert_refused("pairwise subjects", &browser, &page, "pairwise_subject");
    company.use_settings(|settings| settings.issuer.issuer.principal_claim = Some("email".to_owned()));
    company.provider.claim(json!({"email": "ben@acme.test"}));
    let (browser, page) = company.answered("ben").await;
    assert_refused("an address that was not verified", &browser, &page, "unverified_email");
    company.provider.claim(json!({"email": "ben@acme.test", "email_verified": true}));
    company.signed_in("ben").await;
}

#[tokio::test]
async fn only_the_consoles_own_page_begins_at_the_consoles_own_address() {
    let company = Company::new().await;
    let ticket = company.gateway.open(Wanted::default()).await;
    let mut browser = Browser::new(&company.gateway);
    let foreign = [("sec-fetch-site", "cross-site"), ("origin", "https://evil.test")];
    let page = browser.post_with("/sign-in/oidc", &[("next", "/approvals")], &foreign).await;
    assert_eq!((page.status, browser.attempt.clone()), (StatusCode::FORBIDDEN, None));
    browser.host = crate::browser::OWN_NAME;
    let page = browser.post("/sign-in/oidc", &[("next", "/approvals")]).await;
    assert!(page.html.contains("The console has another address") && browser.attempt.is_none(), "{}", page.html);
    assert!(page.html.contains("http://127.0.0.1:7332"));
    // Wherever a form says that the person goes afterwards, it is a page of this console.
    for (next, expected) in [
        ("https%3A%2F%2Fevil.test", "/approvals".to_owned()),
        ("%2F%2Fevil.test", "/approvals".to_owned()),
        (&format!("/approvals/{}", ticket.id), format!("/approvals/{}", ticket.id)),
    ] {
        let mut browser = Browser::new(&company.gateway);
        let address = begin(&mut browser, next).await;
        let page = come_back(&mut browser, &company.provider.agree(&address, "ben")).await;
        assert_eq!(page.location(), expected, "{next}");
    }
}
