//! Two operations never share a key, and an operation keeps its key after a restart.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use servanda_catalog::{Catalog, names::ExposedNaming};
use servanda_contract::{CallId, Caller, OperationKeys, Proposal, Timestamp, ToolContract};
use servanda_effects::{InMemoryNotebook, effect::ClientKey};
use servanda_gates::{GateLimits, Permit, RegisteredContracts, Trail, admit, pass_all, resolve};

use super::ClientKeyFactory;
use crate::{
    Authorities,
    clock::CallStopwatch,
    internal_call::NamedContract,
    testing::{draft, requester_of},
};

type Change = fn(&mut Proposal, &mut ToolContract);

fn permit(change: Change) -> Permit {
    let mut contract = draft("up", "write", true);
    let mut proposal = Proposal {
        call_id: CallId::from("call_1".to_owned()),
        caller: Caller { session: Some("session".to_owned()), ..Caller::local() }.into(),
        tool: "write".to_owned(),
        arguments: Bytes::from_static(br#"{"text":"hello"}"#),
        received_at: Timestamp::from_unix_ms(0),
        trace_id: String::new(),
        chain: String::new(),
        caller_wait_ms: None,
        keys: OperationKeys::default(),
        aims: servanda_contract::expectation::Aims::default(),
    };
    change(&mut proposal, &mut contract);
    let catalog = Catalog::new([admit(contract, &RegisteredContracts::new()).unwrap()], ExposedNaming::Bare).unwrap();
    let contract = Arc::clone(&catalog.entries().next().unwrap().1.contract);
    let authorities = Authorities::with_default_policies(&catalog).unwrap();
    let Caller { tenant, principal, .. } = &*proposal.caller;
    let authority = requester_of(tenant, principal, proposal.received_at).authority;
    let principal = authorities.principal(&authority).unwrap();
    let limits = GateLimits { arguments_bytes_max: 1_000, arguments_depth_max: 8 };
    let stopwatch = CallStopwatch::start();
    let mut trail = Trail::new(&stopwatch);
    let resolved = resolve(Box::new(proposal), &NamedContract(contract), &mut trail).unwrap();
    let judged = pass_all(resolved, &authorities.mandate(&authority, &principal), limits, &mut trail).unwrap();
    judged.permitted().unwrap()
}

fn said(proposal: &mut Proposal) -> &mut OperationKeys {
    &mut proposal.keys
}

#[tokio::test]
async fn everything_that_makes_an_operation_another_makes_its_key_another() {
    let keys = ClientKeyFactory::new(Arc::new(InMemoryNotebook::default()));
    let by_operation: [Change; 9] = [
        |proposal, _| said(proposal).operation_id = Some("a".to_owned()),
        |proposal, _| said(proposal).operation_id = Some("b".to_owned()),
        |proposal, _| {
            (said(proposal).operation_id, said(proposal).workflow_id) = (Some("a".to_owned()), Some("w".to_owned()));
        },
        |proposal, _| {
            (said(proposal).operation_id, said(proposal).run_id) = (Some("a".to_owned()), Some("w".to_owned()));
        },
        |proposal, _| {
            (said(proposal).operation_id, Arc::make_mut(&mut proposal.caller).tenant) =
                (Some("a".to_owned()), "t".to_owned());
        },
        |proposal, _| {
            (said(proposal).operation_id, Arc::make_mut(&mut proposal.caller).principal) =
                (Some("a".to_owned()), "t".to_owned());
        },
        |proposal, contract| {
            (said(proposal).operation_id, contract.identity.name) = (Some("a".to_owned()), "up.other".to_owned());
        },
        |proposal, contract| {
            (said(proposal).operation_id, contract.identity.version) = (Some("a".to_owned()), "7.0.0".to_owned());
        },
        |proposal, _| {
            said(proposal).operation_id = Some("a".to_owned());
            proposal.arguments = Bytes::from_static(br#"{"text":"other"}"#);
        },
    ];
    let by_step: [Change; 4] = [
        |proposal, _| said(proposal).step_id = Some("a".to_owned()),
        |proposal, _| said(proposal).step_id = Some("b".to_owned()),
        |proposal, _| {
            (said(proposal).step_id, Arc::make_mut(&mut proposal.caller).session) = (Some("a".to_owned()), None);
        },
        |proposal, _| {
            said(proposal).step_id = Some("a".to_owned());
            proposal.arguments = Bytes::from_static(br#"{"text":"other"}"#);
        },
    ];
    let mut seen = BTreeSet::new();
    for (number, change) in by_operation.into_iter().chain(by_step).enumerate() {
        let key = keys.key_for(&permit(change)).await.unwrap();
        assert!(matches!(key, ClientKey::Derived(_)), "{number}");
        assert_eq!(key, keys.key_for(&permit(change)).await.unwrap(), "{number}");
        assert!(seen.insert(key), "{number} has the key of another");
    }
}

#[tokio::test]
async fn never_from_the_arguments_alone() {
    let keys = ClientKeyFactory::new(Arc::new(InMemoryNotebook::default()));
    let unnamed = keys.key_for(&permit(|_, _| {})).await.unwrap();
    assert_eq!(unnamed, ClientKey::Call(CallId::from("call_1".to_owned())));
    let next = keys.key_for(&permit(|proposal, _| proposal.call_id = CallId::from("call_2".to_owned()))).await.unwrap();
    assert_ne!(unnamed, next);
}

#[tokio::test]
async fn a_corrected_contract_keeps_the_key_and_steps_need_the_secret() {
    let notebook = Arc::new(InMemoryNotebook::default());
    let (one, other) = (ClientKeyFactory::new(notebook.clone()), ClientKeyFactory::new(notebook));
    let operation: Change = |proposal, _| said(proposal).operation_id = Some("a".to_owned());
    let corrected: Change = |proposal, contract| {
        said(proposal).operation_id = Some("a".to_owned());
        contract.identity.version = "1.9.9".to_owned();
    };
    assert_eq!(one.key_for(&permit(operation)).await.unwrap(), one.key_for(&permit(corrected)).await.unwrap());
    let step: Change = |proposal, _| said(proposal).step_id = Some("a".to_owned());
    assert_eq!(
        one.key_for(&permit(step)).await.unwrap(),
        other.key_for(&permit(step)).await.unwrap(),
        "after a restart"
    );
    let stranger = ClientKeyFactory::new(Arc::new(InMemoryNotebook::default()));
    assert_ne!(one.key_for(&permit(step)).await.unwrap(), stranger.key_for(&permit(step)).await.unwrap());
}
