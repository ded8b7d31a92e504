//! A call that is judged and not made: what it would change, and the tool that an upstream's own dry run is.

use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use serde_json::{Value, json};
use servanda_contract::{
    GateName,
    tool::{EffectClass, SideEffectClass},
};
use servanda_effects::effect::ClientKey;

use super::{LIMITS, Ticks, admitted, booking, proposal, rejected};
use crate::{
    CompiledContract, PreviewedCall, ResolvedCall, Trail, mandate::CallOrigin, pass_question, pass_read, sequence::pass,
};

fn previewed(changes: &[(&str, Value)], arguments: &Value) -> PreviewedCall {
    let ticks = Ticks(AtomicU64::new(0));
    let resolved = ResolvedCall::new(Box::new(proposal(arguments.to_string())), admitted(changes));
    PreviewedCall::new(pass(resolved, &CallOrigin::Gateway, LIMITS, &mut Trail::new(&ticks)).unwrap())
}

fn with_dry_run(terms: &Value) -> [(&'static str, Value); 1] {
    [("/approval", json!({ "dry_run": terms }))]
}

#[test]
fn effects_are_predicted_with_the_arguments_filled_in() {
    let manifest = json!([
        { "resource": "room/{room}", "operation": "UPDATE", "scope": "tenant" },
        { "resource": "calendar", "operation": "CREATE", "scope": "tenant" },
    ]);
    let approval = json!({ "consequence": "Books {room}", "after": "{room} is taken" });
    let call = previewed(&[("/effect/manifest", manifest), ("/approval", approval)], &booking(&json!({})));
    let effects = call.predicted_effects();
    let changed: Vec<_> = effects.changes.iter().map(|change| change.resource.as_str()).collect();
    assert_eq!(changed, ["room/room_1", "calendar"]);
    assert_eq!(effects.consequence.as_deref(), Some("Books room_1"));
    assert_eq!(effects.expected_after.as_deref(), Some("room_1 is taken"));
    assert!(call.demand().is_none() && call.dry_run_arguments().is_none());
}

/// The tool of a dry run takes the call's arguments and the one that changes nothing, and nothing else makes it pass.
#[test]
fn an_upstream_s_dry_run_is_a_tool_that_only_reads_and_requires_its_argument() {
    let changes = with_dry_run(&json!({ "argument": "simulate", "value": true }));
    let call = previewed(&changes, &booking(&json!({})));
    let arguments: Value = serde_json::from_slice(&call.dry_run_arguments().unwrap()).unwrap();
    assert_eq!((&arguments["simulate"], &arguments["room"]), (&json!(true), &json!("room_1")));
    let whole = admitted(&changes);
    assert!(whole.contract().effect_class().mutates(), "the contract itself stays what it is");
    let dry = whole.dry_run().unwrap().contract();
    let written = dry.contract();
    assert_eq!((written.effect_class(), written.binding.clone()), (EffectClass::R, whole.contract().binding.clone()));
    assert_eq!(written.transactional.side_effect_class, SideEffectClass::ReadOnly);
    let ask = |arguments: &Value| {
        let ticks = Ticks(AtomicU64::new(0));
        let resolved = ResolvedCall::new(Box::new(proposal(Bytes::from(arguments.to_string()))), dry.clone());
        pass_question(resolved, LIMITS, &mut Trail::new(&ticks))
    };
    let cleared = ask(&arguments).unwrap();
    let key = ClientKey::Call(cleared.permit().call_id().clone());
    let fenced = pass_read(cleared, &key, false).unwrap();
    assert_eq!(fenced.effect_class(), EffectClass::R);
    for other in [json!(false), json!(null), json!("true"), json!(1)] {
        let mut arguments = arguments.clone();
        arguments["simulate"] = other.clone();
        assert!(ask(&arguments).is_err(), "{other}");
    }
    assert_eq!(
        ask(&booking(&json!({}))).unwrap_err().gate,
        GateName::Structure,
        "without the argument it would be made"
    );
    // The contract itself cannot be asked like this.
    let ticks = Ticks(AtomicU64::new(0));
    let resolved = ResolvedCall::new(Box::new(proposal(booking(&json!({})).to_string())), whole.clone());
    assert!(pass_question(resolved, LIMITS, &mut Trail::new(&ticks)).is_err());
}

#[test]
fn a_dry_run_that_means_nothing_is_not_admitted() {
    let reading = [
        ("/effect", json!({ "class": "R", "mutation_class": "read_only" })),
        ("/approval", json!({ "dry_run": { "argument": "simulate", "value": true } })),
    ];
    let wrong = [
        with_dry_run(&json!({ "argument": "", "value": true })).to_vec(),
        with_dry_run(&json!({ "argument": "simulate", "value": null })).to_vec(),
        with_dry_run(&json!({ "argument": "simulate", "value": {} })).to_vec(),
        reading.to_vec(),
    ];
    for changes in wrong {
        let failures = rejected(&changes).failures;
        assert!(failures.iter().any(|failure| failure.reason.contains("dry_run")), "{failures:?}");
    }
    let quiet = |contract: &CompiledContract| contract.dry_run().is_none();
    assert!(quiet(&admitted(&[])));
}
