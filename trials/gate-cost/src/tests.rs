//! What is said about the cost of gates 6 to 8 holds. Instructions depend on the compiler and are only reported; allocations do not.

use std::sync::Arc;

use servanda_contract::{
    CallRecord, Digest, GateName, Timestamp,
    cost::{Cost, Price},
    digest::DigestDomain,
    record::{ContractReference, Decision, Verdict},
    tool::EffectClass,
};
use servanda_telemetry::metrics::{ContractFactSource, ContractFacts, Metrics};

use crate::{cases, cases::Case, counted::allocations_of, counting::allocations};

fn case(what: &str) -> Case {
    let mut found: Vec<Case> = cases::all().into_iter().filter(|case| case.what == what).collect();
    assert_eq!(found.len(), 1, "{what}");
    found.remove(0)
}

#[test]
fn a_gate_that_has_nothing_to_read_asks_for_no_memory() {
    for what in [
        "nothing expected, no program among the arguments",
        "expected by a task, no program",
        "expected by a task, 2 kB of SQL with CTEs, not read",
    ] {
        assert_eq!(allocations_of(&case(what)).behaviour, 0, "{what}");
    }
}

#[test]
fn an_expectation_adds_nothing_to_the_other_gates() {
    for (with, without) in [
        ("expected by a task, no program", "nothing expected, no program among the arguments"),
        ("expected by a task, short SELECT", "nothing expected, short SELECT"),
    ] {
        assert_eq!(allocations_of(&case(with)), allocations_of(&case(without)), "{with}");
    }
}

/// The count would notice: whoever reads a program asks for memory, and asks for more the longer it is.
#[test]
fn reading_a_program_is_counted() {
    let short = allocations_of(&case("nothing expected, short SELECT"));
    let long = allocations_of(&case("expected by a task, 2 kB of SQL with CTEs"));
    assert!(0 < short.behaviour && short.behaviour < long.behaviour, "{short:?} {long:?}");
    assert!(short.behaviour < short.all && long.behaviour < long.all);
}

#[test]
fn counts_are_the_same_every_time() {
    for case in cases::all() {
        assert_eq!(allocations_of(&case), allocations_of(&case), "{}", case.what);
    }
}

/// Gate 7 asks for no memory where nothing is missing, and gate 8 for none where no policy looks at the call itself: what is settled for
/// a caller and a tool is worked out once, however many policies there are.
#[test]
fn policies_that_are_settled_cost_no_memory() {
    let of = |what: &str| {
        let mut found = cases::ruled().into_iter().filter(|case| case.what == what);
        allocations_of(&found.next().unwrap_or_else(|| panic!("{what}")))
    };
    let nobody = of("nobody is asked: the gateway's own question");
    assert_eq!((nobody.scope, nobody.policy), (0, 0));
    for what in [
        "6 policies, all built in",
        "106 policies, 5 of them about this tool",
        "106 policies, all about every tool",
        "6 policies, and 106 in shadow",
    ] {
        let settled = of(what);
        assert_eq!((settled.scope, settled.policy), (0, 0), "{what}");
    }
    assert!(of("106 policies, 1 looks at an argument").policy > 0, "the count would notice");
}

/// A caller who is known is found again without asking for memory.
#[test]
fn a_principal_is_found_again_without_memory() {
    let cases = cases::ruled();
    let rules = cases.iter().find_map(|case| case.rules.as_ref()).expect("one has rules");
    drop(rules.find_principal());
    let before = allocations();
    let found = rules.find_principal();
    assert_eq!(allocations() - before, 0);
    drop(found);
}

/// No catalog.
#[derive(Debug)]
struct NoFacts;

impl ContractFactSource for NoFacts {
    fn facts(&self, _contract: &ContractReference) -> Option<ContractFacts> {
        None
    }
}

/// A change that passed every gate, was sent twice and cost something.
fn record(tool: &str) -> CallRecord {
    let digest = Digest::compute(DigestDomain::Contract, &[tool.as_bytes()]);
    let contract = ContractReference {
        name: tool.to_owned(),
        version: "1.0.0".to_owned(),
        digest,
        upstream: "company".to_owned(),
        upstream_tool: tool.to_owned(),
        effect_class: EffectClass::K,
    };
    let at = Timestamp::from_unix_ms(1_700_000_000_000);
    let cost = Cost { compute_micros: 1, token_micros: 2, ..Cost::default() };
    let plain = serde_json::json!({
        "record_version": 1, "call_id": "call", "trace_id": "0af7651916cd43dd8448eb211c80319c", "tool": tool,
        "caller": { "tenant": "acme", "principal": "ada" }, "contract": null, "arguments_digest": digest, "proposal_digest": digest,
        "received_at": at, "dispatched_at": at, "finished_at": at, "deadline_ms": null, "verdicts": [], "outcome": "completed",
        "class": "SUCCESS", "refusal": null, "answer_digest": null, "attempts": 2,
    });
    CallRecord {
        contract: Some(Arc::new(contract)),
        verdicts: GateName::ALL.map(|gate| Verdict { gate, decision: Decision::Passed, took_us: 10 }).into(),
        price: Some(Box::new(Price { currency: "EUR".to_owned(), cost })),
        ..serde_json::from_value(plain).unwrap()
    }
}

/// A call adds to series that exist without asking for memory, and so does one that comes too late to have series of its own once the
/// gateway knows that.
#[test]
fn a_call_is_measured_without_memory() {
    let metrics = Metrics::new(12, Arc::new(NoFacts));
    let many: Vec<CallRecord> = (0..40).map(|number| record(&format!("tool_{number}"))).collect();
    let before = allocations();
    metrics.call_ended(&many[0]);
    assert!(allocations() > before, "the count would notice: a new tool has new series");
    many.iter().for_each(|record| metrics.call_ended(record));
    for record in &many {
        let before = allocations();
        metrics.call_ended(record);
        assert_eq!(allocations() - before, 0, "{}", record.tool);
    }
}
