//! `/metrics` of a real gateway: what calls leave there, who may read it, and that no secret is on it.

use serde_json::json;

use crate::{
    access::READ,
    contract::{get_invoice, pay_invoice},
    gateway::Gateway,
    http::Question,
    world::{World, until},
};

const PAGE: &str = "/metrics";

fn page(gateway: &Gateway) -> String {
    let exchange = Question::page(PAGE).ask(gateway.address);
    assert_eq!(exchange.status, 200);
    assert_eq!(exchange.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    exchange.text()
}

#[test]
fn calls_refusals_and_rejections_are_counted() {
    let world = World::company([get_invoice(), pay_invoice()]).unpinned();
    let gateway = world.serve();
    let agent = gateway.modern();
    let canary = "canary-4f1c9b";
    agent.call("company__get_invoice", json!({ "invoice_id": "inv_1001" }));
    agent.call("company__get_invoice", json!({ "invoice_id": 7, canary: canary }));
    agent.call(canary, json!({}));
    Question::page("/mcp").with("origin", "https://evil.example").ask(gateway.address).text();
    let page = until("both calls are counted", || {
        let page = page(&gateway);
        page.contains("status=\"refused\"").then_some(page)
    });
    let name = get_invoice().0["identity"]["name"].as_str().unwrap().to_owned();
    let version = get_invoice().0["identity"]["version"].as_str().unwrap().to_owned();
    for line in [
        format!(
            "servanda_tool_invocations_total{{tool=\"{name}\",version=\"{version}\",status=\"completed\",mutation_class=\"read_only\"}} 1"
        ),
        format!(
            "servanda_tool_invocations_total{{tool=\"{name}\",version=\"{version}\",status=\"refused\",mutation_class=\"read_only\"}} 1"
        ),
        format!("servanda_tool_schema_failures_total{{tool=\"{name}\",version=\"{version}\",phase=\"input\"}} 1"),
        format!("servanda_tool_schema_valid_first_try_total{{tool=\"{name}\",version=\"{version}\"}} 1"),
        format!("servanda_tool_repair_chains_total{{tool=\"{name}\",version=\"{version}\"}} 1"),
        "servanda_door_rejections_total{reason=\"bad_origin\"} 1".to_owned(),
        "servanda_upstream_up{upstream=\"company\"} 1".to_owned(),
        "servanda_unknown_effects 0".to_owned(),
        "servanda_store_takes_writes 1".to_owned(),
        format!("servanda_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(page.contains(&format!("\n{line}\n")), "{line}\n{page}");
    }
    assert!(!page.contains(canary), "what agents write is no label: {page}");
    let open = Question::page(PAGE).with("accept", "application/openmetrics-text").ask(gateway.address);
    assert_eq!(open.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let open = open.text();
    assert!(open.contains("# {trace_id=\"") && open.ends_with("# EOF\n"), "{open}");
}

/// The labels name tools and callers of every tenant, so neither an agent's key nor a person's opens the page, and the page's opens nothing
/// else.
#[test]
fn where_callers_need_credentials_the_page_has_one_of_its_own() {
    let world = World::guarded(&[]);
    let (agents, _) = world.key("acme", "ada", &[READ], &[]);
    let (persons, _) = world.key("acme", "ada", &["servanda:console"], &[]);
    let (monitors, id) = world.key("acme", "prometheus", &["servanda:metrics"], &[]);
    let gateway = world.serve();
    let status =
        |key: &str| Question::page(PAGE).with("authorization", &format!("Bearer {key}")).ask(gateway.address).status;
    assert_eq!(Question::page(PAGE).ask(gateway.address).status, 401);
    assert_eq!((status(&agents), status(&persons), status("svk_wrong")), (401, 401, 401));
    let shown = Question::page(PAGE).with("authorization", &format!("Bearer {monitors}")).ask(gateway.address);
    assert_eq!(shown.status, 200);
    let page = shown.text();
    for line in [
        "servanda_door_rejections_total{reason=\"bad_credential\"} 3",
        "servanda_door_rejections_total{reason=\"no_credential\"} 1",
    ] {
        assert!(page.contains(&format!("\n{line}\n")), "{line}\n{page}");
    }
    assert!(![&agents, &persons, &monitors].iter().any(|key| page.contains(&***key)), "{page}");
    let call = Question::post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} }));
    let call = call.with("authorization", &format!("Bearer {monitors}"));
    assert_eq!(call.ask(gateway.address).status, 401, "a monitor's key opens no door for agents");
    world.run(&["keys", "revoke", &id]).ended(0);
    assert_eq!(status(&monitors), 401, "revocation counts at once");
    assert!(gateway.said().contains("a credential was not accepted"), "{}", gateway.said());
}

#[test]
fn the_configuration_can_take_the_page_away() {
    let world = World::company([get_invoice()]).unpinned();
    world.change_config(|config| config["telemetry"] = json!({ "metrics": { "enabled": false } }));
    assert_eq!(Question::page(PAGE).ask(world.serve().address).status, 404);
    world.change_config(|config| config["telemetry"] = json!({ "metrics": { "series_max": 0 } }));
    let said = world.run(&["serve"]).ended(2).everything();
    assert!(said.contains("telemetry.metrics.series_max") && said.contains("between 1 and 100000"), "{said}");
}
