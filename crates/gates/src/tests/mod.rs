mod admission;
mod authority;
mod behaviour;
mod charge;
mod fence;
mod gates;
mod operation;
mod order;
mod preview;
mod probes;
mod repair;
mod room;
mod state;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use serde_json::{Value, json};
use servanda_contract::{
    CallId, Caller, OperationKeys, Proposal, Refusal, Timestamp, ToolContract, admission::AdmissionRejection, document,
    record::Verdict,
};

use crate::{
    CompiledContract, GateLimits, Permit, RegisteredContracts, ResolvedCall, Stopwatch, Trail, admit, budget::Cleared,
    mandate::CallOrigin, sequence::pass,
};

const LIMITS: GateLimits = GateLimits { arguments_bytes_max: 4_096, arguments_depth_max: 8 };

/// The fixture with the members at these pointers replaced; `null` removes an optional section.
fn contract(changes: &[(&str, Value)]) -> ToolContract {
    let fixture = include_str!("../../tests/fixtures/book_room.yaml");
    let mut contract: Value = json!(document::read::<ToolContract>("book_room.yaml", fixture).unwrap());
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        contract.pointer_mut(parent).unwrap()[name] = value.clone();
    }
    serde_json::from_value(contract).unwrap()
}

fn admitted(changes: &[(&str, Value)]) -> Arc<CompiledContract> {
    Arc::new(admit(contract(changes), &RegisteredContracts::new()).unwrap())
}

fn rejected(changes: &[(&str, Value)]) -> AdmissionRejection {
    admit(contract(changes), &RegisteredContracts::new()).unwrap_err()
}

fn proposal(arguments: impl Into<Bytes>) -> Proposal {
    Proposal {
        call_id: CallId::from("call_1".to_owned()),
        caller: Caller::local().into(),
        tool: "office__book".to_owned(),
        arguments: arguments.into(),
        received_at: Timestamp::from_unix_ms(0),
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
        chain: "chain".to_owned(),
        caller_wait_ms: None,
        keys: OperationKeys::default(),
        aims: servanda_contract::expectation::Aims::default(),
    }
}

/// A clock that advances by one microsecond whenever it is read.
struct Ticks(AtomicU64);

impl Stopwatch for Ticks {
    fn elapsed_us(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

fn call(contract: &Arc<CompiledContract>, arguments: impl Into<Bytes>) -> (Result<Permit, Box<Refusal>>, Vec<Verdict>) {
    propose(contract, proposal(arguments))
}

fn propose(contract: &Arc<CompiledContract>, proposal: Proposal) -> (Result<Permit, Box<Refusal>>, Vec<Verdict>) {
    let ticks = Ticks(AtomicU64::new(0));
    let mut trail = Trail::new(&ticks);
    let result =
        pass(ResolvedCall::new(Box::new(proposal), contract.clone()), &CallOrigin::Gateway, LIMITS, &mut trail);
    (result.map(|judged| judged.permitted().unwrap()), trail.verdicts().to_vec())
}

fn passed(contract: &Arc<CompiledContract>, arguments: &Value) -> Permit {
    call(contract, arguments.to_string()).0.unwrap()
}

/// Clears a call that draws nothing.
fn cleared(permit: Permit) -> Cleared {
    Cleared::for_question(permit)
}

fn refused(contract: &Arc<CompiledContract>, arguments: impl Into<Bytes>) -> Refusal {
    *call(contract, arguments).0.unwrap_err()
}

/// Arguments that pass, with members added or replaced.
fn booking(changes: &Value) -> Value {
    let mut arguments = json!({ "room": "room_1", "start": "2026-11-15T09:00:00Z", "end": "2026-11-15T10:00:00Z" });
    for (name, value) in changes.as_object().unwrap() {
        arguments[name] = value.clone();
    }
    arguments
}

/// Compares with a checked-in file, or writes it when `UPDATE_GOLDEN` is set.
fn golden(name: &str, actual: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let actual = format!("{}\n", serde_json::to_string_pretty(actual).unwrap());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = expected.lines().zip(actual.lines()).find(|(expected, actual)| expected != actual);
    assert!(
        expected == actual,
        "what agents are told has changed, see tests/golden/{name}: {differs:#?}\n\
         if that is meant, run\n  UPDATE_GOLDEN=1 cargo test -p servanda-gates\nand read the difference"
    );
}
