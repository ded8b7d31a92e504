//! What callers get from long work: a task, a handle, its progress, its result.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::json;
use servanda_contract::{TaxonomyClass, refusal::EffectKnowledge};
use servanda_effects::effect::{EffectState, EffectStore as _, EffectTarget};
use servanda_mcp::Era;
use servanda_upstream::PerformFailure;
use tokio::time::Instant;

use super::super::{
    conversations::result,
    effects::{Bank, refusal},
};
use super::{
    about, fetch, keyed, legacy, long_read, long_write, plain, slow, status, takes_tasks, task, until_status, with_task,
};
use crate::{
    CallAnswer, CallRequest, ChangeEvent, Gateway as _, InquirySubject, RequestTerms,
    testing::{ScriptedRequest, ScriptedServer, call, draft, parse, snapshot_of, text},
};

#[tokio::test(start_paused = true)]
async fn a_requester_that_takes_tasks_is_told_of_one_once_the_effect_is_fenced() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_write()]);
    let mut news = bank.harness.engine.change_events();
    let refused =
        CallRequest { arguments: Bytes::from_static(b"{}"), ..call(&takes_tasks(), "write", RequestTerms::default()) };
    assert_eq!(refusal(bank.call(refused).await).error_code, TaxonomyClass::StructuralViolation, "at once");
    let began = Instant::now();
    let created = task(bank.call(call(&takes_tasks(), "write", RequestTerms::default())).await);
    assert_eq!(began.elapsed().as_secs(), 1, "the caller does not wait for the end");
    let effect = bank.effects().await.remove(0);
    assert_eq!((&created["taskId"], &created["status"]), (&json!(effect.id), &json!("working")));
    assert_eq!(effect.state, EffectState::Dispatching);
    for member in ["createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"] {
        assert!(created.get(member).is_some(), "{member}: {created}");
    }
    let id = &created["taskId"];
    assert_eq!(status(&bank.harness, &takes_tasks(), id).await["status"], "working");
    let mut stranger = takes_tasks();
    Arc::make_mut(&mut stranger.caller).principal = "other".to_owned();
    assert_eq!(
        about(&bank.harness, &stranger, InquirySubject::Task, json!({"taskId": id})).await.unwrap_err().code,
        -32602
    );
    slow.go.add_permits(1);
    let ended = until_status(&bank.harness, &takes_tasks(), id, "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "done");
    assert_eq!(ended["result"]["_meta"]["servanda/call"]["id"], json!(effect.call_id));
    assert_eq!((bank.calls(), bank.harness.outcomes()), (1, vec!["refused", "completed"]));
    let ChangeEvent::Task { task_id, params, .. } = news.recv().await.unwrap() else { panic!("another kind of news") };
    assert_eq!((&json!(*task_id), &parse(params.get())["status"]), (id, &json!("completed")));
}

#[tokio::test(start_paused = true)]
async fn what_is_quick_is_no_task_unless_it_is_always_long_or_a_task_was_asked_for() {
    let mut always = long_write();
    always.execution.as_mut().unwrap().timeout_class = servanda_contract::tool::TimeoutClass::Async;
    for (contract, requester, is_task) in
        [(long_write(), takes_tasks(), false), (always, takes_tasks(), true), (long_write(), legacy(), true)]
    {
        let server = ScriptedServer::new(Era::Modern, &json!({}), |_| async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(text(Era::Modern, "quick"))
        });
        let bank = Bank::new(server, vec![contract]);
        let began = Instant::now();
        let answered = bank.call(with_task(call(&requester, "write", RequestTerms::default()))).await;
        assert_eq!(matches!(answered, CallAnswer::Task(_)), is_task, "{answered:?}");
        assert_eq!(began.elapsed().as_millis() < 100, is_task);
    }
}

#[tokio::test(start_paused = true)]
async fn a_legacy_requester_gets_the_form_of_its_era() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_write(), long_read()]);
    let created = task(bank.call(with_task(call(&legacy(), "write", RequestTerms::default()))).await);
    let id = &created["task"]["taskId"];
    assert!(!bank.server.heard()[0].contains("task"), "a server that offers none is asked for none");
    let got = status(&bank.harness, &legacy(), id).await;
    assert_eq!((&got["status"], got.get("ttlMs"), got["ttl"].is_u64()), (&json!("working"), None, true));
    let listed = about(&bank.harness, &legacy(), InquirySubject::Tasks, json!({})).await.unwrap();
    assert_eq!((&listed["tasks"][0]["taskId"], &listed["tasks"][0]["status"]), (id, &json!("working")));
    let go = slow.go.clone();
    let release = async { go.add_permits(1) };
    let asker = legacy();
    let waiting = about(&bank.harness, &asker, InquirySubject::TaskResult, json!({"taskId": id}));
    let (ended, ()) = tokio::join!(waiting, release);
    let ended = ended.unwrap();
    assert_eq!((&ended["content"][0]["text"], ended.get("resultType")), (&json!("done"), None));
    assert_eq!(ended["_meta"]["io.modelcontextprotocol/related-task"], json!({"taskId": id}));
    let got = status(&bank.harness, &legacy(), id).await;
    assert_eq!((&got["status"], got.get("result")), (&json!("completed"), None));
    let again = about(&bank.harness, &legacy(), InquirySubject::TaskCancel, json!({"taskId": id})).await.unwrap_err();
    assert_eq!(again.code, -32602, "what has ended is not cancelled");
    // Without a `task` parameter the caller waits, and then gets a handle.
    let answered = bank.call(call(&legacy(), "echo", RequestTerms::default())).await;
    assert_eq!(refusal(answered).error_code, TaxonomyClass::IdempotencyConflict);
}

#[tokio::test(start_paused = true)]
async fn a_requester_that_takes_no_tasks_gets_the_answer_or_a_handle() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_write(), long_read()]);
    slow.go.add_permits(1);
    let quick = result(bank.call(call(&plain(), "write", RequestTerms::default())).await);
    assert_eq!(quick["content"][0]["text"], "done", "what is quick is answered as ever");
    for (tool, effect, wait_ms, seconds) in
        [("write", EffectKnowledge::Unknown, None, 25), ("echo", EffectKnowledge::None, Some(4_000), 4)]
    {
        let began = Instant::now();
        let answered =
            bank.call(call(&plain(), tool, RequestTerms { caller_wait_ms: wait_ms, ..RequestTerms::default() })).await;
        let waited = began.elapsed().as_secs_f64().ceil();
        assert!((waited - f64::from(seconds)).abs() < 1.0, "{tool}: {waited}");
        let handed = refusal(answered);
        assert_eq!((handed.error_code, handed.effect), (TaxonomyClass::IdempotencyConflict, effect), "{tool}");
        assert!(!handed.retryable && handed.hint.contains("servanda__result"), "{}", handed.hint);
        let handle = handed.handle.unwrap();
        let state = || async { refusal(bank.call(fetch(&plain(), &json!({"handle": handle}))).await) };
        assert!(state().await.message.contains("still goes on"));
        slow.go.add_permits(1);
        let CallAnswer::Result(fetched) =
            bank.call(fetch(&plain(), &json!({"handle": handle, "wait_ms": 10_000}))).await
        else {
            panic!("no result")
        };
        assert!(fetched.json.contains(r#"[ {"type":"text","text":"done"} ],"x":1.0"#), "{}", fetched.json);
        assert_eq!(parse(&fetched.json)["_meta"]["servanda/call"]["replayed"], true);
        assert_eq!(bank.harness.last_record().outcome.name(), "replayed");
        assert_eq!(bank.harness.last_record().effect_id.as_deref(), Some(handle.as_str()));
    }
    assert_eq!(bank.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_handle_is_its_principals_alone_and_the_tool_keeps_its_contract() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_write()]);
    let handle = refusal(bank.call(call(&plain(), "write", RequestTerms::default())).await).handle.unwrap();
    let mut stranger = plain();
    Arc::make_mut(&mut stranger.caller).principal = "other".to_owned();
    let mut elsewhere = plain();
    Arc::make_mut(&mut elsewhere.caller).tenant = "t".to_owned();
    for other in [stranger, elsewhere] {
        let refused = refusal(bank.call(fetch(&other, &json!({"handle": handle}))).await);
        let made_up = refusal(bank.call(fetch(&other, &json!({"handle": "eff_made_up"}))).await);
        assert_eq!((refused.error_code, refused.handle), (TaxonomyClass::SemanticInvalidity, None));
        assert_eq!(refused.message, made_up.message, "another principal's handle looks like one that does not exist");
    }
    for (arguments, class) in [
        (json!({}), TaxonomyClass::StructuralViolation),
        (json!({"handle": 7}), TaxonomyClass::TypeMismatch),
        (json!({"handle": handle, "wait_ms": -1}), TaxonomyClass::OutOfBounds),
    ] {
        let refused = refusal(bank.call(fetch(&plain(), &arguments)).await);
        assert_eq!(refused.error_code, class, "{arguments}");
        let record = bank.harness.last_record();
        assert_eq!(
            (record.tool.as_str(), record.contract.unwrap().name.as_str()),
            ("servanda__result", "servanda.result")
        );
    }
    assert_eq!(bank.calls(), 1);
}

#[tokio::test]
async fn the_tool_is_offered_only_where_there_is_long_work() {
    for (contracts, offered) in [(vec![draft("up", "write", true)], false), (vec![long_write()], true)] {
        let bank = Bank::new(slow(&[]).server, contracts);
        let listing = bank.harness.engine.listing(&plain()).await;
        assert_eq!(listing.tools.iter().any(|tool| tool.name == "servanda__result"), offered);
        let answered = bank.call(fetch(&plain(), &json!({"handle": "eff_1"}))).await;
        assert_eq!(matches!(answered, CallAnswer::UnknownTool(_)), !offered);
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_key_is_told_of_the_same_work() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_write()]);
    let created = task(bank.call(keyed(&takes_tasks())).await);
    let again = task(bank.call(keyed(&takes_tasks())).await);
    assert_eq!(created["taskId"], again["taskId"]);
    let other = refusal(bank.call(keyed(&plain())).await);
    assert_eq!((json!(other.handle), other.retryable), (created["taskId"].clone(), true));
    slow.go.add_permits(1);
    until_status(&bank.harness, &takes_tasks(), &created["taskId"], "completed").await;
    assert_eq!(result(bank.call(keyed(&plain())).await)["content"][0]["text"], "done");
    assert_eq!(bank.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn progress_is_kept_and_shown() {
    let said = &[
        r#"{"progress":1,"total":4,"message":"reading"}"#,
        r#"{"progress":2,"total":4}"#,
        r#"{"progress":3,"total":4,"message":"writing\n"}"#,
        r#"{"nonsense":1}"#,
    ];
    let slow = slow(said);
    let bank = Bank::new(slow.server.clone(), vec![long_write()]);
    let created = task(bank.call(call(&takes_tasks(), "write", RequestTerms::default())).await);
    let id = created["taskId"].clone();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(status(&bank.harness, &takes_tasks(), &id).await["statusMessage"], "3 of 4: writing ");
    let fetched = refusal(bank.call(fetch(&takes_tasks(), &json!({"handle": id}))).await);
    assert!(fetched.message.contains("3 of 4: writing"), "{}", fetched.message);
    let restarted = bank.harness.restarted(snapshot_of(&bank.server, vec![long_write()]), bank.clock.clone());
    assert_eq!(status(&restarted, &takes_tasks(), &id).await["statusMessage"], "3 of 4: writing ");
}

/// The complete shapes on the wire: they must not change by accident.
#[tokio::test(start_paused = true)]
async fn the_shapes_of_both_eras() {
    for (requester, created, working, failed) in [
        (
            takes_tasks(),
            json!({"taskId": "ID", "status": "working", "createdAt": "T", "lastUpdatedAt": "T", "ttlMs": 3_840_000,
                "pollIntervalMs": 2400}),
            json!({"taskId": "ID", "status": "working", "statusMessage": "1 of 2", "createdAt": "T",
                "lastUpdatedAt": "T", "ttlMs": 3_840_000, "pollIntervalMs": 2400}),
            json!([
                "createdAt",
                "error",
                "lastUpdatedAt",
                "pollIntervalMs",
                "status",
                "statusMessage",
                "taskId",
                "ttlMs"
            ]),
        ),
        (
            legacy(),
            json!({"task": {"taskId": "ID", "status": "working", "createdAt": "T", "lastUpdatedAt": "T",
                "ttl": 3_840_000, "pollInterval": 2400}}),
            json!({"taskId": "ID", "status": "working", "statusMessage": "1 of 2", "createdAt": "T",
                "lastUpdatedAt": "T", "ttl": 3_840_000, "pollInterval": 2400}),
            json!(["createdAt", "lastUpdatedAt", "pollInterval", "status", "statusMessage", "taskId", "ttl"]),
        ),
    ] {
        let slow = slow(&[r#"{"progress":1,"total":2}"#]);
        let bank = Bank::new(slow.server.clone(), vec![long_write()]);
        let CallAnswer::Task(json) = bank.call(with_task(call(&requester, "write", RequestTerms::default()))).await
        else {
            panic!("no task")
        };
        let id = bank.effects().await[0].id.to_string();
        let plain = |text: &str| parse(&text.replace(&id, "ID").replace("2027-01-15T08:00:00.000Z", "T"));
        assert_eq!(plain(&json), created);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let shown = status(&bank.harness, &requester, &json!(id)).await;
        assert_eq!(plain(&shown.to_string()), working);
        let claim = bank.effects().await[0].claim();
        let end = servanda_effects::effect::DispatchEnd::Unknown("gone".to_owned());
        let event = servanda_effects::effect::EffectEvent::Settle(claim, end);
        let target = EffectTarget::Id(id.clone().into());
        let change = servanda_effects::effect::EffectChange {
            target,
            event,
            record: None,
            quarantine: None,
            notices: Vec::new(),
            consumes: None,
        };
        bank.harness.effects.apply(change).await.unwrap();
        let mut members: Vec<String> =
            status(&bank.harness, &requester, &json!(id)).await.as_object().unwrap().keys().cloned().collect();
        members.sort();
        assert_eq!(json!(members), failed);
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_is_the_contracts_and_over_at_its_end() {
    let server = ScriptedServer::new(Era::Modern, &json!({}), |heard: ScriptedRequest| async move {
        tokio::time::sleep_until(heard.delivery.deadline).await;
        Err(PerformFailure::TimedOut { note: None })
    });
    let bank = Bank::new(server, vec![long_write()]);
    let began = Instant::now();
    let terms = RequestTerms { caller_wait_ms: Some(1_000), ..RequestTerms::default() };
    let handle = json!(refusal(bank.call(call(&plain(), "write", terms)).await).handle.unwrap());
    let effect = bank.effects().await.remove(0);
    assert_eq!(effect.order.timeout_ms, 240_000, "not the caller's");
    assert!(effect.overdue_at_ms > effect.created_ms + 240_000, "no other process begins before its owner gives up");
    let waited = refusal(bank.call(fetch(&plain(), &json!({"handle": handle, "wait_ms": 86_400_000}))).await);
    assert!(waited.message.contains("still goes on"), "{}", waited.message);
    assert_eq!(began.elapsed().as_secs(), 25, "no caller waits longer than is configured");
    tokio::time::sleep(Duration::from_secs(200)).await;
    let failed = until_status(&bank.harness, &takes_tasks(), &handle, "failed").await;
    assert_eq!(failed["error"]["data"]["effect"], "unknown");
}
