//! The verifiable log from outside: a gateway writes it, a copy is verified with nothing but its key, and what is changed in a copy is found.

use std::{fs, path::Path};

use serde_json::json;

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
    // Six contracts and the policies. Each payment: its claim, a decision, its dispatch, its end, the end of its effect. The others are one leaf each.
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
    assert_eq!(proven.as_array().unwrap().len(), 5, "{proven}");
    let (leaf, proof) = (proven[0]["leaf"].as_str().unwrap(), proven[0]["proof"].as_str().unwrap());
    assert!(leaf.contains(&calls[0]) && !leaf.contains("inv_1003"), "no payload: {leaf}");
    assert!(proof.starts_with("c2sp.org/tlog-proof@v1\nindex "), "{proof}");
    let unknown = world.run(&["audit", "prove", "call_0"]);
    assert!(unknown.code != Some(0) && unknown.stderr.contains("hint:"), "{unknown:?}");
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
    world.write("forbid.cedar", "@id(\"forbid-nothing\") forbid (principal, action, resource) when { false };");
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
