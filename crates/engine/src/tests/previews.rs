//! Dry runs, end to end: what a preview says, and that nothing is sent, claimed, reserved or used up for it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use servanda_contract::{
    ToolContract,
    record::Outcome,
    schema::{CompiledSchema, SchemaProfile},
    schemas,
    tool::SideEffectClass,
};
use servanda_effects::budget::BudgetDimension;
use servanda_mcp::Era;
use servanda_upstream::{Answer, PerformFailure};

use super::{
    budgets::{COST_MICROS, bank as funded_bank, costly, counted, money, stands},
    conversations::{failed, result},
    effects::{Bank, HOUR_MS, died, keyed, keyless, write},
};
use crate::{
    CallAnswer, CallRequest, OperationKeys, RequestTerms,
    testing::{ScriptedServer, call, draft, requester, said, text},
};

/// The same call as a dry run.
pub(super) fn dry(request: CallRequest) -> CallRequest {
    CallRequest { terms: RequestTerms { dry_run: true, ..request.terms }, ..request }
}

/// The preview of an answer. It has the published schema, and marks that no result of a tool has.
pub(super) fn preview(answer: CallAnswer) -> Value {
    let answered = result(answer);
    assert_eq!((&answered["isError"], &answered["_meta"]["servanda/dry-run"]), (&json!(false), &json!(true)));
    assert!(answered["_meta"]["servanda/call"]["id"].is_string(), "{answered}");
    let preview = answered["structuredContent"].clone();
    assert_eq!(preview["kind"], "preview");
    let schema = schemas::preview();
    let compiled = CompiledSchema::compile(schema.as_object().unwrap(), SchemaProfile::Results).unwrap();
    assert_eq!(compiled.judge(&preview).into_all(), []);
    assert_eq!(answered["content"][0]["text"], preview["summary"]);
    preview
}

fn gate<'a>(preview: &'a Value, name: &str) -> &'a str {
    let gates = preview["gates"].as_array().unwrap();
    gates.iter().find(|gate| gate["gate"] == name).unwrap()["decision"].as_str().unwrap()
}

/// A server that counts what it did, and does nothing if it is told that this is a dry run.
struct CountedWrites {
    bank: Bank,
    done: Arc<AtomicUsize>,
}

impl CountedWrites {
    fn new(change: impl FnOnce(&mut ToolContract)) -> Self {
        let done = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&done);
        let bank = Bank::writing(change, move |heard| {
            let counter = Arc::clone(&counter);
            async move {
                if heard.params["arguments"]["simulate"] == true {
                    return Ok(said(Era::Modern, &json!({"content": [], "structuredContent": {"would": "write"}})));
                }
                counter.fetch_add(1, Ordering::SeqCst);
                Ok(text(Era::Modern, "done"))
            }
        });
        Self { bank, done }
    }

    fn done(&self) -> usize {
        self.done.load(Ordering::SeqCst)
    }
}

fn effect(class: &str) -> Value {
    match class {
        "K" => json!({"class": "K", "mutation_class": "write_irreversible", "key_window_sec": 3600,
            "key": {"meta": "k"}, "manifest": [{"resource": "note/{text}", "operation": "CREATE", "scope": "tenant"}]}),
        "Q" => json!({"class": "Q", "mutation_class": "write_irreversible", "key": {"meta": "k"},
            "status": {"tool": "up.echo", "key_argument": "text", "absence_is_authoritative": true},
            "manifest": [{"resource": "note/{text}", "operation": "CREATE", "scope": "tenant"}]}),
        _ => json!({"class": "N", "mutation_class": "write_irreversible",
            "manifest": [{"resource": "note/{text}", "operation": "CREATE", "scope": "tenant"}]}),
    }
}

fn of_class(contract: &mut ToolContract, class: &str) {
    contract.effect = Some(serde_json::from_value(effect(class)).unwrap());
}

fn with_dry_run(contract: &mut ToolContract) {
    let terms = json!({"required": false, "dry_run": {"argument": "simulate", "value": true}});
    contract.approval = Some(serde_json::from_value(terms).unwrap());
}

/// However grave a call is and whatever its era: a dry run of it reaches no server and leaves nothing but its record.
#[tokio::test]
async fn a_dry_run_does_nothing_in_any_class_and_era() {
    for era in [Era::Legacy, Era::Modern] {
        for class in ["K", "Q", "N"] {
            for side_effect in SideEffectClass::ALL.into_iter().skip(1) {
                let counted = CountedWrites::new(|contract| {
                    of_class(contract, class);
                    contract.transactional.side_effect_class = side_effect;
                });
                for keys in [OperationKeys::default(), keyed("k").keys] {
                    let requester = requester(era, &json!({}));
                    let request = CallRequest { keys, ..call(&requester, "write", RequestTerms::default()) };
                    let preview = preview(counted.bank.call(dry(request)).await);
                    assert_eq!(preview["effects"]["effect_class"], class);
                    assert_eq!(preview["effects"]["side_effect_class"], side_effect.word());
                    assert_eq!(preview["effects"]["changes"][0]["resource"], "note/hello");
                }
                let about = format!("{era:?} {class} {side_effect:?}");
                assert_eq!((counted.done(), counted.bank.server.heard()), (0, Vec::<String>::new()), "{about}");
                assert!(counted.bank.effects().await.is_empty(), "{about}");
                assert_eq!(counted.bank.harness.budgets.entries(), 0, "{about}");
                assert_eq!(counted.bank.harness.outcomes(), ["previewed", "previewed"], "{about}");
            }
        }
        let bank = Bank::new(
            ScriptedServer::new(Era::Modern, &json!({}), |_| async { Ok(text(Era::Modern, "read")) }),
            vec![draft("up", "echo", false)],
        );
        let preview = preview(bank.call(dry(call(&requester(era, &json!({})), "echo", RequestTerms::default()))).await);
        assert_eq!((&preview["verdict"], &preview["effects"]["effect_class"]), (&json!("would_pass"), &json!("R")));
        assert_eq!((bank.calls(), preview.get("operation")), (0, None), "a read is not sent either");
    }
}

#[tokio::test]
async fn a_call_that_would_pass_is_shown_gate_by_gate_and_recorded_as_a_dry_run() {
    let counted = CountedWrites::new(|contract| of_class(contract, "N"));
    let shown = preview(counted.bank.call(dry(keyless())).await);
    assert_eq!((&shown["verdict"], &shown["operation"]), (&json!("would_pass"), &json!("no_key")));
    let gates = shown["gates"].as_array().unwrap();
    assert_eq!(gates.len(), 11);
    assert!(gates.iter().all(|gate| gate["decision"] == "pass"), "{gates:?}");
    assert_eq!(shown["summary"], "dry run: `write` would be called; nothing was done");
    let record = counted.bank.harness.last_record();
    assert_eq!((record.outcome, record.dispatched_at, record.effect_id), (Outcome::Previewed, None, None));
    assert_eq!(json!(record.call_id), shown["call_id"]);
    assert!(record.refusal.is_none() && record.finished_at.is_some() && record.proposal_digest.is_some());
    // The call itself is made as if there had been no dry run.
    counted.bank.call(keyless()).await;
    assert_eq!(counted.done(), 1);
}

#[tokio::test]
async fn a_call_that_would_be_refused_says_what_the_call_would_be_told() {
    let counted = CountedWrites::new(|_| {});
    let wrong = |arguments: Value| write(&arguments, OperationKeys::default());
    let shown = preview(counted.bank.call(dry(wrong(json!({"text": 7})))).await);
    assert_eq!((&shown["verdict"], gate(&shown, "types")), (&json!("would_be_refused"), "refuse"));
    assert_eq!((gate(&shown, "structure"), gate(&shown, "policy")), ("pass", "not_reached"));
    assert_eq!((&shown["refusals"][0]["gate"], shown.get("effects")), (&json!("types"), None));
    let record = counted.bank.harness.last_record();
    assert_eq!(record.outcome, Outcome::Previewed);
    assert_eq!(json!(record.refusal.unwrap().gate), "types");
    let unknown = CallRequest { tool: "wriet".to_owned(), ..keyless() };
    assert!(matches!(counted.bank.call(dry(unknown)).await, CallAnswer::UnknownTool(_)));
    assert_eq!((counted.done(), counted.bank.harness.outcomes().len()), (0, 2));
}

#[tokio::test]
async fn a_dry_run_says_whether_the_key_was_used() {
    let counted = CountedWrites::new(|contract| of_class(contract, "N"));
    let of = async |request| preview(counted.bank.call(dry(request)).await);
    assert_eq!(of(keyed("k")).await["operation"], "new");
    counted.bank.call(keyed("k")).await;
    let done = of(keyed("k")).await;
    assert_eq!((&done["verdict"], &done["operation"]), (&json!("would_be_replayed"), &json!("done")));
    let other = write(&json!({"text": "other"}), keyed("k").keys);
    let conflict = of(other).await;
    assert_eq!((&conflict["verdict"], &conflict["operation"]), (&json!("would_be_refused"), &json!("conflict")));
    assert_eq!(conflict["refusals"][0]["gate"], "fence");
    counted.bank.clock.pass_ms(HOUR_MS);
    assert_eq!((counted.done(), counted.bank.effects().await.len()), (1, 1));

    let dying = Bank::writing(|contract| of_class(contract, "N"), |_| async { Err::<Answer, _>(died()) });
    dying.call(keyed("k")).await;
    let unknown = preview(dying.call(dry(keyed("k"))).await);
    assert_eq!((&unknown["operation"], &unknown["verdict"]), (&json!("outcome_unknown"), &json!("would_be_refused")));
    assert_eq!(dying.calls(), 1);
}

#[tokio::test]
async fn an_upstream_s_own_dry_run_is_asked_only_where_the_contract_names_it() {
    for class in ["K", "Q", "N"] {
        let counted = CountedWrites::new(|contract| {
            of_class(contract, class);
            with_dry_run(contract);
        });
        let shown = preview(counted.bank.call(dry(keyed("k"))).await);
        assert_eq!(shown["upstream_preview"], json!({"said": {"would": "write"}}), "{class}");
        let heard = counted.bank.server.heard();
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert!(heard[0].contains(r#""arguments":{"simulate":true,"text":"hello"}"#), "{heard:?}");
        assert!(!heard[0].contains("meta"), "an upstream's dry run carries no key: {heard:?}");
        assert_eq!((counted.done(), counted.bank.effects().await.len()), (0, 0), "{class}");
        // A call that would be refused is not asked about.
        preview(counted.bank.call(dry(write(&json!({"text": 7}), OperationKeys::default()))).await);
        assert_eq!(counted.bank.server.heard().len(), 1);
        // The caller cannot take the argument for itself, and the call goes without it.
        let smuggled = write(&json!({"text": "a", "simulate": true}), OperationKeys::default());
        assert_eq!(gate(&preview(counted.bank.call(dry(smuggled)).await), "structure"), "refuse");
        counted.bank.call(keyed("k")).await;
        assert_eq!(counted.done(), 1);
    }
}

#[tokio::test]
async fn an_upstream_that_says_nothing_usable_does_not_change_the_verdict() {
    let long = "x".repeat(20_000);
    let answers: Vec<(Result<Answer, PerformFailure>, &str)> = vec![
        (Err(died()), "reset"),
        (Ok(said(Era::Modern, &json!({"content": [], "isError": true}))), "failed"),
        (Ok(said(Era::Modern, &json!({"content": [], "structuredContent": {"a": long}}))), "too long"),
    ];
    for (answer, why) in answers {
        let bank = Bank::writing(with_dry_run, move |_| {
            let answer = answer.clone();
            async move { answer }
        });
        let shown = preview(bank.call(dry(keyless())).await);
        assert_eq!(shown["verdict"], "would_pass");
        let said = shown["upstream_preview"]["not_available"].as_str().unwrap();
        assert!(said.contains(why), "{said}");
    }
}

#[tokio::test]
async fn preconditions_are_asked_of_read_only_tools_alone() {
    let precondition = json!([
        {"id": "open", "tool": "up.echo", "arguments": {"text": "{text}"},
            "expect": {"rule": "result.open", "message": "it is closed"}},
        {"id": "known", "tool": "up.echo", "arguments": {"text": "{text}"},
            "expect": {"rule": "result.known", "message": "it is not known"}},
    ]);
    let (reading, mut writing) = (draft("up", "echo", false), draft("up", "write", true));
    writing.preconditions = serde_json::from_value(precondition).unwrap();
    writing.runtime.rate_limits.max_requests = 2;
    let server = ScriptedServer::new(Era::Modern, &json!({}), |_| async {
        Ok(said(Era::Modern, &json!({"content": [], "structuredContent": {"open": false, "known": true}})))
    });
    let bank = Bank::new(server, vec![reading, writing]);
    let shown = preview(bank.call(dry(keyless())).await);
    assert_eq!((&shown["verdict"], gate(&shown, "state")), (&json!("would_be_refused"), "refuse"));
    let standings: Vec<_> = shown["preconditions"].as_array().unwrap().iter().map(|one| &one["standing"]).collect();
    assert_eq!(standings, ["does_not_hold", "holds"]);
    assert!(bank.server.heard().iter().all(|line| line.contains(r#""name":"echo""#)), "{:?}", bank.server.heard());
    // Dry runs ask no more often than the tool may be called, and do not count as calls.
    preview(bank.call(dry(keyless())).await);
    assert_eq!(bank.calls(), 4);
    let third = preview(bank.call(dry(keyless())).await);
    assert_eq!((&third["preconditions"][0]["standing"], bank.calls()), (&json!("not_known"), 4));
    assert!(third["preconditions"][0]["why"].as_str().unwrap().contains("dry runs of this tool come too often"));
}

#[tokio::test]
async fn budgets_are_looked_at_and_not_drawn_on() {
    let allowances = [money(COST_MICROS), counted(BudgetDimension::Write, 1)];
    let bank = funded_bank(costly(), &allowances, |_| async { Ok(text(Era::Modern, "done")) });
    for _ in 0..3 {
        let shown = preview(bank.call(dry(keyless())).await);
        assert_eq!((&shown["verdict"], gate(&shown, "budget")), (&json!("would_pass"), "pass"));
        let budgets = shown["budgets"].as_array().unwrap();
        assert!(budgets.len() == 2 && budgets.iter().all(|budget| budget["has_room"] == true), "{budgets:?}");
        assert!(shown["cost"].as_str().unwrap().starts_with("4.00 USD"), "{shown}");
    }
    assert_eq!(bank.harness.budgets.entries(), 0);
    assert_eq!(stands(&bank.harness, BudgetDimension::Financial).await, (0, 0, 0));
    bank.call(keyless()).await;
    assert_eq!(bank.calls(), 1);
    let spent = preview(bank.call(dry(keyless())).await);
    assert_eq!((&spent["verdict"], gate(&spent, "budget")), (&json!("would_be_refused"), "refuse"));
    assert_eq!(spent["refusals"][0]["error_code"], "BUDGET_EXHAUSTED");
    assert!(spent["budgets"].as_array().unwrap().iter().all(|budget| budget["has_room"] == false), "{spent}");
    bank.harness.budgets.down.store(true, Ordering::Relaxed);
    assert_eq!(preview(bank.call(dry(keyless())).await)["verdict"], "would_be_refused");
}

#[tokio::test]
async fn a_dry_run_takes_no_token_of_the_tool_s_rate() {
    let counted = CountedWrites::new(|contract| contract.runtime.rate_limits.max_requests = 1);
    for _ in 0..3 {
        assert_eq!(preview(counted.bank.call(dry(keyless())).await)["verdict"], "would_pass");
    }
    counted.bank.call(keyless()).await;
    assert_eq!(counted.done(), 1);
    let often = preview(counted.bank.call(dry(keyless())).await);
    assert_eq!((&often["verdict"], gate(&often, "budget")), (&json!("would_be_refused"), "refuse"));
}

#[tokio::test]
async fn a_dry_run_continues_nothing_and_becomes_no_task() {
    let counted = CountedWrites::new(|_| {});
    let raw = |text: &str| serde_json::value::RawValue::from_string(text.to_owned()).unwrap();
    let with_state = RequestTerms { request_state: Some("x".to_owned()), ..RequestTerms::default() };
    let with_answers = RequestTerms { input_responses: Some(raw("{}")), ..RequestTerms::default() };
    let requests = [
        CallRequest { terms: with_state, ..keyless() },
        CallRequest { terms: with_answers, ..keyless() },
        CallRequest { task: Some(raw("{}")), ..keyless() },
    ];
    for request in requests {
        assert!(failed(counted.bank.call(dry(request)).await).message.contains("a dry run is answered at once"));
    }
    assert_eq!(counted.done(), 0);
}
