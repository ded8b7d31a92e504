//! Dry runs from outside: every tool of the sample company, over both doors and on the command line, and nothing happens.

use serde_json::{Value, json};
use servanda_contract::ToolContract;

use crate::{
    contract::{get_invoice, pay_invoice},
    world::World,
};

const PAYMENT: &str = r#"{"invoice_id":"inv_1003","amount_cents":100,"currency":"CHF"}"#;

/// The honest tools of the sample, each with the arguments of its first example.
fn company() -> (World, Vec<(String, Value)>) {
    let world = World::company([]);
    let mut calls = Vec::new();
    for (file, text) in servanda_sample::CONTRACTS {
        let contract = ToolContract::from_document(file, text).unwrap();
        if contract.binding.tool.starts_with("misbehave") {
            continue;
        }
        world.write(&format!("contracts/{file}"), text);
        let arguments = contract.affordance.examples.first().map(|example| Value::Object(example.arguments.clone()));
        calls.push((format!("company__{}", contract.binding.tool), arguments.unwrap_or_else(|| json!({}))));
    }
    (world, calls)
}

/// The preview, which every dry run's answer has as its second text.
fn preview_of(result: &Value) -> Value {
    serde_json::from_str(result["content"][1]["text"].as_str().unwrap()).unwrap()
}

#[test]
fn no_dry_run_of_any_tool_in_any_era_has_an_effect() {
    let (world, calls) = company();
    assert!(calls.len() > 15, "{calls:?}");
    let gateway = world.serve();
    // The books exist once the company was called.
    gateway.modern().call("company__count_effects", json!({})).success();
    let before = world.effects();
    let mut verdicts = Vec::new();
    for agent in [gateway.modern(), gateway.legacy()] {
        let listed = agent.ask("tools/list", json!({})).result()["tools"].as_array().unwrap().clone();
        assert!(listed.iter().any(|tool| tool.get("outputSchema").is_some()));
        for (tool, arguments) in &calls {
            let meta = json!({ "servanda/dry-run": true, "servanda/detail": "brief" });
            let reply = agent.ask("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta }));
            let result = reply.result();
            // Clients check structured content against the output schema of the list.
            let has_schema = listed.iter().any(|one| one["name"] == json!(tool) && one.get("outputSchema").is_some());
            assert_eq!(
                (&result["isError"], &result["_meta"]["servanda/dry-run"]),
                (&json!(has_schema), &json!(true)),
                "{tool}"
            );
            let preview = preview_of(result);
            assert_eq!(result.get("structuredContent").cloned(), (!has_schema).then(|| preview.clone()), "{tool}");
            assert_eq!((&preview["kind"], &preview["tool"]), (&json!("preview"), &json!(tool)), "{}", reply.raw);
            verdicts.push(preview["verdict"].as_str().unwrap().to_owned());
        }
        for wrong in [json!("true"), json!(1), json!(null), json!([])] {
            let (tool, arguments) = &calls[0];
            let params = json!({ "name": tool, "arguments": arguments, "_meta": { "servanda/dry-run": wrong } });
            let refused = agent.ask("tools/call", params);
            assert_eq!(refused.message["error"]["code"], -32602, "{wrong}: {}", refused.raw);
            assert!(refused.raw.contains("must be true or false"), "{}", refused.raw);
        }
    }
    // Only a call has a dry run: a request that would do something all the same is refused.
    for method in ["resources/list", "prompts/list"] {
        let refused = gateway.modern().ask(method, json!({ "_meta": { "servanda/dry-run": true } }));
        assert_eq!(refused.message["error"]["code"], -32602, "{method}: {}", refused.raw);
    }
    for verdict in ["would_pass", "would_wait_for_approval"] {
        assert!(verdicts.iter().any(|one| one == verdict), "{verdicts:?}");
    }
    assert_eq!(world.effects(), before);
    drop(gateway);
    let listed = world.run(&["calls", "--json", "--outcome", "previewed", "--limit", "200"]).ended(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 2 * calls.len());
}

#[test]
fn the_command_shows_a_preview_and_its_exit_code_says_whether_the_call_would_pass() {
    let mut paying = pay_invoice();
    paying.0["approval"] = json!({ "consequence": "Pays {amount_cents} cents of {invoice_id}" });
    let world = World::company([get_invoice(), paying.clone()]);
    let passes = world.run(&["call", "company__get_invoice", r#"{"invoice_id":"inv_1001"}"#, "--dry-run"]).ended(0);
    assert!(
        passes.stdout.starts_with("dry run: `company__get_invoice` would be called; nothing was done"),
        "{}",
        passes.stdout
    );
    let paid = world.run(&["call", "company__pay_invoice", PAYMENT, "--dry-run"]).ended(0);
    for line in ["effect        changes company/*", "consequence   Pays 100 cents of inv_1003", "cannot be undone"] {
        assert!(paid.stdout.contains(line), "{line}: {}", paid.stdout);
    }
    assert!(!paid.stdout.contains("paid"), "nothing was paid: {}", paid.stdout);

    paying.0["approval"]["required"] = json!(true);
    world.add(&paying);
    let waits = world.run(&["call", "company__pay_invoice", PAYMENT, "--dry-run"]).ended(5);
    assert!(waits.stdout.contains("would wait for approval by"), "{}", waits.stdout);
    assert!(waits.stderr.contains("the call would not be sent now"), "{}", waits.stderr);
    let refused = world.run(&["call", "company__pay_invoice", "{}", "--dry-run"]).ended(5);
    assert!(refused.stdout.contains("would be refused at structure"), "{}", refused.stdout);
    let json = world.run(&["call", "--json", "company__pay_invoice", PAYMENT, "--dry-run"]).ended(5).json();
    assert_eq!(preview_of(&json)["verdict"], "would_wait_for_approval");
    world.run(&["call", "company__pay_invoic", PAYMENT, "--dry-run"]).ended(3);
    let waiting = world.run(&["approvals", "--json"]).ended(0).json();
    assert_eq!((waiting, world.effects()), (json!([]), 0));
    let explained = world.run(&["explain", "--last"]).ended(0).stdout;
    assert!(explained.contains("previewed"), "{explained}");
}

/// The sample's own count of what happened.
fn counted(world: &World) -> i64 {
    let answered = world.run(&["call", "--json", "company__count_effects"]).ended(0).json();
    let total = answered["structuredContent"]["total"].as_i64().unwrap();
    assert_eq!(total, world.effects(), "its books say the same");
    total
}

#[test]
fn by_the_sample_s_own_count_no_dry_run_changes_anything_and_a_call_does() {
    let (world, calls) = company();
    // One tool has a dry run of its own, which the contract names, and is asked for it. Another one says of itself that it only reads.
    let own = "update_customer_email.yaml";
    let terms = "approval: { dry_run: { argument: validate_only, value: true } }\n";
    world.write(&format!("contracts/{own}"), &(world.read(&format!("contracts/{own}")) + terms));
    let lies = "misbehave_read_that_writes.yaml";
    let (_, text) = servanda_sample::CONTRACTS.iter().find(|(file, _)| *file == lies).unwrap();
    world.write(&format!("contracts/{lies}"), text);

    let before = counted(&world);
    let mut verdicts = Vec::new();
    let lying = ("company__misbehave_read_that_writes".to_owned(), json!({}));
    for (tool, arguments) in calls.iter().chain([&lying]) {
        let ran = world.run(&["call", "--json", tool, &arguments.to_string(), "--dry-run"]);
        assert!(matches!(ran.code, Some(0 | 5)), "{tool}: {ran:?}");
        let preview = preview_of(&ran.json());
        assert_eq!(preview["kind"], "preview", "{tool}");
        verdicts.push((tool, arguments, preview));
        assert_eq!(counted(&world), before, "{tool}");
    }
    let of = |tool: &str| &verdicts.iter().find(|(name, ..)| *name == tool).unwrap().2;
    let said = &of("company__update_customer_email")["upstream_preview"]["said"];
    assert_eq!(said["email"], "ap@blueheron.example", "the sample was asked, and said what would be: {said}");

    // The same over MCP, from one running gateway.
    let gateway = world.serve();
    for agent in [gateway.modern(), gateway.legacy()] {
        for (tool, arguments, _) in &verdicts {
            let meta = json!({ "servanda/dry-run": true });
            let reply = agent.ask("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta }));
            assert_eq!(preview_of(reply.result())["kind"], "preview", "{tool}");
        }
    }
    assert_eq!(world.effects(), before);
    drop(gateway);

    // The count counts: the first change that needs no person, made once.
    let (tool, arguments, _) = verdicts
        .iter()
        .find(|(_, _, preview)| preview["verdict"] == "would_pass" && preview["effects"]["effect_class"] != "R")
        .unwrap();
    world.run(&["call", tool, &arguments.to_string()]).ended(0);
    assert_eq!(counted(&world), before + 1, "{tool}");
}
