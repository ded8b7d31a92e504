//! Admission: which configurations start, what a client without a credential or with too few rights is told, and what the operator sees of
//! keys and of who acted.

use serde_json::{Value, json};

use crate::{
    access::{READ, WRITE, payment},
    agent::{Agent, Reply},
    contract::count_effects,
    http::Question,
    issuer::Issuer,
    snapshot::Page,
    world::{Ran, World, until},
};

#[test]
fn what_listens_beyond_this_machine_asks_who_comes_or_does_not_start() {
    let world = World::company([count_effects()]).unpinned();
    let refused = |ran: Ran, words: &str| {
        let ran = ran.ended(2);
        assert!(ran.stderr.contains(words) && ran.stderr.contains("hint:"), "{}", ran.stderr);
    };
    refused(world.run(&["serve", "--listen", "0.0.0.0:0"]), "callers there would need no credential");
    refused(world.run(&["demo", "--listen", "0.0.0.0:0"]), "not a loopback address");
    world.change_config(|config| config["listen"] = json!("0.0.0.0:0"));
    refused(world.run(&["serve"]), "callers there would need no credential");
    refused(world.run(&["check"]), "callers there would need no credential");
    assert!(world.run(&["doctor"]).ended(1).stdout.contains("callers there would need no credential"));
    world.change_config(|config| config["auth"] = json!({ "mode": "required" }));
    refused(world.run(&["serve"]), "`auth.resource` does not say");
    world.change_config(|config| {
        config["auth"] = json!({ "mode": "required", "resource": "https://gateway.example/mcp" });
    });
    world.run(&["check"]).ended(0);
    // Listens on all interfaces, but requires a key.
    let gateway = world.serve_at("0.0.0.0:0");
    let port = gateway.address.port();
    let here = format!("127.0.0.1:{port}").parse().unwrap();
    assert_eq!(Agent::modern(here).begin(1, "tools/list", json!({})).status, 401);
    let (key, _) = world.key("acme", "ada", &[], &[]);
    assert_eq!(Agent::bearing(here, &key).begin(1, "tools/list", json!({})).status, 200);
}

#[test]
fn loopback_needs_no_credential_unless_configured() {
    let world = World::company([count_effects()]).unpinned();
    let gateway = world.serve();
    gateway.modern().call("company__count_effects", json!({})).success();
    assert_eq!(Question::page("/.well-known/oauth-protected-resource").ask(gateway.address).status, 404);
    assert_eq!(Question::form("/oauth/token", &[]).ask(gateway.address).status, 404);
}

#[test]
fn a_client_without_a_credential_is_told_where_tokens_are() {
    let issuer = Issuer::start();
    let world = World::guarded(&[&issuer]);
    let gateway = world.serve();
    let metadata = format!("http://{}/.well-known/oauth-protected-resource/mcp", gateway.address);
    let agent = gateway.modern();
    let nobody = agent.begin(1, "tools/list", json!({}));
    let challenge = format!(r#"Bearer scope="{READ}", resource_metadata="{metadata}""#);
    assert_eq!((nobody.status, nobody.headers["www-authenticate"].as_str()), (401, challenge.as_str()));
    let told = Reply::of(nobody.text());
    assert!(told.message["error"]["data"]["hint"].as_str().unwrap().contains(&metadata), "{}", told.raw);
    let legacy = Question::post(&crate::agent::initialize(0)).ask(gateway.address);
    assert_eq!((legacy.status, legacy.headers["www-authenticate"].as_str()), (401, challenge.as_str()));
    assert_eq!(Question::get().ask(gateway.address).status, 401);
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let page = Question::page(path).with("origin", "https://inspector.example").ask(gateway.address);
        assert_eq!((page.status, page.headers["access-control-allow-origin"].as_str()), (200, "*"), "{path}");
        let document: Value = serde_json::from_str(&page.text()).unwrap();
        let expected = json!({
            "resource": gateway.resource(), "authorization_servers": [issuer.url],
            "scopes_supported": [READ, WRITE], "bearer_methods_supported": ["header"],
        });
        assert_eq!(document, expected);
    }
    assert_eq!(Question::page("/.well-known/oauth-protected-resource/other").ask(gateway.address).status, 404);
    // A web page may read the document, but may not call.
    let foreign = agent.question(1, "tools/list", json!({})).with("origin", "https://inspector.example");
    assert_eq!(agent.exchange(&foreign).status, 403);
}

/// A call that lacks only scopes gets a challenge with all of them. A call that lacks something else, or that no authorization server could
/// help, is only refused.
#[test]
fn a_token_that_lacks_a_scope_is_told_every_scope_at_once() {
    let issuer = Issuer::start();
    let world = World::guarded(&[&issuer]);
    let gateway = world.serve();
    let token = issuer.token(&gateway.resource(), &json!({}));
    let effects = world.effects();
    let challenge = format!(
        r#"Bearer error="insufficient_scope", error_description="this call needs more scopes", scope="{READ} {WRITE}", resource_metadata="http://{}/.well-known/oauth-protected-resource/mcp""#,
        gateway.address
    );
    let pay = || json!({ "name": "company__pay_invoice", "arguments": payment(100) });
    let legacy = Agent::legacy_bearing(gateway.address, &token);
    for agent in [gateway.bearing(&token), legacy] {
        let read = agent.call("company__get_invoice", json!({ "invoice_id": "inv_1001" }));
        read.success();
        let answer = agent.begin(1, "tools/call", pay());
        assert_eq!((answer.status, answer.headers["www-authenticate"].as_str()), (403, challenge.as_str()));
        let reply = Reply::of(answer.text());
        let refusal = reply.refusal();
        assert_eq!((&refusal["error_code"], &refusal["gate"]), (&json!("PERMISSION_DENIED"), &json!("scope")));
    }
    let (key, _) = world.key("acme", "ada", &[READ], &[]);
    let answer = gateway.bearing(&key).begin(1, "tools/call", pay());
    assert_eq!(
        (answer.status, answer.headers.get("www-authenticate")),
        (200, None),
        "no issuer gives a key more scopes"
    );
    Reply::of(answer.text()).refusal();
    // More scopes would not be enough, so there is no challenge: the client would ask again and again.
    world.change_config(|config| config["auth"]["issuers"][0]["ceiling"] = json!("READ_ONLY"));
    until("the ceiling to hold", || {
        let answer = gateway.bearing(&token).begin(1, "tools/call", pay());
        let text = (answer.status == 200).then(|| answer.text())?;
        assert!(text.contains("nothing graver"), "{text}");
        Some(())
    });
    assert_eq!(world.effects(), effects, "nothing was sent");
    let wide = issuer.token(&gateway.resource(), &json!({ "scope": format!("{READ} {WRITE}"), "jti": "wide" }));
    assert!(gateway.bearing(&wide).call("company__pay_invoice", payment(1)).raw.contains("nothing graver"));
}

/// Credentials of the former root key stay valid until they expire, and the ledger holds no root key in plain text.
#[test]
fn root_keys_rotate_and_old_credentials_are_good_until_they_end() {
    let world = World::guarded(&[]);
    let (key, _) = world.key("acme", "ada", &[READ], &[]);
    let delegated = |agent: &str| {
        let made = world.delegated(&key, &["--agent", agent]);
        made["credential"].as_str().unwrap().to_owned()
    };
    let before = delegated("first");
    let said = world.run(&["keys", "rotate"]).ended(0);
    assert!(said.stdout.contains("root key 2") && said.stderr.contains("hint:"), "{}{}", said.stdout, said.stderr);
    let after = delegated("second");
    assert_eq!(world.run(&["keys", "rotate", "--json"]).ended(0).json(), json!({ "root_key": "3" }));
    let gateway = world.serve();
    for credential in [&before, &after, &delegated("third")] {
        assert_eq!(gateway.knock(credential).0, 200);
    }
    let sealed = world.notes("agent-credential/sealed/");
    assert_eq!(sealed.len(), 3);
    for value in sealed {
        let kept: serde_json::Value = serde_json::from_str(&value).unwrap();
        assert_eq!(kept.as_object().unwrap().keys().collect::<Vec<_>>(), ["sealed"]);
    }
}

#[test]
fn a_token_is_exchanged_for_an_agents_credential_and_both_are_on_record() {
    let issuer = Issuer::start();
    let world = World::guarded(&[&issuer]);
    let gateway = world.serve();
    let token = issuer.token(&gateway.resource(), &json!({ "scope": format!("{READ} {WRITE}") }));
    let (agent_key, _) = world.key("acme", "planner", &[], &[]);
    let kind = "urn:ietf:params:oauth:token-type:access_token";
    let (status, answer) = gateway.exchange(&[
        ("subject_token", &token),
        ("actor_token", &agent_key),
        ("actor_token_type", kind),
        ("scope", READ),
        ("resource", &gateway.resource()),
    ]);
    assert_eq!((status, &answer["issued_token_type"], &answer["scope"]), (200, &json!(kind), &json!(READ)), "{answer}");
    let credential = answer["access_token"].as_str().unwrap();
    let offline = world.delegated(credential, &["--offline", "--agent", "worker"]);
    let agent = gateway.bearing(offline["credential"].as_str().unwrap());
    let read = agent.call("company__get_invoice", json!({ "invoice_id": "inv_1001" }));
    read.success();
    let caller = world.record(&read.call_id())["caller"].clone();
    assert_eq!((&caller["tenant"], &caller["principal"]), (&json!("acme"), &json!("ada")), "the user");
    let acting = json!([{ "name": "worker", "proven": false }, { "name": "planner", "proven": true }]);
    assert_eq!(caller["actors"], acting, "and who acted, kept apart");
    assert!(caller["credential"].as_str().unwrap().starts_with("agent:"));
    let explained = world.run(&["explain", &read.call_id()]).ended(0).stdout;
    assert!(
        explained.contains("acting    worker (as its holder claims)\n            planner (proven)\n"),
        "{explained}"
    );
    assert!(explained.contains(&format!("shown     {}", caller["credential"].as_str().unwrap())), "{explained}");
    let json = world.run(&["explain", &read.call_id(), "--json"]).ended(0).json();
    assert_eq!(json["caller"], caller);
    for secret in [credential, agent_key.as_str(), token.as_str()] {
        assert!(!gateway.said().contains(secret) && !explained.contains(secret) && !json.to_string().contains(secret));
    }
    // A request with another content type, or one that is too long, is not read.
    let other = Question {
        headers: vec![("content-type", "application/json".to_owned())],
        ..Question::form("/oauth/token", &[])
    };
    assert_eq!(other.ask(gateway.address).status, 415);
    let long = "x".repeat(70_000);
    assert_eq!(Question::form("/oauth/token", &[("subject_token", &long)]).ask(gateway.address).status, 413);
}

/// A stream is closed when its credential is revoked: a legacy stream and a modern subscription.
#[test]
fn a_stream_ends_when_its_credential_is_revoked() {
    let world = World::guarded(&[]);
    let gateway = world.serve();
    let (key, id) = world.key("acme", "ada", &[], &[]);
    let mut legacy = Agent::legacy_bearing(gateway.address, &key).listen();
    let listen = json!({ "notifications": { "toolsListChanged": true } });
    let mut modern = gateway.bearing(&key).begin(1, "subscriptions/listen", listen);
    assert!(modern.next_event().unwrap().contains("acknowledged"));
    world.run(&["keys", "revoke", &id]).ended(0);
    // Both streams would last as long as the gateway; the reads have a timeout.
    while legacy.next_event().is_some() {}
    while modern.next_event().is_some() {}
    assert_eq!(gateway.knock(&key).0, 401);
}

#[test]
fn auth_changes_with_the_configuration_and_not_to_something_open() {
    let world = World::guarded(&[]);
    let gateway = world.serve();
    let (key, _) = world.key("acme", "ada", &[], &[]);
    assert_eq!(gateway.knock(&key).0, 200);
    world.change_config(|config| config["auth"]["keys"] = json!(false));
    until("keys not to be taken any more", || (gateway.knock(&key).0 == 401).then_some(()));
    world.change_config(|config| config["auth"] = json!({ "mode": "local" }));
    until("no credential to be required", || {
        (gateway.modern().begin(1, "tools/list", json!({})).status == 200).then_some(())
    });
    drop(gateway);
    world.change_config(|config| {
        config["auth"] = json!({ "mode": "required", "resource": "https://gateway.example/mcp" });
    });
    let open = world.serve_at("0.0.0.0:0");
    let here = format!("127.0.0.1:{}", open.address.port()).parse().unwrap();
    world.change_config(|config| config["auth"] = json!({ "mode": "local" }));
    until("the change to be refused", || open.said().contains("is not used").then_some(()));
    assert_eq!(Agent::modern(here).begin(1, "tools/list", json!({})).status, 401);
}

#[test]
fn bad_auth() {
    let world = World::company([count_effects()]).unpinned();
    let issuer = |more: Value| {
        let mut issuer = json!({ "issuer": "https://login.example", "tenant": "acme" });
        issuer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "mode": "required", "issuers": [issuer] })
    };
    let two = json!([
        { "issuer": "https://a.example", "tenant": "acme", "principal_prefix": "a" },
        { "issuer": "https://b.example", "tenant": { "claim": "org" }, "principal_prefix": "ab" },
    ]);
    let mut page = Page::new(&world);
    for (heading, auth) in [
        ("no mode", json!({})),
        (
            "issuers that are not used",
            json!({ "mode": "local", "issuers": [{ "issuer": "https://a.example", "tenant": "t" }] }),
        ),
        ("not https", issuer(json!({ "issuer": "http://login.example" }))),
        ("a symmetric algorithm", issuer(json!({ "algorithms": ["HS256"] }))),
        ("no pattern", issuer(json!({ "tools": ["com*pany"] }))),
        ("leeway", issuer(json!({ "leeway_ms": 999_999 }))),
        ("users of one name", json!({ "mode": "required", "issuers": two })),
        ("a resource that is none", json!({ "mode": "required", "resource": "gateway" })),
        ("a password", json!({ "mode": "required", "resource": "https://ada:pw@gateway.example/mcp" })),
    ] {
        world.change_config(|config| config["auth"] = auth);
        page.head(heading);
        page.run(&["check"]).ended(2);
    }
    page.compare("bad_auth");
}

#[test]
fn keys_from_the_command_line() {
    let world = World::guarded(&[]);
    let mut page = Page::new(&world);
    page.run(&["keys"]);
    let made = page.run(&[
        "keys",
        "create",
        "--tenant",
        "acme",
        "--principal",
        "ada",
        "--label",
        "laptop",
        "--scope",
        READ,
        "--tool",
        "company.*",
        "--resource",
        "invoice/*",
        "--ceiling",
        "medium-risk-write",
        "--budget",
        "read=100,write=5",
        "--group",
        "staff",
        "--expires",
        "30d",
    ]);
    let key = made.stdout.trim();
    assert!(key.starts_with("svk_") && made.stdout.lines().count() == 1, "the key alone is data: {}", made.stdout);
    assert!(!made.stderr.contains(key));
    let listed = page.run(&["keys", "list"]);
    assert!(!listed.everything().contains(key));
    let id = world.run(&["keys", "list", "--json"]).json()[0]["id"].as_str().unwrap().to_owned();
    page.show("keys revoke [ID]", &world.run(&["keys", "revoke", &id[..8]]));
    page.run(&["keys", "list"]);
    page.show("keys revoke [ID] again", &world.run(&["revoke", &format!("key:{id}")]));
    page.run(&["keys", "revoke", "0000"]);
    page.run(&["revoke", "nonsense"]);
    page.run(&["keys", "create", "--tenant", "acme", "--principal", "ada", "--label", "x", "--expires", "400d"]);
    page.run(&["keys", "create", "--tenant", "acme", "--principal", "ada", "--label", "x", "--budget", "reads=1"]);
    page.compare("keys");
    // The store holds nothing from which the key could be made.
    let secret = key.splitn(3, '_').nth(2).unwrap();
    for file in ["ledger.db", "ledger.db-wal"] {
        let bytes = std::fs::read(world.path(".servanda").join(file)).unwrap_or_default();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{file}");
    }
}

#[test]
fn delegation_from_the_command_line() {
    let world = World::guarded(&[]);
    let (key, _) = world.key("acme", "ada", &[READ], &[]);
    let mut page = Page::new(&world);
    let granted = page.run(&[
        "delegate",
        "--tenant",
        "acme",
        "--principal",
        "ada",
        "--group",
        "staff",
        "--agent",
        "planner",
        "--scope",
        READ,
        "--ttl",
        "15m",
        "--depth",
        "2",
    ]);
    let text = granted.stdout.trim();
    assert!(text.starts_with("sva1.") && granted.stdout.lines().count() == 1 && !granted.stderr.contains("sva1."));
    page.show("delegate --agent worker < key", &world.run_with_input(&["delegate", "--agent", "worker"], &key));
    page.show(
        "delegate --offline --ttl 5m < credential",
        &world.run_with_input(&["delegate", "--offline", "--ttl", "5m"], text),
    );
    page.show("delegate --agent x < nothing", &world.run_with_input(&["delegate", "--agent", "x"], ""));
    page.show("delegate --agent x < nonsense", &world.run_with_input(&["delegate", "--agent", "x"], "a.b.c"));
    page.show("delegate --offline < key", &world.run_with_input(&["delegate", "--offline"], &key));
    page.run(&["delegate", "--tenant", "acme", "--agent", "x"]);
    page.compare("delegate");
    let gateway = world.serve();
    let read = gateway.bearing(text).call("company__get_invoice", json!({ "invoice_id": "inv_1001" }));
    read.success();
    assert_eq!(world.record(&read.call_id())["caller"]["actors"][0]["name"], "planner");
}
