//! Configuration and contracts change while a gateway runs: it applies them, and running calls are not affected.

use serde_json::json;

use crate::{
    contract::{count_effects, get_invoice, slow_change},
    streams::call_aside,
    world::{World, until},
};

#[test]
fn a_call_in_flight_ends_in_the_world_it_began_in() {
    let world = World::company([slow_change(), count_effects()]).unpinned();
    let mut gateway = world.serve();
    let agent = gateway.legacy();
    agent.call("company__count_effects", json!({})).success();
    let waiting = call_aside(&agent, "slow", "company__misbehave_slow", json!({ "milliseconds": 4000 }));
    world.record_of("company__misbehave_slow", "dispatching");

    // One tool is removed, another is added, and the company is reached in another way, so it has to be restarted.
    std::fs::remove_file(world.path(&format!("contracts/{}.json", slow_change().file_stem()))).unwrap();
    world.add(&get_invoice());
    let mut company = world.sample(&["--misbehave"]);
    company["env"] = json!({ "ANOTHER": "way" });
    world.configure_with(&json!({
        "servanda": 1,
        "upstreams": { "company": company },
        "pins": { "missing": "ignore" },
    }));
    let expected = ["company__count_effects", "company__get_invoice"];
    until("the new tools to be listed", || {
        let mut tools = agent.tools();
        tools.sort();
        (tools == expected).then_some(())
    });
    // The new list is in force before the line about it is written.
    let told = "servanda.yaml: 1 tool new (company__get_invoice), 1 tool gone (company__misbehave_slow), 1 upstream changed \
                (company); calls in flight end as they began\n";
    until("the change to be told", || gateway.said().contains(told).then_some(()));
    agent.call("company__count_effects", json!({})).success();
    let (status, answer) = waiting.join().unwrap();
    assert_eq!(status, 200);
    assert!(answer.contains("answered after 4000 ms"), "{answer}");
    world.record_of("company__misbehave_slow", "completed");

    gateway.terminate();
    assert_eq!(gateway.wait(), Some(0), "{}", gateway.said());
    world.assert_nothing_left();
}

#[test]
fn a_mistake_changes_nothing() {
    let world = World::company([count_effects()]).unpinned();
    let gateway = world.serve();
    let agent = gateway.modern();
    let good = world.read("servanda.yaml");
    world.write("servanda.yaml", "servanda: 1\nupstream: {}\n");
    until("the mistake to be told", || gateway.said().contains("the earlier one stays in force").then_some(()));
    agent.call("company__count_effects", json!({})).success();

    world.write("servanda.yaml", &good);
    world.write("contracts/broken.yaml", "nonsense: true\n");
    until("the second mistake to be told", || {
        (gateway.said().matches("the earlier one stays in force").count() == 2).then_some(())
    });
    assert_eq!(agent.tools(), ["company__count_effects"]);

    std::fs::remove_file(world.path("contracts/broken.yaml")).unwrap();
    world.add(&get_invoice());
    until("the corrected configuration to be used", || (agent.tools().len() == 2).then_some(()));
}

/// Contracts are found in subfolders of the contracts' folder, where `init` puts them, and so are their changes.
#[test]
fn a_contract_in_a_folder_is_noticed() {
    let world = World::company([]).unpinned();
    let file = format!("contracts/company/{}.json", count_effects().file_stem());
    world.write(&file, &count_effects().to_string());
    let gateway = world.serve();
    let agent = gateway.modern();
    assert_eq!(agent.tools(), ["company__count_effects"]);
    // Written in place: the folder itself is unchanged.
    world.write(&file, "nonsense: true\n");
    until("the mistake to be told", || gateway.said().contains("the earlier one stays in force").then_some(()));
}

/// Pins hold until the gateway ends, whatever else changes.
#[test]
fn a_lock_that_is_gone_takes_nothing_back() {
    let world = World::turning(&[]);
    world.offer(&crate::turncoat::poisoned());
    let gateway = world.serve();
    let agent = gateway.modern();
    let city = json!({ "city": "Rome" });
    agent.call("weather__forecast", city.clone()).refusal();
    std::fs::remove_file(world.path("servanda.lock")).unwrap();
    let contracts = world.read("contracts/weather.yaml");
    let (head, rest) = contracts.split_once("\n  lookup:\n").unwrap();
    let rest: Vec<&str> = rest.lines().skip_while(|line| line.starts_with("    ")).collect();
    world.write("contracts/weather.yaml", &format!("{head}\n{}\n", rest.join("\n")));
    until("the changed configuration to be used", || (agent.tools() == ["weather__end"]).then_some(()));
    agent.call("weather__forecast", city).refusal();
    assert_eq!(world.performed("forecast"), 0);
    assert!(gateway.said().contains("is gone; its pins stay in force"), "{}", gateway.said());
}
