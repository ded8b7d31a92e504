//! Probes around calls, end to end: which tools are held back, which are not, and that a probe never blocks a call.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json};
use servanda_contract::{GateName, TaxonomyClass, ToolContract, refusal::EffectKnowledge};
use servanda_effects::{NoteKind, Notebook as _, effect::EffectState};
use servanda_mcp::Era;
use servanda_upstream::{Answer, PerformFailure};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    conversations::result,
    effects::{Bank, died, keyed, refusal},
};
use crate::{
    CallAnswer, CallRequest, ChangeEvent, Gateway as _, RequestTerms, Requester,
    deferred::recovery::run_once,
    probes::{ProbeComparison, ProbeReport, ProbeSnapshot, ProbeVerdict},
    quarantine::{self, QuarantineEvent, QuarantineEventKind, UpstreamToolKey},
    testing::{ScriptedRequest, ScriptedServer, call, draft, said, snapshot_of, text},
};

/// A server with one number. `look` returns it; `echo` and `write` add to it what the test sets.
#[derive(Default)]
struct Books {
    number: AtomicU64,
    /// How much `echo` adds, which claims that it only reads.
    echo_adds: AtomicU64,
    write_adds: AtomicU64,
    /// How much a look adds.
    look_adds: AtomicU64,
    look_fails: AtomicBool,
    echo_fails: AtomicBool,
    echo_is_away: AtomicBool,
    begun: Notify,
    go_on: OnceLock<Arc<Notify>>,
    seen: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Books {
    async fn perform(self: Arc<Self>, heard: ScriptedRequest) -> Result<Answer, PerformFailure> {
        match heard.params["name"].as_str().unwrap() {
            "look" => {
                if let Some(seen) = self.seen.get() {
                    seen();
                    // Lets the tasks run that `seen` has woken.
                    tokio::task::yield_now().await;
                }
                if self.look_fails.load(Ordering::SeqCst) {
                    return Err(died());
                }
                let number = self.number.fetch_add(self.look_adds.load(Ordering::SeqCst), Ordering::SeqCst);
                Ok(said(Era::Modern, &json!({"content": [], "structuredContent": {"books": {"number": number}}})))
            }
            "echo" if self.echo_is_away.load(Ordering::SeqCst) => {
                Err(PerformFailure::Unavailable { why: "it is down".to_owned() })
            }
            "echo" => {
                self.number.fetch_add(self.echo_adds.load(Ordering::SeqCst), Ordering::SeqCst);
                let is_error = self.echo_fails.load(Ordering::SeqCst);
                let content = json!([{"type": "text", "text": "said"}]);
                Ok(said(Era::Modern, &json!({"content": content, "isError": is_error})))
            }
            _ => {
                self.number.fetch_add(self.write_adds.load(Ordering::SeqCst), Ordering::SeqCst);
                self.begun.notify_one();
                if let Some(go_on) = self.go_on.get() {
                    go_on.notified().await;
                }
                Ok(text(Era::Modern, "done"))
            }
        }
    }
}

fn probes() -> Value {
    json!({"list": [{"name": "books", "tool": "up.look", "arguments": {"text": "{text}"}, "at": "/books/number"}]})
}

fn contracts(probes: &Value) -> Vec<ToolContract> {
    let mut contracts = vec![draft("up", "look", false), draft("up", "echo", false), draft("up", "write", true)];
    for contract in contracts.iter_mut().skip(1) {
        contract.probes = Some(serde_json::from_value(probes.clone()).unwrap());
    }
    contracts
}

fn bank_with(books: &Arc<Books>, probes: &Value) -> Arc<Bank> {
    let inside = Arc::clone(books);
    let server = ScriptedServer::new(Era::Modern, &json!({}), move |heard| Arc::clone(&inside).perform(heard));
    Arc::new(Bank::new(server, contracts(probes)))
}

fn bank(set: impl FnOnce(&Books)) -> (Arc<Bank>, Arc<Books>) {
    let books = Arc::new(Books::default());
    set(&books);
    (bank_with(&books, &probes()), books)
}

async fn echo(bank: &Bank) -> CallAnswer {
    bank.call(call(&Requester::local(), "echo", RequestTerms::default())).await
}

async fn observed(bank: &Bank) -> Option<ProbeReport> {
    let call_id = bank.harness.last_record().call_id;
    let clock = bank.harness.engine.core().clock.now();
    let note = bank.harness.notebook.read(NoteKind::Observed, call_id.as_str(), clock).await.unwrap();
    note.as_ref().and_then(ProbeReport::read)
}

async fn verdict(bank: &Bank) -> (ProbeVerdict, Vec<ProbeComparison>) {
    let observed = observed(bank).await.expect("it was looked");
    (observed.verdict, observed.probes.iter().map(|probe| probe.found).collect())
}

fn assert_held(answer: CallAnswer) {
    let refused = refusal(answer);
    assert_eq!((refused.gate, refused.error_code), (GateName::Resolve, TaxonomyClass::PolicyViolation));
    assert!(refused.message.contains("only reads"), "{}", refused.message);
    assert!(refused.operator_hint.unwrap().contains("servanda quarantine list"));
}

fn tools(bank: &Bank) -> Vec<String> {
    bank.harness.engine.known_listing(&Requester::local()).tools.iter().map(|tool| tool.name.clone()).collect()
}

fn event(what: QuarantineEventKind) -> QuarantineEvent {
    QuarantineEvent { at_ms: 1, by: "ada".to_owned(), contract: "up.echo".to_owned(), contract_digest: None, what }
}

fn echo_key() -> UpstreamToolKey {
    UpstreamToolKey { upstream: "up".to_owned(), tool: "echo".to_owned() }
}

#[tokio::test(start_paused = true)]
async fn what_is_as_declared_goes_on() {
    let (bank, _) = bank(|books| books.write_adds.store(1, Ordering::SeqCst));
    for _ in 0..2 {
        result(echo(&bank).await);
        assert_eq!(verdict(&bank).await, (ProbeVerdict::AsDeclared, vec![ProbeComparison::Same]));
    }
    result(bank.call(keyed("k")).await);
    assert_eq!(verdict(&bank).await, (ProbeVerdict::AsDeclared, vec![ProbeComparison::Changed]));
    let seen = observed(&bank).await.unwrap();
    assert!(
        matches!((&seen.probes[0].before, &seen.probes[0].after), (ProbeSnapshot::Digest(one), ProbeSnapshot::Digest(two)) if one != two)
    );
    assert_eq!(seen.contract_digest, bank.harness.last_record().contract.unwrap().digest);
    result(bank.call(keyed("k")).await);
    assert_eq!(observed(&bank).await, None, "what was only answered again was not looked at");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_changed_something_is_held_back_before_it_is_answered() {
    let (bank, _) = bank(|books| books.echo_adds.store(1, Ordering::SeqCst));
    let mut news = bank.harness.engine.change_events();
    assert!(tools(&bank).contains(&"echo".to_owned()));
    result(echo(&bank).await);
    let lied = bank.harness.last_record().call_id;
    assert_eq!(verdict(&bank).await, (ProbeVerdict::Violation, vec![ProbeComparison::Changed]));
    let sent = bank.calls();
    assert_held(echo(&bank).await);
    assert_eq!(bank.calls(), sent, "nothing was sent, not even a look");
    assert!(!tools(&bank).contains(&"echo".to_owned()));
    assert!(matches!(news.recv().await, Ok(ChangeEvent::Tools)));
    assert!(tools(&bank).contains(&"look".to_owned()), "the others go on");

    let now = bank.harness.engine.core().clock.now();
    let histories = quarantine::histories(bank.harness.notebook.as_ref(), now).await.unwrap();
    let QuarantineEventKind::Observed { call_id, probes } = &histories[0].events[0].what else {
        panic!("{histories:?}")
    };
    assert_eq!((call_id.as_str(), probes[0].name.as_str()), (lied.as_str(), "books"));
    assert_eq!(histories[0].tool, echo_key());
}

/// A lying tool is found out even if it also fails.
#[tokio::test(start_paused = true)]
async fn failing_does_not_hide_a_change() {
    let (bank, _) = bank(|books| {
        books.echo_adds.store(1, Ordering::SeqCst);
        books.echo_fails.store(true, Ordering::SeqCst);
    });
    assert_eq!(result(echo(&bank).await)["isError"], true);
    assert_eq!(verdict(&bank).await.0, ProbeVerdict::Violation);
    assert_held(echo(&bank).await);
}

#[tokio::test(start_paused = true)]
async fn a_hold_outlasts_another_world_and_another_process() {
    let (bank, _) = bank(|books| books.echo_adds.store(1, Ordering::SeqCst));
    result(echo(&bank).await);
    bank.harness.engine.install(snapshot_of(&bank.server, contracts(&probes())));
    assert_held(echo(&bank).await);
    let restarted = bank.harness.restarted(snapshot_of(&bank.server, contracts(&probes())), bank.clock.clone());
    restarted.engine.recall_quarantine().await.unwrap();
    assert_held(restarted.engine.call(call(&Requester::local(), "echo", RequestTerms::default())).await);
}

#[tokio::test(start_paused = true)]
async fn what_others_write_down_is_learned() {
    let (bank, _) = bank(|_| {});
    let (engine, now) = (&bank.harness.engine, bank.harness.engine.core().clock.now());
    let note_down = async |what| {
        quarantine::record_event(bank.harness.notebook.as_ref(), &echo_key(), event(what), now).await.unwrap();
    };
    note_down(QuarantineEventKind::Blocked { reason: "not now".to_owned() }).await;
    result(echo(&bank).await);
    engine.recall_quarantine().await.unwrap();
    let refused = refusal(echo(&bank).await);
    assert!(refused.message.contains("an operator holds it back"), "{}", refused.message);
    assert!(!serde_json::to_string(&refused).unwrap().contains("not now"), "the reason is not the agent's");
    note_down(QuarantineEventKind::Released { reason: "now".to_owned() }).await;
    // The heartbeat learns of it without a call.
    let stop = CancellationToken::new();
    let beating = engine.send_heartbeats(stop.clone());
    let works = async {
        while tools(&bank).iter().all(|tool| tool != "echo") {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        stop.cancel();
    };
    tokio::time::timeout(Duration::from_mins(1), async { tokio::join!(beating, works) }).await.unwrap();
    result(echo(&bank).await);
}

/// Another change was under way, so it is unknown which call changed the probed number.
#[tokio::test(start_paused = true)]
async fn with_another_change_under_way_it_is_inconclusive() {
    let (bank, books) = bank(|books| books.echo_adds.store(1, Ordering::SeqCst));
    let go_on = Arc::new(Notify::new());
    assert!(books.go_on.set(Arc::clone(&go_on)).is_ok());
    let writing = {
        let bank = Arc::clone(&bank);
        tokio::spawn(async move { bank.call(keyed("k")).await })
    };
    books.begun.notified().await;
    result(echo(&bank).await);
    assert_eq!(verdict(&bank).await, (ProbeVerdict::Inconclusive, vec![ProbeComparison::Changed]));
    assert!(!observed(&bank).await.unwrap().alone);
    result(echo(&bank).await);
    go_on.notify_one();
    result(writing.await.unwrap());
    result(echo(&bank).await);
    assert_eq!(verdict(&bank).await.0, ProbeVerdict::Violation, "alone again");
    assert_held(echo(&bank).await);
}

/// A call that recovery sends again counts as a change like any other.
#[tokio::test(start_paused = true)]
async fn with_a_change_that_is_sent_again_it_is_inconclusive() {
    let books = Arc::new(Books::default());
    books.echo_adds.store(1, Ordering::SeqCst);
    let go_on = Arc::new(Notify::new());
    assert!(books.go_on.set(Arc::clone(&go_on)).is_ok());
    let mut contracts = contracts(&probes());
    contracts[2].effect = Some(
        serde_json::from_value(json!({
            "class": "K", "key": {"argument": "idem"}, "key_window_sec": 3600, "mutation_class": "write_irreversible",
            "manifest": [{"resource": "x", "operation": "UPDATE", "scope": "tenant"}],
        }))
        .unwrap(),
    );
    let inside = Arc::clone(&books);
    let server = ScriptedServer::new(Era::Modern, &json!({}), move |heard| Arc::clone(&inside).perform(heard));
    let bank = Arc::new(Bank::new(server, contracts.clone()));
    let writing = {
        let bank = Arc::clone(&bank);
        tokio::spawn(async move { bank.call(keyed("k")).await })
    };
    books.begun.notified().await;
    // Like a process that dies.
    writing.abort();
    let restarted = Arc::new(bank.harness.restarted(snapshot_of(&bank.server, contracts), bank.clock.clone()));
    bank.clock.pass_ms(60_000);
    let recovering = {
        let restarted = Arc::clone(&restarted);
        tokio::spawn(async move { run_once(restarted.engine.long_running(), &mut BTreeSet::new()).await })
    };
    books.begun.notified().await;
    let read = async || result(restarted.engine.call(call(&Requester::local(), "echo", RequestTerms::default())).await);
    read().await;
    assert_eq!(verdict(&bank).await, (ProbeVerdict::Inconclusive, vec![ProbeComparison::Changed]));
    go_on.notify_one();
    recovering.await.unwrap();
    assert_eq!(bank.states().await, [EffectState::Completed]);
    read().await;
    assert_eq!(verdict(&bank).await.0, ProbeVerdict::Violation, "alone again");
}

#[tokio::test(start_paused = true)]
async fn a_number_that_changes_by_itself_accuses_no_tool() {
    let (bank, _) = bank(|books| books.look_adds.store(1, Ordering::SeqCst));
    for _ in 0..2 {
        result(echo(&bank).await);
        assert_eq!(verdict(&bank).await, (ProbeVerdict::Inconclusive, vec![ProbeComparison::Volatile]));
    }
    assert!(observed(&bank).await.unwrap().probes[0].again.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changed_nothing_is_on_record_and_nothing_more() {
    let (bank, _) = bank(|_| {});
    result(bank.call(keyed("k")).await);
    assert_eq!(verdict(&bank).await, (ProbeVerdict::NoChangeSeen, vec![ProbeComparison::Same]));
    result(bank.call(keyed("other")).await);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_blocks_no_call() {
    let (bank, books) = bank(|books| {
        books.look_fails.store(true, Ordering::SeqCst);
        books.echo_adds.store(1, Ordering::SeqCst);
    });
    result(echo(&bank).await);
    let seen = observed(&bank).await.unwrap();
    assert_eq!((seen.verdict, seen.probes[0].found), (ProbeVerdict::NotJudged, ProbeComparison::NotCompared));
    assert!(matches!(&seen.probes[0].before, ProbeSnapshot::NotTaken(why) if why.contains("reset")), "{seen:?}");
    books.look_fails.store(false, Ordering::SeqCst);
    let mut contracts = contracts(&json!({"list": [
        {"name": "nobody", "tool": "up.nobody"},
        {"name": "writer", "tool": "up.write", "arguments": {"text": "x"}},
        {"name": "no sql", "tool": "up.look", "sql": "SELECT 1"},
        {"name": "nowhere", "tool": "up.look", "arguments": {"text": "x"}, "at": "/nowhere"},
        {"name": "wrong", "tool": "up.look", "arguments": {}},
    ]}));
    contracts[2].probes = None;
    bank.harness.engine.install(snapshot_of(&bank.server, contracts));
    result(echo(&bank).await);
    let seen = observed(&bank).await.unwrap();
    let whys: Vec<String> = seen
        .probes
        .iter()
        .map(|probe| match &probe.after {
            ProbeSnapshot::NotTaken(why) => why.clone(),
            other => format!("{other:?}"),
        })
        .collect();
    let expected =
        ["there is no contract", "changes something", "no argument", "Nothing", "does not accept the question"];
    for (why, expected) in whys.iter().zip(expected) {
        assert!(why.contains(expected), "{why}");
    }
    assert_eq!(seen.verdict, ProbeVerdict::NotJudged);
    assert_eq!(bank.server.heard().iter().filter(|line| line.contains(r#""name":"write""#)).count(), 0);
}

/// A call that was never sent cannot have changed anything, whatever changed meanwhile.
#[tokio::test(start_paused = true)]
async fn what_was_never_sent_is_not_looked_at() {
    let (bank, _) = bank(|books| {
        books.echo_is_away.store(true, Ordering::SeqCst);
        books.look_adds.store(1, Ordering::SeqCst);
    });
    assert_eq!(refusal(echo(&bank).await).effect, EffectKnowledge::None);
    assert_eq!(observed(&bank).await, None);
    let looks = bank.calls();
    let wrong = CallRequest {
        arguments: Bytes::from_static(b"{}"),
        ..call(&Requester::local(), "echo", RequestTerms::default())
    };
    assert_eq!(refusal(bank.call(wrong).await).gate, GateName::Structure);
    assert_eq!((bank.calls(), observed(&bank).await), (looks, None));
}

#[tokio::test(start_paused = true)]
async fn only_the_calls_that_are_chosen_are_looked_at() {
    let books = Arc::new(Books::default());
    let mut sampled = probes();
    sampled["sample_percent"] = json!(50);
    let bank = bank_with(&books, &sampled);
    let catalog = bank.harness.engine.catalog();
    let chosen = &catalog.entry("echo").unwrap().contract;
    let mut looked = 0;
    for _ in 0..64 {
        result(echo(&bank).await);
        let call_id = bank.harness.last_record().call_id;
        assert_eq!(observed(&bank).await.is_some(), chosen.probes().is_sampled(&call_id), "{call_id}");
        looked += usize::from(chosen.probes().is_sampled(&call_id));
    }
    assert!((1..64).contains(&looked), "{looked} of 64");
}

/// The end must be recorded before anything else is done about it.
#[tokio::test(start_paused = true)]
async fn it_is_looked_again_when_the_end_is_on_record() {
    let (bank, books) = bank(|books| books.write_adds.store(1, Ordering::SeqCst));
    let (records, on_record) = (Arc::clone(&bank.harness.records), Arc::new(std::sync::Mutex::new(Vec::new())));
    let seen = Arc::clone(&on_record);
    let look = move || seen.lock().unwrap().push(records.finished.lock().unwrap().len());
    assert!(books.seen.set(Box::new(look)).is_ok());
    result(bank.call(keyed("k")).await);
    assert_eq!(*on_record.lock().unwrap(), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_during_the_first_probe_has_sent_nothing() {
    let cancel = CancellationToken::new();
    let (bank, books) = bank(|_| {});
    let gives_up = cancel.clone();
    assert!(books.seen.set(Box::new(move || gives_up.cancel())).is_ok());
    let terms = RequestTerms { cancel, ..RequestTerms::default() };
    let refused = refusal(bank.call(call(&Requester::local(), "write", terms)).await);
    assert_eq!(refused.effect, EffectKnowledge::None);
    assert_eq!(bank.server.heard().iter().filter(|line| line.contains(r#""name":"write""#)).count(), 0);
}
