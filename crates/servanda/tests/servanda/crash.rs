//! The gateway is killed as by a power cut: its running work is recorded, and it starts again normally.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use serde_json::json;

use crate::{
    contract::{count_effects, pay_invoice, slow_change},
    world::{World, until},
};

#[test]
fn a_change_in_flight_is_not_forgotten() {
    let world = World::company([slow_change(), pay_invoice(), count_effects()]);
    let gateway = world.serve();
    let agent = gateway.modern();
    agent.call("company__count_effects", json!({})).success();
    let params = json!({ "name": "company__misbehave_slow", "arguments": { "milliseconds": 2000 } });
    let connection = agent.question(1, "tools/call", params).send(gateway.address);
    let record = world.record_of("company__misbehave_slow", "dispatching");
    gateway.kill();
    drop(connection);
    let call_id = record["call_id"].as_str().unwrap();
    let explained = world.run(&["explain", call_id]).ended(0).stdout;
    assert!(explained.contains("outcome   dispatching"), "{explained}");
    for said in ["the gateway ended before it learned", "it may have happened", "read-only tool", "do not repeat"] {
        assert!(explained.contains(said), "{said}: {explained}");
    }
    assert!(explained.contains("confirmation  passed") && explained.contains("perform       SENT"), "{explained}");
    assert_eq!(world.ledger_integrity(), "ok");
    world.assert_nothing_left();

    let gateway = world.serve();
    let agent = gateway.modern();
    let unknown = until("the effect that was left behind to be unknown", || {
        let listed = world.run(&["effects", "--state", "outcome_unknown", "--json"]).json();
        listed.as_array().and_then(|effects| effects.first()).cloned()
    });
    assert_eq!(world.record_of("company__misbehave_slow", "dispatching")["call_id"], call_id, "it is still not known");

    // The server may still work on it for its five minutes: until then no other call may change the same resource, unless a person settles
    // the first.
    let id = unknown["id"].as_str().unwrap();
    world.run(&["effects", "settle", id, "--as", "completed", "--evidence", "the books of the server"]).ended(0);
    let payment = json!({ "invoice_id": "inv_1003", "amount_cents": 100, "currency": "CHF" });
    let paid = agent.call("company__pay_invoice", payment);
    paid.success();
    assert_eq!(world.record(&paid.call_id())["outcome"], "completed");
}

#[test]
fn reads_in_flight_leave_a_whole_ledger() {
    let world = World::company([count_effects()]);
    let mut kept = 0;
    for _ in 0..3 {
        let gateway = world.serve();
        let agent = gateway.modern();
        agent.call("company__count_effects", json!({})).success();
        let over = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..4)
            .map(|_| {
                let (agent, over) = (agent.clone(), over.clone());
                thread::spawn(move || {
                    // The loop ends with a failed call, because the gateway is killed during it.
                    let calls = || {
                        while !over.load(Ordering::Relaxed) {
                            agent.call("company__count_effects", json!({}));
                        }
                    };
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(calls)).is_err()
                })
            })
            .collect();
        until("calls to be on record", || (world.record_count() >= kept + 40).then_some(()));
        gateway.kill();
        over.store(true, Ordering::Relaxed);
        for caller in callers {
            caller.join().unwrap();
        }
        assert_eq!(world.ledger_integrity(), "ok");
        let count = world.record_count();
        assert!(count >= kept + 40, "what was kept stays");
        kept = count;
    }
    world.run(&["call", "company__count_effects"]).ended(0);
    let listed = world.run(&["explain", "--json"]).ended(0).json();
    assert_eq!(listed[0]["outcome"], "completed");
}
