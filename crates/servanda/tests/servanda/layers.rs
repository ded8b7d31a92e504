//! Contracts in layers, from outside: what `init` writes, what `contract show` prints, what `review` decides.

use serde_json::{Value, json};

use crate::world::World;

/// The most lines per tool, on average, in the files that `init` writes.
const LINES_PER_TOOL_MAX: usize = 20;

fn company() -> World {
    begun_with(&[])
}

/// The company with tools that are slow or break their contracts.
fn misbehaving() -> World {
    begun_with(&["--misbehave"])
}

fn begun_with(options: &[&str]) -> World {
    let world = World::empty();
    world.write(".mcp.json", &json!({ "mcpServers": { "company": world.sample(options) } }).to_string());
    world.run(&["init", "--yes"]).ended(0);
    world
}

fn shown(world: &World, tool: &str) -> Value {
    world.run(&["contract", "show", tool, "--json"]).ended(0).json()
}

#[test]
fn init_writes_a_few_lines_a_tool_that_make_whole_contracts() {
    let world = company();
    let text = world.read("contracts/company.yaml");
    let tools: Vec<Value> = world.run(&["tools", "--json"]).ended(0).json().as_array().unwrap().clone();
    let lines = text.lines().count();
    assert!(lines <= LINES_PER_TOOL_MAX * tools.len(), "{lines} lines for {} tools\n{text}", tools.len());
    let whole = jsonschema::validator_for(&world.run(&["schema", "contract"]).ended(0).json()).unwrap();
    for tool in &tools {
        let contract = shown(&world, tool["name"].as_str().unwrap())["contract"].clone();
        whole.validate(&contract).unwrap_or_else(|error| panic!("{tool}: {error}"));
    }
}

/// The output is a whole contract: in place of the entry, it has the same digest.
#[test]
fn what_is_shown_reads_back_as_the_same_contract() {
    let world = company();
    let page = world.run(&["contract", "show", "company__pay_invoice"]).ended(0).stdout;
    assert!(page.contains("timeout_ms: 60000  # built in for "), "{page}");
    assert!(page.contains("# servanda.lock") && page.contains("# company.yaml"), "{page}");
    let before = shown(&world, "company__pay_invoice");
    let text = world.read("contracts/company.yaml");
    let (head, rest) = text.split_once("\n  pay_invoice:\n").unwrap();
    let rest: Vec<&str> = rest.lines().skip_while(|line| line.starts_with("    ")).collect();
    world.write("contracts/company.yaml", &format!("{head}\n{}\n", rest.join("\n")));
    world.write("contracts/pay_invoice.yaml", &page);
    world.run(&["check"]).ended(0);
    assert_eq!(shown(&world, "company__pay_invoice")["digest"], before["digest"]);
}

#[test]
fn each_layer_is_named_and_overrides_the_one_below() {
    let world = company();
    let place = |world: &World| {
        let shown = shown(world, "company.pay_invoice");
        (shown["contract"]["runtime"]["timeout_ms"].clone(), shown["layers"]["/runtime/timeout_ms"].clone())
    };
    let (_, built_in) = place(&world);
    assert!(built_in.as_str().unwrap().starts_with("built in for "), "{built_in}");
    let config = world.read("servanda.yaml");
    world.write("servanda.yaml", &format!("{config}defaults: {{runtime: {{timeout_ms: 41000}}}}\n"));
    assert_eq!(place(&world), (json!(41_000), json!("servanda.yaml, defaults")));
    let text = world.read("contracts/company.yaml");
    let text = text.replacen("\ntools:\n", "\ndefaults: {runtime: {timeout_ms: 42000}}\ntools:\n", 1);
    world.write("contracts/company.yaml", &text);
    assert_eq!(place(&world), (json!(42_000), json!("company.yaml, defaults")));
    let text = text.replacen("\n  pay_invoice:\n", "\n  pay_invoice:\n    runtime: {timeout_ms: 43000}\n", 1);
    world.write("contracts/company.yaml", &text);
    assert_eq!(place(&world), (json!(43_000), json!("company.yaml")));
    world.run(&["check"]).ended(0);
}

#[test]
fn mistakes_name_the_file_and_the_field() {
    let world = company();
    let (config, text) = (world.read("servanda.yaml"), world.read("contracts/company.yaml"));
    let cases = [
        (
            "servanda.yaml",
            format!("{config}defaults: {{runtime: {{timeout_ms: soon}}}}\n"),
            "`defaults.runtime.timeout_ms` in servanda.yaml",
        ),
        ("servanda.yaml", format!("{config}defaults: {{behaviour: x}}\n"), "is about one tool"),
        (
            "contracts/company.yaml",
            text.replacen("\ntools:\n", "\ndefaults: {runtme: {}}\ntools:\n", 1),
            "there is no member `runtme`",
        ),
        (
            "contracts/company.yaml",
            text.replacen("\n  pay_invoice:\n", "\n  pay_invoice:\n    runtime: {timeout: 1}\n", 1),
            "`tools.pay_invoice.runtime.timeout`",
        ),
        (
            "contracts/company.yaml",
            text.replacen("server: company", "server: nobody", 1),
            "`nobody` is not an upstream",
        ),
        // A file with invalid YAML is reported with the place of the error.
        (
            "contracts/company.yaml",
            text.replacen("\ntools:\n", "\ntool:\n", 1),
            "4:1: `tool`: there is no field `tool`",
        ),
        ("contracts/company.yaml", text.replacen("  pay_invoice:", "  pay_invoice", 1), "simple key expected ':'"),
        ("contracts/company.yaml", text.replacen("    class:", "\tclass:", 1), ":6:2: `tools`: tabs"),
    ];
    for (file, wrong, expected) in cases {
        let right = world.read(file);
        world.write(file, &wrong);
        let ran = world.run(&["check"]).ended(2);
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
        world.write(file, &right);
    }
    std::fs::remove_file(world.path("servanda.lock")).unwrap();
    let ran = world.run(&["check"]).ended(2);
    assert!(ran.stderr.contains("no pinned definition") && ran.stderr.contains("servanda init"), "{}", ran.stderr);
}

#[test]
fn decisions_are_remembered_with_who_made_them() {
    let world = company();
    let open = world.run(&["review", "--json"]).ended(0).json();
    let open = open.as_array().unwrap().clone();
    assert!(open.iter().all(|one| one["reviewed_by"].is_null()), "{open:?}");
    let grave: Vec<usize> = open.iter().map(grave).collect();
    assert!(grave.is_sorted_by(|one, next| one >= next), "the grave and the doubtful first: {grave:?}");
    world.run(&["review", "company__get_invoice", "--agree"]).ended(0);
    let ran = world.run(&["review", "company__pay_invoice", "--hold-back"]).ended(0);
    assert!(ran.stderr.contains("a person approves each of its calls"), "{}", ran.stderr);
    world.run(&["check"]).ended(0);
    assert_eq!(shown(&world, "company__pay_invoice")["contract"]["transactional"]["confirmation_required"], true);
    let ran = world.run(&["review", "company__pay_invoice", "--agree"]).ended(0);
    assert!(ran.stderr.contains("still held back, `--release`"), "{}", ran.stderr);
    world.run(&["review", "company__pay_invoice", "--release"]).ended(0);
    assert_eq!(shown(&world, "company__pay_invoice")["contract"]["transactional"]["confirmation_required"], false);
    let ran = world.run(&["review", "company__pay_invoice", "--release"]).ended(2);
    assert!(ran.stderr.contains("is not held back"), "{}", ran.stderr);
    let class = shown(&world, "company__pay_invoice")["contract"]["transactional"]["side_effect_class"].clone();
    let same = world.run(&["review", "company__pay_invoice", "--class", class.as_str().unwrap()]).ended(0);
    assert!(!same.stderr.contains("and not"), "{}", same.stderr);
    let decided = world.run(&["review", "--all", "--json"]).ended(0).json();
    let by: Vec<&Value> = decided.as_array().unwrap().iter().filter(|one| !one["reviewed_by"].is_null()).collect();
    assert_eq!(by.len(), 2, "{decided}");
    assert!(by.iter().all(|one| one["reviewed_by"].as_str().unwrap().contains("uid")), "{by:?}");
    let left = world.run(&["review", "--json"]).ended(0).json();
    assert_eq!(left.as_array().unwrap().len(), open.len() - 2);
}

/// The limits that `init` proposes fit real tools: a change of six seconds completes instead of ending as unknown.
#[test]
fn a_change_of_six_seconds_ends_as_done() {
    let world = misbehaving();
    world.run(&["review", "company__misbehave_slow", "--class", "MEDIUM_RISK_WRITE"]).ended(0);
    let ran = world.run(&["call", "company__misbehave_slow", r#"{"milliseconds":6000}"#]).ended(0);
    assert!(!ran.stderr.contains("unknown"), "{}", ran.stderr);
}

/// A refusal because of a timeout names the limit, the file and the field, to the agent and in `explain`.
#[test]
fn a_call_that_runs_out_of_time_names_the_limit_and_its_place() {
    let world = misbehaving();
    let text = world.read("contracts/company.yaml");
    let entry = "\n  misbehave_slow:\n";
    let limited = text.replacen(entry, &format!("{entry}    runtime: {{timeout_ms: 200}}\n"), 1);
    world.write("contracts/company.yaml", &limited);
    let ran = world.run(&["call", "company__misbehave_slow", r#"{"milliseconds":3000}"#]);
    let place = "`tools.misbehave_slow.runtime.timeout_ms` in contracts/company.yaml";
    let said = format!("no answer within 200 ms: {place}");
    assert!(ran.stderr.contains(&said), "{}", ran.stderr);
    let explained = world.run(&["explain", "--last"]).ended(0);
    assert!(explained.stdout.contains(&said), "{}", explained.stdout);
    world.write("contracts/company.yaml", &text);
    let config = world.read("servanda.yaml");
    world.write("servanda.yaml", &format!("{config}defaults: {{runtime: {{timeout_ms: 250}}}}\n"));
    let ran = world.run(&["call", "company__misbehave_slow", r#"{"milliseconds":3000}"#]);
    assert!(
        ran.stderr.contains("no answer within 250 ms: `defaults.runtime.timeout_ms` in servanda.yaml"),
        "{}",
        ran.stderr
    );
}

/// A class below what the definition says needs a reason; without one the file stays as it is.
#[test]
fn a_lighter_class_needs_a_reason() {
    let world = company();
    let before = world.read("contracts/company.yaml");
    let ran = world.run(&["review", "company__pay_invoice", "--class", "READ_ONLY"]).ended(1);
    assert!(ran.stderr.contains("its definition says otherwise") && ran.stderr.contains("--reason"), "{}", ran.stderr);
    assert_eq!(world.read("contracts/company.yaml"), before);
    let said = ["review", "company__pay_invoice", "--class", "read_only", "--reason", "a sandbox without money"];
    let ran = world.run(&said).ended(0);
    assert!(ran.stderr.contains("is READ_ONLY, and not"), "{}", ran.stderr);
    let contract = shown(&world, "company__pay_invoice")["contract"].clone();
    assert_eq!(contract["effect"]["class"], "R");
    assert_eq!(contract["behaviour"]["reviewed"], "a sandbox without money");
    world.run(&["check"]).ended(0);
    let ran = world.run(&["review", "company__pay_invoice", "--class", "harmless"]).ended(2);
    assert!(ran.stderr.contains("READ_ONLY"), "{}", ran.stderr);
}

fn grave(one: &Value) -> usize {
    let order = [
        "READ_ONLY",
        "EPHEMERAL_WRITE",
        "LOW_RISK_INTERNAL",
        "MEDIUM_RISK_WRITE",
        "HIGH_RISK_EXTERNAL",
        "CRITICAL_MUTATION",
    ];
    let class = order.iter().position(|class| one["side_effect_class"] == **class).unwrap();
    class + if one["doubts"].as_array().unwrap().is_empty() { 0 } else { 2 }
}

/// One key per decision: a person can go back to a decision, and one key agrees to all reads without doubts.
#[test]
fn a_person_walks_through_the_tools_with_single_keys() {
    let world = company();
    let open = world.run(&["review", "--json"]).ended(0).json();
    let plain_reads = open.as_array().unwrap().iter().filter(|one| one["side_effect_class"] == "READ_ONLY").count();
    let first = open[0]["tool"].as_str().unwrap();
    let walked = world.run_on_terminal(&["review"], "3b5bhbRq").ended(0);
    // Going back shows the new decision, not the state before.
    assert_eq!(walked.stderr.matches(&format!("1 of {}  {first}", open.as_array().unwrap().len())).count(), 4);
    assert!(walked.stderr.contains(&format!("{first}  LOW_RISK_INTERNAL")), "{}", walked.stderr);
    assert!(walked.stderr.contains("held back: a person approves each of its calls"), "{}", walked.stderr);
    assert_eq!(world.read("contracts/company.yaml").matches("decided by a person").count(), 1);
    assert_eq!(shown(&world, first)["contract"]["transactional"]["confirmation_required"], true);
    let left = world.run(&["review", "--json"]).ended(0).json();
    let left = left.as_array().unwrap();
    assert_eq!(left.len(), open.as_array().unwrap().len() - plain_reads - 1, "{left:?}");
    assert!(left.iter().all(|one| one["side_effect_class"] != "READ_ONLY"), "{left:?}");
}
