//! Calls that wait for people as tasks: what their clients are told, that the gateway goes on by itself, once, and that a task outlives its
//! process.

use std::time::Duration;

use serde_json::value::RawValue;
use servanda_contract::trace::ParentSpan;
use servanda_mcp::ClientCapabilities;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    threats::{TamperedTickets, TicketChange, mark_approved},
    *,
};
use crate::{
    InquirySubject,
    approval_notices::look_at_due,
    tests::works::{about, runtime, status, until_status, with_task},
};

const CONSOLE: &str = "https://console.example";
const TASKS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
const TASKS_AND_PAGES: &str = r#"{"elicitation":{"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

fn with_page() -> ApprovalSettings {
    ApprovalSettings { console_url: Some(CONSOLE.to_owned()), ..settings() }
}

/// A gateway that goes on with held tasks until this is dropped.
struct Served {
    office: Arc<Office>,
    service: AbortOnDropHandle<()>,
}

impl std::ops::Deref for Served {
    type Target = Office;

    fn deref(&self) -> &Office {
        &self.office
    }
}

async fn serve(office: Office) -> Served {
    let office = Arc::new(office);
    let inside = Arc::clone(&office);
    let service = tokio::spawn(async move { inside.harness.engine.repeat_held_calls(CancellationToken::new()).await });
    tokio::task::yield_now().await;
    Served { office, service: AbortOnDropHandle::new(service) }
}

async fn served() -> Served {
    serve(Office::with_settings(with_page(), |_| {})).await
}

impl Office {
    fn client_of(&self, era: Era, capabilities: &str) -> Requester {
        let raw = RawValue::from_string(capabilities.to_owned()).unwrap();
        Requester { era, capabilities: ClientCapabilities::parse(Some(&raw)), ..self.agent() }
    }

    fn modern(&self) -> Requester {
        self.client_of(Era::Modern, TASKS)
    }

    fn legacy(&self) -> Requester {
        self.client_of(Era::Legacy, "{}")
    }

    /// The id of the task that the call of a client becomes.
    async fn held(&self, client: &Requester) -> Value {
        self.held_with(client, OperationKeys::default()).await
    }

    async fn held_with(&self, client: &Requester, keys: OperationKeys) -> Value {
        let request = CallRequest { keys, ..call(client, "write", RequestTerms::default()) };
        let request = if client.era == Era::Legacy { with_task(request) } else { request };
        let CallAnswer::Task(json) = self.harness.engine.call(request).await else { panic!("no task") };
        let task = crate::testing::parse(&json);
        let task = if client.era == Era::Legacy { task["task"].clone() } else { task };
        assert_eq!(task["status"], "working");
        assert!(task["statusMessage"].as_str().unwrap().contains(self.ticket_id().as_str()), "{task}");
        let record = self.harness.last_record();
        assert_eq!((record.outcome, record.dispatched_at), (Outcome::TaskCreated, None));
        assert_eq!(json!(record.task_id), task["taskId"]);
        task["taskId"].clone()
    }

    async fn result_of(&self, client: &Requester, id: &Value) -> Value {
        about(&self.harness, client, InquirySubject::TaskResult, json!({"taskId": id})).await.unwrap()
    }

    async fn cancel(&self, client: &Requester, id: &Value) -> Result<Value, servanda_mcp::RpcError> {
        about(&self.harness, client, InquirySubject::TaskCancel, json!({"taskId": id})).await
    }

    async fn time_is_over(&self, ms: u64) {
        self.clock.pass_ms(ms);
        look_at_due(self.harness.engine.core()).await.unwrap();
    }

    /// The same office after its process died.
    fn restarted(&self) -> Self {
        let world = world(&self.server, with_page(), vec![contract(|_| {}), draft("up", "echo", false)]);
        let harness = self.harness.restarted(world, self.clock.clone());
        Self { harness, server: self.server.clone(), clock: self.clock.clone(), sent: self.sent.clone() }
    }
}

#[tokio::test(start_paused = true)]
async fn the_gateway_goes_on_by_itself_when_people_approved() {
    for era in [Era::Modern, Era::Legacy] {
        let office = served().await;
        let client = if era == Era::Modern { office.modern() } else { office.legacy() };
        let id = office.held(&client).await;
        let ticket = office.ticket_id();
        let waits = status(&office.harness, &client, &id).await;
        let message = waits["statusMessage"].as_str().unwrap();
        assert_eq!(waits["status"], "working", "{waits}");
        assert!(message.contains("waits for approval by an approver"), "{message}");
        assert!(message.contains(&format!("{CONSOLE}/approvals/{ticket}")), "{message}");
        let times = if era == Era::Modern { ["ttlMs", "pollIntervalMs"] } else { ["ttl", "pollInterval"] };
        assert!(times.iter().all(|name| waits[name].is_u64()), "{waits}");
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(
            (office.sent(), status(&office.harness, &client, &id).await["status"].clone()),
            (0, json!("working"))
        );

        office.approve(&person("olga"), &ticket).await.unwrap();
        let ended = until_status(&office.harness, &client, &id, "completed").await;
        assert_eq!(ended["taskId"], id);
        let result = if era == Era::Modern { ended["result"].clone() } else { office.result_of(&client, &id).await };
        assert_eq!(result["content"][0]["text"], "done", "{result}");
        if era == Era::Legacy {
            assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"], json!({"taskId": id}));
        }
        let ticket = office.ticket(&ticket).await;
        assert_eq!((office.sent(), ticket.state), (1, TicketState::Consumed));
        let record = office.harness.last_record();
        assert_eq!((record.outcome, record.effect_id), (Outcome::Completed, Some(ticket.consumed.unwrap().effect_id)));
        let first = office.harness.records.finished.lock().unwrap()[0].clone();
        assert_eq!(record.trace.parent, Some(ParentSpan::of_call(&first.call_id)));
        assert_eq!((record.continues, record.trace_id), (Some(first.call_id), first.trace_id));
        let late = office.cancel(&client, &id).await;
        assert_eq!(late.is_ok(), era == Era::Modern, "what has ended is not cancelled: {late:?}");
        assert_eq!(status(&office.harness, &client, &id).await["status"], "completed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_denial_and_silence_end_the_task_with_their_own_words() {
    for era in [Era::Modern, Era::Legacy] {
        for is_denied in [true, false] {
            let office = served().await;
            let client = if era == Era::Modern { office.modern() } else { office.legacy() };
            let id = office.held(&client).await;
            let words = if is_denied {
                office.decide(&person("olga"), &office.ticket_id(), ApprovalVerdict::Deny).await.unwrap();
                "a person denied `write`; the reason given: not this quarter"
            } else {
                office.time_is_over(24 * 3_600_000).await;
                "nobody decided about `write` in time"
            };
            // A credential does not last as long as people may take; the client asks with a new one.
            let client = Requester { authority: office.agent().authority, ..client };
            let ended = until_status(&office.harness, &client, &id, "failed").await;
            assert!(ended["statusMessage"].as_str().unwrap().contains(words), "{ended}");
            if era == Era::Modern {
                assert!(ended["error"]["message"].as_str().unwrap().contains(words), "{ended}");
                assert_eq!(ended["error"]["data"]["retryable"], !is_denied, "{ended}");
            } else {
                let result = office.result_of(&client, &id).await;
                assert_eq!(result["isError"], true);
                assert!(result["content"][0]["text"].as_str().unwrap().contains(words), "{result}");
            }
            assert_eq!(office.sent(), 0);
        }
    }
}

/// The client repeats the bytes while its task waits: the call is made once, and no answer claims that it was made twice.
#[tokio::test(start_paused = true)]
async fn a_client_that_repeats_the_bytes_gets_one_effect() {
    for keys in
        [OperationKeys::default(), OperationKeys { idempotency_key: Some("k".to_owned()), ..Default::default() }]
    {
        let is_keyed = keys.idempotency_key.is_some();
        let office = served().await;
        let client = office.modern();
        let first = office.held_with(&client, keys.clone()).await;
        let second = office.held_with(&client, keys.clone()).await;
        assert_ne!(first, second);
        let ticket = office.ticket_id();
        let plain = CallRequest { keys: keys.clone(), ..office.request() };
        assert!(office.refusal_of(plain).await.message.contains("waits for approval"));
        assert_eq!(office.ticket_id(), ticket, "all of them wait for one ticket");
        office.approve(&person("olga"), &ticket).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let mut ends = Vec::new();
        for id in [&first, &second] {
            ends.push(status(&office.harness, &client, id).await);
        }
        assert_eq!(office.sent(), 1);
        let completed = ends.iter().filter(|end| end["status"] == "completed").count();
        assert_eq!(completed, if is_keyed { 2 } else { 1 }, "one operation is told of its one effect: {ends:?}");
        if !is_keyed {
            let other = ends.iter().find(|end| end["status"] == "failed").unwrap();
            let message = other["statusMessage"].as_str().unwrap();
            assert!(message.contains("another call of `write` with the same arguments (call_"), "{message}");
        }
        let query = servanda_effects::ticket_store::TicketQuery::pending(None);
        let pending = office.harness.engine.approvals().tickets().list_tickets(query).await.unwrap();
        assert_eq!(pending.len(), 0, "people are not asked again about a call that was made");
    }
}

#[tokio::test(start_paused = true)]
async fn the_clients_own_call_may_be_faster_than_the_gateway() {
    let office = Office::with_settings(with_page(), |_| {});
    let served = serve(office).await;
    let client = served.modern();
    let id = served.held(&client).await;
    let ticket = served.ticket_id();
    // This process goes on with nothing meanwhile.
    let Served { office, service } = served;
    service.abort();
    tokio::time::sleep(Duration::from_secs(1)).await;
    office.approve(&person("olga"), &ticket).await.unwrap();
    assert_eq!(content(office.call().await)["content"][0]["text"], "done");
    let served = serve(office.restarted()).await;
    let ended = until_status(&served.harness, &client, &id, "failed").await;
    assert!(ended["statusMessage"].as_str().unwrap().contains("another call of `write`"), "{ended}");
    assert_eq!(served.sent(), 1);
}

#[test]
fn a_task_outlives_its_process_and_goes_on_when_its_client_asks() {
    for era in [Era::Modern, Era::Legacy] {
        let first = runtime();
        let (office, client, id) = first.block_on(async {
            let served = served().await;
            let client = if era == Era::Modern { served.modern() } else { served.legacy() };
            let id = served.held(&client).await;
            let after = served.restarted();
            after.approve(&person("olga"), &served.ticket_id()).await.unwrap();
            (after, client, id)
        });
        drop(first);
        runtime().block_on(async {
            let served = serve(office.restarted()).await;
            tokio::time::sleep(Duration::from_mins(1)).await;
            assert_eq!(served.sent(), 0, "the second process has no credential of the client");
            // Another user's client finds no task, and makes nothing go on.
            let mut stranger = client.clone();
            Arc::make_mut(&mut stranger.caller).principal = "other".to_owned();
            let unknown = about(&served.harness, &stranger, InquirySubject::Task, json!({"taskId": id})).await;
            assert_eq!(unknown.unwrap_err().code, -32602);
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_eq!(served.sent(), 0);
            until_status(&served.harness, &client, &id, "completed").await;
            assert_eq!(served.sent(), 1);
        });
        // The third process sends nothing, and knows the end.
        runtime().block_on(async {
            let served = serve(office.restarted()).await;
            assert_eq!(status(&served.harness, &client, &id).await["status"], "completed", "{era:?}");
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_eq!(served.sent(), 1);
        });
    }
}

/// Two gateways go on with one task: the approval is used once, and both report the one end.
#[tokio::test(start_paused = true)]
async fn two_gateways_go_on_with_one_task_and_it_is_done_once() {
    let one = served().await;
    let client = one.modern();
    let id = one.held(&client).await;
    let two = serve(one.restarted()).await;
    status(&two.harness, &client, &id).await;
    one.approve(&person("olga"), &one.ticket_id()).await.unwrap();
    for office in [&one, &two] {
        until_status(&office.harness, &client, &id, "completed").await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((one.sent(), status(&two.harness, &client, &id).await["status"].clone()), (1, json!("completed")));
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_lapsed_while_no_gateway_ran_is_told_as_lapsed() {
    let office = served().await;
    let client = office.modern();
    let id = office.held(&client).await;
    let ticket = office.ticket_id();
    let after = office.restarted();
    drop(office);
    tokio::time::sleep(Duration::from_secs(1)).await;
    after.approve(&person("olga"), &ticket).await.unwrap();
    after.time_is_over(10 * 60_000).await;
    let served = serve(after).await;
    let client = Requester { authority: served.agent().authority, ..client };
    let ended = until_status(&served.harness, &client, &id, "failed").await;
    assert!(ended["statusMessage"].as_str().unwrap().contains("has lapsed"), "{ended}");
    assert_eq!((served.sent(), served.ticket(&ticket).await.state), (0, TicketState::Lapsed));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_withdraws_its_ticket_unless_somebody_else_waits() {
    for era in [Era::Modern, Era::Legacy] {
        let office = served().await;
        let client = if era == Era::Modern { office.modern() } else { office.legacy() };
        let first = office.held(&client).await;
        let second = office.held(&client).await;
        let ticket = office.ticket_id();
        let cancelled = office.cancel(&client, &first).await.unwrap();
        assert_eq!(cancelled["status"] == "cancelled", era == Era::Legacy, "{cancelled}");
        assert_eq!(status(&office.harness, &client, &first).await["status"], "cancelled");
        assert_eq!(office.ticket(&ticket).await.state, TicketState::Pending, "the second task waits for it");
        office.cancel(&client, &second).await.unwrap();
        let withdrawn = office.ticket(&ticket).await;
        assert_eq!(withdrawn.state, TicketState::Superseded);
        assert_eq!(withdrawn.reason.as_deref(), Some("the client cancelled the call"));
        assert_eq!(office.cancel(&client, &second).await.is_ok(), era == Era::Modern);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(
            (office.sent(), status(&office.harness, &client, &second).await["status"].clone()),
            (0, json!("cancelled"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_ticket_is_not_withdrawn_while_a_caller_waits_for_it() {
    let patient = ApprovalSettings { wait_ms_max: 60_000, ..with_page() };
    let office = serve(Office::with_settings(patient, |_| {})).await;
    let client = office.modern();
    let id = office.held(&client).await;
    let ticket = office.ticket_id();
    let inside = Arc::clone(&office.office);
    let waiting = tokio::spawn(async move { inside.call().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    office.cancel(&client, &id).await.unwrap();
    assert_eq!(office.ticket(&ticket).await.state, TicketState::Pending);
    office.approve(&person("olga"), &ticket).await.unwrap();
    assert_eq!(content(waiting.await.unwrap())["content"][0]["text"], "done");
    assert_eq!(office.sent(), 1);
}

/// T32 for tasks: the page is the ticket's, and what the client answers decides nothing.
#[tokio::test(start_paused = true)]
async fn a_client_that_shows_pages_is_sent_to_the_ticket_once() {
    let office = served().await;
    let client = office.client_of(Era::Modern, TASKS_AND_PAGES);
    let id = office.held(&client).await;
    let ticket = office.ticket_id();
    for _ in 0..2 {
        let asks = status(&office.harness, &client, &id).await;
        assert_eq!(asks["status"], "input_required", "{asks}");
        let question = &asks["inputRequests"]["approval"];
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"]["url"], format!("{CONSOLE}/approvals/{ticket}"));
        assert_eq!((&question["params"]["mode"], question["params"].get("requestedSchema")), (&json!("url"), None));
    }
    assert_eq!(status(&office.harness, &office.modern(), &id).await["status"], "working", "this client shows no pages");
    let answer =
        json!({"taskId": id, "inputResponses": {"approval": {"action": "accept", "content": {"approved": true}}}});
    about(&office.harness, &client, InquirySubject::TaskUpdate, answer).await.unwrap();
    let waits = status(&office.harness, &client, &id).await;
    assert_eq!((&waits["status"], waits.get("inputRequests")), (&json!("working"), None));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let ticket = office.ticket(&ticket).await;
    assert_eq!((office.sent(), ticket.state, ticket.decisions.len()), (0, TicketState::Pending, 0));
}

#[tokio::test(start_paused = true)]
async fn a_changed_contract_makes_people_decide_again_about_the_same_task() {
    let office = served().await;
    let client = office.modern();
    let id = office.held(&client).await;
    let before = office.ticket_id();
    office.change(with_page(), |contract| contract.identity.version = "1.9.0".to_owned()).await;
    office.approve(&person("olga"), &before).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let waits = status(&office.harness, &client, &id).await;
    let after = office.ticket_id();
    assert_ne!(before, after);
    assert_eq!((office.sent(), &waits["status"]), (0, &json!("working")));
    assert!(waits["statusMessage"].as_str().unwrap().contains(after.as_str()), "{waits}");
    office.approve(&person("olga"), &after).await.unwrap();
    until_status(&office.harness, &client, &id, "completed").await;
    assert_eq!(office.sent(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_revoked_credential_makes_no_call() {
    let office = served().await;
    let client = office.modern();
    let id = office.held(&client).await;
    let credential = client.authority.lineage()[0].clone();
    let note = crate::Note {
        kind: crate::NoteKind::Revoked,
        key: credential.as_str().to_owned(),
        value: "{}".to_owned(),
        expires_at: None,
    };
    office.harness.engine.notebook().write(note).await.unwrap();
    office.approve(&person("olga"), &office.ticket_id()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(office.sent(), 0);
    // A good credential of the same user takes the call up.
    let other = Requester { authority: office.agent().authority, ..client };
    until_status(&office.harness, &other, &id, "completed").await;
    assert_eq!(office.sent(), 1);
}

/// A legacy client that asks for a task reads no other answer, so it gets one even if nobody has to decide any more.
#[tokio::test(start_paused = true)]
async fn a_legacy_client_that_asks_for_a_task_gets_one_after_the_approval_too() {
    let office = served().await;
    office.refused().await;
    office.approve(&person("olga"), &office.ticket_id()).await.unwrap();
    let client = office.legacy();
    let request = with_task(call(&client, "write", RequestTerms::default()));
    let CallAnswer::Task(json) = office.harness.engine.call(request).await else { panic!("no task") };
    let id = crate::testing::parse(&json)["task"]["taskId"].clone();
    until_status(&office.harness, &client, &id, "completed").await;
    assert_eq!(office.result_of(&client, &id).await["content"][0]["text"], "done");
    assert_eq!(office.sent(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_process_that_goes_on_no_call_becomes_a_task() {
    let office = Office::with_settings(with_page(), |_| {});
    let request = call(&office.modern(), "write", RequestTerms::default());
    assert!(office.refusal_of(request).await.message.contains("waits for approval"));
    // A list has the task of a process that does.
    let served = serve(office.restarted()).await;
    let client = served.legacy();
    let id = served.held(&client).await;
    let listed = about(&served.harness, &client, InquirySubject::Tasks, json!({})).await.unwrap();
    assert_eq!((&listed["tasks"][0]["taskId"], &listed["tasks"][0]["status"]), (&id, &json!("working")));
    assert_eq!(served.harness.engine.known_tasks(&client, vec![id.as_str().unwrap().to_owned()]).await.len(), 1);
}

/// Another agent's credential, or the user's own, sees the task; the call stays that of the agent who made it.
#[tokio::test(start_paused = true)]
async fn a_task_goes_on_for_the_agent_that_made_the_call() {
    let office = served().await;
    let user = office.modern();
    let mut agent = user.clone();
    let actor = servanda_contract::CallerActor { name: "planner".to_owned(), proven: true };
    Arc::make_mut(&mut agent.caller).actors = vec![actor];
    let id = office.held(&agent).await;
    let ticket = office.ticket(&office.ticket_id()).await;
    assert_eq!(
        status(&office.harness, &user, &id).await["status"],
        "working",
        "the user sees what their agent waits for"
    );
    office.approve(&person("olga"), &ticket.id).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((office.sent(), office.ticket(&ticket.id).await.state), (1, TicketState::Consumed));
    assert_eq!(status(&office.harness, &agent, &id).await["status"], "completed");
}

/// A row that was written into the store by hand makes no call, and its arguments are not even proposed.
#[tokio::test(start_paused = true)]
async fn a_ticket_that_was_changed_in_the_store_makes_no_call_of_its_task() {
    let changes: [(&str, TicketChange, &[&str]); 2] = [
        ("marked approved", mark_approved, &["task_created", "refused"]),
        (
            "other arguments",
            |ticket| {
                mark_approved(ticket);
                ticket.subject.arguments = Bytes::from_static(br#"{"text":"other"}"#);
            },
            &["task_created"],
        ),
    ];
    for (name, change, outcomes) in changes {
        let mut office = Office::new(|_| {});
        let tampered = TamperedTickets::beneath(&mut office);
        let office = serve(office).await;
        let client = office.modern();
        let id = office.held(&client).await;
        tampered.change_by(change);
        until_status(&office.harness, &client, &id, "failed").await;
        assert_eq!((office.sent(), office.harness.outcomes().as_slice()), (0, outcomes), "{name}");
    }
}
