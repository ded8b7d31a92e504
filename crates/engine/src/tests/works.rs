//! Long work: told of as a task or a handle, fetched later, cancelled honestly, and found again after a crash.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};
use servanda_contract::{OperationKeys, TaxonomyClass, ToolContract, refusal::EffectKnowledge};
use servanda_gates::effect::{EffectState, Effects as _, Target};
use servanda_mcp::{Era, RpcError};
use servanda_upstream::{Answer, PerformFailure, Remark};
use tokio::{runtime::Runtime, sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    conversations::{input, result},
    effects::{Bank, refusal},
};
use crate::{
    CallAnswer, CallRequest, Gateway as _, Guest, InquiryAnswer, News, Subject, Terms,
    recovery::look_once,
    testing::{HandClock, Heard, House, Scripted, call, draft, guest, inquiry, parse, rejected, said, scene_of, text},
};

const MINUTE_MS: u64 = 60_000;

fn long(mut contract: ToolContract) -> ToolContract {
    contract.execution = Some(serde_json::from_value(json!({"timeout_class": "long_running"})).unwrap());
    contract.runtime.timeout_ms = 240_000;
    contract
}

fn long_write() -> ToolContract {
    long(draft("up", "write", true))
}

fn long_read() -> ToolContract {
    long(draft("up", "echo", false))
}

/// Class K, N, Q or R by its letter.
fn of_class(class: &str) -> ToolContract {
    let mut contract = long_write();
    let manifest = json!([{ "resource": "x", "operation": "UPDATE", "scope": "tenant" }]);
    let effect = match class {
        "R" => return ToolContract { binding: contract.binding, ..long(draft("up", "write", false)) },
        "K" => json!({"class": "K", "mutation_class": "write_irreversible", "manifest": manifest,
            "key": {"argument": "idem"}, "key_window_sec": 7200}),
        _ => json!({"class": "N", "mutation_class": "write_irreversible", "manifest": manifest}),
    };
    contract.effect = Some(serde_json::from_value(effect).unwrap());
    contract
}

fn takes_tasks() -> Guest {
    guest(Era::Modern, &json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}))
}

fn plain() -> Guest {
    guest(Era::Modern, &json!({}))
}

fn legacy() -> Guest {
    guest(Era::Legacy, &json!({}))
}

fn with_task(request: CallRequest) -> CallRequest {
    CallRequest { task: Some(RawValue::from_string("{}".to_owned()).unwrap()), ..request }
}

fn keyed(guest: &Guest) -> CallRequest {
    let keys = OperationKeys { idempotency_key: Some("k".to_owned()), ..OperationKeys::default() };
    CallRequest { keys, ..call(guest, "write", Terms::default()) }
}

/// A server that answers `done` when it is let go, and says how far it came if it is told to.
struct Slow {
    server: Arc<Scripted>,
    go: Arc<Semaphore>,
    heard_cancel: Arc<AtomicBool>,
}

fn slow(progress: &'static [&'static str]) -> Slow {
    let (go, heard_cancel) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
    let (gate, cancelled) = (go.clone(), heard_cancel.clone());
    let server = Scripted::new(Era::Modern, &json!({}), move |heard: Heard| {
        let (gate, cancelled) = (gate.clone(), cancelled.clone());
        async move {
            for params in progress {
                let remark = Remark::Progress(RawValue::from_string((*params).to_owned()).unwrap());
                heard.delivery.remarks.as_ref().inspect(|sink| sink.try_send(remark).unwrap());
            }
            let mutates = heard.params["name"] == "write";
            loop {
                tokio::select! {
                    place = gate.acquire() => { place.unwrap().forget(); break; }
                    () = heard.delivery.cancel.cancelled(), if !cancelled.load(Ordering::SeqCst) => {
                        cancelled.store(true, Ordering::SeqCst);
                        // As the real upstream does: a change is read to its end.
                        if !mutates {
                            return Err(PerformFailure::Cancelled { sent: true });
                        }
                    }
                }
            }
            let result = Bytes::from_static(br#"{"content":[ {"type":"text","text":"done"} ],"x" : 1.0}"#);
            Ok(Answer { result, era: Era::Modern })
        }
    });
    Slow { server, go, heard_cancel }
}

fn task(answer: CallAnswer) -> Value {
    match answer {
        CallAnswer::Task(json) => parse(&json),
        other => panic!("not a task: {other:?}"),
    }
}

async fn about(house: &House, guest: &Guest, subject: Subject, params: Value) -> Result<Value, RpcError> {
    match house.engine.inquire(inquiry(guest, subject, &params, Terms::default())).await? {
        InquiryAnswer::Complete(json) => Ok(parse(&json)),
        other @ InquiryAnswer::InputRequired(_) => panic!("{other:?}"),
    }
}

async fn status(house: &House, guest: &Guest, id: &Value) -> Value {
    about(house, guest, Subject::Task, json!({"taskId": id})).await.unwrap()
}

/// Asks until it is so; time passes by itself while everybody waits.
async fn until_status(house: &House, guest: &Guest, id: &Value, wanted: &str) -> Value {
    for _ in 0..1_000 {
        let found = status(house, guest, id).await;
        if found["status"] == wanted {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it never was {wanted}: {}", status(house, guest, id).await);
}

fn fetch(guest: &Guest, arguments: &Value) -> CallRequest {
    let arguments = Bytes::from(arguments.to_string());
    CallRequest { arguments, ..call(guest, "servanda__result", Terms::default()) }
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_takes_tasks_is_told_of_one_once_the_effect_is_fenced() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_write()]);
    let mut news = bank.house.engine.news();
    let refused =
        CallRequest { arguments: Bytes::from_static(b"{}"), ..call(&takes_tasks(), "write", Terms::default()) };
    assert_eq!(refusal(bank.call(refused).await).error_code, TaxonomyClass::StructuralViolation, "at once");
    let began = Instant::now();
    let created = task(bank.call(call(&takes_tasks(), "write", Terms::default())).await);
    assert_eq!(began.elapsed().as_secs(), 1, "nobody waits for the end");
    let effect = bank.effects().await.remove(0);
    assert_eq!((&created["taskId"], &created["status"]), (&json!(effect.id), &json!("working")));
    assert_eq!(effect.state, EffectState::Dispatching);
    for member in ["createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"] {
        assert!(created.get(member).is_some(), "{member}: {created}");
    }
    let id = &created["taskId"];
    assert_eq!(status(&bank.house, &takes_tasks(), id).await["status"], "working");
    let mut stranger = takes_tasks();
    stranger.caller.principal = "other".to_owned();
    assert_eq!(about(&bank.house, &stranger, Subject::Task, json!({"taskId": id})).await.unwrap_err().code, -32602);
    slow.go.add_permits(1);
    let ended = until_status(&bank.house, &takes_tasks(), id, "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "done");
    assert_eq!(ended["result"]["_meta"]["servanda/observation"]["tool_identity"]["call_id"], json!(effect.call_id));
    assert_eq!((bank.calls(), bank.house.outcomes()), (1, vec!["refused", "completed"]));
    let News::Task { task_id, params, .. } = news.recv().await.unwrap() else { panic!("another kind of news") };
    assert_eq!((&json!(*task_id), &parse(params.get())["status"]), (id, &json!("completed")));
}

#[tokio::test(start_paused = true)]
async fn what_is_quick_is_no_task_unless_it_is_always_long_or_a_task_was_asked_for() {
    let mut always = long_write();
    always.execution.as_mut().unwrap().timeout_class = servanda_contract::tool::TimeoutClass::Async;
    for (contract, guest, is_task) in
        [(long_write(), takes_tasks(), false), (always, takes_tasks(), true), (long_write(), legacy(), true)]
    {
        let server = Scripted::new(Era::Modern, &json!({}), |_| async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(text(Era::Modern, "quick"))
        });
        let bank = Bank::new(server, vec![contract]);
        let began = Instant::now();
        let answered = bank.call(with_task(call(&guest, "write", Terms::default()))).await;
        assert_eq!(matches!(answered, CallAnswer::Task(_)), is_task, "{answered:?}");
        assert_eq!(began.elapsed().as_millis() < 100, is_task);
    }
}

#[tokio::test(start_paused = true)]
async fn a_legacy_guest_gets_the_form_of_its_era() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_write(), long_read()]);
    let created = task(bank.call(with_task(call(&legacy(), "write", Terms::default()))).await);
    let id = &created["task"]["taskId"];
    assert!(!bank.server.heard()[0].contains("task"), "a server that offers none is asked for none");
    let got = status(&bank.house, &legacy(), id).await;
    assert_eq!((&got["status"], got.get("ttlMs"), got["ttl"].is_u64()), (&json!("working"), None, true));
    let listed = about(&bank.house, &legacy(), Subject::Tasks, json!({})).await.unwrap();
    assert_eq!((&listed["tasks"][0]["taskId"], &listed["tasks"][0]["status"]), (id, &json!("working")));
    let go = slow.go.clone();
    let release = async { go.add_permits(1) };
    let asker = legacy();
    let waiting = about(&bank.house, &asker, Subject::TaskResult, json!({"taskId": id}));
    let (ended, ()) = tokio::join!(waiting, release);
    let ended = ended.unwrap();
    assert_eq!((&ended["content"][0]["text"], ended.get("resultType")), (&json!("done"), None));
    assert_eq!(ended["_meta"]["io.modelcontextprotocol/related-task"], json!({"taskId": id}));
    let got = status(&bank.house, &legacy(), id).await;
    assert_eq!((&got["status"], got.get("result")), (&json!("completed"), None));
    let again = about(&bank.house, &legacy(), Subject::TaskCancel, json!({"taskId": id})).await.unwrap_err();
    assert_eq!(again.code, -32602, "what has ended is not cancelled");
    // Without a `task` it waits for its turn to be told.
    let answered = bank.call(call(&legacy(), "echo", Terms::default())).await;
    assert_eq!(refusal(answered).error_code, TaxonomyClass::IdempotencyConflict);
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_takes_no_tasks_gets_the_answer_or_a_handle() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_write(), long_read()]);
    slow.go.add_permits(1);
    let quick = result(bank.call(call(&plain(), "write", Terms::default())).await);
    assert_eq!(quick["content"][0]["text"], "done", "what is quick is answered as ever");
    for (tool, effect, wait_ms, seconds) in
        [("write", EffectKnowledge::Unknown, None, 25), ("echo", EffectKnowledge::None, Some(4_000), 4)]
    {
        let began = Instant::now();
        let answered = bank.call(call(&plain(), tool, Terms { caller_wait_ms: wait_ms, ..Terms::default() })).await;
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
        let observed = &parse(&fetched.json)["_meta"]["servanda/observation"];
        assert_eq!(observed["execution_metadata"]["idempotency_hit"], true);
        assert_eq!(bank.house.last_record().outcome.name(), "replayed");
        assert_eq!(bank.house.last_record().effect_id.as_deref(), Some(handle.as_str()));
    }
    assert_eq!(bank.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_handle_is_its_principals_alone_and_the_tool_keeps_its_contract() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_write()]);
    let handle = refusal(bank.call(call(&plain(), "write", Terms::default())).await).handle.unwrap();
    let mut stranger = plain();
    stranger.caller.principal = "other".to_owned();
    let mut elsewhere = plain();
    elsewhere.caller.tenant = "t".to_owned();
    for other in [stranger, elsewhere] {
        let refused = refusal(bank.call(fetch(&other, &json!({"handle": handle}))).await);
        let made_up = refusal(bank.call(fetch(&other, &json!({"handle": "eff_made_up"}))).await);
        assert_eq!((refused.error_code, refused.handle), (TaxonomyClass::SemanticInvalidity, None));
        assert_eq!(refused.message, made_up.message, "nobody can tell another's from none");
    }
    for (arguments, class) in [
        (json!({}), TaxonomyClass::StructuralViolation),
        (json!({"handle": 7}), TaxonomyClass::TypeMismatch),
        (json!({"handle": handle, "wait_ms": -1}), TaxonomyClass::OutOfBounds),
    ] {
        let refused = refusal(bank.call(fetch(&plain(), &arguments)).await);
        assert_eq!(refused.error_code, class, "{arguments}");
        let record = bank.house.last_record();
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
        let listing = bank.house.engine.listing(&plain()).await;
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
    until_status(&bank.house, &takes_tasks(), &created["taskId"], "completed").await;
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
    let created = task(bank.call(call(&takes_tasks(), "write", Terms::default())).await);
    let id = created["taskId"].clone();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(status(&bank.house, &takes_tasks(), &id).await["statusMessage"], "3 of 4: writing ");
    let fetched = refusal(bank.call(fetch(&takes_tasks(), &json!({"handle": id}))).await);
    assert!(fetched.message.contains("3 of 4: writing"), "{}", fetched.message);
    let restarted = bank.house.restarted(scene_of(&bank.server, vec![long_write()]), bank.clock.clone());
    assert_eq!(status(&restarted, &takes_tasks(), &id).await["statusMessage"], "3 of 4: writing ");
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_is_never_called_cancelled_while_it_may_be_done() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_write()]);
    let created = task(bank.call(with_task(call(&legacy(), "write", Terms::default()))).await);
    let id = &created["task"]["taskId"];
    while bank.calls() == 0 {
        tokio::task::yield_now().await;
    }
    let told = about(&bank.house, &legacy(), Subject::TaskCancel, json!({"taskId": id})).await.unwrap();
    assert_eq!(told["status"], "working");
    assert!(told["statusMessage"].as_str().unwrap().contains("cancellation was asked for"), "{told}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(slow.heard_cancel.load(Ordering::SeqCst), "the upstream is told");
    assert_eq!(status(&bank.house, &legacy(), id).await["status"], "working");
    slow.go.add_permits(1);
    let ended = until_status(&bank.house, &legacy(), id, "completed").await;
    assert!(ended["statusMessage"].as_str().unwrap().contains("cancellation"), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_cancelled_is() {
    let slow = slow(&[]);
    let bank = Bank::new(slow.server.clone(), vec![long_read()]);
    let id = task(bank.call(call(&takes_tasks(), "echo", Terms::default())).await)["taskId"].clone();
    while bank.calls() == 0 {
        tokio::task::yield_now().await;
    }
    let told = about(&bank.house, &takes_tasks(), Subject::TaskCancel, json!({"taskId": id})).await.unwrap();
    assert_eq!(told, json!({}));
    until_status(&bank.house, &takes_tasks(), &id, "cancelled").await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_before_the_fence_leaves_nothing_behind() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let server = Scripted::new(Era::Modern, &json!({}), move |heard: Heard| {
        let counted = counted.clone();
        async move {
            assert_eq!(heard.params["name"], "echo", "nothing is sent");
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
    });
    let mut contract = long_write();
    let condition = json!([{"id": "p", "tool": "up.echo", "arguments": {"text": "{text}"},
        "expect": {"rule": "result.ok == true", "message": "it must be ok"}}]);
    contract.preconditions = serde_json::from_value(condition).unwrap();
    let bank = Bank::new(server, vec![contract, draft("up", "echo", false)]);
    let cancel = CancellationToken::new();
    let calling = bank.call(call(&takes_tasks(), "write", Terms { cancel: cancel.clone(), ..Terms::default() }));
    let giving_up = async {
        while asked.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(bank.states().await, [EffectState::Claimed]);
        cancel.cancel();
    };
    let (answered, ()) = tokio::join!(calling, giving_up);
    assert_eq!(refusal(answered).effect, EffectKnowledge::None);
    assert_eq!(bank.states().await, [EffectState::FailedRetryable]);
}

#[tokio::test(start_paused = true)]
async fn what_the_upstream_asks_comes_first_where_the_guest_can_be_asked() {
    let server = Scripted::new(Era::Legacy, &json!({}), |heard: Heard| async move {
        let asked = crate::testing::ask(&heard.delivery, "elicitation/create", &json!({"message": "Who?"}));
        let first = asked.await.is_ok_and(|reply| reply.is_ok());
        tokio::time::sleep(Duration::from_mins(2)).await;
        let again = crate::testing::ask(&heard.delivery, "elicitation/create", &json!({"message": "Still?"}));
        let second = again.await.is_ok_and(|reply| reply.is_ok());
        Ok(text(Era::Legacy, &format!("{first} {second}")))
    });
    let bank = Bank::new(server, vec![long_write()]);
    let able = guest(Era::Modern, &json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let asked = input(bank.call(call(&able, "write", Terms::default())).await);
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let terms = crate::testing::again(&asked["requestState"], &json!({key: {"action": "accept"}}));
    let created = task(bank.call(call(&able, "write", terms)).await);
    let ended = until_status(&bank.house, &able, &created["taskId"], "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "true false", "afterwards nobody is there to be asked");
}

/// The first process, which dies with everything it does; and the second.
struct TwoLives {
    bank: Bank,
    contracts: Vec<ToolContract>,
    clock: Arc<HandClock>,
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

impl TwoLives {
    fn new(server: Arc<Scripted>, contracts: Vec<ToolContract>) -> Self {
        let first = runtime();
        let bank = first.block_on(async { Bank::new(server, contracts.clone()) });
        let clock = bank.clock.clone();
        drop(first);
        Self { bank, contracts, clock }
    }

    /// Lives until the future is over, and dies.
    fn live<T>(&self, life: impl AsyncFnOnce(&House) -> T) -> T {
        let runtime = runtime();
        runtime.block_on(async {
            let scene = scene_of(&self.bank.server, self.contracts.clone());
            let house = self.bank.house.restarted(scene, self.clock.clone());
            life(&house).await
        })
    }

    /// A second life, some time after: what was left behind is looked after.
    fn recover<T>(&self, after_ms: u64, life: impl AsyncFnOnce(&House) -> T) -> T {
        self.clock.pass_ms(after_ms);
        self.live(async |house| {
            look_once(house.engine.core(), &mut BTreeSet::new()).await;
            life(house).await
        })
    }
}

#[test]
fn what_a_dead_process_left_is_told_by_what_recovery_finds() {
    // class, how the task stands afterwards, what it says, calls that the upstream heard
    let table =
        [("K", "completed", "", 2), ("N", "failed", "nobody knows", 1), ("R", "failed", "its owner went away", 1)];
    for (class, stands, says, calls) in table {
        let slow = slow(&[r#"{"progress":1}"#]);
        let lives = TwoLives::new(slow.server.clone(), vec![of_class(class)]);
        let id = lives.live(async |house| {
            let created = task(house.engine.call(call(&takes_tasks(), "write", Terms::default())).await);
            while slow.server.heard().is_empty() {
                tokio::task::yield_now().await;
            }
            created["taskId"].clone()
        });
        slow.go.add_permits(2);
        lives.recover(10 * MINUTE_MS, async |house| {
            let found = until_status(house, &takes_tasks(), &id, stands).await;
            if stands == "failed" {
                assert!(found["error"]["message"].as_str().unwrap().contains(says), "{class}: {found}");
                let refusal = &found["error"]["data"];
                assert_eq!(refusal["effect"], if class == "N" { "unknown" } else { "none" }, "{class}");
                assert_eq!(refusal["retryable"], class != "N", "{class}: {found}");
            }
            let fetched = result(house.engine.call(fetch(&plain(), &json!({"handle": id}))).await);
            assert_eq!(fetched["isError"] == true, stands == "failed", "{class}");
        });
        let sent = slow.server.heard().iter().filter(|line| line.starts_with("tools/call")).count();
        assert_eq!(sent, calls, "{class}");
    }
}

/// A server that makes tasks of either era, which go on while nobody asks, and end when they are let go.
fn tasks_server(era: Era) -> (Arc<Scripted>, Arc<AtomicBool>) {
    let done = Arc::new(AtomicBool::new(false));
    let is_done = done.clone();
    let capabilities = match era {
        Era::Legacy => json!({"tasks": {"requests": {"tools": {"call": {}}}}}),
        Era::Modern => json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}),
    };
    let server = Scripted::new(era, &capabilities, move |heard: Heard| {
        let is_done = is_done.load(Ordering::SeqCst);
        async move { task_answer(era, &heard, is_done) }
    });
    *server.tools.lock().unwrap() = vec![json!({"name": "write", "execution": {"taskSupport": "optional"}})];
    (server, done)
}

fn task_answer(era: Era, heard: &Heard, is_done: bool) -> Result<Answer, PerformFailure> {
    let state = if is_done { "completed" } else { "working" };
    let done = json!({"content": [{"type": "text", "text": "done"}]});
    let answer = match (era, heard.method) {
        (Era::Legacy, "tools/call") if heard.delivery.task.is_none() => {
            return Err(rejected(-32603, "as a task", None));
        }
        (Era::Legacy, "tools/call") => json!({"task": {"taskId": "theirs", "status": "working", "pollInterval": 700}}),
        (Era::Legacy, "tasks/result") => done,
        (Era::Modern, "tools/call") => {
            assert!(heard.delivery.counterpart.capabilities.as_json().contains("/tasks"));
            json!({"resultType": "task", "taskId": "theirs", "status": "working", "ttlMs": null})
        }
        (Era::Modern, "tasks/get") if is_done => json!({"taskId": "theirs", "status": state, "result": done}),
        (_, "tasks/get") => json!({"taskId": "theirs", "status": state, "statusMessage": "half"}),
        (_, "tasks/cancel") => json!({}),
        (_, other) => panic!("{other}"),
    };
    Ok(said(era, &answer))
}

#[test]
fn a_task_of_the_upstream_is_followed_and_followed_on_after_a_crash() {
    for era in [Era::Legacy, Era::Modern] {
        let (server, done) = tasks_server(era);
        let lives = TwoLives::new(server.clone(), vec![of_class("N")]);
        let handle = lives.live(async |house| {
            let handed = refusal(house.engine.call(call(&plain(), "write", Terms::default())).await);
            let handle = handed.handle.unwrap();
            let effect = house.effects.find(Target::Id(handle.clone().into())).await.unwrap().unwrap();
            assert!(effect.awaits.is_some() && effect.overdue_at_ms >= effect.created_ms + 240_000, "{effect:?}");
            handle
        });
        let polled = server.heard().iter().filter(|line| line.starts_with("tasks/get")).count();
        assert!((4..=30).contains(&polled), "less and less often: {polled}");
        // Not before it is clear that nobody follows it any more, and although its owner is long gone.
        lives.recover(MINUTE_MS / 4, async |house| {
            assert!(house.engine.core().works.live(&handle.clone().into()).is_none());
        });
        lives.recover(MINUTE_MS, async |house| {
            let found = status(house, &takes_tasks(), &json!(handle)).await;
            assert_eq!((&found["status"], &found["statusMessage"]), (&json!("working"), &json!("half")), "{era:?}");
            done.store(true, Ordering::SeqCst);
            let ended = until_status(house, &takes_tasks(), &json!(handle), "completed").await;
            assert_eq!(ended["result"]["content"][0]["text"], "done", "{era:?}");
            assert_eq!(house.last_record().outcome.name(), "completed");
        });
        let called = server.heard().iter().filter(|line| line.starts_with("tools/call")).count();
        assert_eq!(called, 1, "{era:?}: it is never begun again");
    }
}

#[test]
fn a_task_whose_upstream_forgot_it_is_unknown_and_one_in_time_is_not_given_up() {
    let forgot = Arc::new(AtomicBool::new(false));
    let forgets = forgot.clone();
    let server = Scripted::new(
        Era::Modern,
        &json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}),
        move |heard: Heard| {
            let forgets = forgets.load(Ordering::SeqCst);
            async move {
                if heard.method == "tasks/get" && forgets {
                    return Err(rejected(-32602, "no such task", None));
                }
                task_answer(Era::Modern, &heard, false)
            }
        },
    );
    let lives = TwoLives::new(server, vec![of_class("N")]);
    let handle = lives.live(async |house| {
        refusal(house.engine.call(call(&plain(), "write", Terms::default())).await).handle.unwrap()
    });
    lives.recover(2 * MINUTE_MS, async |house| {
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(status(house, &takes_tasks(), &json!(handle)).await["status"], "working");
        forgot.store(true, Ordering::SeqCst);
        let found = until_status(house, &takes_tasks(), &json!(handle), "failed").await;
        assert_eq!(found["error"]["data"]["effect"], "unknown", "{found}");
    });
}

#[tokio::test(start_paused = true)]
async fn a_followed_task_that_is_cancelled_is_cancelled_there_and_waited_for() {
    let (server, done) = tasks_server(Era::Legacy);
    let bank = Bank::new(server.clone(), vec![of_class("N")]);
    let handle = json!(refusal(bank.call(call(&plain(), "write", Terms::default())).await).handle.unwrap());
    let cancelled = || server.heard().iter().filter(|line| line.starts_with("tasks/cancel")).count();
    about(&bank.house, &takes_tasks(), Subject::TaskCancel, json!({"taskId": handle})).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((cancelled(), &status(&bank.house, &takes_tasks(), &handle).await["status"]), (1, &json!("working")));
    done.store(true, Ordering::SeqCst);
    until_status(&bank.house, &takes_tasks(), &handle, "completed").await;
}

#[tokio::test(start_paused = true)]
async fn the_upstreams_own_task_is_passed_on_to_a_guest_that_takes_tasks() {
    let (server, _) = tasks_server(Era::Legacy);
    let bank = Bank::new(server.clone(), vec![of_class("N")]);
    let created = task(bank.call(with_task(call(&legacy(), "write", Terms::default()))).await);
    assert_eq!(created["task"]["pollInterval"], 700, "as the upstream wrote it");
    assert!(!created["task"]["taskId"].as_str().unwrap().starts_with("eff_"));
    assert_eq!(bank.house.outcomes(), ["task_created"]);
}

#[tokio::test(start_paused = true)]
async fn the_time_is_the_contracts_and_over_at_its_end() {
    let server = Scripted::new(Era::Modern, &json!({}), |heard: Heard| async move {
        tokio::time::sleep_until(heard.delivery.deadline).await;
        Err(PerformFailure::TimedOut { note: None })
    });
    let bank = Bank::new(server, vec![long_write()]);
    let began = Instant::now();
    let terms = Terms { caller_wait_ms: Some(1_000), ..Terms::default() };
    let handle = json!(refusal(bank.call(call(&plain(), "write", terms)).await).handle.unwrap());
    let effect = bank.effects().await.remove(0);
    assert_eq!(effect.order.timeout_ms, 240_000, "not the caller's");
    assert!(effect.overdue_at_ms > effect.created_ms + 240_000, "nobody else begins before its owner gives up");
    let waited = refusal(bank.call(fetch(&plain(), &json!({"handle": handle, "wait_ms": 86_400_000}))).await);
    assert!(waited.message.contains("still goes on"), "{}", waited.message);
    assert_eq!(began.elapsed().as_secs(), 25, "nobody waits longer than is configured");
    tokio::time::sleep(Duration::from_secs(200)).await;
    let failed = until_status(&bank.house, &takes_tasks(), &handle, "failed").await;
    assert_eq!(failed["error"]["data"]["effect"], "unknown");
}

/// A tool that submits, and the tool that tells how that stands.
fn polled() -> Vec<ToolContract> {
    let mut submits = of_class("N");
    let plan = json!({"tool": "up.echo", "operation_pointer": "/job/id", "operation_argument": "text",
        "state_pointer": "/state", "done_states": ["done"], "failed_states": ["failed"], "result_pointer": "/out"});
    submits.execution.as_mut().unwrap().poll = Some(serde_json::from_value(plan).unwrap());
    let output = json!({"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}});
    submits.affordance.output_schema = output.as_object().unwrap().clone();
    vec![submits, draft("up", "echo", false)]
}

/// A server with such tools, whose operation stands as a test says.
fn operations(submitted: Value) -> (Arc<Scripted>, Arc<Mutex<Value>>) {
    let stands = Arc::new(Mutex::new(json!({"state": "queued"})));
    let now = stands.clone();
    let server = Scripted::new(Era::Legacy, &json!({}), move |heard: Heard| {
        let structured = if heard.params["name"] == "write" {
            submitted.clone()
        } else {
            assert_eq!(heard.params["arguments"], json!({"text": "op-1"}));
            now.lock().unwrap().clone()
        };
        async move { Ok(said(Era::Legacy, &json!({"content": [], "structuredContent": structured}))) }
    });
    (server, stands)
}

#[test]
fn an_operation_is_asked_about_as_its_contract_says_and_asked_on_after_a_crash() {
    // how it ends, how the task stands, what is fetched
    let table = [
        (json!({"state": "done", "out": {"ok": true}}), "completed", json!({"ok": true})),
        (json!({"state": "failed", "why": "no paper"}), "completed", Value::Null),
        (json!({"state": "done", "out": {"secret": 1}}), "failed", Value::Null),
    ];
    for (ends, stands, structured) in table {
        let (server, state) = operations(json!({"job": {"id": "op-1"}}));
        let lives = TwoLives::new(server.clone(), polled());
        let handle = lives.live(async |house| {
            let handed = refusal(house.engine.call(call(&plain(), "write", Terms::default())).await);
            let handle = json!(handed.handle.unwrap());
            assert_eq!(status(house, &takes_tasks(), &handle).await["statusMessage"], "queued");
            handle
        });
        lives.recover(MINUTE_MS, async |house| {
            *state.lock().unwrap() = ends.clone();
            let ended = until_status(house, &takes_tasks(), &handle, stands).await;
            assert!(!ended.to_string().contains("secret"), "what breaks the contract is kept back");
            let fetched = result(house.engine.call(fetch(&plain(), &json!({"handle": handle}))).await);
            assert_eq!(fetched["structuredContent"], structured, "{ends}");
            assert_eq!(fetched["isError"] == true, structured.is_null(), "{ends}");
        });
        let submitted = server.heard().iter().filter(|line| line.contains(r#""name":"write""#)).count();
        assert_eq!(submitted, 1, "{ends}: it is never submitted again");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_names_no_operation_leaves_an_unknown_one() {
    let (server, _) = operations(json!({"job": {}}));
    let bank = Bank::new(server, polled());
    let refused = refusal(bank.call(call(&plain(), "write", Terms::default())).await);
    assert_eq!(refused.effect, EffectKnowledge::Unknown);
    assert!(refused.message.contains("/job/id"), "{}", refused.message);
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_waited_for_where_nobody_takes_handles() {
    let (server, state) = operations(json!({"job": {"id": "op-1"}}));
    let bank = Bank::new(server, polled());
    let ends = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        *state.lock().unwrap() = json!({"state": "done", "out": {"ok": true}});
    };
    let (answered, ()) = tokio::join!(bank.call(call(&plain(), "write", Terms::default())), ends);
    assert_eq!(result(answered)["structuredContent"], json!({"ok": true}));
}

#[tokio::test(start_paused = true)]
async fn who_waits_hears_what_is_said_of_a_followed_task() {
    let (server, _) = tasks_server(Era::Legacy);
    let bank = Bank::new(server, vec![of_class("N")]);
    let (terms, mut heard) = crate::testing::listening();
    refusal(bank.call(call(&legacy(), "write", terms)).await);
    let Remark::Progress(params) = heard.recv().await.unwrap() else { panic!("another remark") };
    assert_eq!(parse(params.get()), json!({"progress": 1, "message": "half"}));
    assert!(heard.try_recv().is_err(), "the same is said once");
}

/// The shapes on the wire, whole: they cannot change silently.
#[tokio::test(start_paused = true)]
async fn the_shapes_of_both_eras() {
    for (guest, created, working, failed) in [
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
        let CallAnswer::Task(json) = bank.call(with_task(call(&guest, "write", Terms::default()))).await else {
            panic!("no task")
        };
        let id = bank.effects().await[0].id.to_string();
        let plain = |text: &str| parse(&text.replace(&id, "ID").replace("2027-01-15T08:00:00.000Z", "T"));
        assert_eq!(plain(&json), created);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let shown = status(&bank.house, &guest, &json!(id)).await;
        assert_eq!(plain(&shown.to_string()), working);
        let claim = bank.effects().await[0].claim();
        let end = servanda_gates::effect::End::Unknown("gone".to_owned());
        let event = servanda_gates::effect::Event::Settle(claim, end);
        let target = Target::Id(id.clone().into());
        let change =
            servanda_gates::effect::Change { target, event, record: None, quarantine: None, notices: Vec::new() };
        bank.house.effects.apply(change).await.unwrap();
        let mut members: Vec<String> =
            status(&bank.house, &guest, &json!(id)).await.as_object().unwrap().keys().cloned().collect();
        members.sort();
        assert_eq!(json!(members), failed);
    }
}
