//! Golden files of every shape that leaves the process or is stored.

use serde_json::{Value, json, value::RawValue};

use crate::{
    CallId, CallPreview, CallRecord, Caller, CallerActor, Feedback, FieldError, GateName, Observation, Refusal,
    TaxonomyClass, Timestamp,
    cost::{Cost, Price},
    digest::{Digest, DigestDomain},
    observation::{ObservationContext, PayloadError, Verification},
    preview::{
        ApprovalStanding, PreconditionStanding, PredictedChange, PredictedEffects, PreviewKind, PreviewVerdict,
        PreviewedApproval, PreviewedBudget, PreviewedContract, PreviewedGate, PreviewedOperation,
        PreviewedPrecondition, UpstreamPreview,
    },
    record::{
        ContractReference, Decision, Outcome, PolicyRecord, RECORD_VERSION, ShadowDecision, ShadowRecord, Verdict,
    },
    refusal::{EffectKnowledge, RepairProgress, RepairStop},
    schema::{CompiledSchema, SchemaProfile},
    schemas,
    taxonomy::NextAction,
    testing::{golden_json, void_invoice},
    tool::{ApprovalPattern, EffectClass, MutationClass, Presence, SideEffectClass, SideEffectOperation},
    trace::TraceStanding,
};

fn call_id() -> CallId {
    CallId::from("call_018f3b3e7c1e70008000000000000001".to_owned())
}

fn refusal() -> Refusal {
    let error = FieldError {
        field: "reason".to_owned(),
        pointer: "/reason".to_owned(),
        expected: "one of \"duplicate\", \"fraud_review\"".to_owned(),
        actual: "another string".to_owned(),
        message: "`reason` must be one of \"duplicate\", \"fraud_review\", but is another string".to_owned(),
        did_you_mean: Some("duplicate".to_owned()),
    };
    let hint = "choose values within the limits named in `expected`".to_owned();
    Refusal::new(call_id(), GateName::Bounds, TaxonomyClass::OutOfBounds, error.message.clone(), hint)
        .with_field_errors(vec![error])
}

fn context(call_id: &CallId) -> ObservationContext<'_> {
    ObservationContext {
        tool: "company.void_invoice",
        version: "1.0.0",
        call_id,
        received_at: Timestamp::from_unix_ms(1_794_735_332_007),
        finished_at: Timestamp::from_unix_ms(1_794_735_332_049),
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736",
        idempotency_hit: false,
        attempt_number: 1,
        grant: None,
    }
}

fn verification() -> Verification {
    Verification {
        post_action_verification_required: true,
        target_state_reference: Some("invoice/inv_1007".to_owned()),
        expected_state: Some(json!({ "status": "void" }).as_object().unwrap().clone()),
        delay_seconds: 0,
    }
}

fn record() -> CallRecord {
    let digest = |text: &str| Digest::compute(DigestDomain::Contract, &[text.as_bytes()]);
    CallRecord {
        record_version: RECORD_VERSION,
        call_id: call_id(),
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
        caller: Caller { client: Some("claude-code/2.1".to_owned()), ..Caller::local() }.into(),
        tool: "company__void_invoice".to_owned(),
        contract: Some(
            ContractReference {
                name: "company.void_invoice".to_owned(),
                version: "1.0.0".to_owned(),
                digest: digest("contract"),
                upstream: "company".to_owned(),
                upstream_tool: "void_invoice".to_owned(),
                effect_class: EffectClass::N,
            }
            .into(),
        ),
        arguments_digest: digest("arguments"),
        proposal_digest: None,
        received_at: Timestamp::from_unix_ms(1_794_735_332_007),
        dispatched_at: None,
        finished_at: Some(Timestamp::from_unix_ms(1_794_735_332_049)),
        deadline_ms: Some(5_000),
        verdicts: vec![
            Verdict { gate: GateName::Resolve, decision: Decision::Passed, took_us: 3 },
            Verdict { gate: GateName::Parse, decision: Decision::Passed, took_us: 21 },
            Verdict { gate: GateName::Bounds, decision: Decision::Refused, took_us: 2 },
        ],
        outcome: Outcome::Refused,
        class: Some(TaxonomyClass::OutOfBounds),
        refusal: Some(refusal()),
        answer_digest: None,
        continues: None,
        task_id: None,
        effect_id: None,
        attempts: None,
        price: None,
        policy: None,
        questions: Vec::new(),
        ticket_id: None,
        by_grant: false,
        trace: TraceStanding::default(),
    }
}

/// Validates a value against one of the published schemas.
fn holds(schema: &Value, value: &Value) -> Vec<FieldError> {
    CompiledSchema::compile(schema.as_object().unwrap(), SchemaProfile::Results).unwrap().judge(value).into_all()
}

#[test]
fn a_refusal() {
    let refusal = refusal();
    golden_json("refusal.json", &refusal);
    assert_eq!(holds(&schemas::refusal(), &json!(refusal)), []);
    assert_eq!(serde_json::from_value::<Refusal>(json!(refusal)).unwrap(), refusal);
}

#[test]
fn what_an_agent_is_told_of_a_refusal() {
    let told = Feedback::from_refusal(&refusal());
    golden_json("feedback.json", &told);
    assert_eq!(holds(&schemas::feedback(), &json!(told)), []);
    assert_eq!(serde_json::from_value::<Feedback>(json!(told)).unwrap(), told);
}

/// Records of earlier versions have other words for the next action.
#[test]
fn a_refusal_of_an_earlier_version_is_still_read() {
    let mut stored = json!(refusal());
    for (word, read) in [
        ("await_approval", NextAction::StopAndTellUser),
        ("route_to_compliance_review", NextAction::StopAndTellUser),
        ("stop_repairing", NextAction::StopAndTellUser),
        ("use_fallback_or_wait", NextAction::RetryAfterDelay),
        ("repair_arguments", NextAction::RepairArguments),
    ] {
        stored["next_action"] = json!(word);
        assert_eq!(serde_json::from_value::<Refusal>(stored.clone()).unwrap().next_action, read, "{word}");
    }
}

#[test]
fn a_refusal_that_ends_a_chain() {
    let mut refusal = refusal().with_effect(EffectKnowledge::None);
    let progress = RepairProgress { attempt: 5, attempts_max: 5, stopped: Some(RepairStop::AttemptsExhausted) };
    refusal.stop_repairing(progress, "stop repairing".to_owned());
    assert_eq!((refusal.repairable, refusal.escalate), (false, true));
    golden_json("refusal_stopped.json", &refusal);
    assert_eq!(holds(&schemas::refusal(), &json!(refusal)), []);
}

#[test]
fn a_refusal_about_an_effect() {
    let refusal = Refusal { retry_after_ms: Some(250), ..refusal().with_handle("eff_1") };
    golden_json("refusal_handle.json", &refusal);
    assert_eq!(holds(&schemas::refusal(), &json!(refusal)), []);
}

#[test]
fn a_record_of_what_policies_said_and_others_would_have() {
    let by = |id: &str| [id.to_owned()].into_iter().collect();
    let shadow = ShadowRecord {
        would_have: ShadowDecision::Refused,
        cause: Some("forbidden".to_owned()),
        by: by("no-voids-at-night"),
    };
    let policy = PolicyRecord {
        by: by("default.writes"),
        scopes: by("invoices:write"),
        groups: Some(by("staff")),
        task: Some("month-end".to_owned()),
        intent: Some("write".to_owned()),
        program_class: Some(SideEffectClass::MediumRiskWrite),
        shadow: Some(shadow),
    };
    let record = CallRecord { policy: Some(policy), outcome: Outcome::Completed, refusal: None, ..record() };
    golden_json("record_policy.json", &record);
    assert_eq!(serde_json::from_value::<CallRecord>(json!(record)).unwrap(), record);
    // A caller without groups differs from a record that has no groups.
    let reread = |policy: &serde_json::Value| serde_json::from_value::<PolicyRecord>(policy.clone()).unwrap().groups;
    assert_eq!((reread(&json!({})), reread(&json!({ "groups": [] }))), (None, Some(crate::record::Texts::default())));
    for word in [ShadowDecision::Allowed, ShadowDecision::Approval, ShadowDecision::Refused] {
        assert_eq!(json!(word), word.word());
        assert_eq!(serde_json::from_value::<ShadowDecision>(json!(word.word())).unwrap(), word);
    }
    // A reader that looks for a verdict does not find the shadow result.
    let shadow = json!(record)["policy"]["shadow"].clone();
    assert!(["decision", "verdict", "outcome", "allowed", "refused"].iter().all(|word| shadow.get(word).is_none()));
}

#[test]
fn a_record_of_a_replay() {
    let effect_id = Some("eff_1".to_owned());
    let replayed = CallRecord { outcome: Outcome::Replayed, effect_id, attempts: Some(2), refusal: None, ..record() };
    golden_json("record_replayed.json", &replayed);
    assert_eq!(serde_json::from_value::<CallRecord>(json!(replayed)).unwrap(), replayed);
}

#[test]
fn a_record_of_a_dry_run() {
    let previewed = CallRecord { outcome: Outcome::Previewed, ticket_id: Some("apr_1".to_owned()), ..record() };
    golden_json("record_previewed.json", &previewed);
    assert_eq!(serde_json::from_value::<CallRecord>(json!(previewed)).unwrap(), previewed);
}

#[test]
fn a_record_of_a_call_that_used_a_grant() {
    let ticket_id = Some("apr_1".to_owned());
    let dispatched_at = Some(Timestamp::from_unix_ms(1_794_735_332_009));
    let granted =
        CallRecord { outcome: Outcome::Completed, refusal: None, ticket_id, by_grant: true, dispatched_at, ..record() };
    golden_json("record_granted.json", &granted);
    assert_eq!(serde_json::from_value::<CallRecord>(json!(granted)).unwrap(), granted);
    assert_eq!(granted.grant(), Some("apr_1"));
    let approved = CallRecord { by_grant: false, ..granted.clone() };
    assert_eq!(approved.grant(), None, "its ticket approved the call itself");
    let not_sent = CallRecord { dispatched_at: None, ..granted };
    assert_eq!(not_sent.grant(), None, "nothing was drawn");
}

/// What comes with every answer in `_meta["servanda/call"]`. The whole observation is the specification's object and names no grant.
#[test]
fn what_an_agent_is_told_of_a_grant() {
    let call_id = call_id();
    let context = ObservationContext { grant: Some("apr_1"), ..context(&call_id) };
    let done = Observation::from_result(&context, TaxonomyClass::Success, None, Vec::new(), Verification::none());
    golden_json("call_granted.json", &done.summary(None));
    let refused = Observation::from_refusal(&context, &refusal(), Verification::none());
    assert_eq!(json!(refused.summary(Some(GateName::Perform)))["grant"], "apr_1");
    for observation in [done, refused] {
        assert_eq!(holds(&schemas::observation(), &json!(observation)), []);
    }
}

#[test]
fn a_preview() {
    let verdicts = [
        Verdict { gate: GateName::Resolve, decision: Decision::Passed, took_us: 3 },
        Verdict { gate: GateName::State, decision: Decision::Passed, took_us: 3 },
        Verdict { gate: GateName::State, decision: Decision::Refused, took_us: 3 },
    ];
    let preview = CallPreview {
        kind: PreviewKind::Preview,
        call_id: call_id(),
        tool: "company__void_invoice".to_owned(),
        contract: Some(PreviewedContract { name: "company.void_invoice".to_owned(), version: "1.0.0".to_owned() }),
        verdict: PreviewVerdict::WouldWaitForApproval,
        summary: "dry run: `company__void_invoice` would wait for approval by an approver; nothing was done".to_owned(),
        gates: PreviewedGate::from_verdicts(&verdicts),
        refusals: vec![Feedback::from_refusal(&refusal())],
        effects: Some(PredictedEffects {
            side_effect_class: SideEffectClass::CriticalMutation,
            effect_class: EffectClass::N,
            mutation_class: Some(MutationClass::WriteIrreversible),
            changes: vec![PredictedChange {
                resource: "invoice/inv_1007".to_owned(),
                operation: SideEffectOperation::Update,
                scope: "tenant".to_owned(),
            }],
            reads: vec!["customer/cus_1".to_owned()],
            compensation_tool: Some("company.reopen_invoice".to_owned()),
            consequence: Some("Voids invoice inv_1007".to_owned()),
            expected_after: Some("Invoice inv_1007 is void".to_owned()),
        }),
        preconditions: vec![PreviewedPrecondition {
            id: "open".to_owned(),
            tool: "company.get_invoice".to_owned(),
            standing: PreconditionStanding::DoesNotHold,
            why: Some("it is closed".to_owned()),
        }],
        approval: Some(PreviewedApproval {
            by: "an approver".to_owned(),
            because: "the tool's contract asks for one".to_owned(),
            pattern: ApprovalPattern::Operator,
            quorum: 1,
            presence: Presence::Session,
            standing: ApprovalStanding::Pending,
            ticket: Some("apr_1".to_owned()),
        }),
        cost: Some("4.00 USD".to_owned()),
        budgets: vec![PreviewedBudget {
            account: "caller `local`, financial in USD, per day".to_owned(),
            draws: "4.00 USD".to_owned(),
            left: "0.50 USD".to_owned(),
            has_room: false,
        }],
        operation: Some(PreviewedOperation::New),
        upstream_preview: Some(UpstreamPreview::Said(json!({ "would": "void" }))),
    };
    golden_json("preview.json", &preview);
    assert_eq!(holds(&schemas::preview(), &json!(preview)), []);
    assert_eq!(serde_json::from_value::<CallPreview>(json!(preview)).unwrap(), preview);
    assert!(!preview.verdict.passes() && PreviewVerdict::WouldPass.passes());
}

#[test]
fn a_record_of_a_call_that_costs_something() {
    let cost = Cost { external_api_micros: 3_500_000, human_review_micros: 300_000, ..Cost::default() };
    let price = Some(Box::new(Price { currency: "USD".to_owned(), cost }));
    let paid = CallRecord { outcome: Outcome::Completed, class: None, refusal: None, price, ..record() };
    golden_json("record_paid.json", &paid);
    assert_eq!(serde_json::from_value::<CallRecord>(json!(paid)).unwrap(), paid);
}

#[test]
fn observations_keep_the_specification_s_schema() {
    let call_id = call_id();
    let data = Some(RawValue::from_string(r#"{"invoice_id":"inv_1007","status":"void"}"#.to_owned()).unwrap());
    let done = Observation::from_result(&context(&call_id), TaxonomyClass::Success, data, Vec::new(), verification());
    golden_json("observation.json", &done);
    let refused = Observation::from_refusal(&context(&call_id), &refusal(), Verification::none());
    golden_json("observation_refused.json", &refused);
    let failed = PayloadError { field: None, message: "no such invoice".to_owned(), code: "STALE_STATE".to_owned() };
    let failed =
        Observation::from_result(&context(&call_id), TaxonomyClass::StaleState, None, vec![failed], verification());
    for observation in [&done, &refused, &failed] {
        assert_eq!(holds(&schemas::observation(), &json!(observation)), []);
    }
    for class in TaxonomyClass::ALL {
        let observation = Observation::from_result(&context(&call_id), class, None, Vec::new(), Verification::none());
        assert_eq!(holds(&schemas::observation(), &json!(observation)), [], "{}", class.name());
        let refusal = Refusal::new(call_id.clone(), GateName::Perform, class, String::new(), String::new());
        let observation = Observation::from_refusal(&context(&call_id), &refusal, Verification::none());
        assert_eq!(holds(&schemas::observation(), &json!(observation)), [], "{}", class.name());
    }
    // A clock that went backwards.
    let backwards = ObservationContext { finished_at: Timestamp::from_unix_ms(0), ..context(&call_id) };
    let observation = Observation::from_refusal(&backwards, &refusal(), Verification::none());
    assert_eq!(holds(&schemas::observation(), &json!(observation)), []);
}

#[test]
fn a_stored_record() {
    let record = record();
    golden_json("record.json", &record);
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<CallRecord>(&text).unwrap(), record);
    // A reader of this version refuses what a later version wrote.
    let later = text.replacen("\"outcome\"", "\"weight\":1,\"outcome\"", 1);
    assert!(serde_json::from_str::<CallRecord>(&later).unwrap_err().to_string().contains("unknown field `weight`"));
}

/// The user and the agents that act for the user are kept apart, and the credential is named by its id.
#[test]
fn a_stored_record_of_an_agent() {
    let acting = |name: &str, proven| CallerActor { name: name.to_owned(), proven };
    let caller = Caller {
        actors: vec![acting("worker", false), acting("planner", true)],
        credential: Some("agent:00112233445566778899aabbccddeeff".to_owned()),
        ..Caller::named("acme", "ada")
    };
    let record = CallRecord { caller: caller.into(), ..record() };
    golden_json("record_delegated.json", &record);
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<CallRecord>(&text).unwrap(), record);
}

/// One round of a conversation, and a call that became a task: both have members that other records do not have.
#[test]
fn a_stored_record_of_a_conversation() {
    let record = CallRecord {
        outcome: Outcome::TaskCreated,
        class: None,
        refusal: None,
        continues: Some(CallId::from("call_018f3b3e7c1e70008000000000000000".to_owned())),
        task_id: Some("5e1f0000-0000-4000-8000-000000000001".to_owned()),
        ..record()
    };
    golden_json("record_continued.json", &record);
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<CallRecord>(&text).unwrap(), record);
}

#[test]
fn published_schemas() {
    for (name, schema) in [
        ("contract", schemas::contract()),
        ("feedback", schemas::feedback()),
        ("refusal", schemas::refusal()),
        ("observation", schemas::observation()),
        ("preview", schemas::preview()),
    ] {
        assert_eq!(schema["$id"], json!(format!("https://servanda.dev/schema/{name}.schema.json")));
        assert_eq!(schema["$schema"], json!("https://json-schema.org/draft/2020-12/schema"));
        assert!(schema["title"].is_string(), "{name}");
        CompiledSchema::compile(schema.as_object().unwrap(), SchemaProfile::Results).unwrap();
        golden_json(&format!("{name}.schema.json"), &schema);
    }
    assert_eq!(holds(&schemas::contract(), &json!(void_invoice())), []);
}

#[test]
fn the_same_errors_have_the_same_fingerprint() {
    let one = refusal();
    let mut other = refusal();
    other.call_id = CallId::new();
    other.message = "in other words".to_owned();
    assert_eq!(one.errors_digest(), other.errors_digest());
    other.field_errors[0].pointer = "/note".to_owned();
    assert_ne!(one.errors_digest(), other.errors_digest());
}
