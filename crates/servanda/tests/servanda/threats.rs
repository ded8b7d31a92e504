//! Threats about the caller's identity, each named after its row of the threat table, over HTTP and from other processes.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use servanda_authority::capability::{Caveat, attenuate};
use servanda_contract::time::Clock as _;
use servanda_engine::SystemClock;
use sha2::Sha256;

use crate::{
    access::{READ, WRITE, payment},
    agent::{Agent, Reply},
    contract::{changes, slow_change},
    gateway::Gateway,
    issuer::{Issuer, unsigned},
    world::{World, until},
};

/// The answer is 401 with a challenge that says where tokens are.
#[track_caller]
fn turned_away(gateway: &Gateway, credential: &str, why: &str) {
    let (status, challenge) = gateway.knock(credential);
    assert_eq!(status, 401, "{why}: {challenge}");
    assert!(challenge.contains(r#"error="invalid_token""#), "{why}: {challenge}");
    assert!(challenge.contains("/.well-known/oauth-protected-resource/mcp\""), "{why}: {challenge}");
    assert!(!challenge.contains(credential) && !gateway.said().contains(credential), "{why}: it is repeated");
}

#[test]
fn t8_wrong_audience_and_foreign_issuer_are_401() {
    let (issuer, foreign) = (Issuer::start(), Issuer::start());
    let world = World::guarded(&[&issuer]);
    let gateway = world.serve();
    let resource = gateway.resource();
    assert_eq!(gateway.knock(&issuer.token(&resource, &json!({}))).0, 200);
    let also = json!({ "aud": ["https://other.example", resource] });
    assert_eq!(gateway.knock(&issuer.token(&resource, &also)).0, 200, "one of several is enough");
    for audience in [json!("https://other.example/mcp"), json!(resource.replace("/mcp", "")), json!([]), json!(null)] {
        turned_away(&gateway, &issuer.token(&resource, &json!({ "aud": audience })), &format!("audience {audience}"));
    }
    turned_away(&gateway, &foreign.token(&resource, &json!({})), "an issuer that is not configured");
    let slash = json!({ "iss": format!("{}/", issuer.url) });
    turned_away(&gateway, &issuer.token(&resource, &slash), "an issuer that is almost one");
    let claims = foreign.claims(&resource, &json!({ "iss": issuer.url }));
    let forged = foreign.signed(&json!({ "alg": "EdDSA", "kid": "ed" }), &claims, "EdDSA");
    turned_away(&gateway, &forged, "signed by a foreign key of the same id");
    turned_away(&gateway, &issuer.token(&resource, &json!({ "exp": 1 })), "over");
    turned_away(&gateway, &issuer.token(&resource, &json!({ "nbf": 4_000_000_000_u64 })), "not begun");
    // A token outside of the header does not count, and neither do two tokens.
    let good = issuer.token(&resource, &json!({}));
    let agent = Agent::modern(gateway.address);
    let mut question = agent.question(1, "tools/list", json!({}));
    question.path = format!("/mcp?access_token={good}");
    assert_eq!(agent.exchange(&question).status, 401);
    let twice =
        gateway.bearing(&good).question(1, "tools/list", json!({})).with("authorization", &format!("Bearer {good}"));
    assert_eq!(agent.exchange(&twice).status, 400);
}

#[test]
fn t28_algorithm_confusion() {
    let issuer = Issuer::start();
    let world = World::guarded(&[&issuer]);
    let gateway = world.serve();
    let claims = issuer.claims(&gateway.resource(), &json!({}));
    let rs256 = json!({ "alg": "RS256", "kid": "rsa" });
    assert_eq!(gateway.knock(&issuer.signed(&rs256, &claims, "RS256")).0, 200);
    assert_eq!(gateway.knock(&issuer.signed(&json!({ "alg": "EdDSA", "kid": "ed" }), &claims, "EdDSA")).0, 200);
    // Tokens without a signature.
    for algorithm in ["none", "None", "NONE", ""] {
        let token = unsigned(&json!({ "alg": algorithm, "kid": "rsa" }), &claims);
        turned_away(&gateway, &format!("{token}."), algorithm);
        turned_away(&gateway, &format!("{token}.AAAA"), algorithm);
    }
    // Tokens signed with public data, in every known form.
    let n = URL_SAFE_NO_PAD.decode(Issuer::rsa_key()["n"].as_str().unwrap()).unwrap();
    for secret in [Issuer::rsa_der(), n, Issuer::rsa_key().to_string().into_bytes(), Vec::new()] {
        let signed = unsigned(&json!({ "alg": "HS256", "kid": "rsa" }), &claims);
        let code = Hmac::<Sha256>::new_from_slice(&secret).unwrap().chain_update(&signed).finalize().into_bytes();
        turned_away(&gateway, &format!("{signed}.{}", URL_SAFE_NO_PAD.encode(code)), "HS256 with the public key");
    }
    // The key of another kind, an algorithm that is not allowed, a key that the token brings along.
    let own = Issuer::start();
    let jwk = own.ed25519_key();
    let table = [
        (json!({ "alg": "EdDSA", "kid": "rsa" }), "EdDSA", "the RSA key for EdDSA"),
        (json!({ "alg": "RS256", "kid": "ed" }), "RS256", "the Ed25519 key for RS256"),
        (json!({ "alg": "ES256", "kid": "rsa" }), "RS256", "the RSA key for ES256"),
        (json!({ "alg": "PS256", "kid": "rsa" }), "PS256", "an algorithm that is not the issuer's"),
        (json!({ "alg": "RS256" }), "RS256", "no key is named, and two could be meant"),
        (json!({ "alg": "RS256", "kid": "../../etc/passwd" }), "RS256", "a path"),
        (json!({ "alg": "RS256", "kid": "' or 1=1 --" }), "RS256", "a statement"),
        (json!({ "alg": "RS256", "kid": "x".repeat(300) }), "RS256", "a long one"),
        (json!({ "alg": "RS256", "kid": ["rsa"] }), "RS256", "a list"),
        (json!({ "alg": "RS256", "kid": "rsa", "crit": ["exp"] }), "RS256", "an extension"),
        (json!({ "alg": "RS256", "kid": "rsa", "typ": "logout+jwt" }), "RS256", "another kind of token"),
    ];
    for (header, algorithm, why) in table {
        turned_away(&gateway, &issuer.signed(&header, &claims, algorithm), why);
    }
    let brought = json!({ "alg": "EdDSA", "kid": "ed", "jwk": jwk, "jku": format!("{}/keys", own.url) });
    turned_away(&gateway, &own.signed(&brought, &claims, "EdDSA"), "a key of the forger's own");
}

/// The tools that a credential may call: those that are not refused for lack of rights.
fn allowed(gateway: &Gateway, credential: &str) -> Option<Vec<&'static str>> {
    if gateway.knock(credential).0 != 200 {
        return None;
    }
    let agent = gateway.bearing(credential);
    let calls = [
        ("company__get_invoice", json!({ "invoice_id": "inv_1001" })),
        ("company__pay_invoice", payment(1)),
        ("company__count_effects", json!({})),
    ];
    let refused = |reply: &Reply| {
        reply.result()["isError"] == true && reply.raw.contains("PERMISSION_DENIED") && reply.raw.contains("scope")
    };
    Some(
        calls
            .into_iter()
            .filter(|(tool, arguments)| !refused(&agent.call(tool, arguments.clone())))
            .map(|(tool, _)| tool)
            .collect(),
    )
}

/// A chain of delegations: by exchange, on the command line, offline. Whatever each asks for, it gets no more than its parent had.
#[test]
fn t9_delegation_widens_nothing() {
    let world = World::guarded(&[]);
    let gateway = world.serve();
    let (key, _) = world.key("acme", "ada", &[READ, WRITE], &["--tool", "company.*"]);
    let all = allowed(&gateway, &key).unwrap();
    assert_eq!(all.len(), 3);
    let narrowings: [&[&str]; 7] = [
        &["--scope", READ],
        &["--tool", "company.get_invoice", "--tool", "company.pay_invoice"],
        &["--tool", "*"],
        &["--ceiling", "READ_ONLY"],
        &["--ceiling", "CRITICAL_MUTATION", "--ttl", "24h"],
        &["--tool", "company.count_effects"],
        &["--resource", "invoice/*"],
    ];
    for (number, first) in narrowings.iter().enumerate() {
        let parent = world.delegated(&key, &[&["--agent", "one"], *first].concat());
        let parent = parent["credential"].as_str().unwrap().to_owned();
        let had = allowed(&gateway, &parent).unwrap();
        assert!(had.iter().all(|tool| all.contains(tool)), "{first:?}: {had:?}");
        // Each next step is pseudo-random, the same in every run.
        let second = narrowings[(number * 3 + 4) % narrowings.len()];
        let offline = world.delegated(&parent, &[&["--offline", "--agent", "two"], second].concat());
        let terms = json!({ "agent": "three", "lifetime_ms": 999_999_999_u64, "narrowing": { "tools": ["*"], "depth_left": 8 } });
        let (_, exchanged) = gateway.exchange(&[("subject_token", &parent), ("servanda_terms", &terms.to_string())]);
        for child in [&offline["credential"], &exchanged["access_token"]] {
            let got = allowed(&gateway, child.as_str().unwrap()).unwrap_or_default();
            assert!(got.iter().all(|tool| had.contains(tool)), "{first:?} {second:?}: {got:?} of {had:?}");
        }
        let (parent_end, child_end) = (end_of(&gateway, &parent), &exchanged["servanda_rights"]["expires_at"]);
        assert!(child_end.as_u64().unwrap() <= parent_end, "{first:?}");
    }
}

/// When a credential expires, as the answer to an exchange that asks for longer shows.
fn end_of(gateway: &Gateway, credential: &str) -> u64 {
    let terms = json!({ "agent": "looker", "lifetime_ms": 999_999_999_u64 }).to_string();
    let (_, answer) = gateway.exchange(&[("subject_token", credential), ("servanda_terms", &terms)]);
    answer["servanda_rights"]["expires_at"].as_u64().unwrap()
}

/// A removed right cannot be added back by the holder of the credential, nor requested.
#[test]
fn t9_a_narrowing_cannot_be_removed() {
    let world = World::guarded(&[]);
    let gateway = world.serve();
    let (key, _) = world.key("acme", "ada", &[READ], &[]);
    let wide = world.delegated(&key, &["--agent", "one", "--depth", "1"])["credential"].as_str().unwrap().to_owned();
    let narrow = world.delegated(&wide, &["--offline", "--tool", "company.count_effects"]);
    let narrow = narrow["credential"].as_str().unwrap().to_owned();
    assert_eq!(allowed(&gateway, &narrow).unwrap(), ["company__count_effects"]);
    let parts: Vec<&str> = narrow.split('.').collect();
    let without = [&parts[..2], &parts[3..]].concat().join(".");
    turned_away(&gateway, &without, "a narrowing left out");
    let wider = URL_SAFE_NO_PAD.encode(json!({ "narrowing": { "tools": ["*"] } }).to_string());
    let replaced = [parts[0], parts[1], &wider, parts[3]].join(".");
    turned_away(&gateway, &replaced, "a narrowing replaced");
    let root: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
    let mut more = root;
    more["rights"]["scopes"] = json!("all");
    let forged = [parts[0], &URL_SAFE_NO_PAD.encode(more.to_string()), parts[3]].join(".");
    turned_away(&gateway, &forged, "another root");
    // On the command line and by exchange, a request for more rights than there are is refused rather than reduced.
    let asked = world.run_with_env(&["delegate", "--agent", "x", "--scope", WRITE], &[("SERVANDA_CREDENTIAL", &wide)]);
    assert!(asked.ended(3).stderr.contains(WRITE));
    let terms = ("servanda_terms", r#"{"agent":"x"}"#);
    let (status, answer) = gateway.exchange(&[("subject_token", &wide), ("scope", WRITE), terms]);
    assert_eq!((status, &answer["error"]), (400, &json!("invalid_scope")));
    // It may be delegated once more, and then not again.
    let last = world.delegated(&wide, &["--agent", "two"])["credential"].as_str().unwrap().to_owned();
    world.run_with_env(&["delegate", "--agent", "three"], &[("SERVANDA_CREDENTIAL", &last)]).ended(3);
    world.run_with_env(&["delegate", "--offline", "--agent", "three"], &[("SERVANDA_CREDENTIAL", &last)]).ended(2);
    let caveat = Caveat { actor: Some("three".to_owned()), ..Caveat::default() };
    let by_hand = attenuate(&last, &caveat).unwrap();
    turned_away(&gateway, by_hand.as_text().unwrap(), "handed on offline more often than it may be");
}

/// A stolen bearer credential works until it expires or is revoked. Agent credentials expire soon; proof of possession is not offered.
#[test]
fn t10_stolen_bearer_ends_soon_and_can_be_taken_back() {
    let world = World::guarded(&[]);
    let gateway = world.serve();
    let (key, _) = world.key("acme", "ada", &[READ], &[]);
    let made = world.delegated(&key, &["--agent", "one", "--ttl", "24h"]);
    let (stolen, id) = (made["credential"].as_str().unwrap(), made["id"].as_str().unwrap());
    let lasts_ms = |made: &Value| made["rights"]["expires_at"].as_u64().unwrap() - now_ms();
    assert!(lasts_ms(&made) <= 86_400_000);
    let short = world.delegated(&key, &["--agent", "one"]);
    assert!(lasts_ms(&short) <= 3_600_000, "an hour by default");
    let never = world.run_with_env(&["delegate", "--agent", "one", "--ttl", "0h"], &[("SERVANDA_CREDENTIAL", &key)]);
    never.ended(2);
    assert_eq!(gateway.knock(stolen).0, 200);
    world.run(&["revoke", id]).ended(0);
    turned_away(&gateway, stolen, "taken back");
    assert_eq!(gateway.knock(short["credential"].as_str().unwrap()).0, 200, "and nothing else with it");
    assert_eq!(gateway.knock(&key).0, 200);
    // A credential is not accepted as the argument of `revoke`: it would be in the shell's history and in the output.
    let refused = world.run(&["revoke", stolen]).ended(2);
    assert!(!refused.everything().contains(stolen));
}

fn now_ms() -> u64 {
    SystemClock.now().unix_ms()
}

/// A call that was admitted with a valid key waits behind another. Another process revokes the key; nothing is sent.
#[test]
fn t11_revoked_while_pending_sends_nothing() {
    let world = World::empty();
    world.configure(&json!({ "company": world.stub(&["first", "second"], None) }));
    for tool in ["first", "second"] {
        world.add(&changes(tool));
    }
    let world = world.unpinned().guarding(&[]);
    let gateway = world.serve();
    let (patient, _) = world.key("acme", "ada", &[WRITE], &[]);
    let (revoked, id) = world.key("acme", "ada", &[WRITE], &[]);
    until("the tools to be known", || (gateway.bearing(&patient).tools().len() == 2).then_some(()));
    let call = |tool: &str| json!({ "name": tool, "arguments": {}, "_meta": { "progressToken": 1 } });
    let _first = gateway.bearing(&patient).question(1, "tools/call", call("company__first")).send(gateway.address);
    world.stub_heard("\"first\"");
    // The head of the stream shows that the call was admitted and waits.
    let mut second = gateway.bearing(&revoked).begin(1, "tools/call", call("company__second"));
    assert_eq!((second.status, second.headers["content-type"].as_str()), (200, "text/event-stream"));
    world.run(&["keys", "revoke", &id]).ended(0);
    // The first call's server dies, which ends that call: the second is next, and a new server would be started for it.
    for (pid, command_line) in world.processes() {
        if command_line.starts_with("sh ") {
            kill_process(pid, Signal::KILL).unwrap();
        }
    }
    let reply = Reply::of(second.next_event().expect("an answer"));
    let refusal = reply.refusal();
    assert_eq!((&refusal["error_code"], &refusal["gate"]), (&json!("PERMISSION_DENIED"), &json!("scope")), "{refusal}");
    assert!(refusal["message"].as_str().unwrap().contains("was revoked"), "{refusal}");
    assert!(!world.stub_heard("\"first\"").contains("\"name\":\"second\""), "nothing was sent");
    let record = world.record_of("company__second", "refused");
    assert_eq!(record["caller"]["credential"], json!(id));
    turned_away(&gateway, &revoked, "and nothing is from now on");
}

/// Begins long work; returns its handle.
fn begin_long_work(agent: &Agent) -> Value {
    let handed = agent.call("company__misbehave_slow", json!({ "milliseconds": 60_000 }));
    handed.refusal()["handle"].clone()
}

fn keyed(agent: &Agent, key: &str, amount_cents: u64) -> Reply {
    let params = json!({ "name": "company__pay_invoice", "arguments": payment(amount_cents) });
    let question = agent.question(1, "tools/call", params).with("idempotency-key", key);
    Reply::of(agent.exchange(&question).text())
}

/// Two tenants with a principal of one name and one key: a result stored for one is never given to the other.
#[test]
fn t12_another_tenants_stored_result() {
    let world = World::guarded(&[]);
    let gateway = world.serve();
    let [(acme, _), (globex, _)] = ["acme", "globex"].map(|tenant| world.key(tenant, "ada", &[READ, WRITE], &[]));
    let (acme, globex) = (gateway.bearing(&acme), gateway.bearing(&globex));
    let first = keyed(&acme, "order-7", 100);
    first.success();
    let effects = world.effects();
    let other = keyed(&globex, "order-7", 100);
    assert_eq!(other.observation()["execution_metadata"]["idempotency_hit"], false, "{}", other.raw);
    assert_eq!(world.effects(), effects + 1, "it is another payment");
    let again = keyed(&acme, "order-7", 100);
    assert_eq!(again.success()["content"], first.success()["content"]);
    assert_eq!(
        (again.observation()["execution_metadata"]["idempotency_hit"].clone(), world.effects()),
        (json!(true), effects + 1)
    );
    let record = world.record(&first.call_id());
    let answered = globex.call("servanda__result", json!({ "handle": record["effect_id"] }));
    assert!(!answered.raw.contains("amount"), "{}", answered.raw);
}

/// A principal that claims a key has claimed it for itself only; another principal can still use the same key.
#[test]
fn t13_key_claimed_by_another_principal() {
    let world = World::guarded(&[]);
    let gateway = world.serve();
    let [(mallory, _), (ada, _)] = ["mallory", "ada"].map(|name| world.key("acme", name, &[READ, WRITE], &[]));
    keyed(&gateway.bearing(&mallory), "order-7", 1).success();
    let effects = world.effects();
    let paid = keyed(&gateway.bearing(&ada), "order-7", 100);
    paid.success();
    assert_eq!(world.effects(), effects + 1, "ada's payment was made, with ada's arguments");
    assert_eq!(paid.observation()["execution_metadata"]["idempotency_hit"], false);
}

/// A key of the same user that does not cover the call gets the same answer about its task as for an invented one, and no notifications.
fn narrower_credentials(world: &World, gateway: &Gateway, handle: &Value, made_up: &Value) {
    let keys =
        [(&[READ][..], &[][..]), (&[WRITE], &["--ceiling", "READ_ONLY"]), (&[WRITE], &["--resource", "invoice/1"])];
    for (scopes, limits) in keys {
        let (key, _) = world.key("acme", "ada", scopes, limits);
        let legacy = Agent::legacy_bearing(gateway.address, &key);
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            let ask = |id: &Value| legacy.ask(method, json!({ "taskId": id })).message["error"].clone();
            assert_eq!(ask(handle), ask(made_up), "{method} {limits:?}");
            assert!(ask(handle).is_object());
        }
        assert!(!legacy.ask("tasks/list", json!({})).raw.contains(handle.as_str().unwrap()));
        let capabilities = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
        let meta = json!({ "io.modelcontextprotocol/clientCapabilities": capabilities });
        let wanted = json!({ "notifications": { "taskIds": [handle] }, "_meta": meta });
        let mut told = gateway.bearing(&key).begin(1, "subscriptions/listen", wanted);
        let granted = told.next_event().unwrap();
        assert!(granted.contains("acknowledged") && !granted.contains(handle.as_str().unwrap()), "{granted}");
    }
}

/// Other principals of the tenant, and the same name in another tenant, get the same answer for existing handles, tasks and sessions as for
/// invented ones.
#[test]
fn t22_handles_tickets_tasks_of_others() {
    let world = World::company([slow_change()]).waiting_ms(300).unpinned().guarding(&[]);
    let gateway = world.serve();
    let (ada, _) = world.key("acme", "ada", &[WRITE], &[]);
    let others = [("acme", "mallory"), ("globex", "ada")];
    let mut strangers: Vec<String> =
        others.iter().map(|(tenant, name)| world.key(tenant, name, &[WRITE], &[]).0).collect();
    // An agent of the same user whose credential is for another tool has no access to this one.
    let agent = world.delegated(&ada, &["--agent", "reader", "--tool", "company.count_effects"]);
    strangers.push(agent["credential"].as_str().unwrap().to_owned());
    let owner = gateway.bearing(&ada);
    let handle = begin_long_work(&owner);
    let fetch = |agent: &Agent, handle: &Value| agent.call("servanda__result", json!({ "handle": handle }));
    assert!(fetch(&owner, &handle).raw.contains("still goes on"));
    let session = Agent::legacy_bearing(gateway.address, &ada);
    assert_eq!(session.ask("tasks/get", json!({ "taskId": handle })).result()["status"], "working");
    let steady = |reply: &Reply| {
        let refusal = reply.refusal();
        (refusal["error_code"].clone(), refusal["message"].as_str().unwrap().to_owned(), refusal["handle"].clone())
    };
    let made_up = json!("eff_00000000000000000000000000000000");
    for stranger in &strangers {
        let agent = gateway.bearing(stranger);
        let told = fetch(&agent, &handle);
        assert_eq!(steady(&told), steady(&fetch(&agent, &made_up)), "as if there were none");
        // Their own legacy sessions, asking about another user's task.
        let legacy = Agent::legacy_bearing(gateway.address, stranger);
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            let told = legacy.ask(method, json!({ "taskId": handle }));
            let unknown = legacy.ask(method, json!({ "taskId": made_up }));
            assert_eq!(told.message["error"], unknown.message["error"], "{method}: {}", told.raw);
            assert!(told.message["error"].is_object());
        }
        assert!(!legacy.ask("tasks/list", json!({})).raw.contains(handle.as_str().unwrap()));
        // Another user's session, with their own credential.
        let hijacked = session.showing(stranger).begin(1, "tools/list", json!({}));
        assert_eq!(hijacked.status, 404);
    }
    narrower_credentials(&world, &gateway, &handle, &made_up);
    assert!(fetch(&owner, &handle).raw.contains("still goes on"), "and it was not cancelled");
    // Cancelled by its owner, so that the world can end.
    session.ask("tasks/cancel", json!({ "taskId": handle }));
}
