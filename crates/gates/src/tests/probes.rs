//! Probes of a contract: which calls are sampled, and what read-only tools are asked.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::{Value, json};
use servanda_contract::CallId;

use super::{admitted, booking, rejected};
use crate::{CompiledContract, ProbeQuery, ProbeSubject};

fn probed(probe: &Value) -> Arc<CompiledContract> {
    admitted(&[("/probes", json!({ "list": [probe] }))])
}

fn inquiry(contract: &CompiledContract) -> &ProbeQuery {
    match &contract.probes().iter().next().unwrap().subject {
        ProbeSubject::Tool(inquiry) => inquiry,
        ProbeSubject::Path(path) => panic!("{path:?}"),
    }
}

/// A tool that only reads, with these arguments.
fn reader(properties: &Value) -> Arc<CompiledContract> {
    admitted(&[
        ("/identity/name", json!("office.read")),
        ("/affordance/input_schema", json!({ "type": "object", "properties": properties })),
        ("/affordance/examples", json!([])),
        ("/rules", json!([])),
    ])
}

/// Contracts with increasing sample rates.
static SAMPLED: LazyLock<Vec<Arc<CompiledContract>>> = LazyLock::new(|| {
    let of = |percent: u8| {
        admitted(&[("/probes", json!({ "sample_percent": percent, "list": [{ "name": "x", "path": "/x" }] }))])
    };
    [1, 10, 50, 90, 99, 100].map(of).to_vec()
});

proptest! {
    /// The same call is always sampled alike, and a call that is sampled at one rate is sampled at every higher
    /// rate.
    #[test]
    fn which_calls_are_chosen_follows_from_their_ids(id in "\\PC{0,40}") {
        let id = CallId::from(id);
        let chosen: Vec<bool> = SAMPLED.iter().map(|contract| contract.probes().is_sampled(&id)).collect();
        let again: Vec<bool> = SAMPLED.iter().map(|contract| contract.probes().is_sampled(&id)).collect();
        prop_assert_eq!(&chosen, &again);
        prop_assert!(chosen.is_sorted() && chosen.ends_with(&[true]), "{:?}", chosen);
    }
}

#[test]
fn the_sample_rate_is_kept() {
    let contract = admitted(&[("/probes", json!({ "sample_percent": 25, "list": [{ "name": "x", "path": "/x" }] }))]);
    let chosen =
        (0..10_000).filter(|number| contract.probes().is_sampled(&CallId::from(format!("call_{number}")))).count();
    assert!((2_300..2_700).contains(&chosen), "{chosen} of 10000");
    assert!(admitted(&[]).probes().is_empty());
}

#[test]
fn a_tool_is_asked_with_what_the_call_is_about() {
    let contract =
        probed(&json!({ "name": "room", "tool": "office.read", "arguments": { "id": "{room}", "say": "of {room}" } }));
    let asked = inquiry(&contract).arguments(&booking(&json!({})), &reader(&json!({}))).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&asked).unwrap(), json!({ "id": "room_1", "say": "of room_1" }));
    let unknown = json!({ "list": [{ "name": "room", "tool": "office.read", "arguments": { "id": "{rom}" } }] });
    assert_eq!(
        rejected(&[("/probes", unknown)]).failures[0].reason,
        "probes.list[0] `room`: the input schema declares no `rom`"
    );
}

/// Nothing of a call gets into a query: what looks like a placeholder there is text.
#[test]
fn a_query_is_sent_as_it_is_written_to_the_one_argument_that_takes_it() {
    let sql = |kind: &str| json!({ "type": "string", "x-effect": kind });
    let table = [
        (json!({ "q": sql("sqlite") }), "SELECT '{room}' FROM t", None),
        (json!({ "q": sql("sql"), "limit": {} }), "SELECT 1", None),
        (json!({ "q": { "type": "string" } }), "SELECT 1", Some("has no argument that its contract says is SQL")),
        (json!({ "q": sql("shell") }), "SELECT 1", Some("has no argument that its contract says is SQL")),
        (json!({ "q": sql("sql"), "r": sql("sql") }), "SELECT 1", Some("more than one argument that is SQL")),
        (json!({ "q": sql("sqlite") }), "UPDATE t SET a = 1", Some("`sql` must only read")),
        (json!({ "q": sql("sqlite") }), "SELECT 1; DROP TABLE t", Some("`sql` must only read")),
    ];
    for (properties, query, fault) in table {
        let contract = probed(&json!({ "name": "x", "tool": "office.read", "sql": query }));
        let (inquiry, tool) = (inquiry(&contract), reader(&properties));
        let found = inquiry.fault(&tool);
        assert_eq!(found.is_some(), fault.is_some(), "{properties} {query}: {found:?}");
        assert!(fault.is_none_or(|fault| found.unwrap().contains(fault)), "{properties} {query}");
        if fault.is_none() {
            let asked = inquiry.arguments(&booking(&json!({})), &tool).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&asked).unwrap(), json!({ "q": query }));
        }
    }
}
