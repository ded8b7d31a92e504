//! Many effects with an unknown outcome, settled by one command, or by two at once.

use std::{sync::Arc, thread};

use bytes::Bytes;
use serde_json::{Value, json};
use servanda_contract::{CallId, Digest, digest::DigestDomain, tool::EffectClass};
use servanda_effects::effect::{
    BeginMode, BeginRequest, ClientKey, DispatchEnd, DispatchOrder, EffectChange, EffectEvent, EffectId, EffectKey,
    EffectStore as _, EffectTarget, OwnerId,
};
use servanda_ledger::Ledger;

use crate::{contract::pay_invoice, world::World};

const UNKNOWN: usize = 253;

/// A ledger with unknown effects of two upstreams, every fifth of the second, and one that is running.
fn left_behind() -> World {
    let world = World::company([pay_invoice()]);
    let ledger = world.ledger();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let ledger = Arc::new(Ledger::open(&ledger).unwrap());
        for number in 0..=UNKNOWN {
            let upstream = if number % 5 == 0 { "shop" } else { "bank" };
            let wanted = begin(number, upstream);
            let target = EffectTarget::Key(wanted.key.clone());
            let apply = |target, event| ledger.apply(EffectChange::new(target, event));
            let begun = apply(target, EffectEvent::Begin(Box::new(wanted))).await.unwrap().effect.unwrap();
            if number < UNKNOWN {
                let end = DispatchEnd::Unknown("the upstream was lost before it answered".to_owned());
                apply(EffectTarget::Id(begun.id.clone()), EffectEvent::Settle(begun.claim(), end)).await.unwrap();
            }
        }
        ledger.close().await;
    });
    world
}

fn begin(number: usize, upstream: &str) -> BeginRequest {
    let digest = Digest::compute(DigestDomain::Payload, &[number.to_string().as_bytes()]);
    let key = EffectKey {
        tenant: "local".to_owned(),
        principal: if number.is_multiple_of(2) { "ada" } else { "bob" }.to_owned(),
        tool: format!("{upstream}.pay"),
        contract_major: 1,
        client_key: ClientKey::Given(format!("order {number}")),
    };
    let order = DispatchOrder {
        exposed_tool: format!("{upstream}__pay"),
        upstream: upstream.to_owned(),
        upstream_tool: "pay".to_owned(),
        contract_version: "1.0.0".to_owned(),
        contract_digest: digest,
        upstream_key: format!("k{number}"),
        arguments: Bytes::from_static(b"{}"),
        timeout_ms: 5_000,
        key_window_ms: None,
        dedup_window_ms: 86_400_000,
        keeps_answer: true,
        resources: Vec::new(),
        reads: Vec::new(),
        overlaps: false,
        actors: Vec::new(),
    };
    BeginRequest {
        id: EffectId::new(),
        key,
        request: digest,
        class: EffectClass::N,
        owner: OwnerId::new(),
        call_id: CallId::from(format!("call_{number}")),
        order,
        mode: BeginMode::Dispatch,
        continues: None,
    }
}

fn count(world: &World, args: &[&str]) -> usize {
    let listed = world.run(&[&["effects", "--limit", "1000", "--json"], args].concat()).ended(0).json();
    listed.as_array().unwrap().len()
}

const OF_BANK: [&str; 8] =
    ["settle", "--filter", "upstream=bank", "--as", "not-executed", "--evidence", "the bank's list has none", "--json"];

#[test]
fn one_command_settles_what_its_conditions_say_and_nothing_else() {
    let world = left_behind();
    let unknown = ["--state", "outcome_unknown"];
    assert_eq!(count(&world, &unknown), UNKNOWN);
    let of_bank = count(&world, &["--state", "outcome_unknown", "--filter", "upstream=bank"]);
    let settle = |more: &[&str]| world.run(&[&["effects"], &OF_BANK[..], more].concat());

    let shown = settle(&["--dry-run"]).ended(0).json();
    assert_eq!((&shown["matched"], &shown["settled"]), (&json!(of_bank), &json!(0)));
    assert_eq!(shown["effects"].as_array().unwrap().len(), of_bank);
    let nobody_asked = settle(&[]).ended(2);
    assert!(nobody_asked.stderr.contains("--yes"), "{}", nobody_asked.stderr);
    assert_eq!(count(&world, &unknown), UNKNOWN, "nothing was settled yet");

    let settled = settle(&["--yes"]).ended(0).json();
    assert_eq!((&settled["settled"], &settled["changed_meanwhile"]), (&json!(of_bank), &json!(0)));
    assert_eq!(count(&world, &unknown), UNKNOWN - of_bank);
    for effect in settled["effects"].as_array().unwrap() {
        assert_eq!((&effect["upstream"], &effect["became"]), (&json!("bank"), &json!("settled")));
    }
    let one = settled["effects"][7]["id"].as_str().unwrap();
    let page: Value = world.run(&["effects", "show", one, "--json"]).ended(0).json();
    assert_eq!(page["settlement"]["evidence"], "the bank's list has none");
    assert_eq!(page["settlement"]["by"], settled["by"]);
    assert_eq!(settle(&["--yes"]).ended(0).json()["matched"], 0, "it may be run again");
}

#[test]
fn two_who_settle_the_same_settle_each_effect_once() {
    let world = left_behind();
    let of_bank = count(&world, &["--state", "outcome_unknown", "--filter", "upstream=bank"]);
    let reports: Vec<Value> = thread::scope(|scope| {
        let run = || world.run(&[&["effects"], &OF_BANK[..], &["--yes"]].concat()).ended(0).json();
        let both = [scope.spawn(run), scope.spawn(run)];
        both.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let settled: u64 = reports.iter().map(|report| report["settled"].as_u64().unwrap()).sum();
    assert_eq!(settled, of_bank as u64, "{reports:?}");
    assert_eq!(count(&world, &["--state", "outcome_unknown", "--filter", "upstream=bank"]), 0);
}
