//! `servanda remove`: what is removed, what stays byte for byte, what still mentions the server, and that a failure changes nothing.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::json;

use crate::world::{BINARY, World, until};

/// Two servers from `init`, with a person's comment in the configuration.
fn world() -> World {
    let world = World::empty();
    let sample = json!({ "command": BINARY, "args": ["sample"] });
    let servers = json!({ "mcpServers": { "company": sample, "shop": sample } });
    world.write(".mcp.json", &servers.to_string());
    world.run(&["init", "--yes"]).ended(0);
    let config = world.read("servanda.yaml");
    world.write("servanda.yaml", &config.replace("  shop:\n", "  # The shop stays, this comment too.\n  shop:\n"));
    world
}

fn files(world: &World, folder: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut folders = vec![world.path(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path.display().to_string()) }
        }
    }
    found.sort();
    found
}

#[test]
fn a_server_goes_with_its_contracts_and_pins_and_nothing_else_changes() {
    let world = world();
    let before = world.read("servanda.yaml");
    let contracts = files(&world, "contracts");
    let dry = world.run(&["remove", "company", "--dry-run"]).ended(0);
    assert!(dry.stderr.contains("this goes:") && dry.stderr.contains("dry run"), "{}", dry.stderr);
    let asked = world.run(&["remove", "company"]).ended(2);
    assert!(asked.stderr.contains("nothing was removed: there is no terminal to ask on"), "{}", asked.stderr);
    let declined = world.run_on_terminal(&["remove", "company"], "n\n").ended(1);
    assert!(declined.stderr.contains("remove `company`? [y/N]"), "{}", declined.stderr);
    assert_eq!((world.read("servanda.yaml"), files(&world, "contracts")), (before.clone(), contracts.clone()));
    let removed = world.run(&["remove", "company", "--yes"]).ended(0);
    assert!(removed.stderr.contains(".mcp.json still lists `company`"), "{}", removed.stderr);
    let after = world.read("servanda.yaml");
    let entry = before.split_once("  company:\n").unwrap().1.split_once("  # The shop").unwrap().0;
    assert_eq!(after, before.replace(&format!("  company:\n{entry}"), ""), "the rest is the same, byte for byte");
    let left: Vec<String> = contracts.into_iter().filter(|file| !file.contains("/company")).collect();
    assert_eq!(files(&world, "contracts"), left);
    let lock = world.read("servanda.lock");
    assert!(lock.contains("\n  shop:\n") && !lock.contains("\n  company:\n"), "{lock}");
    world.run(&["check"]).ended(0);
    let again = world.run(&["remove", "company", "--yes"]).ended(2);
    assert!(
        again.stderr.contains("has no server `company`") && again.stderr.contains("hint: it has shop"),
        "{}",
        again.stderr
    );
    world.run(&["remove", "shop", "--yes"]).ended(0);
    assert!(world.read("servanda.yaml").contains("upstreams: {}"), "{}", world.read("servanda.yaml"));
}

#[test]
fn what_still_mentions_the_server_is_named() {
    let world = world();
    world.write("policies/team.cedar", "forbid (principal, action, resource in Upstream::\"company\");\n");
    let config = world.read("servanda.yaml");
    let budget = "budgets:\n- { dimension: write, amount: 5, per: caller, period: day, tool: company.send_mail }\n";
    world.write("servanda.yaml", &config.replace("budgets:\n", budget));
    let told = world.run(&["remove", "company", "--yes", "--json"]).ended(0).json();
    let mentions: Vec<&str> =
        told["still_mentioned"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    for word in ["`budgets[0]`", "policies/team.cedar", ".mcp.json"] {
        assert!(mentions.iter().any(|one| one.contains(word)), "{word}: {mentions:?}");
    }
    assert_eq!(told["removed"], true);
}

/// The gateway does not ask for agreement to the tools of a removed server.
#[test]
fn a_gateway_that_runs_lets_a_server_go_without_a_warning() {
    let world = world();
    let gateway = world.serve();
    assert!(gateway.modern().tools().iter().any(|tool| tool == "company__get_invoice"));
    world.run(&["remove", "company", "--yes"]).ended(0);
    let said = until("the server to go", || Some(gateway.said()).filter(|said| said.contains("1 upstream gone")));
    assert!(!said.contains("are not pinned"), "{said}");
    assert!(gateway.modern().tools().iter().all(|tool| tool.starts_with("shop__")));
}

/// The configuration is written late and fails: everything else is restored.
#[test]
fn a_failure_leaves_everything_as_it_was() {
    let world = world();
    let mixed = world.read("servanda.yaml");
    let (contracts, lock) = (files(&world, "contracts"), world.read("servanda.lock"));
    let texts: Vec<String> = contracts.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    // A file whose server is unknown: nothing is changed.
    world.write("contracts/odd.yaml", "not: a contract\n");
    let told = world.run(&["remove", "company", "--yes"]).ended(2);
    assert!(told.stderr.contains("odd.yaml") && told.stderr.contains("nothing was changed"), "{}", told.stderr);
    fs::remove_file(world.path("contracts/odd.yaml")).unwrap();
    // The folder of the configuration is read-only, which does not stop root.
    let folder = world.path(".");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    let is_root = fs::write(world.path("probe"), "").is_ok();
    if !is_root {
        world.run(&["remove", "company", "--yes"]).ended(1);
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!((world.read("servanda.yaml"), world.read("servanda.lock")), (mixed, lock));
    assert_eq!(files(&world, "contracts"), contracts);
    let after: Vec<String> = contracts.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    assert_eq!(after, texts);
}

/// The lock file is a link that is not followed: the contracts, already removed by then, are restored.
#[test]
fn what_is_gone_when_it_fails_comes_back() {
    let world = world();
    let contracts = files(&world, "contracts");
    let texts: Vec<String> = contracts.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    fs::rename(world.path("servanda.lock"), world.path("elsewhere.lock")).unwrap();
    std::os::unix::fs::symlink(world.path("elsewhere.lock"), world.path("servanda.lock")).unwrap();
    let config = world.read("servanda.yaml");
    let told = world.run(&["remove", "company", "--yes"]).ended(1);
    assert!(told.stderr.contains("hint: everything is as it was"), "{}", told.stderr);
    assert_eq!((world.read("servanda.yaml"), files(&world, "contracts")), (config, contracts.clone()));
    let after: Vec<String> = contracts.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    assert_eq!(after, texts);
}
