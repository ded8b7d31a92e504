//! What recovery does with the effects of a process that is gone.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json};
use servanda_contract::{ToolContract, refusal::EffectKnowledge, time::Clock as _};
use servanda_effects::{
    InMemoryNotebook, Note, NoteKind, Notebook as _,
    effect::{
        EffectChange, EffectEnding, EffectEvent, EffectState, EffectStore as _, EffectTarget, ManualSettlement,
        StoredAnswer,
    },
};
use servanda_mcp::Era;
use servanda_upstream::WebhookAddress;
use tokio::sync::Notify;

use super::{
    conversations::result,
    effects::{Bank, died, keyed, refusal},
};
use crate::{
    CallRequest, Gateway as _,
    callbacks::{Callback, CallbackSubscription, Callbacks, SigningSecret, WebhookReceiver, deliveries},
    deferred::recovery::run_once,
    testing::{EngineHarness, ScriptedServer, draft, parse, requester_of, said, snapshot_of, text},
};

fn writing(effect: Value) -> ToolContract {
    let mut contract = draft("up", "write", true);
    let mut effect = effect;
    effect["mutation_class"] = json!("write_irreversible");
    effect["manifest"] = json!([{ "resource": "x", "operation": "UPDATE", "scope": "tenant" }]);
    contract.effect = Some(serde_json::from_value(effect).unwrap());
    contract
}

fn status_tool() -> ToolContract {
    let mut contract = draft("up", "status", false);
    let schema = json!({"type": "object", "required": ["key"], "properties": {"key": {"type": "string", "description": "Which."}}});
    contract.affordance.input_schema = schema.as_object().unwrap().clone().into();
    contract.affordance.examples.clear();
    contract
}

/// A bank whose process ended in the middle of a call, and the same bank after a restart. The server hangs until then.
struct Crashed {
    bank: Bank,
    restarted: EngineHarness,
}

async fn crashed(contracts: Vec<ToolContract>, found: Value) -> Crashed {
    let up = Arc::new(AtomicBool::new(false));
    let is_up = up.clone();
    let server = ScriptedServer::new(Era::Modern, &json!({}), move |heard| {
        let (is_up, found) = (is_up.load(Ordering::SeqCst), found.clone());
        async move {
            if heard.params["name"] == "status" {
                return Ok(said(Era::Modern, &json!({"content": [], "structuredContent": found})));
            }
            if is_up { Ok(text(Era::Modern, "done")) } else { std::future::pending().await }
        }
    });
    let bank = Bank::new(server, contracts.clone());
    {
        let mut calling = std::pin::pin!(bank.call(keyed("k")));
        while bank.calls() == 0 {
            tokio::select! {
                biased;
                _ = &mut calling => panic!("it hangs"),
                () = tokio::task::yield_now() => {}
            }
        }
        // Dropped here, as a dying process would drop it.
    }
    assert_eq!(bank.states().await, [EffectState::Dispatching]);
    up.store(true, Ordering::SeqCst);
    let restarted = bank.harness.restarted(snapshot_of(&bank.server, contracts), bank.clock.clone());
    Crashed { bank, restarted }
}

impl Crashed {
    /// Adds a subscription to callbacks from now on.
    fn subscribe(&self, contracts: Vec<ToolContract>) {
        let subscription = CallbackSubscription {
            name: "books".to_owned(),
            on: BTreeSet::from([EffectEnding::Completed, EffectEnding::Failed, EffectEnding::Unknown]),
            tools: vec!["wri*".to_owned()],
        };
        let address = WebhookAddress::parse("https://example.com/hook").unwrap();
        let secret = Some(SigningSecret::parse("123456789012345678901234").unwrap());
        let receiver = WebhookReceiver { address, secret };
        let mut snapshot = snapshot_of(&self.bank.server, contracts);
        snapshot.callbacks = Arc::new(Callbacks::new(vec![Callback { subscription, receiver }], Vec::new()));
        self.restarted.engine.install(snapshot);
    }

    /// The types of the events that are waiting for delivery.
    async fn told(&self) -> Vec<String> {
        let kept = deliveries(self.restarted.notebook.as_ref(), self.bank.clock.now()).await.unwrap();
        kept.into_iter().map(|delivery| delivery.event_type).collect()
    }

    async fn look(&self) {
        run_once(self.restarted.engine.long_running(), &mut BTreeSet::new()).await;
    }
}

const MINUTE_MS: u64 = 60_000;

#[tokio::test]
async fn a_keyed_effect_is_sent_again_in_the_same_bytes_and_settled() {
    let keyed_tool = writing(json!({"class": "K", "key": {"argument": "idem"}, "key_window_sec": 3600}));
    let crashed = crashed(vec![keyed_tool], json!(null)).await;
    crashed.look().await;
    assert_eq!(crashed.bank.calls(), 1, "its time is not over, and its owner was never missed");
    crashed.bank.clock.pass_ms(MINUTE_MS);
    crashed.look().await;
    let heard = crashed.bank.server.heard();
    assert_eq!((heard.len(), &heard[0]), (2, &heard[1]));
    assert_eq!(crashed.bank.states().await, [EffectState::Completed]);
    let record = crashed.restarted.last_record();
    assert_eq!((record.outcome.name(), record.continues.is_some()), ("completed", true));
    assert_eq!(result(crashed.restarted.engine.call(keyed("k")).await)["content"][0]["text"], "done");
    assert_eq!(crashed.bank.calls(), 2, "the client gets what the recovery got");
}

/// Calls that wait for an orphan do not keep recovery from settling it.
#[tokio::test]
async fn a_call_that_waits_for_an_orphan_does_not_stand_in_its_way() {
    let keyed_tool = writing(json!({"class": "K", "key": {"argument": "idem"}, "key_window_sec": 3600}));
    let crashed = crashed(vec![keyed_tool], json!(null)).await;
    crashed.bank.clock.pass_ms(MINUTE_MS);
    let waiting = crashed.restarted.engine.call(keyed("another key of the same resource"));
    let (waited, ()) = tokio::join!(biased; waiting, crashed.look());
    assert_eq!(result(waited)["content"][0]["text"], "done");
    assert_eq!(crashed.bank.states().await, [EffectState::Completed, EffectState::Completed]);
}

#[tokio::test]
async fn an_effect_that_can_be_asked_about_is() {
    let table = [
        (json!({"found": true}), true, EffectState::Completed),
        (json!({"found": false}), true, EffectState::FailedRetryable),
        (json!({"found": false}), false, EffectState::OutcomeUnknown),
        (json!({"unexpected": 1}), true, EffectState::OutcomeUnknown),
    ];
    for (found, absence_is_authoritative, state) in table {
        let asked_tool = writing(json!({"class": "Q", "key": {"meta": "key"}, "status": {
            "tool": "up.status", "key_argument": "key", "absence_is_authoritative": absence_is_authoritative}}));
        let crashed = crashed(vec![asked_tool, status_tool()], found.clone()).await;
        crashed.bank.clock.pass_ms(MINUTE_MS);
        crashed.look().await;
        let effect = crashed.bank.effects().await.remove(0);
        assert_eq!(effect.state, state, "{found}");
        let asked = crashed.bank.server.heard().pop().unwrap();
        let asked = parse(asked.strip_prefix("tools/call ").unwrap());
        assert_eq!(asked, json!({"name": "status", "arguments": {"key": effect.order.upstream_key}}));
        if let Some(StoredAnswer::Known(known)) = effect.answer {
            assert!(known.contains(&found.to_string()), "{known}");
        }
    }
}

#[tokio::test]
async fn a_retry_asks_by_itself_and_goes_on_by_what_it_hears() {
    let asked_tool = || {
        writing(json!({"class": "Q", "key": {"meta": "key"}, "status": {
        "tool": "up.status", "key_argument": "key", "absence_is_authoritative": true,
        "found_when": "result.state == 'paid'"}}))
    };
    for (found, calls) in [(json!({"state": "paid"}), 1), (json!({"state": "none"}), 2)] {
        let answers = found.clone();
        let first = Arc::new(AtomicBool::new(true));
        let server = ScriptedServer::new(Era::Modern, &json!({}), move |heard| {
            let (answers, dies) =
                (answers.clone(), heard.params["name"] == "write" && first.swap(false, Ordering::SeqCst));
            async move {
                match (heard.params["name"].as_str(), dies) {
                    (Some("status"), _) => Ok(said(Era::Modern, &json!({"content": [], "structuredContent": answers}))),
                    (_, true) => Err(died()),
                    (_, false) => Ok(text(Era::Modern, "done")),
                }
            }
        });
        let bank = Bank::new(server, vec![asked_tool(), status_tool()]);
        assert_eq!(refusal(bank.call(keyed("k")).await).effect, EffectKnowledge::Unknown);
        if calls > 1 {
            // The server may still be working on a call that its status tool does not know yet.
            let early = refusal(bank.call(keyed("k")).await);
            assert_eq!((early.effect, early.retryable), (EffectKnowledge::UnknownBefore, true), "{early:?}");
            assert!(early.retry_after_ms.is_some(), "{early:?}");
            assert_eq!(bank.states().await, [EffectState::OutcomeUnknown]);
            bank.clock.pass_ms(MINUTE_MS);
        }
        let answer = result(bank.call(keyed("k")).await);
        assert_ne!(answer["isError"], true, "{answer}");
        let writes = bank.server.heard().iter().filter(|line| line.contains(r#""name":"write""#)).count();
        assert_eq!((writes, bank.states().await), (calls, vec![EffectState::Completed]), "{found}");
    }
}

/// As long as the status tool does not answer, the key is in doubt, and no answer says otherwise.
#[tokio::test(start_paused = true)]
async fn a_retry_whose_status_tool_hangs_denies_nothing() {
    let asked_tool = writing(json!({"class": "Q", "key": {"meta": "key"}, "status": {
        "tool": "up.status", "key_argument": "key", "absence_is_authoritative": true}}));
    let server = ScriptedServer::new(Era::Modern, &json!({}), move |heard| async move {
        if heard.params["name"] == "status" { std::future::pending().await } else { Err(died()) }
    });
    let bank = Bank::new(server, vec![asked_tool, status_tool()]);
    assert_eq!(refusal(bank.call(keyed("k")).await).effect, EffectKnowledge::Unknown);
    let refused = refusal(bank.call(keyed("k")).await);
    assert_ne!(refused.effect, EffectKnowledge::None, "{refused:?}");
}

/// If the credential is revoked while the status tool is asked, nothing is sent any more.
#[tokio::test]
async fn a_retry_that_asks_looks_at_its_credential_again() {
    let asked_tool = writing(json!({"class": "Q", "key": {"meta": "key"}, "status": {
        "tool": "up.status", "key_argument": "key", "absence_is_authoritative": true}}));
    let revoking: Arc<OnceLock<(Arc<InMemoryNotebook>, String)>> = Arc::default();
    let (inside, first) = (revoking.clone(), Arc::new(AtomicBool::new(true)));
    let server = ScriptedServer::new(Era::Modern, &json!({}), move |heard| {
        let (inside, first) = (inside.clone(), first.clone());
        async move {
            if heard.params["name"] == "status" {
                let (notebook, key) = inside.get().unwrap().clone();
                let (kind, value) = (NoteKind::Revoked, "{}".to_owned());
                notebook.write(Note { kind, key, value, expires_at: None }).await.unwrap();
                return Ok(said(Era::Modern, &json!({"content": [], "structuredContent": {"found": false}})));
            }
            if first.swap(false, Ordering::SeqCst) { Err(died()) } else { Ok(text(Era::Modern, "done")) }
        }
    });
    let bank = Bank::new(server, vec![asked_tool, status_tool()]);
    let requester = requester_of("acme", "ada", bank.clock.now());
    revoking.set((bank.harness.notebook.clone(), requester.authority.credential().to_string())).unwrap();
    let call = || CallRequest { requester: requester.clone(), ..keyed("k") };
    assert_eq!(refusal(bank.call(call()).await).effect, EffectKnowledge::Unknown);
    bank.clock.pass_ms(MINUTE_MS / 2);
    let refused = refusal(bank.call(call()).await);
    assert!(refused.message.contains("was revoked"), "{}", refused.message);
    let writes = bank.server.heard().iter().filter(|line| line.contains(r#""name":"write""#)).count();
    assert_eq!((writes, bank.states().await), (1, vec![EffectState::FailedRetryable]));
}

#[tokio::test]
async fn an_effect_that_cannot_be_asked_about_becomes_unknown_on_record() {
    let crashed = crashed(vec![draft("up", "write", true)], json!(null)).await;
    crashed.bank.clock.pass_ms(MINUTE_MS);
    crashed.look().await;
    assert_eq!((crashed.bank.calls(), crashed.bank.states().await), (1, vec![EffectState::OutcomeUnknown]));
    let record = crashed.restarted.last_record();
    assert_eq!(record.outcome.name(), "unknown");
    assert_eq!(record.refusal.unwrap().handle, record.effect_id);
    crashed.look().await;
    assert_eq!(crashed.restarted.outcomes().len(), 1, "once");
    let refused = refusal(crashed.restarted.engine.call(keyed("k")).await);
    assert_eq!((refused.effect, crashed.bank.calls()), (EffectKnowledge::Unknown, 1));
}

#[tokio::test]
async fn an_effect_whose_contract_is_gone_is_left_as_it_is() {
    let keyed_tool = writing(json!({"class": "K", "key": {"meta": "key"}, "key_window_sec": 3600}));
    let crashed = crashed(vec![keyed_tool], json!(null)).await;
    crashed.bank.clock.pass_ms(MINUTE_MS);
    let empty =
        crashed.bank.harness.restarted(snapshot_of(&crashed.bank.server, Vec::new()), crashed.bank.clock.clone());
    let mut told = BTreeSet::new();
    run_once(empty.engine.long_running(), &mut told).await;
    run_once(empty.engine.long_running(), &mut told).await;
    assert_eq!((told.len(), crashed.bank.states().await), (1, vec![EffectState::Dispatching]));
    crashed.look().await;
    assert_eq!(crashed.bank.states().await, [EffectState::Completed], "and settled when it is back");
}

#[tokio::test]
async fn an_effect_is_not_taken_while_its_server_is_not_there() {
    let keyed_tool = writing(json!({"class": "K", "key": {"meta": "key"}, "key_window_sec": 3600}));
    let asked_tool = writing(json!({"class": "Q", "key": {"meta": "key"}, "status": {
        "tool": "up.status", "key_argument": "key", "absence_is_authoritative": true}}));
    for contracts in [vec![keyed_tool], vec![asked_tool, status_tool()]] {
        let crashed = crashed(contracts.clone(), json!({"found": true})).await;
        crashed.bank.clock.pass_ms(MINUTE_MS);
        let down = ScriptedServer::new(Era::Modern, &json!("down"), |_| async { panic!("it is not there") });
        let early = crashed.bank.harness.restarted(snapshot_of(&down, contracts), crashed.bank.clock.clone());
        run_once(early.engine.long_running(), &mut BTreeSet::new()).await;
        assert_eq!(crashed.bank.states().await, [EffectState::Dispatching], "it would only become unknown");
        crashed.look().await;
        assert_eq!(crashed.bank.states().await, [EffectState::Completed]);
    }
}

#[tokio::test]
async fn what_this_process_is_doing_it_does_not_take_for_forgotten() {
    let server = ScriptedServer::new(Era::Modern, &json!({}), |_| std::future::pending());
    let bank = Bank::new(server, vec![draft("up", "write", true)]);
    let mut calling = std::pin::pin!(bank.call(keyed("k")));
    while bank.calls() == 0 {
        tokio::select! {
            biased;
            _ = &mut calling => panic!("it hangs"),
            () = tokio::task::yield_now() => {}
        }
    }
    bank.clock.pass_ms(MINUTE_MS);
    run_once(bank.harness.engine.long_running(), &mut BTreeSet::new()).await;
    assert_eq!(bank.states().await, [EffectState::Dispatching]);
}

/// A call that hangs until the test lets it go, while another process takes it for an orphan.
async fn overtaken(settled_by_hand: bool) -> (Arc<Bank>, Value) {
    let gate = Arc::new(Notify::new());
    let awaited = gate.clone();
    let server = ScriptedServer::new(Era::Modern, &json!({}), move |_| {
        let awaited = awaited.clone();
        async move {
            awaited.notified().await;
            Ok(text(Era::Modern, "done"))
        }
    });
    let contract = draft("up", "write", true);
    let bank = Arc::new(Bank::new(server, vec![contract.clone()]));
    let inside = bank.clone();
    let mut calling = Box::pin(async move { inside.call(keyed("k")).await });
    while bank.calls() == 0 {
        tokio::select! {
            biased;
            _ = &mut calling => panic!("it hangs"),
            () = tokio::task::yield_now() => {}
        }
    }
    bank.clock.pass_ms(MINUTE_MS);
    let other = bank.harness.restarted(snapshot_of(&bank.server, vec![contract]), bank.clock.clone());
    run_once(other.engine.long_running(), &mut BTreeSet::new()).await;
    assert_eq!(bank.states().await, [EffectState::OutcomeUnknown]);
    if settled_by_hand {
        let by_hand =
            ManualSettlement { epoch: None, completed: false, by: "ada".to_owned(), evidence: "the log".to_owned() };
        let target = EffectTarget::Id(bank.effects().await[0].id.clone());
        let event = EffectEvent::SettleByHand(by_hand);
        bank.harness.effects.apply(EffectChange::new(target, event)).await.unwrap();
    }
    gate.notify_one();
    let answer = result(calling.await);
    (bank, answer)
}

#[tokio::test]
async fn a_late_answer_settles_an_unknown_outcome() {
    let (bank, answer) = overtaken(false).await;
    assert_eq!(answer["content"][0]["text"], "done");
    assert_eq!(bank.states().await, [EffectState::Completed]);
    assert_eq!(result(bank.call(keyed("k")).await)["content"][0]["text"], "done");
    assert_eq!(bank.calls(), 1);
}

#[tokio::test]
async fn an_answer_that_contradicts_what_a_person_said_is_kept_and_told() {
    let (bank, answer) = overtaken(true).await;
    assert_eq!(answer["content"][0]["text"], "done", "the ledger holds it, so that it may be told");
    assert_eq!(bank.states().await, [EffectState::Completed]);
    let conflict = bank.effects().await[0].conflict.clone().unwrap();
    assert_eq!(conflict.state, EffectState::FailedRetryable, "a person said that it was not executed");
    assert_eq!(bank.harness.last_record().outcome.name(), "completed");
}

/// An end that recovery settles is announced in the same commit; so is one that a repeated call finds before recovery.
#[tokio::test]
async fn what_a_crash_left_is_told_when_it_ends() {
    let keyed_tool =
        |window_sec: u64| writing(json!({"class": "K", "key": {"argument": "idem"}, "key_window_sec": window_sec}));
    let asked_tool = || {
        writing(json!({"class": "Q", "key": {"meta": "key"}, "status": {
            "tool": "up.status", "key_argument": "key", "absence_is_authoritative": true}}))
    };
    let table = [
        (vec![writing(json!({"class": "N"}))], json!(null), "call.outcome_unknown"),
        (vec![keyed_tool(3_600)], json!(null), "call.completed"),
        (vec![keyed_tool(60)], json!(null), "call.outcome_unknown"),
        (vec![asked_tool(), status_tool()], json!({"found": true}), "call.completed"),
        (vec![asked_tool(), status_tool()], json!({"found": false}), "call.failed"),
    ];
    for (contracts, found, expected) in table {
        let crashed = crashed(contracts.clone(), found).await;
        crashed.subscribe(contracts);
        assert_eq!(crashed.told().await, [""; 0], "it has not ended");
        crashed.bank.clock.pass_ms(MINUTE_MS);
        crashed.look().await;
        crashed.look().await;
        assert_eq!(crashed.told().await, [expected]);
    }
    let contracts = vec![writing(json!({"class": "N"}))];
    let crashed = crashed(contracts.clone(), json!(null)).await;
    crashed.subscribe(contracts);
    crashed.bank.clock.pass_ms(MINUTE_MS);
    for _ in 0..2 {
        refusal(crashed.restarted.engine.call(keyed("k")).await);
        assert_eq!(crashed.told().await, ["call.outcome_unknown"], "once, for the call that was sent");
    }
}
