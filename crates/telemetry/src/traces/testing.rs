//! Records for tests, and a collector in memory.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use servanda_contract::{
    CallId, CallRecord, Caller, Digest, GateName, OperationKeys, Proposal, Refusal, TaxonomyClass, Timestamp,
    digest::DigestDomain,
    expectation::Aims,
    record::{ContractReference, Decision, Outcome, Verdict},
    tool::EffectClass,
};

use super::transport::{SendFuture, SpanSendFailure, SpanTransport};

pub(super) const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
pub(super) const CALL: &str = "call_0193a5b2c3d4e5f60718293a4b5c6d7e";
/// In the arguments of every call.
pub(super) const CANARY: &str = "canary-7f3a-secret";
const RECEIVED_MS: u64 = 1_794_735_332_007;

/// A read that went well.
pub(super) fn completed() -> CallRecord {
    let proposal = Proposal {
        call_id: CallId::from(CALL.to_owned()),
        caller: Arc::new(Caller::named("acme", "ada")),
        tool: "company__list_files".to_owned(),
        arguments: Bytes::from(format!(r#"{{"path":"{CANARY}"}}"#)),
        received_at: Timestamp::from_unix_ms(RECEIVED_MS),
        trace_id: TRACE.to_owned(),
        chain: CANARY.to_owned(),
        caller_wait_ms: None,
        keys: OperationKeys { idempotency_key: Some(CANARY.to_owned()), ..OperationKeys::default() },
        aims: Aims::default(),
    };
    let passed = |gate, took_us| Verdict { gate, decision: Decision::Passed, took_us };
    CallRecord {
        contract: Some(Arc::new(ContractReference {
            name: "company.list_files".to_owned(),
            version: "1.2.0".to_owned(),
            digest: Digest::compute(DigestDomain::Contract, &[b"contract"]),
            upstream: "company".to_owned(),
            upstream_tool: "list_files".to_owned(),
            effect_class: EffectClass::R,
        })),
        proposal_digest: Some(Digest::compute(DigestDomain::Proposal, &[b"proposal"])),
        dispatched_at: Some(Timestamp::from_unix_ms(RECEIVED_MS)),
        finished_at: Some(Timestamp::from_unix_ms(RECEIVED_MS + 4)),
        verdicts: vec![
            passed(GateName::Resolve, 10),
            passed(GateName::Parse, 20),
            passed(GateName::Perform, 3_000),
            passed(GateName::Observe, 40),
        ],
        outcome: Outcome::Completed,
        class: Some(TaxonomyClass::Success),
        answer_digest: Some(Digest::compute(DigestDomain::Answer, &[CANARY.as_bytes()])),
        ..CallRecord::new(&proposal)
    }
}

/// A call that a gate refused; its message and hint quote what no span may have.
pub(super) fn refused(gate: GateName, class: TaxonomyClass) -> CallRecord {
    let call_id = CallId::from(CALL.to_owned());
    CallRecord {
        dispatched_at: None,
        verdicts: vec![
            Verdict { gate: GateName::Resolve, decision: Decision::Passed, took_us: 10 },
            Verdict { gate, decision: Decision::Refused, took_us: 5 },
        ],
        outcome: Outcome::Refused,
        class: Some(class),
        refusal: Some(Refusal::new(call_id, gate, class, CANARY.to_owned(), CANARY.to_owned())),
        answer_digest: None,
        ..completed()
    }
}

/// A collector in memory that gives the planned answers, and the last of them for ever.
#[derive(Debug, Clone)]
pub(super) struct MemoryCollector(Arc<Mutex<Plan>>);

#[derive(Debug)]
struct Plan {
    answers: Vec<PlannedAnswer>,
    messages: Vec<Bytes>,
}

#[derive(Debug, Clone)]
pub(super) enum PlannedAnswer {
    Takes { rejects: u64 },
    Fails { may_retry: bool, retry_after: Option<Duration> },
    Never,
}

impl MemoryCollector {
    pub(super) fn answering(answers: &[PlannedAnswer]) -> Self {
        Self(Arc::new(Mutex::new(Plan { answers: answers.to_vec(), messages: Vec::new() })))
    }

    pub(super) fn messages(&self) -> Vec<Bytes> {
        self.0.lock().unwrap().messages.clone()
    }
}

impl SpanTransport for MemoryCollector {
    fn send(&self, message: Bytes) -> SendFuture<'_> {
        let answer = {
            let mut plan = self.0.lock().unwrap();
            plan.messages.push(message);
            if plan.answers.len() > 1 { plan.answers.remove(0) } else { plan.answers[0].clone() }
        };
        Box::pin(async move {
            match answer {
                PlannedAnswer::Takes { rejects } => Ok(rejects),
                PlannedAnswer::Fails { may_retry, retry_after } => {
                    Err(SpanSendFailure { why: "planned".to_owned(), may_retry, retry_after })
                }
                PlannedAnswer::Never => std::future::pending().await,
            }
        })
    }
}
