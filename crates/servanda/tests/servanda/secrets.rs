//! `servanda secret`, and what other commands say about missing secrets.

use serde_json::json;

use crate::{contract::reads, snapshot::Page, world::World};

fn shop() -> World {
    let world = World::empty();
    let crm =
        json!({ "url": "http://127.0.0.1:9/mcp", "credential": { "secret": "store:crm-token", "header": "X-Token" } });
    let mut stub = world.stub(&["look"], Some(&json!({ "content": [] })));
    stub["credential"] = json!([
        { "secret": "store:crm-token", "env": "TOKEN" },
        { "secret": "env:SHOP_KEY", "argument": "/key" },
    ]);
    world.configure(&json!({ "crm": crm, "shop": stub }));
    world.add(&reads("look").of("shop"));
    world
}

#[test]
fn secrets_are_set_listed_and_removed() {
    let world = shop();
    let mut page = Page::new(&world);
    let mut printed = String::new();
    let mut run = |args: &[&str], input: &str, code: i32| {
        let ran = world.run_with_input(args, input).ended(code);
        page.show(&args.join(" "), &ran);
        printed.push_str(&ran.everything());
    };
    run(&["secret", "list"], "", 0);
    run(&["secret", "set", "crm-token"], "tok_canary_1\n", 0);
    run(&["secret", "set", "crm-token"], "tok_canary_2", 0);
    run(&["secret", "set", "spare"], "tok_canary_3", 0);
    run(&["secret", "list"], "", 0);
    run(&["secret", "list", "--json"], "", 0);
    run(&["secret", "rm", "crm-token"], "", 0);
    run(&["secret", "rm", "crm-token"], "", 2);
    run(&["secret", "set", "short"], "12345", 2);
    run(&["secret", "set", "none"], "\n", 2);
    run(&["secret", "set", "tok/canary"], "value-enough", 2);
    page.compare("secrets");
    assert!(!printed.contains("canary"), "{printed}");
    assert!(!world.read(".servanda/secrets.json").contains("canary"));
}

#[test]
fn check_and_doctor_name_what_an_upstream_lacks() {
    let world = shop();
    let checked = world.run(&["check"]).ended(0).stderr;
    assert!(
        checked.contains(
            "`crm` cannot be called: the secret `store:crm-token` is not set; `servanda secret set crm-token`"
        ),
        "{checked}"
    );
    assert!(checked.contains("`export SHOP_KEY=... where servanda is started`"), "{checked}");
    let doctor = world.run(&["doctor"]).ended(1).everything();
    assert!(doctor.contains("lacks a secret: the secret `store:crm-token` is not set"), "{doctor}");
    let called = world.call("shop__look", "{}").ended(3).everything();
    assert!(called.contains("servanda secret set crm-token"), "{called}");
    assert_eq!(world.record_of("shop__look", "not_executed")["class"], "DEPENDENCY_UNAVAILABLE");
    world.run_with_input(&["secret", "set", "crm-token"], "tok_value_1").ended(0);
    let ran = world.run_with_env(&["call", "shop__look", "{}"], &[("SHOP_KEY", "key_value_1")]).ended(0);
    assert!(!ran.everything().contains("value_1"));
    // A tool whose definition has no such argument does not get it.
    assert!(!world.stub_heard("tools/call").contains("key_value_1"));
    // If no key is given, the key's file is the store's only protection.
    world.run_with_env(&["secret", "list"], &[("SERVANDA_SECRET_KEY", "bm8ga2V5")]).ended(0);
    let other = world.run_with_env(
        &["call", "shop__look", "{}"],
        &[("SHOP_KEY", "key_value_1"), ("SERVANDA_SECRET_KEY", "bm8ga2V5")],
    );
    assert!(other.ended(3).everything().contains("SERVANDA_SECRET_KEY is not"));
}

#[test]
fn every_secret_that_an_upstream_needs_is_found() {
    let world = World::empty();
    let oauth = json!({
        "flow": "token_exchange", "issuer": "https://as.test", "client_id": "us", "client_secret": "store:client-secret",
        "client_key": "store:client-key", "client_key_algorithm": "ES256", "subject_token": "store:subject-token",
        "subject_token_type": "urn:x", "exchange_at": { "url": "https://idp.test/token", "client_id": "us", "client_secret": "store:idp-secret" },
    });
    let bearer =
        json!({ "flow": "jwt_bearer", "issuer": "https://as.test", "client_id": "us", "assertion": "store:assertion" });
    world.configure(&json!({
        "crm": { "url": "https://crm.test/mcp", "credential": { "oauth": oauth } },
        "erp": { "url": "https://erp.test/mcp", "credential": { "oauth": bearer } },
        "web": { "url": "https://web.test/mcp", "credential": { "secret": "env:SHORT_KEY", "header": "X-Key" } },
    }));
    let checked = world.run_with_env(&["check"], &[("SHORT_KEY", "12345")]).stderr;
    let listed = world.run(&["secret", "list", "--json"]).ended(0).json();
    for (upstream, name) in [
        ("crm", "client-secret"),
        ("crm", "client-key"),
        ("crm", "subject-token"),
        ("crm", "idp-secret"),
        ("erp", "assertion"),
    ] {
        let lacks = format!("`{upstream}` cannot be called: the secret `store:{name}` is not set");
        assert!(checked.contains(&lacks), "{name}: {checked}");
        let all = listed["secrets"].as_array().unwrap();
        let one = all.iter().find(|one| one["secret"] == format!("store:{name}")).unwrap();
        assert_eq!(one["used_by"], json!([upstream]), "{name}");
    }
    let short = "`web` cannot be called: the secret `env:SHORT_KEY` has fewer than 6 bytes";
    assert!(checked.contains(short) && !checked.contains("12345"), "{checked}");
    world.run_with_input(&["secret", "set", "assertion"], "value-enough").ended(0);
    let removed = world.run(&["secret", "rm", "assertion"]).ended(0).everything();
    assert!(removed.contains("erp cannot be called without it"), "{removed}");
}
