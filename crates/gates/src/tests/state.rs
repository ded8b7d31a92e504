//! The state gate: a tool that is still served, queries as the contract states them, and no way to the upstream
//! without answers.

use serde_json::{Value, json};
use servanda_contract::{GateName, Proposal, TaxonomyClass, Timestamp, refusal::EffectKnowledge, taxonomy::NextAction};

use super::{
    admitted, booking, cleared,
    fence::{budgets, effects, intent, now},
    passed, proposal, propose, rejected,
};
use crate::{
    Claimed, FenceProgress, Funded, NotFencedReason, Permit, PreconditionQuery, begin, fence, fence_funded, fund,
};
use servanda_effects::effect::{
    ClientKey, DispatchEnd, EffectChange, EffectEvent, EffectReply, EffectState, EffectStore as _, EffectTarget,
    InMemoryEffects,
};

const LEASE_MS: u64 = 1_000;

fn free() -> Value {
    json!([{
        "id": "free", "tool": "office.room", "arguments": { "id": "{room}", "at": "{start}/{end}", "seats": "{seats}" },
        "expect": { "rule": "result.free && result.room == args.room", "message": "the room is taken" },
    }])
}

fn versioned() -> Value {
    let version = json!({
        "argument": "seats", "tool": "office.room", "arguments": { "id": "{room}" }, "rule": "result.version",
    });
    let manifest = json!([{ "resource": "room/{room}", "operation": "UPDATE", "scope": "tenant" }]);
    json!({ "class": "N", "mutation_class": "write_irreversible", "manifest": manifest, "version": version })
}

fn permit() -> Permit {
    passed(&admitted(&[("/preconditions", free())]), &booking(&json!({})))
}

fn claimed(permit: Permit, effects: &InMemoryEffects) -> Claimed {
    let intent = intent(&permit, ClientKey::Given("k".to_owned()));
    match now(begin(cleared(permit), intent, LEASE_MS, effects)).unwrap() {
        FenceProgress::Claimed(claimed) => *claimed,
        FenceProgress::Fenced(fenced) => panic!("it was let out: {fenced:?}"),
    }
}

/// A claimed call whose preconditions hold and that costs nothing.
fn funded(claimed: Claimed) -> Funded {
    now(fund(claimed.judge(&[Ok(yes())]).unwrap(), &budgets())).unwrap()
}

fn state(effects: &InMemoryEffects, claimed: &Claimed) -> EffectState {
    let target = EffectTarget::Id(claimed.claim().unwrap().id.clone());
    now(effects.find(target)).unwrap().unwrap().state
}

fn yes() -> Value {
    json!({ "free": true, "room": "room_1" })
}

#[test]
fn a_tool_is_served_until_the_end_of_its_last_day() {
    let day_ms = 86_400_000;
    let table = [
        (json!("1970-01-02"), 0, true),
        (json!("1970-01-02"), 2 * day_ms - 1, true),
        (json!(null), 9 * day_ms, true),
        (json!("1970-01-02"), 2 * day_ms, false),
    ];
    for (date, now_ms, served) in table {
        let lifecycle = json!({ "status": "deprecated", "sunset_date": date, "replacement": "office.reserve" });
        let contract = admitted(&[("/identity/lifecycle", lifecycle)]);
        let at = Proposal { received_at: Timestamp::from_unix_ms(now_ms), ..proposal(booking(&json!({})).to_string()) };
        match propose(&contract, at).0 {
            Ok(_) => assert!(served, "{date} {now_ms}"),
            Err(refusal) => {
                assert!(!served, "{date} {now_ms}");
                assert_eq!((refusal.gate, refusal.error_code), (GateName::State, TaxonomyClass::StaleState));
                assert_eq!((refusal.effect, refusal.repairable), (EffectKnowledge::None, false));
                assert!(refusal.hint.contains("`office.reserve`"), "{}", refusal.hint);
            }
        }
    }
}

#[test]
fn questions_are_the_contract_s_with_the_arguments_of_the_call() {
    let effects = effects();
    let ask = |changes: Value| {
        let contract = admitted(&[("/preconditions", free())]);
        let questions = claimed(passed(&contract, &booking(&changes)), &effects).questions();
        let [PreconditionQuery { id, tool, arguments }] = &questions[..] else { panic!("{questions:?}") };
        assert_eq!((&**id, &**tool), ("free", "office.room"));
        serde_json::from_slice::<Value>(arguments).unwrap()
    };
    let at = "2026-11-15T09:00:00Z/2026-11-15T10:00:00Z";
    assert_eq!(ask(json!({ "seats": 7 })), json!({ "id": "room_1", "at": at, "seats": 7 }), "a number stays one");
}

#[test]
fn an_absent_argument_is_left_out_of_the_question() {
    let questions = claimed(permit(), &effects()).questions();
    let arguments: Value = serde_json::from_slice(&questions[0].arguments).unwrap();
    assert_eq!(arguments.get("seats"), None);
}

#[test]
fn a_claim_becomes_a_dispatch_when_everything_holds() {
    let effects = effects();
    let claimed = claimed(permit(), &effects);
    assert_eq!(state(&effects, &claimed), EffectState::Claimed);
    assert!(effects.records().is_empty(), "nothing was sent, so nothing says that it might have been");
    let (claim, record) =
        (claimed.claim().unwrap().clone(), intent(claimed.permit(), ClientKey::Given("k".to_owned())).record);
    let fenced = now(fence_funded(funded(claimed), record, &effects)).unwrap();
    assert_eq!(fenced.claim(), Some(&claim));
    let effect = now(effects.find(EffectTarget::Id(claim.id.clone()))).unwrap().unwrap();
    assert_eq!((effect.state, effect.dispatches), (EffectState::Dispatching, 1));
    assert_eq!(effects.records()[0].effect_id.as_deref(), Some(claim.id.as_str()));
}

#[test]
fn a_precondition_that_does_not_hold_or_has_no_answer_is_refused() {
    let table = [
        (
            vec![Ok(json!({ "free": false, "room": "room_1" }))],
            TaxonomyClass::StaleState,
            "the room is taken (precondition `free`)",
        ),
        (vec![Ok(json!({ "free": true, "room": "room_2" }))], TaxonomyClass::StaleState, "the room is taken"),
        (vec![Ok(json!({}))], TaxonomyClass::DependencyUnavailable, "cannot be decided"),
        (vec![Err("it is down".to_owned())], TaxonomyClass::DependencyUnavailable, "it is down"),
        (Vec::new(), TaxonomyClass::DependencyUnavailable, "no tool was asked"),
    ];
    for (answers, class, message) in table {
        let refusal = claimed(permit(), &effects()).judge(&answers).unwrap_err();
        assert_eq!((refusal.gate, refusal.error_code, refusal.effect), (GateName::State, class, EffectKnowledge::None));
        assert!(refusal.message.contains(message), "{}", refusal.message);
    }
}

#[test]
fn a_version_must_be_the_one_that_was_read() {
    let schema_requires = ("/affordance/input_schema/required", json!(["room", "start", "end", "seats"]));
    let example = booking(&json!({ "seats": 3 }));
    let examples = ("/affordance/examples", json!([{ "description": "x", "arguments": example }]));
    let contract = admitted(&[("/effect", versioned()), schema_requires, examples]);
    for (now_is, held) in [(json!(3), true), (json!(4), false), (json!("3"), false), (json!(null), false)] {
        let claimed = claimed(passed(&contract, &booking(&json!({ "seats": 3 }))), &effects());
        let judged = claimed.judge(&[Ok(json!({ "version": now_is }))]);
        assert_eq!(judged.is_ok(), held, "{now_is}");
        if let Err(refusal) = judged {
            assert_eq!(refusal.error_code, TaxonomyClass::StaleState);
            assert_eq!(refusal.next_action, NextAction::RefreshStateAndReplan);
        }
    }
    let reason = rejected(&[("/effect", versioned())]).failures[0].reason.clone();
    assert_eq!(reason, "effect.version: the input schema does not require `seats`");
}

#[test]
fn there_is_no_way_around_the_questions() {
    let (permit, effects) = (permit(), effects());
    let intent = intent(&permit, ClientKey::Given("k".to_owned()));
    let refused = now(fence(cleared(permit), intent, &effects)).unwrap_err();
    assert!(matches!(refused.why, NotFencedReason::NotOnRecord(_)), "{refused:?}");
    assert!(
        now(effects
            .orphans(servanda_effects::effect::OrphanQuery::oldest(servanda_effects::effect::OwnerId::new(), 10)))
        .unwrap()
        .is_empty()
            && effects.records().is_empty()
    );
}

/// A zombie: the claim was taken over, and the earlier judgement is worth nothing.
#[test]
fn a_claim_that_was_taken_over_lets_nothing_out() {
    let effects = effects();
    let first = claimed(permit(), &effects);
    let claim = first.claim().unwrap().clone();
    let event = EffectEvent::Settle(claim.clone(), DispatchEnd::NotExecuted("given up".to_owned()));
    let change = EffectChange {
        target: EffectTarget::Id(claim.id.clone()),
        event,
        record: None,
        quarantine: None,
        notices: Vec::new(),
        consumes: None,
    };
    now(effects.apply(change)).unwrap();
    let second = claimed(permit(), &effects);
    assert_eq!(second.claim().unwrap().epoch, claim.epoch + 1);
    let record = intent(first.permit(), ClientKey::Given("k".to_owned())).record;
    let stale = now(fence_funded(funded(first), record, &effects)).unwrap_err();
    assert!(matches!(stale, NotFencedReason::Reply { reply: EffectReply::Stale, .. }), "{stale:?}");
    assert_eq!(state(&effects, &second), EffectState::Claimed);
}

#[test]
fn demands_that_cannot_be_met_are_not_admitted() {
    let with = |member: &str, value: Value| {
        let mut preconditions = free();
        preconditions[0].as_object_mut().unwrap().insert(member.to_owned(), value);
        rejected(&[("/preconditions", preconditions)]).failures[0].reason.clone()
    };
    let expect = |rule: &str| json!({ "rule": rule, "message": "m" });
    assert_eq!(
        with("arguments", json!({ "id": ["{rom}"] })),
        "preconditions[0] `free`: the input schema declares no `rom`"
    );
    assert_eq!(
        with("expect", expect("args.rom == result.x")),
        "preconditions[0] `free`: the input schema declares no `rom`"
    );
    assert!(with("expect", expect("results.x")).ends_with("knows only `args` and `result`, not `results`"));
    let many = vec![free()[0].clone(); 17];
    assert!(rejected(&[("/preconditions", json!(many))]).failures[0].reason.contains("more than 16 questions"));
}
