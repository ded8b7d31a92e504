//! What an agent pays for: the tokens of every refusal and of the metadata of every answer, counted with the o200k tables.
//!
//! `docs/tokens.md` has the figures. The long form that answers used to have is now what `servanda/detail: full` gives.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Value, json};
use servanda_catalog::{ResolveError, ToolHold, pins::DifferenceSeverity};
use servanda_contract::{
    CallId, FieldError, GateName, Observation, OperationKeys, Proposal, Refusal, TaxonomyClass, ToolContract,
    observation::{ObservationContext, Verification},
    refusal::EffectKnowledge,
    taxonomy::NextAction,
    time::Clock as _,
};
use servanda_effects::effect::{EffectId, EffectReply};
use servanda_mcp::Era;
use servanda_upstream::PerformFailure;

use super::effects::{Bank, refusal, write};
use crate::{
    Gateway as _, RequestTerms, SystemClock,
    answers::{existing_effect, refusals, tool_result, upstream_failure},
    client::ToolResult,
    questions::MissingInput,
    testing::{ScriptedServer, draft, parse, text},
};

/// The limits of requirement 4 of issue 17.
const REFUSAL_TOKENS_MAX: usize = 110;
/// A refusal with a ticket also says where people decide.
const TICKET_TOKENS_MAX: usize = 180;
const META_TOKENS_MAX: usize = 60;

fn tokens(text: &str) -> usize {
    bpe_openai::o200k_base().count(text)
}

/// A refusal as it is sent: the text that the model reads, and the metadata beside it.
fn rendered(refusal: &Refusal) -> (String, String, ToolResult) {
    let at = SystemClock.now();
    let occasion = ObservationContext {
        tool: "company.pay_invoice",
        version: "1.0.0",
        call_id: &refusal.call_id,
        received_at: at,
        finished_at: at,
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736",
        idempotency_hit: false,
        attempt_number: 1,
        grant: None,
    };
    let observation = Observation::from_refusal(&occasion, refusal, Verification::none());
    let result = tool_result::from_refusal(refusal.clone(), observation);
    let wire = parse(&result.json);
    (wire["content"][0]["text"].as_str().unwrap().to_owned(), wire["_meta"].to_string(), result)
}

fn payment() -> ToolContract {
    let mut contract = draft("up", "write", true);
    let schema = json!({
        "type": "object", "required": ["invoice_id", "amount_cents"],
        "properties": {
            "invoice_id": { "type": "string", "pattern": "^inv_[0-9]{4}$" },
            "amount_cents": { "type": "integer", "minimum": 1, "maximum": 1_000_000 },
            "currency": { "type": "string", "enum": ["CHF", "EUR", "GBP", "JPY", "SEK", "USD"] },
            "due": { "type": "string", "format": "date-time" },
            "note": { "type": "string", "maxLength": 140 },
        },
    });
    contract.affordance.input_schema = schema.as_object().unwrap().clone().into();
    contract.affordance.examples = serde_json::from_value(json!([{
        "description": "five francs", "arguments": { "invoice_id": "inv_1001", "amount_cents": 500 },
    }]))
    .unwrap();
    contract.rules = serde_json::from_value(json!([{
        "id": "steps", "rule": "args.amount_cents % 5 == 0", "message": "amounts are in steps of five cents", "fields": ["/amount_cents"],
    }]))
    .unwrap();
    contract
}

async fn at_a_gate(change: impl FnOnce(&mut ToolContract), arguments: &'static str) -> Refusal {
    let mut contract = payment();
    change(&mut contract);
    let server = ScriptedServer::new(Era::Modern, &json!({}), |_| async { Ok(text(Era::Modern, "done")) });
    let bank = Bank::new(server, vec![contract]);
    let mut request = write(&json!({}), OperationKeys::default());
    request.arguments = Bytes::from_static(arguments.as_bytes());
    refusal(Box::pin(bank.call(request)).await)
}

const GOOD: &str = r#"{"invoice_id":"inv_1001","amount_cents":500}"#;

/// Every refusal that gates 1 to 6, 9 and 10 make on their own.
async fn of_gates() -> Vec<Refusal> {
    let as_is = |_: &mut ToolContract| {};
    vec![
        at_a_gate(as_is, "{'invoice_id': 'inv_1001'}").await,
        at_a_gate(as_is, "[1]").await,
        at_a_gate(as_is, r#"{"invoice":"inv_1001","amount_cents":500}"#).await,
        at_a_gate(as_is, r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}"#).await,
        at_a_gate(as_is, r#"{"invoice_id":"inv_1001","amount_cents":"500"}"#).await,
        at_a_gate(as_is, r#"{"invoice_id":1001,"amount_cents":"500","note":null,"currency":5}"#).await,
        at_a_gate(as_is, r#"{"invoice_id":"inv_1001","amount_cents":500,"note":null}"#).await,
        at_a_gate(as_is, r#"{"invoice_id":"inv_1001","amount_cents":0}"#).await,
        at_a_gate(as_is, r#"{"invoice_id":"x","amount_cents":500,"currency":"EURO"}"#).await,
        at_a_gate(as_is, r#"{"invoice_id":"inv_1001","amount_cents":500,"due":"2026-11-20T10:00:00"}"#).await,
        at_a_gate(as_is, r#"{"invoice_id":"inv_1001","amount_cents":501}"#).await,
        at_a_gate(|contract| contract.transactional.confirmation_required = true, GOOD).await,
        at_a_gate(|contract| contract.identity.lifecycle.sunset_date = Some("2020-02-29".to_owned()), GOOD).await,
    ]
}

/// Refusals of the stages around the gates, and of gates that need more than a contract.
fn of_stages() -> Vec<Refusal> {
    let id = CallId::new;
    let proposal = Proposal {
        call_id: id(),
        caller: servanda_contract::Caller::local().into(),
        tool: "company__pay_invoice".to_owned(),
        arguments: Bytes::new(),
        received_at: SystemClock.now(),
        trace_id: String::new(),
        chain: String::new(),
        caller_wait_ms: None,
        keys: OperationKeys::default(),
        aims: servanda_contract::expectation::Aims::default(),
    };
    let upstream = || "company".to_owned();
    let unresolved = [
        ResolveError::Unknown { did_you_mean: Some("company__pay_invoice".to_owned()) },
        ResolveError::Gone { upstream: upstream() },
        ResolveError::Withdrawn { upstream: upstream() },
        ResolveError::Held { hold: ToolHold::Unpinned },
        ResolveError::Held {
            hold: ToolHold::Quarantined { severity: DifferenceSeverity::Dangerous, differences: Vec::new() },
        },
    ];
    let asked = MissingInput { method: "elicitation/create".to_owned(), why: "the user declined".to_owned() };
    let mut all: Vec<Refusal> = unresolved.into_iter().map(|why| refusals::not_resolved(&proposal, why)).collect();
    all.extend([
        *refusals::no_upstream(id(), "company"),
        *refusals::fence_too_slow(id(), servanda_contract::tool::EffectClass::N, true),
        *refusals::turn_not_reached(id()),
        *refusals::given_up(id()),
        refusals::not_on_record_yet(&id(), EffectId::new().as_str(), EffectKnowledge::Happened),
        refusals::superseded_by_dispatch(&id()),
        refusals::done_by_another(&id()),
        refusals::key_of_another_operation(id()),
        refusals::performed_by_another_upstream(id()),
        *refusals::lost_evidence(id()),
        refusals::input_not_given(&id(), &asked, EffectKnowledge::Unknown),
        refusals::too_many_refused(&id(), 30_000),
        refusals::task_not_kept(&id()),
    ]);
    let replies = [
        EffectReply::Running { retry_after_ms: 2_500, awaits: None },
        EffectReply::Mismatch,
        EffectReply::Unknown,
        EffectReply::Twin(EffectId::new()),
        EffectReply::KeyExpired,
        EffectReply::NotNow,
    ];
    all.extend(replies.iter().map(|reply| existing_effect::refusal(&id(), reply, None)));
    all.push(existing_effect::answer_gone(&id(), "a person settled it", &EffectId::new()));
    all
}

fn of_upstreams() -> Vec<Refusal> {
    let refused = "connection refused (os error 111)".to_owned();
    let failures = [
        PerformFailure::TimedOut { note: None },
        PerformFailure::Unavailable { why: refused },
        PerformFailure::Died { why: "the process ended with status 137 (SIGKILL)".to_owned() },
        PerformFailure::Busy { in_flight_max: 64 },
        PerformFailure::TooLarge { bytes_max: 16 << 20 },
        PerformFailure::Cancelled { sent: true },
        crate::testing::rejected(-32603, "duplicate key value violates unique constraint \"payments_pkey\"", None),
    ];
    let contracts = [draft("up", "echo", false), draft("up", "write", true)];
    let each = failures.iter().flat_map(|failure| contracts.iter().map(move |contract| (failure, contract)));
    each.map(|(failure, contract)| upstream_failure::interpret(&CallId::new(), contract, failure, false).0).collect()
}

/// Refusals that need a store, policies or rights, in the words of their gates.
fn in_their_words() -> Vec<Refusal> {
    let make = |gate, class, message: &str, hint: &str| {
        Refusal::new(CallId::new(), gate, class, message.to_owned(), hint.to_owned())
    };
    let mut spent = make(
        GateName::Budget,
        TaxonomyClass::BudgetExhausted,
        "budget used up: caller `agent-7`, financial in EUR, per day",
        "it renews at 2026-11-18 00:00 UTC",
    );
    spent.retry_after_ms = Some(51_200_000);
    let mut often = make(
        GateName::Budget,
        TaxonomyClass::RateLimited,
        "`company__pay_invoice` is called too often: its contract allows 60 in 60 s",
        "wait 1250 ms and send the same call again, one at a time",
    );
    often.retry_after_ms = Some(1_250);
    let mut long = make(
        GateName::Perform,
        TaxonomyClass::IdempotencyConflict,
        "it still goes on (40 of 100)",
        "call `servanda__result` with this handle",
    )
    .with_handle(EffectId::new().as_str())
    .with_next_action(NextAction::AskLater)
    .with_effect(EffectKnowledge::Unknown);
    long.retry_after_ms = Some(5_000);
    vec![
        make(
            GateName::Scope,
            TaxonomyClass::PermissionDenied,
            "the credential does not cover this call: it lacks the scopes `invoices:write payments:write`",
            "ask for a key with the scopes `invoices:read invoices:write payments:write`",
        ),
        make(
            GateName::Policy,
            TaxonomyClass::PolicyViolation,
            "`company__pay_invoice` is forbidden by policy `no-payments-at-night`: payments are made by day",
            "do not try another way around it; tell the user",
        ),
        spent,
        often,
        long,
        make(
            GateName::State,
            TaxonomyClass::StaleState,
            "the invoice is still open (precondition `is-open`)",
            "look at the present state, `company.get_invoice` shows it, and plan again",
        ),
    ]
}

/// Refusals about the answer and about compensation, in the words of their stages.
fn after_the_call() -> Vec<Refusal> {
    let make = |gate, class, message: &str, hint: &str| {
        Refusal::new(CallId::new(), gate, class, message.to_owned(), hint.to_owned())
    };
    let wrong = FieldError {
        field: "count".to_owned(),
        pointer: "/count".to_owned(),
        expected: "integer".to_owned(),
        actual: "string".to_owned(),
        message: "`count` must be integer, but is string".to_owned(),
        did_you_mean: None,
    };
    vec![
        make(
            GateName::Observe,
            TaxonomyClass::ObservationNormalizationFail,
            "the upstream's answer breaks its contract: `count` must be integer; the effect happened, do not repeat the call",
            "the answer was kept back; a person can look at it",
        )
        .with_field_errors(vec![wrong])
        .with_effect(EffectKnowledge::Happened),
        make(
            GateName::Perform,
            TaxonomyClass::CompensationRequired,
            "step 3 of 4 failed after `company.reserve_stock` was done",
            "tell the user; what was done has to be undone first",
        )
        .with_effect(EffectKnowledge::Happened),
        make(
            GateName::Perform,
            TaxonomyClass::CompensationFailed,
            "`company.release_stock` could not undo `company.reserve_stock`",
            "tell the user: a person has to look at both",
        )
        .with_effect(EffectKnowledge::Unknown),
    ]
}

async fn all() -> Vec<Refusal> {
    let mut all = of_gates().await;
    all.extend(of_stages());
    all.extend(of_upstreams());
    all.extend(in_their_words());
    all.extend(after_the_call());
    let mut doubtful: Vec<Refusal> = all.iter().filter(|one| one.effect == EffectKnowledge::None).cloned().collect();
    doubtful.iter_mut().for_each(Refusal::mark_unknown_before);
    all.extend(doubtful);
    all
}

#[tokio::test]
async fn every_refusal_costs_little() {
    let mut table = String::new();
    let mut classes = std::collections::BTreeMap::<&str, (usize, usize, usize)>::new();
    let mut dear = Vec::new();
    for refusal in all().await {
        let (told, meta, result) = rendered(&refusal);
        let full =
            parse(&tool_result::with_full_detail(result).json)["content"][0]["text"].as_str().unwrap().to_owned();
        let (told_tokens, meta_tokens, full_tokens) = (tokens(&told), tokens(&meta), tokens(&full));
        let is_about_ticket = refusal.gate == GateName::Confirmation && refusal.handle.is_some();
        let told_max = if is_about_ticket { TICKET_TOKENS_MAX } else { REFUSAL_TOKENS_MAX };
        if told_tokens > told_max || meta_tokens > META_TOKENS_MAX {
            dear.push(format!("{told_tokens} + {meta_tokens}: {told}"));
        }
        let most = classes.entry(refusal.error_code.name()).or_default();
        *most = (most.0.max(full_tokens), most.1.max(told_tokens), most.2.max(meta_tokens));
    }
    for (class, (full, told, meta)) in &classes {
        let _ = writeln!(table, "| {class} | {full} | {told} | {meta} |");
    }
    println!("| class | in full | told | `_meta` |\n|---|---|---|---|\n{table}");
    assert!(dear.is_empty(), "{} dear refusals:\n{}", dear.len(), dear.join("\n"));
    let failures = TaxonomyClass::ALL.iter().filter(|class| class.envelope().is_some());
    let missing: Vec<&str> = failures.map(|class| class.name()).filter(|name| !classes.contains_key(name)).collect();
    assert!(missing.is_empty(), "not measured: {missing:?}");
}

/// The gateway's own sentences fit the limit: an agent reads completely what happened and what to do.
#[tokio::test]
async fn no_refusal_in_our_own_words_is_cut() {
    let mut cut = Vec::new();
    for refusal in all().await {
        let (told, ..) = rendered(&refusal);
        let parsed: Value = serde_json::from_str(&told).unwrap();
        // What an earlier call may have done comes first; other advice may be cut there, and field errors are cut before it.
        if refusal.effect == EffectKnowledge::UnknownBefore && parsed.get("field_errors").is_some() {
            continue;
        }
        if refusal.effect == EffectKnowledge::UnknownBefore {
            let earlier = "an earlier call with this key may have been done; repeat it with the same key";
            assert!(parsed["hint"].as_str().is_none_or(|hint| hint.starts_with(earlier)), "{told}");
            continue;
        }
        // A contract's own sentence may be longer than the limit.
        if refusal.gate == GateName::Semantics {
            continue;
        }
        if ["message", "hint"].iter().any(|member| parsed[*member].as_str().is_some_and(|text| text.ends_with('…'))) {
            cut.push(format!(
                "{} tokens: {told}\n    message: {}\n    hint: {}",
                tokens(&told),
                refusal.message,
                refusal.hint
            ));
        }
    }
    assert!(cut.is_empty(), "{} are cut:\n{}", cut.len(), cut.join("\n"));
}

/// The next step that a refusal suggests never contradicts what is known about the effect.
#[tokio::test]
async fn what_to_do_next_fits_what_is_known() {
    for refusal in all().await {
        let Refusal { next_action, effect, retryable, .. } = refusal;
        let told = serde_json::to_string(&refusal).unwrap();
        if matches!(effect, EffectKnowledge::Unknown | EffectKnowledge::Happened) {
            assert!(next_action != NextAction::RetryAfterDelay && next_action != NextAction::RepairArguments, "{told}");
        }
        if next_action == NextAction::RetryAfterDelay {
            assert!(retryable, "{told}");
        }
    }
}

/// However long a refusal is, the agent gets a bounded part of it.
#[test]
fn a_refusal_with_much_to_say_costs_little_too() {
    let field = |number: usize| FieldError {
        field: format!("orders.{number}.customer.address"),
        pointer: format!("/orders/{number}/customer/address"),
        expected: (0..40).fold("only".to_owned(), |names, name| format!("{names} field_{name},")),
        actual: "an unknown field".to_owned(),
        message: String::new(),
        did_you_mean: Some("customer_address".to_owned()),
    };
    let errors: Vec<FieldError> = (0..64).map(field).collect();
    let words = "the quick brown fox jumps over the lazy dog and the representation of its configuration ".repeat(40);
    let digits = "0193a5b2c3d47e5fa0718293a4b5c6d7-4bf92f3577b34da6a3ce929d0e0e4736/".repeat(40);
    let code = r#"{"error":{"code":-32603,"message":"ERR_\"x\"","data":[1,2,3]}}"#.repeat(40);
    // Ids are random digits that take 17 to 24 tokens. Fixed ones, so that the figure is the same in every run.
    let call_id: CallId = serde_json::from_value(json!("call_01a1f4c0a5b27d3f85718293a4b5c6d7")).unwrap();
    let handle = "eff_01a1f4c0a5b27d3f85718293a4b5c6d7";
    for text in [words, digits, code, "Überweisung à côté — 送金は拒否されました ".repeat(40)] {
        for gate in [GateName::Structure, GateName::Semantics, GateName::Perform, GateName::Fence] {
            let class = TaxonomyClass::ObservationNormalizationFail;
            let mut refusal = Refusal::new(call_id.clone(), gate, class, text.clone(), text.clone());
            refusal.retry_after_ms = Some(86_400_000);
            let with_errors = refusal.clone().with_field_errors(errors.clone());
            let later = refusal.with_handle(handle).with_next_action(NextAction::AskLater);
            for refusal in [with_errors, later] {
                let (told, ..) = rendered(&refusal);
                assert!(tokens(&told) <= REFUSAL_TOKENS_MAX, "{}: {told}", tokens(&told));
            }
        }
    }
}

#[tokio::test]
async fn what_comes_with_a_result_costs_little() {
    let server = ScriptedServer::new(Era::Modern, &json!({}), |_| async { Ok(text(Era::Modern, "done")) });
    let bank = Bank::new(server, vec![draft("up", "echo", false), draft("up", "write", true)]);
    let keyed = || super::effects::keyed("k");
    for (what, request) in [
        ("read", crate::testing::call(&crate::Requester::local(), "echo", RequestTerms::default())),
        ("change", keyed()),
        ("change, replayed", keyed()),
    ] {
        let crate::CallAnswer::Result(result) = bank.harness.engine.call(request).await else { panic!("no result") };
        let told = parse(&result.json)["_meta"].clone();
        assert_eq!(told["servanda/call"]["class"], "SUCCESS");
        assert_eq!(told["servanda/call"].get("replayed"), (what == "change, replayed").then_some(&Value::Bool(true)));
        let full = parse(&tool_result::with_full_detail(result).json)["_meta"].to_string();
        let told = told.to_string();
        println!("`_meta` of a {what}: {} tokens in full, {} told: {told}", tokens(&full), tokens(&told));
        assert!(tokens(&told) <= META_TOKENS_MAX, "{told}");
    }
}
