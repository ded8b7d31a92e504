//! The verifiable log from outside: a gateway writes it, a copy is verified with nothing but its key, and what is changed in a copy is found.

use std::{collections::BTreeSet, fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use sha2::{Digest as _, Sha256};

use crate::{
    contract::{count_effects, pay_invoice},
    world::{Ran, World, until},
};

/// A company that was paid twice, refused something and read something.
fn with_history() -> (World, Vec<String>) {
    let world = World::company([pay_invoice(), count_effects()]);
    let gateway = world.serve();
    let agent = gateway.modern();
    let pay = |cents: u64| {
        let payment = json!({ "invoice_id": "inv_1003", "amount_cents": cents, "currency": "CHF" });
        agent.call("company__pay_invoice", payment).call_id()
    };
    let mut calls = vec![pay(100), pay(200)];
    let refused = agent.call("company__pay_invoice", json!({ "invoice_id": "inv_1003" }));
    calls.push(refused.refusal()["call_id"].as_str().unwrap_or_default().to_owned());
    calls.push(agent.call("company__count_effects", json!({})).call_id());
    // Stopping signs what is left.
    gateway.terminate();
    drop(gateway);
    until("the log is signed", || {
        let status = world.run(&["audit", "--json"]);
        (status.code == Some(0) && status.json()["leaves"].as_u64() >= Some(19)).then_some(())
    });
    (world, calls)
}

fn verify(world: &World, more: &[&str]) -> Ran {
    let key = world.run(&["audit", "key"]).ended(0).stdout;
    world.run(&[&["audit", "verify", "copy", "--key", key.trim()], more].concat())
}

#[test]
fn a_copy_is_verified_with_nothing_but_the_key() {
    let (world, calls) = with_history();
    world.run(&["audit", "copy", "copy"]).ended(0);
    let verified = verify(&world, &["--json"]).ended(0).json();
    // Two contracts and the policies. Each payment: its claim, what is reserved for it, a decision, its dispatch, its end, the end of its effect,
    // what it cost. The others are one leaf each.
    assert_eq!(verified["leaves"], 19, "{verified}");
    assert_eq!(
        verified["kinds"],
        json!({ "decisions before a dispatch": 2, "ends after a dispatch": 2, "other changes": 7, "states of effects": 6, "whole calls": 2 })
    );
    let elsewhere = World::empty();
    let key = world.run(&["audit", "key"]).ended(0).stdout;
    let copy = world.path("copy");
    let said = elsewhere.run(&["audit", "verify", copy.to_str().unwrap(), "--key", key.trim()]).ended(0);
    assert!(said.stdout.starts_with("19 leaves hold, signed by servanda/"), "{said:?}");

    let proven = world.run(&["audit", "prove", &calls[0], "--json"]).ended(0).json();
    assert_eq!(proven.as_array().unwrap().len(), 7, "{proven}");
    let (leaf, proof) = (proven[0]["leaf"].as_str().unwrap(), proven[0]["proof"].as_str().unwrap());
    assert!(leaf.contains(&calls[0]) && !leaf.contains("inv_1003"), "no payload: {leaf}");
    assert!(proof.starts_with("c2sp.org/tlog-proof@v1\nindex "), "an effect has no commitment: {proof}");
    let unknown = world.run(&["audit", "prove", "call_0"]);
    assert!(unknown.code != Some(0) && unknown.stderr.contains("hint:"), "{unknown:?}");
}

/// What stands in a proof's `extra`.
fn extra(proof: &str) -> Option<Value> {
    let line = proof.lines().nth(1)?.strip_prefix("extra ")?;
    serde_json::from_slice(&STANDARD.decode(line).unwrap()).ok()
}

fn bytes(hex: &str) -> Vec<u8> {
    let (pairs, _) = hex.as_bytes().as_chunks::<2>();
    pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap());
    bytes.iter().flat_map(digits).collect()
}

/// An outsider checks that these arguments belong to a leaf, as docs/audit-log.md says it, with nothing of ours.
#[test]
fn a_commitment_is_opened_by_an_outsider() {
    let (world, calls) = with_history();
    let proven = world.run(&["audit", "prove", &calls[0], "--json"]).ended(0).json();
    let decided = proven.as_array().unwrap().iter().find(|one| one["leaf"].as_str().unwrap().contains("decision"));
    let decided = decided.unwrap();
    let leaf: Value = serde_json::from_str(decided["leaf"].as_str().unwrap()).unwrap();
    let input = &leaf["event"]["decision"]["input"];
    let opening = extra(decided["proof"].as_str().unwrap()).unwrap();
    assert_eq!(opening, decided["opening"]);
    assert_eq!((&opening["thing"], &opening["id"]), (&json!("call"), &json!(calls[0])));
    let digest_of = |arguments: &str| {
        let mut digest = Sha256::new();
        for part in ["servanda/arguments/v1", "company__pay_invoice", arguments] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        digest.finalize().to_vec()
    };
    let salt = bytes(opening["salt"].as_str().unwrap());
    let commitment = |digest: &[u8]| {
        let hash = Sha256::new().chain_update(b"servanda/commitment/v1\0").chain_update(&salt).chain_update(digest);
        json!(format!("salted-sha256:{}", hex(&hash.finalize())))
    };
    // Byte for byte as the client sent them.
    let sent = json!({ "invoice_id": "inv_1003", "amount_cents": 100, "currency": "CHF" }).to_string();
    assert_eq!(commitment(&digest_of(&sent)), *input);
    assert_ne!(commitment(&digest_of(&sent.replace("100", "101"))), *input, "other arguments");
    let digest = opening["opens"][0]["digest"].as_str().unwrap();
    assert_eq!((bytes(digest), &opening["opens"][0]["commitment"]), (digest_of(&sent), input));
    // The salt of one call opens no other call.
    let other = world.run(&["audit", "prove", &calls[1], "--json"]).ended(0).json();
    let salts = |proven: &Value| -> BTreeSet<String> {
        let openings = proven.as_array().unwrap().iter().filter(|one| one.get("opening").is_some());
        openings.map(|one| one["opening"]["salt"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((salts(&proven).len(), salts(&other).len()), (2, 2), "of the call, and of what its budget held");
    assert!(salts(&proven).is_disjoint(&salts(&other)));
    // Sealed, and in the text, nothing or the same is shown.
    let sealed = world.run(&["audit", "prove", &calls[0], "--sealed", "--json"]).ended(0);
    assert!(!sealed.stdout.contains("extra ") && !sealed.stdout.contains("salt\""), "{sealed:?}");
    let secret: Vec<u8> = {
        let ledger = rusqlite::Connection::open(world.ledger()).unwrap();
        ledger.query_row("select secret from log_salts", [], |row| row.get(0)).unwrap()
    };
    let hex = hex(&secret);
    for shown in [&proven, &other] {
        let shown = shown.to_string();
        assert!(
            !shown.contains(&hex) && !shown.contains(&STANDARD.encode(&secret)),
            "the secret of the salts is shown"
        );
    }
    let page = world.run(&["audit", "prove", &calls[0]]).ended(0);
    assert!(
        page.stdout.contains(&format!("opens input: digest {digest}")) && page.stderr.contains("--sealed"),
        "{page:?}"
    );
}

fn events(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn leaves_are_exported_from_the_ledger_and_from_a_copy() {
    let (world, calls) = with_history();
    let all = world.run(&["audit", "export"]).ended(0);
    let exported = events(&all);
    assert_eq!(exported.len(), 19, "{all:?}");
    for (index, event) in exported.iter().enumerate() {
        assert_eq!(event["metadata"]["uid"], json!(index.to_string()), "{event}");
        assert_eq!((&event["class_uid"], &event["metadata"]["version"]), (&json!(6003), &json!("1.8.0")));
        assert!(event["time"].as_u64() > Some(1_700_000_000_000), "{event}");
    }
    let refused = exported.iter().find(|event| event["metadata"]["correlation_uid"] == json!(calls[2])).unwrap();
    assert_eq!(
        json!([refused["api"]["operation"], refused["status_id"], refused["actor"]["user"]["uid"]]),
        json!(["company__pay_invoice", 2, "local"])
    );
    assert!(refused["status_detail"].as_str().unwrap().contains(" at "), "{refused}");
    assert!(all.stderr.contains("--since-leaf 19"), "the cursor: {}", all.stderr);
    let later = world.run(&["audit", "export", "--since-leaf", "9"]).ended(0);
    assert_eq!(events(&later), exported[9..]);
    assert_eq!(world.run(&["audit", "export", "--since-leaf", "19"]).ended(0).stdout, "");
    let beyond = world.run(&["audit", "export", "--since-leaf", "20"]).ended(1);
    assert!(beyond.stderr.contains("another log") && beyond.stdout.is_empty(), "{beyond:?}");

    world.run(&["audit", "copy", "copy"]).ended(0);
    let elsewhere = World::empty();
    let copy = world.path("copy");
    let of_copy = elsewhere.run(&["audit", "export", "--dir", copy.to_str().unwrap()]).ended(0);
    assert_eq!(of_copy.stdout, all.stdout, "a copy needs neither a configuration nor a ledger");
    let place = format!("{}/tile/entries/000.p/19", copy.display());
    let mut bundle = fs::read(&place).unwrap();
    let allow = bundle.windows(5).position(|bytes| bytes == b"allow").unwrap();
    bundle[allow] = b'A';
    fs::write(&place, bundle).unwrap();
    let changed = elsewhere.run(&["audit", "export", "--dir", copy.to_str().unwrap()]).ended(1);
    assert!(changed.stdout.is_empty() && changed.stderr.contains("does not hold"), "{changed:?}");
    let nothing = elsewhere.run(&["audit", "export", "--dir", "nowhere"]).ended(2);
    assert!(nothing.stderr.contains("has no log"), "{nothing:?}");
}

#[test]
fn leaves_are_searched_by_what_they_are_about() {
    let (world, calls) = with_history();
    let indices = |args: &[&str]| -> Vec<u64> {
        let found = world.run(&[&["audit", "search", "--json"], args].concat()).ended(0).json();
        found.as_array().unwrap().iter().map(|one| one["index"].as_u64().unwrap()).collect()
    };
    let exported = events(&world.run(&["audit", "export"]).ended(0));
    let whose = |call: &str| -> Vec<u64> {
        let is = |event: &&Value| event["metadata"]["correlation_uid"] == json!(call);
        exported.iter().filter(is).map(|event| event["metadata"]["sequence"].as_u64().unwrap()).collect()
    };
    for call in &calls {
        assert_eq!(indices(&["--call", call]), whose(call), "{call}");
    }
    let effect = &exported[usize::try_from(whose(&calls[0])[0]).unwrap()]["unmapped"]["effect"]["effect"];
    let of_effect = indices(&["--effect", effect.as_str().unwrap()]);
    assert_eq!(of_effect.len(), 4, "its three states and the end of its call: {of_effect:?}");
    // The claim of a payment and what its budget reserves come before its decision, and are found by its call only.
    let of_tool = indices(&["--tool", "company__pay_invoice"]);
    let expected: Vec<u64> = [&whose(&calls[0])[2..], &whose(&calls[1])[2..], &whose(&calls[2])].concat();
    assert_eq!(of_tool, expected);
    assert_eq!(indices(&["--tool", "company.pay_invoice", "--class", "success"]).len(), 2);
    assert_eq!(indices(&["--caller", "local/local", "--call", &calls[3]]), whose(&calls[3]));
    assert_eq!(indices(&["--caller", "nobody"]), [0; 0]);
    assert_eq!(indices(&["--since", "1h", "--limit", "5"]), [0, 1, 2, 3, 4]);
    assert_eq!(indices(&["--since", "1h", "--since-leaf", "17"]), [17, 18]);
    assert_eq!(indices(&["--until", "1h"]), [0; 0]);
    let trace = exported[usize::try_from(whose(&calls[3])[0]).unwrap()]["trace"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(indices(&["--trace", &trace]), whose(&calls[3]));
    assert_eq!(world.run(&["audit", "search"]).ended(2).stdout, "", "say what");
    let more = world.run(&["audit", "search", "--since", "1h", "--limit", "2"]).ended(0);
    assert!(more.stderr.contains("--since-leaf 2 goes on"), "{more:?}");
    let line = more.stdout.lines().next().unwrap();
    assert!(line.starts_with("0  {\"at_ms\":"), "{line}");
    world.run(&["audit", "copy", "copy"]).ended(0);
    assert_eq!(indices(&["--call", &calls[0], "--dir", "copy"]), whose(&calls[0]));
}

/// What an agent sends is in no list, export, search or proof, nor in the name of a file.
#[test]
fn what_agents_send_is_not_exported() {
    const CANARY: &str = "inv_70313370";
    let world = World::company([pay_invoice(), count_effects()]);
    let gateway = world.serve();
    let agent = gateway.modern();
    let payment = json!({ "invoice_id": CANARY, "amount_cents": 100, "currency": "CHF" });
    let call = agent.call("company__pay_invoice", payment).call_id();
    agent.call("company__pay_invoice", json!({ "invoice_id": "inv_1003", "note": CANARY }));
    drop(gateway);
    until("the log is signed", || {
        let found = world.run(&["audit", "search", "--call", &call, "--json"]);
        (found.code == Some(0) && found.json().as_array().unwrap().len() >= 7).then_some(())
    });
    world.run(&["audit", "copy", "copy"]).ended(0);
    for args in [
        &["audit", "export"][..],
        &["audit", "export", "--json", "--dir", "copy"],
        &["audit", "search", "--since", "1h"],
        &["audit", "prove", &call],
        &["audit", "prove", &call, "--json"],
        &["calls"],
        &["calls", "--json"],
        &["calls", "--csv"],
    ] {
        let ran = world.run(args).ended(0);
        assert!(ran.stdout.len() > 100 && !ran.everything().contains(CANARY), "{args:?}: {ran:?}");
    }
    let mut folders = vec![world.path(".")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            assert!(!path.display().to_string().contains(CANARY), "{}", path.display());
            folders.extend(path.is_dir().then_some(path));
        }
    }
}

#[test]
fn a_copy_grows_and_an_earlier_checkpoint_is_part_of_it() {
    let (world, _) = with_history();
    world.run(&["audit", "copy", "copy"]).ended(0);
    fs::copy(world.path("copy/checkpoint"), world.path("before")).unwrap();
    world.call("company__count_effects", "{}").ended(0);
    let grown = until("the log grows", || {
        world.run(&["audit", "copy", "copy"]).ended(0);
        let verified = verify(&world, &["--since", "before", "--json"]).ended(0).json();
        (verified["leaves"].as_u64() > Some(19)).then_some(verified)
    });
    assert_eq!(grown["leaves"], 20, "{grown}");
    fs::copy(world.path("before"), world.path("copy/checkpoint")).unwrap();
    let newer = world.path("newer");
    world.run(&["audit", "copy", newer.to_str().unwrap()]).ended(0);
    let cut_back = verify(&world, &["--since", "newer/checkpoint"]);
    assert!(cut_back.code != Some(0) && cut_back.stderr.contains("it had 20 leaves and has 19"), "{cut_back:?}");
}

#[test]
fn what_is_changed_in_a_copy_is_found() {
    let (world, _) = with_history();
    world.run(&["audit", "copy", "copy"]).ended(0);
    let bundle = "copy/tile/entries/000.p/19";
    let original = fs::read(world.path(bundle)).unwrap();
    let place = original.windows(5).position(|bytes| bytes == b"allow").unwrap();
    let mut changed = original.clone();
    changed[place] = b'A';
    refused(&world, bundle, &changed, "leaf");
    refused(&world, bundle, &original[..original.len() - 9], "");
    fs::write(world.path(bundle), &original).unwrap();
    verify(&world, &[]).ended(0);
    let checkpoint = world.read("copy/checkpoint");
    refused(&world, "copy/checkpoint", checkpoint.replacen("\n19\n", "\n9\n", 1).as_bytes(), "signature");
    world.write("copy/checkpoint", &checkpoint);
    let foreign = with_history().0.run(&["audit", "key"]).ended(0).stdout;
    let of_another = world.run(&["audit", "verify", "copy", "--key", foreign.trim()]);
    assert!(of_another.code != Some(0) && of_another.stderr.contains("the policy does not have"), "{of_another:?}");
    let no_key = world.run(&["audit", "verify", "copy"]);
    assert!(no_key.code == Some(2) && no_key.stderr.contains("--key"), "{no_key:?}");
    let no_log = world.run(&["audit", "verify", "nowhere", "--key", foreign.trim()]);
    assert!(no_log.code == Some(2) && no_log.stderr.contains("has no log"), "{no_log:?}");
    let malformed = world.run(&["audit", "verify", "copy", "--key", "x"]);
    assert!(malformed.stderr.contains("servanda audit key"), "{malformed:?}");
}

fn refused(world: &World, file: &str, bytes: &[u8], says: &str) {
    fs::write(world.path(Path::new(file).to_str().unwrap()), bytes).unwrap();
    let refused = verify(world, &[]);
    assert!(refused.code != Some(0), "{refused:?}");
    assert!(refused.stderr.contains("does not hold") && refused.stderr.contains(says), "{refused:?}");
}

#[test]
fn what_decisions_depend_on_is_in_the_log() {
    let world = World::company([count_effects()]);
    world.call("company__count_effects", "{}").ended(0);
    world.run(&["quarantine", "block", "company__count_effects", "--reason", "a secret reason"]).ended(0);
    world.change_config(|config| config["policy"] = json!({ "files": ["forbid.cedar"] }));
    world.write(
        "forbid.cedar",
        "@id(\"none\") @may_never_apply(\"a test\") forbid (principal, action, resource) when { false };",
    );
    let told = until("the log tells it", || {
        world.call("company__count_effects", "{}");
        world.run(&["audit", "copy", "copy"]).ended(0);
        let folder = fs::read_dir(world.path("copy/tile/entries")).unwrap().next().unwrap().unwrap().path();
        let newest = fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path())
            .max_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
        let leaves = String::from_utf8_lossy(&fs::read(newest.unwrap()).unwrap()).into_owned();
        (leaves.matches("\"thing\":\"policy\"").count() == 2).then_some(leaves)
    });
    let told_times = |text: &str| told.matches(text).count();
    assert_eq!(told_times("\"change\":\"held by a person\""), 1, "{told}");
    assert_eq!(told_times("\"change\":\"added\""), told_times("\"thing\":\"contract\""), "each contract once: {told}");
    assert!(!told.contains("a secret reason"), "{told}");
    verify(&world, &[]).ended(0);
}

#[test]
fn a_log_that_is_switched_off_is_not_written() {
    let world = World::company([count_effects()]);
    let before = world.run(&["audit"]);
    assert!(before.code == Some(1) && before.stderr.contains("nothing is signed yet"), "{before:?}");
    world.change_config(|config| config["audit"] = json!({ "log": false }));
    world.call("company__count_effects", "{}").ended(0);
    let status = world.run(&["audit"]);
    assert!(status.code != Some(0) && status.stderr.contains("audit.log"), "{status:?}");
}
