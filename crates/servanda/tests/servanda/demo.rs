//! `servanda demo`: the tour a newcomer sees first.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::{
    agent::Agent,
    world::{World, wait_for},
};

/// Every stage of this version that can refuse a call.
const GATES: [&str; 14] = [
    "resolve",
    "parse",
    "structure",
    "types",
    "bounds",
    "semantics",
    "behaviour",
    "scope",
    "policy",
    "state",
    "confirmation",
    "budget",
    "perform",
    "observe",
];

/// Issue 2, must show 1: the demo exits 0 and shows every gate refusing at least one call.
#[test]
fn the_tour_shows_every_gate() {
    let world = World::empty();
    let temporary = world.path("").display().to_string();
    let ran = world.run_with_env(&["demo", "--once"], &[("TMPDIR", &temporary)]).ended(0);
    let shown: Vec<Vec<&str>> = ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    for gate in GATES {
        // `3 types  pay_invoice {...}`, before the page about a single call, which names every gate anyway.
        let tour = shown.iter().take_while(|words| words.first() != Some(&"$"));
        let refused = tour.filter(|words| words.iter().take(2).any(|word| *word == gate)).count();
        assert!(refused > 0, "{gate} refuses nothing:\n{}", ran.stdout);
    }
    assert!(!ran.everything().contains('\u{1b}'), "no escape codes in a pipe");
    assert_eq!(std::fs::read_dir(world.path("")).unwrap().count(), 0, "it leaves nothing behind");

    let told = world.run_with_env(&["demo", "--once", "--json"], &[("TMPDIR", &temporary)]).ended(0).json();
    let steps = told["steps"].as_array().unwrap();
    for gate in GATES {
        let refused = |step: &&Value| step["refusal"]["gate"] == gate && step["as_expected"] == true;
        assert!(steps.iter().any(|step| refused(&step)), "{gate} refuses nothing: {told:#}");
    }
}

/// Without `--once` the gateway keeps running for an agent, until it is told to stop.
#[test]
fn the_gateway_stays_up() {
    let world = World::empty();
    let temporary = world.path("").display().to_string();
    let mut command = world.command(&["demo", "--listen", "127.0.0.1:0"]);
    command.env("TMPDIR", &temporary).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = loop {
        let line = lines.next().expect("an address").unwrap();
        if let Some((_, rest)) = line.split_once("http://") {
            break rest.split_once("/mcp").unwrap().0.parse().unwrap();
        }
    };
    let agent = Agent::legacy(address);
    let tools = agent.tools();
    let count = tools.iter().find(|tool| tool.ends_with("count_effects")).expect("the sample's tools");
    agent.call(count, json!({})).success();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    for line in lines {
        line.unwrap();
    }
    assert_eq!(wait_for(&mut child), Some(0));
    world.assert_nothing_left();
    assert_eq!(std::fs::read_dir(world.path("")).unwrap().count(), 0, "it leaves nothing behind");
}
