//! `servanda passkeys`, and `approvals verify` with a warrant that a passkey signed in Chromium (`passkey_warrant.json`, made by trials/console).

use std::sync::Arc;

use serde_json::{Value, json};
use servanda_authn::passkeys;
use servanda_authority::passkey::StoredPasskey;
use servanda_contract::{Timestamp, time::Clock as _};
use servanda_engine::SystemClock;
use servanda_ledger::Ledger;

use crate::{contract::pay_invoice, world::World};

fn golden() -> Value {
    serde_json::from_str(include_str!("passkey_warrant.json")).unwrap()
}

fn text(golden: &Value, name: &str) -> String {
    golden[name].as_str().unwrap().to_owned()
}

fn passkey(principal: &str, name: &str, id: &str) -> StoredPasskey {
    serde_json::from_value(json!({
        "version": 1, "tenant": "acme", "principal": principal, "name": name, "created_at": 1_800_000_000_000_u64,
        "passkey": {
            "credential_id": id, "public_key": golden()["passkey"], "sign_count": 1, "rp_id": "gateway.example",
            "is_backup_eligible": false,
        },
    }))
    .unwrap()
}

/// A ledger with passkeys of two people.
fn world() -> World {
    let world = World::company([pay_invoice()]);
    let ledger = world.ledger();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let ledger = Arc::new(Ledger::open(&ledger).unwrap());
        for stored in
            [passkey("ada", "lap\ntop", "AAAA"), passkey("ada", "blue key", "BBBB"), passkey("ben", "phone", "AAAA")]
        {
            assert!(passkeys::register(ledger.as_ref(), &stored, now()).await.unwrap());
        }
        ledger.close().await;
    });
    world
}

fn now() -> Timestamp {
    SystemClock.now()
}

#[test]
fn an_operator_lists_shows_and_revokes_passkeys() {
    let world = world();
    let key = text(&golden(), "passkey");
    let listed = world.run(&["passkeys"]).ended(0);
    assert!(listed.stdout.contains("acme/ben") && listed.stdout.contains("blue key"), "{}", listed.stdout);
    assert!(!listed.stdout.contains("lap\ntop"), "a name stays on its line: {}", listed.stdout);
    let listed = world.run(&["passkeys", "list", "--json"]).ended(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 3);
    assert_eq!((&listed[2]["principal"], &listed[2]["public_key"]), (&json!("ben"), &json!(key)));
    let shown = world.run(&["passkeys", "show", "acme/ada"]).ended(0);
    assert_eq!(shown.stdout, format!("acme/ada={key}\nacme/ada={key}\n"));
    let id = listed[2]["id"].as_str().unwrap().to_owned();
    assert_eq!(world.run(&["passkeys", "show", &id, "--json"]).ended(0).json()[0]["name"], "phone");
    for (wrong, said) in
        [("abc", "4 characters or more"), ("passkey:", "4 characters or more"), ("zzzz", "no such passkey")]
    {
        let ran = world.run(&["passkeys", "revoke", wrong]);
        assert!(ran.code != Some(0) && ran.stderr.contains(said), "{wrong}: {ran:?}");
    }
    assert_ne!(world.run(&["passkeys", "show", "acme/nobody"]).code, Some(0));
    let short = id.strip_prefix("passkey:").unwrap().get(..12).unwrap();
    world.run(&["passkeys", "revoke", short]).ended(0);
    // By the id that records have, like every other credential.
    world.run(&["revoke", listed[0]["id"].as_str().unwrap()]).ended(0);
    let left = world.run(&["passkeys", "list", "--json"]).ended(0).json();
    assert_eq!(left, json!([listed[1]]));
}

#[test]
fn a_warrant_that_a_passkey_signed_is_checked_without_the_gateway() {
    let (world, golden) = (World::empty(), golden());
    let (warrant, key, passkey) = (text(&golden, "warrant"), text(&golden, "key"), text(&golden, "passkey"));
    let verify = |warrant: &str, more: &[&str]| {
        world.run_with_input(&[&["approvals", "verify", "--key", &key], more].concat(), warrant)
    };
    let plain = verify(&warrant, &[]).ended(0);
    assert!(plain.stdout.contains("signed by their passkey") && plain.stdout.contains(&passkey), "{}", plain.stdout);
    assert!(plain.stderr.contains("whose passkeys these are is the gateway's word"), "{}", plain.stderr);
    for known in [passkey.clone(), format!("local={passkey}"), format!("local/local={passkey}")] {
        let held = verify(&warrant, &["--passkey", &known]).ended(0);
        assert!(held.stderr.contains("whatever the gateway says"), "{}", held.stderr);
    }
    // An EdDSA key of somebody else.
    let other = format!("pAEBAycgBiFYI{}", "A".repeat(43));
    let eve = format!("eve={passkey}");
    for (more, said) in [
        (&["--passkey", &other][..], "was signed by another passkey"),
        (&["--passkey", &eve], "was signed by the passkey of `eve`"),
        (&["--passkey", &passkey, "--passkey", &other], "no decision in the warrant was signed by the passkey"),
        (&["--passkey", "nonsense"], "is not the public key of a passkey"),
    ] {
        let refused = verify(&warrant, more);
        assert!(refused.code != Some(0) && refused.stderr.contains(said), "{said}: {refused:?}");
    }
    let mut changed = warrant.clone();
    let at = changed.len() - 4;
    changed.replace_range(at..=at, if changed.as_bytes()[at] == b'A' { "B" } else { "A" });
    assert_ne!(verify(&changed, &["--passkey", &passkey]).code, Some(0));
}
