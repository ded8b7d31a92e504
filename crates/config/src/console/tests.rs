//! What `console.sign_in.oidc` may say, and what is said about the rest.

use servanda_authority::token::TenantSource;

use super::*;

const GOOD: &str = "oidc: {issuer: https://login.test, client_id: console, people: {tenant: acme}}";

fn config(oidc: &str, rest: &str) -> Config {
    let rest =
        if rest.is_empty() { "auth: {mode: required}\napprovals: {console_url: https://gateway.test}" } else { rest };
    let text = format!("servanda: 1\nupstreams: {{}}\nconsole:\n  sign_in:\n    {oidc}\n{rest}\n");
    Config::from_document("servanda.yaml", &text).unwrap()
}

fn fault_of(oidc: &str, rest: &str) -> String {
    let config = config(oidc, rest);
    crate::check("servanda.yaml", &config).map_or_else(|error| error.to_string(), |()| "good".to_owned())
}

#[test]
fn every_mistake_is_said_where_it_is() {
    let with = |more: &str| {
        format!("oidc: {{issuer: https://login.test, client_id: console, people: {{tenant: acme}}, {more}}}")
    };
    let people =
        |people: &str| format!("oidc: {{issuer: https://login.test, client_id: console, people: {{{people}}}}}");
    let issuer = |issuer: &str| format!("oidc: {{issuer: {issuer}, client_id: console, people: {{tenant: acme}}}}");
    let table = [
        (GOOD.to_owned(), "good"),
        (with("client_secret: \"env:SECRET\", client_auth: client_secret_post, name: Acme, scopes: [groups]"), "good"),
        (issuer("http://127.0.0.1:9"), "good"),
        (issuer("http://login.test"), "console.sign_in.oidc.issuer`"),
        (issuer("https://login.test/?x"), "console.sign_in.oidc.issuer`"),
        (issuer("login.test"), "console.sign_in.oidc.issuer`"),
        (issuer("https://u:p@login.test"), "console.sign_in.oidc.issuer`"),
        ("oidc: {issuer: https://login.test, client_id: \"\", people: {tenant: acme}}".to_owned(), "client_id`"),
        (with("client_secret: hunter2"), "client_secret`"),
        (with("client_auth: private_key_jwt"), "client_auth`"),
        (with("client_auth: client_secret_basic"), "client_auth`"),
        (with("client_auth: none, client_secret: \"env:A\""), "client_auth`"),
        (with("scopes: [\"a b\"]"), "console.sign_in.oidc.scopes`"),
        (with("algorithms: [HS256]"), "console.sign_in.oidc.algorithms`"),
        (with("algorithms: [none]"), "console.sign_in.oidc.algorithms`"),
        (with("algorithms: []"), "console.sign_in.oidc.algorithms`"),
        (with("jwks_uri: http://login.test/keys"), "console.sign_in.oidc.jwks_uri`"),
        (with("leeway_ms: 120001"), "console.sign_in.oidc.leeway_ms`"),
        (with("session_sec_max: 299"), "session_sec_max`"),
        (with("session_sec_max: 43201"), "session_sec_max`"),
        (with("name: \"\""), "console.sign_in.oidc.name`"),
        (people("tenant: a/b"), "console.sign_in.oidc.people.tenant`"),
        (people("tenant: {claim: org, tenants: [a/b]}"), "console.sign_in.oidc.people.tenant`"),
        ("oidc: {issuer: https://login.test, client_id: console}".to_owned(), "console.sign_in.oidc.people`"),
    ];
    for (oidc, expected) in table {
        let found = fault_of(&oidc, "");
        assert!(found.contains(expected), "{oidc}: {found}");
        assert!(!found.contains("hunter2"), "{found}");
    }
}

#[test]
fn people_come_back_to_one_known_address() {
    for (console_url, good) in [
        ("https://gateway.test", true),
        ("https://gateway.test/", true),
        ("https://gateway.test:8443", true),
        ("http://127.0.0.1:7332", true),
        ("http://servanda.localhost:7332", true),
        ("http://gateway.test", false),
        ("https://gateway.test/console", false),
        ("https://gateway.test/?x", false),
        ("https://u@gateway.test", false),
    ] {
        let rest = format!("auth: {{mode: required}}\napprovals: {{console_url: \"{console_url}\"}}");
        let found = fault_of(GOOD, &rest);
        assert_eq!(found == "good", good, "{console_url}: {found}");
        assert!(good || found.contains("approvals.console_url"), "{found}");
    }
    assert!(fault_of(GOOD, "auth: {mode: required}").contains("approvals.console_url"));
    let local = fault_of(GOOD, "approvals: {console_url: https://gateway.test}");
    assert!(local.contains("console.sign_in.oidc`") && local.contains("auth: {mode: required}"), "{local}");
}

#[test]
fn who_its_people_are_is_said_once() {
    let issuers = |issuer: &str| {
        format!(
            "approvals: {{console_url: https://gateway.test}}\nauth: {{mode: required, resource: https://gateway.test/mcp, issuers: [{issuer}]}}"
        )
    };
    let shared = "oidc: {issuer: https://login.test, client_id: console}";
    let at_doors = "{issuer: https://login.test, tenant: {claim: org, tenants: [acme]}, principal_prefix: \"l|\", groups_claim: groups, \
                    algorithms: [ES256], leeway_ms: 5, jwks_uri: https://login.test/keys}";
    let found = config(shared, &issuers(at_doors));
    assert!(crate::check("servanda.yaml", &found).is_ok());
    let settings = found.provider_settings().unwrap().unwrap();
    let of = &settings.issuer.issuer;
    assert_eq!((of.audience.as_str(), of.principal_prefix.as_str(), of.leeway_ms), ("console", "l|", 5));
    assert!(matches!(&of.tenant, TenantSource::Claim { claim, .. } if claim == "org"));
    assert_eq!((of.groups_claim.as_deref(), of.algorithms.len()), (Some("groups"), 1));
    assert_eq!(settings.issuer.jwks_uri.as_deref(), Some("https://login.test/keys"));
    assert!(settings.compares_subjects, "nobody said that `sub` is meant");
    let named = "{issuer: https://login.test, tenant: acme, principal_claim: sub}";
    assert!(!config(shared, &issuers(named)).provider_settings().unwrap().unwrap().compares_subjects);
    assert!(!config(GOOD, "").provider_settings().unwrap().unwrap().compares_subjects, "no door compares them");
    let plain = "{issuer: https://login.test, tenant: acme}";
    let other = "{issuer: https://other.test, tenant: acme}";
    let elsewhere = "{issuer: https://other.test, tenant: globex}";
    let same_audience = "{issuer: https://login.test, tenant: acme, audience: console/}";
    for (oidc, issuer, expected) in [
        (shared, plain, "good"),
        (GOOD, elsewhere, "good"),
        (GOOD, plain, "console.sign_in.oidc.people`"),
        (GOOD, other, "principal_prefix"),
        (
            "oidc: {issuer: https://login.test, client_id: console, leeway_ms: 1}",
            plain,
            "console.sign_in.oidc.leeway_ms`",
        ),
        (
            "oidc: {issuer: https://login.test, client_id: https://gateway.test/mcp}",
            plain,
            "an ID token of a person would open them",
        ),
        (shared, same_audience, "an ID token of a person would open them"),
    ] {
        let found = fault_of(oidc, &issuers(issuer));
        assert!(found.contains(expected), "{oidc} {issuer}: {found}");
    }
}

#[test]
fn the_button_names_the_provider() {
    let name = |oidc: &str| config(oidc, "").provider_settings().unwrap().unwrap().name;
    assert_eq!(name(GOOD), "login.test");
    assert_eq!(name("oidc: {issuer: https://login.test, client_id: c, name: Acme, people: {tenant: acme}}"), "Acme");
}
