//! The state before a call, on the command line: what the contract of the read tool marks as secret is masked in the ticket.

use serde_json::json;

use crate::{
    contract::{get_invoice, pay_invoice},
    world::World,
};

#[test]
fn a_secret_in_the_state_before_is_masked_in_the_ticket() {
    let mut reads = get_invoice();
    reads.0["affordance"]["output_schema"] = json!({
        "type": "object",
        "properties": { "customer_id": { "type": "string", "x-sensitivity": "secret" } },
    });
    let mut pays = pay_invoice();
    pays.0["approval"] = json!({ "required": true, "before": { "tool": "company.get_invoice", "arguments": { "invoice_id": "{invoice_id}" } } });
    let world = World::company([reads, pays]);
    let known = world.run(&["call", "--json", "company__get_invoice", r#"{"invoice_id":"inv_1003"}"#]).ended(0).json();
    let customer = known["structuredContent"]["customer_id"].as_str().unwrap().to_owned();

    world.call("company__pay_invoice", r#"{"invoice_id":"inv_1003","amount_cents":100,"currency":"CHF"}"#).ended(3);
    let waiting = world.run(&["approvals", "--json"]).ended(0).json();
    let id = waiting[0]["ticket"].as_str().unwrap().to_owned();
    for args in [&["approvals", "show", &id] as &[&str], &["approvals", "show", &id, "--json"]] {
        let shown = world.run(args).ended(0).stdout;
        assert!(shown.contains("inv_1003") && shown.contains("/status") && shown.contains("••••••"), "{shown}");
        assert!(!shown.contains(&customer), "{customer}: {shown}");
    }
    assert_eq!(world.effects(), 0);
}
